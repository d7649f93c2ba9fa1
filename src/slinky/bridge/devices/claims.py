# SPDX-License-Identifier: Apache-2.0
"""Device claims with exactly the devices that Slurm granted.

Extended resources get one claim of ours per pod; claims that a pod names itself are filled in the same way. No
device is given while another claim holds it: the claim of a pod that is just leaving is waited for. What a claim has
that the pod's job does not is taken back, as long as the pod has not started.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from slinky.bridge import names
from slinky.bridge.devices import allocation as grant
from slinky.bridge.devices import requests as asks
from slinky.bridge.devices.allocation import DeviceGrant, MappedRequest
from slinky.bridge.devices.classes import Unclaimable
from slinky.bridge.devices.inventory import CPUS, DeviceInventory, GresKind
from slinky.bridge.devices.requests import ClassRequest
from slinky.bridge.devices.state import allocated_devices
from slinky.bridge.lifecycle.assignment import UnsuitableNodes
from slinky.bridge.nodes import description
from slinky.bridge.state.cluster import ClusterState
from slinky.bridge.state.views import OUR_PODS, RESOURCE_CLAIMS, ResourceClaim, ResourceClaimSpec, WorkloadPod
from slinky.bridge.workload import pod_state
from slinky.kube import AlreadyExists, Key, KubeClient, Later, NotFound
from slinky.kube.client import STRATEGIC
from slinky.kube.finalizers import set_finalizers
from slinky.slurm import JobRecord, Mirror

#: How often is looked for a claim that somebody else has still to make.
CLAIM_RETRY_SECONDS = 0.5
#: Keeps a claim from vanishing under a pod; Kubernetes takes it off when the claim is free again.
PROTECTION = "resource.kubernetes.io/delete-protection"


@dataclass(frozen=True)
class ClaimTarget:
    """Where a pod is about to start: its node, what that has, and what Slurm gave of it to the pod's job."""

    pod: WorkloadPod
    node: str
    inventory: DeviceInventory
    given: DeviceGrant


class ClaimWriter:
    """Writes claims."""

    def __init__(self, client: KubeClient, stock: ClusterState, mirror: Mirror) -> None:
        self._client, self._stock, self._devices, self._mirror = client, stock, stock.devices, mirror
        # Pods of one job may share a node: what one takes the next must see.
        self._turn = asyncio.Lock()

    def needs_claims(self, pod: WorkloadPod) -> bool:
        """Whether a pod needs devices that are claimed."""
        return bool(pod.spec.resource_claims or asks.extended_resource_requests(pod, self._devices.catalog))

    async def prepare(self, pod: WorkloadPod, node: str, record: JobRecord) -> None:
        """Allocate the devices of a pod before it is bound. Raises `UnsuitableNodes`, `DevicesInUse` or `Later`."""
        if not self.needs_claims(pod):
            return
        own = asks.extended_resource_requests(pod, self._devices.catalog)
        async with self._turn:
            try:
                spot = self._spot(pod, node, record)
                for claim in self._named(pod):
                    await self._fill(claim, spot, asks.claim_requests(claim.spec, self._devices.offers), claim.spec)
                if own:
                    claim = await self._own_claim(pod, own, spot.given)
                    await self._fill(claim, spot, own)
                    await self._map(pod, claim, own)
            except Unclaimable as error:
                raise UnsuitableNodes(str(error)) from error

    def _spot(self, pod: WorkloadPod, node: str, record: JobRecord) -> ClaimTarget:
        """What a pod's job has on a node. Raises `Unclaimable` if Slurm and the node speak of different devices."""
        inventory = self._devices.inventory(node)
        for resources in record.resources or ():
            behind = self._stock.node_of_host(resources.node)
            if behind is not None and behind.metadata.name == node:
                host = self._mirror.nodes.get(resources.node)
                told = description.fingerprint(host.comment) if host else ""
                if told and told != inventory.fingerprint:
                    raise Unclaimable(f"the devices of {node} changed since Slurm was told of them")
                return ClaimTarget(
                    pod, node, inventory, grant.read_grant(resources, inventory, host.gres if host else "")
                )
        return ClaimTarget(pod, node, inventory, DeviceGrant())

    async def _fill(
        self,
        claim: ResourceClaim,
        spot: ClaimTarget,
        wanted: Sequence[ClassRequest],
        spec: ResourceClaimSpec | None = None,
    ) -> None:
        """Give a claim what the job was granted, unless it has that already; `spec` if it is somebody's own."""
        pod, node, given = spot.pod, spot.node, spot.given
        users = {user.uid for user in claim.status.reserved_for}
        if claim.status.allocation is not None:
            if node in _nodes(claim) and set(allocated_devices(claim)) <= given.keys():
                if pod.metadata.uid not in users:
                    await self._reserve(claim, pod)
                return
            if users - {pod.metadata.uid}:
                raise Unclaimable(f"claim {claim.metadata.name} is in use elsewhere")
            claim = await self._empty(claim)
        needs = [MappedRequest(ask, self._meant(ask, node)) for ask in wanted]
        shares = grant.allocate_requests(needs, given, lambda at: self._devices.taken(at, spot.inventory))
        if spec is not None:
            claim = await self._protect(claim)
        settings = _settings(needs, spec, self._devices.catalog.settings)
        allocation = grant.allocation_status(shares, given, node, settings)
        await self._write(claim, {"allocation": allocation, "reservedFor": [_user(pod)]})

    def _meant(self, ask: ClassRequest, node: str) -> GresKind:
        """What a request means; the devices of the node may have changed since the job was submitted."""
        meaning = self._devices.meaning(ask)
        if not meaning.suits(node):
            raise Unclaimable(f"the devices of {node} are not those of {ask}")
        return meaning.kind

    # --- claims that the pod names

    def _named(self, pod: WorkloadPod) -> Iterable[ResourceClaim]:
        made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
        for reference in pod.spec.resource_claims:
            name = reference.resource_claim_name or made.get(reference.name, "")
            claim = self._devices.claims.get(Key(pod.metadata.namespace, name)) if name else None
            if claim is None or claim.metadata.deleting:
                raise Later(f"the claim {reference.name} of {pod.key} is not made yet", after=CLAIM_RETRY_SECONDS)
            yield claim

    async def _protect(self, claim: ResourceClaim) -> ResourceClaim:
        if PROTECTION in claim.metadata.finalizers:
            return claim
        finalizers = [*claim.metadata.finalizers, PROTECTION]
        return await set_finalizers(self._client, self._devices.claims, claim, finalizers)

    async def _reserve(self, claim: ResourceClaim, pod: WorkloadPod) -> None:
        """One more pod of the unit shares a claim."""
        users = [_plain(user) for user in claim.status.reserved_for]
        await self._write(claim, {"reservedFor": [*users, _user(pod)]})

    # --- the claim behind extended resources

    async def _own_claim(self, pod: WorkloadPod, own: Sequence[ClassRequest], given: DeviceGrant) -> ResourceClaim:
        key = extended_claim_key(pod)
        requests = [{"name": ask.name, "exactly": self._exactly(ask, given)} for ask in own]
        meta = {"annotations": {names.CLAIM_ANNOTATION: "true"}, "ownerReferences": [OUR_PODS.owner(pod)]}
        wanted = RESOURCE_CLAIMS.manifest(key, metadata=meta, spec={"devices": {"requests": requests}})
        try:
            return self._devices.claims.record_write(await self._client.create(RESOURCE_CLAIMS, wanted))
        except AlreadyExists:
            found = await self._client.get(RESOURCE_CLAIMS, key)
        if all(owner.uid != pod.metadata.uid for owner in found.metadata.owner_references):
            raise Unclaimable(f"claim {key.name} belongs to somebody else")
        if found.metadata.deleting:
            raise Later(f"the former claim {key.name} is still being removed", after=CLAIM_RETRY_SECONDS)
        return found

    def _exactly(self, ask: ClassRequest, given: DeviceGrant) -> dict[str, Any]:
        grouped = given.topology is not None and given.topology.grouped
        if not grouped or self._devices.meaning(ask).kind != CPUS or given.topology is None:
            return {"deviceClassName": ask.device_class, "count": ask.count}
        driver = next(iter(given.topology.offers.values())).driver
        capacity = {"requests": {f"{driver}/cpu": str(ask.count)}}
        return {"deviceClassName": ask.device_class, "count": 1, "capacity": capacity}

    async def _map(self, pod: WorkloadPod, claim: ResourceClaim, own: Sequence[ClassRequest]) -> None:
        known = pod.status.extended_resource_claim_status
        if known is not None and known.resource_claim_name == claim.metadata.name:
            return
        mappings = [
            {"containerName": ask.container, "resourceName": ask.resource, "requestName": ask.name} for ask in own
        ]
        status = {"resourceClaimName": claim.metadata.name, "requestMappings": mappings}
        body = {"metadata": {"uid": pod.metadata.uid}, "status": {"extendedResourceClaimStatus": status}}
        done = await self._client.patch(OUR_PODS, pod.key, body, subresource="status", kind=STRATEGIC)
        self._stock.pods.record_write(done)

    # --- giving back

    async def release(self, pod: WorkloadPod) -> None:
        """Free what was claimed for a pod that lost its job before it started."""
        if not self._devices.claims.by("user", pod.metadata.uid):
            return
        now = await self._client.find(OUR_PODS, pod.key)
        if now is not None and now.metadata.uid == pod.metadata.uid and pod_state.is_bound(now):
            return
        async with self._turn:
            for claim in self._devices.claims.by("user", pod.metadata.uid):
                others = [user for user in claim.status.reserved_for if user.uid != pod.metadata.uid]
                if claim.key == extended_claim_key(pod):
                    await self._delete(claim)
                elif others:
                    await self._write(claim, {"reservedFor": [_plain(user) for user in others]})
                else:
                    await self._empty(claim)

    async def delete_own_claim(self, pod: WorkloadPod) -> None:
        """Remove the claim that was made for a pod that is gone."""
        claim = self._devices.claims.get(extended_claim_key(pod))
        if claim is not None and any(owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references):
            await self._delete(claim)

    async def _delete(self, claim: ResourceClaim) -> None:
        with contextlib.suppress(NotFound):
            await self._client.delete(RESOURCE_CLAIMS, claim.key, uid=claim.metadata.uid)

    async def _empty(self, claim: ResourceClaim) -> ResourceClaim:
        return await self._write(claim, {"allocation": None, "reservedFor": None})

    async def _write(self, claim: ResourceClaim, status: dict[str, Any]) -> ResourceClaim:
        # The version makes this conditional: whoever changed the claim meanwhile wins, and we look again.
        body = {"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": status}
        done = await self._client.patch(RESOURCE_CLAIMS, claim.key, body, subresource="status")
        return self._devices.claims.record_write(done)


def extended_claim_key(pod: WorkloadPod) -> Key:
    """The claim of a pod's extended resources. A fixed name makes the second try find the claim of the first."""
    return Key(pod.metadata.namespace, f"{pod.metadata.name[:200]}-extended-resources-{pod.metadata.uid[:8]}")


def _user(pod: WorkloadPod) -> dict[str, str]:
    return {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}


def _plain(user: Any) -> dict[str, str]:
    group = {"apiGroup": user.api_group} if user.api_group else {}
    return {**group, "resource": user.resource, "name": user.name, "uid": user.uid}


def _nodes(claim: ResourceClaim) -> set[str]:
    given = claim.status.allocation
    terms = given.node_selector.node_selector_terms if given and given.node_selector else ()
    return {name for term in terms for match in term.match_fields for name in match.values}


def _settings(needs: Sequence[MappedRequest], spec: ResourceClaimSpec | None, of_class: Any) -> list[dict[str, Any]]:
    """What the drivers are to be told, by the class of each request and by the claim."""
    found = [
        {"source": "FromClass", "requests": [need.ask.name], "opaque": _opaque(opaque)}
        for need in needs
        for opaque in of_class.get(need.ask.device_class, ())
    ]
    chosen = {name for need in needs for name in need.ask.names}
    for setting in spec.devices.config if spec else ():
        if setting.opaque and (not setting.requests or chosen & set(setting.requests)):
            requests = {"requests": list(setting.requests)} if setting.requests else {}
            found.append({"source": "FromClaim", **requests, "opaque": _opaque(setting.opaque)})
    return found


def _opaque(opaque: Any) -> dict[str, Any]:
    return {"driver": opaque.driver, "parameters": opaque.parameters}
