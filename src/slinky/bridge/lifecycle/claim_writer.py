# SPDX-License-Identifier: Apache-2.0
"""Writes resource claims with exactly the devices that Slurm allocated.

The extended resources of a pod get one claim, which the bridge creates; claims that a pod names are allocated in the
same way. A device that another claim has is not allocated: the pod waits until the claim of a pod that is ending is
released. If a claim has devices that are not of the pod's job, they are released, unless the pod has been bound.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from slinky.bridge import names
from slinky.bridge.devices.allocation import (
    DeviceGrant,
    MappedRequest,
    allocate_requests,
    allocation_status,
    read_grant,
)
from slinky.bridge.devices.classes import Unclaimable
from slinky.bridge.devices.inventory import CPUS, DeviceInventory, GresKind
from slinky.bridge.devices.requests import ClassRequest, claim_requests, class_requests, extended_resource_requests
from slinky.bridge.lifecycle.decide.assignment import UnsuitableNodes
from slinky.bridge.nodes import description
from slinky.bridge.state.cluster import ClusterState
from slinky.bridge.state.devices import allocated_devices
from slinky.bridge.views import OUR_PODS, RESOURCE_CLAIMS, Opaque, ResourceClaim, ResourceClaimSpec, WorkloadPod
from slinky.bridge.views.devices import Consumer
from slinky.bridge.workload import pod_state
from slinky.kube import AlreadyExists, Key, KubeClient, Later, NotFound
from slinky.kube.client import STRATEGIC
from slinky.kube.finalizers import set_finalizers
from slinky.slurm import JobRecord, Mirror

#: Seconds until a claim that another controller has to create is read again.
CLAIM_RETRY_SECONDS = 0.5
#: The finalizer that keeps a claim while a pod uses it; Kubernetes removes it when the claim is free again.
PROTECTION = "resource.kubernetes.io/delete-protection"
NO_EXTENDED_RESOURCES = (
    "the API server does not keep the devices of extended resources: before Kubernetes 1.36 it needs the feature gate "
    "DRAExtendedResource; a resource claim works without it"
)


@dataclass(frozen=True, slots=True)
class ClaimTarget:
    """A pod that is about to be bound, the devices of its node, and those that Slurm allocated to its job there."""

    pod: WorkloadPod
    node: str
    inventory: DeviceInventory
    grant: DeviceGrant


class ClaimTaken(Unclaimable):
    """A claim of the pod belongs to another pod, whatever the node."""


class UnsuitableDevices(UnsuitableNodes):
    """The devices that Slurm allocated to a job on a host cannot be claimed for a pod."""

    def __init__(self, host: str, node: str, reason: str) -> None:
        super().__init__(reason)
        self.host, self.node, self.reason = host, node, reason


class ClaimWriter:
    """Writes resource claims."""

    def __init__(self, client: KubeClient, cluster: ClusterState, mirror: Mirror) -> None:
        self._client, self._cluster, self._devices, self._mirror = client, cluster, cluster.devices, mirror
        # Pods of one node must see the devices that the others got. Every device belongs to one node, so a slow request
        # delays only pods of that node.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def needs_claims(self, pod: WorkloadPod) -> bool:
        """Whether a pod needs devices from claims."""
        return bool(pod.spec.resource_claims or extended_resource_requests(pod, self._devices.catalog))

    async def prepare(self, pod: WorkloadPod, node: str, record: JobRecord) -> None:
        """Allocate the devices of a pod before it is bound. Raises `UnsuitableDevices`, `DevicesInUse` or `Later`."""
        if not self.needs_claims(pod):
            return
        extended = extended_resource_requests(pod, self._devices.catalog)
        async with self._lock(node):
            try:
                target = self._target(pod, node, record)
                for claim in self._named_claims(pod):
                    await self._devices.evaluate(class_requests(claim.spec))
                    requests = claim_requests(claim.spec, self._devices.is_offered)
                    await self._allocate(claim, target, requests, claim.spec)
                if extended:
                    claim = await self._ensure_extended_claim(pod, extended, target.grant)
                    await self._allocate(claim, target, extended)
                    await self._map_containers(pod, claim, extended)
            except ClaimTaken as error:
                raise UnsuitableNodes(str(error)) from error
            except Unclaimable as error:
                kubernetes_node = self._cluster.nodes.get(Key("", node))
                host = pod_state.host_of(kubernetes_node) if kubernetes_node is not None else node
                raise UnsuitableDevices(host, node, str(error)) from error

    def _lock(self, node: str) -> asyncio.Lock:
        return self._locks.setdefault(node, asyncio.Lock())

    def _target(self, pod: WorkloadPod, node: str, record: JobRecord) -> ClaimTarget:
        """The devices of a pod's job on a node. Raises `Unclaimable` if the devices of Slurm and the node differ."""
        inventory = self._devices.inventory(node)
        for resources in record.resources or ():
            host_node = self._cluster.node_of_host(resources.node)
            if host_node is not None and host_node.metadata.name == node:
                host = self._mirror.nodes.get(resources.node)
                registered = description.fingerprint(host.comment) if host else ""
                if registered and registered != inventory.fingerprint:
                    raise Unclaimable(f"the devices of {node} have changed since they were registered in Slurm")
                grant = read_grant(resources, inventory, host.gres if host else "")
                return ClaimTarget(pod, node, inventory, grant)
        return ClaimTarget(pod, node, inventory, DeviceGrant())

    async def _allocate(
        self,
        claim: ResourceClaim,
        target: ClaimTarget,
        requests: Sequence[ClassRequest],
        spec: ResourceClaimSpec | None = None,
    ) -> None:
        """Allocate devices of the job to a claim unless it has them; `spec` if the bridge did not create the claim."""
        pod, node, grant = target.pod, target.node, target.grant
        users = {user.uid for user in claim.status.reserved_for}
        if claim.status.allocation is not None:
            if node in _nodes_of(claim) and set(allocated_devices(claim)) <= grant.device_ids():
                if pod.metadata.uid not in users:
                    await self._add_user(claim, pod)
                return
            if users - {pod.metadata.uid}:
                raise ClaimTaken(f"claim {claim.metadata.name} is in use by another pod")
            claim = await self._deallocate(claim)
        await self._devices.evaluate(requests)
        mapped = [MappedRequest(request, self._map_request(request, node)) for request in requests]
        allocations = allocate_requests(mapped, grant, lambda device: self._devices.is_in_use(device, target.inventory))
        if spec is not None:
            claim = await self._protect(claim)
        config = _driver_config(requests, spec, self._devices.catalog.configs)
        status = allocation_status(allocations, grant, node, config)
        await self._write_status(claim, {"allocation": status, "reservedFor": [_consumer(pod)]})

    def _map_request(self, request: ClassRequest, node: str) -> GresKind:
        """The GRES of a request. The devices of the node may have changed since the job was submitted."""
        mapping = self._devices.map_request(request)
        if not mapping.suits_node(node):
            raise Unclaimable(f"the devices of {node} do not belong to {request}")
        return mapping.kind

    # --- claims that the pod names

    def _named_claims(self, pod: WorkloadPod) -> Iterable[ResourceClaim]:
        generated = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
        for reference in pod.spec.resource_claims:
            name = reference.resource_claim_name or generated.get(reference.name, "")
            claim = self._devices.claims.get(Key(pod.metadata.namespace, name)) if name else None
            if claim is None or claim.metadata.deleting:
                raise Later(f"claim {reference.name} of pod {pod.key} does not exist yet", after=CLAIM_RETRY_SECONDS)
            yield claim

    async def _protect(self, claim: ResourceClaim) -> ResourceClaim:
        if PROTECTION in claim.metadata.finalizers:
            return claim
        finalizers = [*claim.metadata.finalizers, PROTECTION]
        return await set_finalizers(self._client, self._devices.claims, claim, finalizers)

    async def _add_user(self, claim: ResourceClaim, pod: WorkloadPod) -> None:
        """Reserve an allocated claim for one more pod of the workload."""
        users = [_consumer_manifest(user) for user in claim.status.reserved_for]
        await self._write_status(claim, {"reservedFor": [*users, _consumer(pod)]})

    # --- the claim of extended resources

    async def _ensure_extended_claim(
        self, pod: WorkloadPod, requests: Sequence[ClassRequest], grant: DeviceGrant
    ) -> ResourceClaim:
        key = extended_claim_key(pod)
        await self._devices.evaluate(requests)
        manifests = [{"name": request.name, "exactly": self._exact_request(request, grant)} for request in requests]
        meta = {"annotations": {names.CLAIM_ANNOTATION: "true"}, "ownerReferences": [OUR_PODS.owner(pod)]}
        manifest = RESOURCE_CLAIMS.manifest(key, metadata=meta, spec={"devices": {"requests": manifests}})
        try:
            return self._devices.claims.record_write(await self._client.create(RESOURCE_CLAIMS, manifest))
        except AlreadyExists:
            claim = await self._client.get(RESOURCE_CLAIMS, key)
        if all(owner.uid != pod.metadata.uid for owner in claim.metadata.owner_references):
            raise ClaimTaken(f"claim {key.name} has another owner")
        if claim.metadata.deleting:
            raise Later(f"the previous claim {key.name} is still being deleted", after=CLAIM_RETRY_SECONDS)
        return claim

    def _exact_request(self, request: ClassRequest, grant: DeviceGrant) -> dict[str, Any]:
        topology = grant.topology
        if topology is None or not topology.grouped or self._devices.map_request(request).kind != CPUS:
            return {"deviceClassName": request.device_class, "count": request.count}
        driver = next(iter(topology.device_of_cpu.values())).driver
        capacity = {"requests": {f"{driver}/cpu": str(request.count)}}
        return {"deviceClassName": request.device_class, "count": 1, "capacity": capacity}

    async def _map_containers(self, pod: WorkloadPod, claim: ResourceClaim, requests: Sequence[ClassRequest]) -> None:
        """Write to the pod which request of the claim serves which extended resource of which container."""
        current = pod.status.extended_resource_claim_status
        if current is not None and current.resource_claim_name == claim.metadata.name:
            return
        mappings = [
            {"containerName": request.container, "resourceName": request.resource, "requestName": request.name}
            for request in requests
        ]
        status = {"resourceClaimName": claim.metadata.name, "requestMappings": mappings}
        body = {"metadata": {"uid": pod.metadata.uid}, "status": {"extendedResourceClaimStatus": status}}
        patched = await self._client.patch(OUR_PODS, pod.key, body, subresource="status", kind=STRATEGIC)
        self._cluster.pods.record_write(patched)
        if patched.status.extended_resource_claim_status is None:
            # Without this field, the kubelet would start the containers without the devices.
            raise UnsuitableNodes(NO_EXTENDED_RESOURCES)

    # --- release

    async def release(self, pod: WorkloadPod) -> None:
        """Release the claims of a pod that lost its job before it was bound."""
        if not self._devices.claims.by("user", pod.metadata.uid):
            return
        current = await self._client.find(OUR_PODS, pod.key)
        if current is not None and current.metadata.uid == pod.metadata.uid and pod_state.is_bound(current):
            return
        for claim in self._devices.claims.by("user", pod.metadata.uid):
            async with self._lock(next(iter(_nodes_of(claim)), "")):
                await self._release_claim(pod, self._devices.claims.get(claim.key) or claim)

    async def _release_claim(self, pod: WorkloadPod, claim: ResourceClaim) -> None:
        others = [user for user in claim.status.reserved_for if user.uid != pod.metadata.uid]
        if claim.key == extended_claim_key(pod):
            await self._delete(claim)
        elif len(others) == len(claim.status.reserved_for):
            return  # meanwhile the pod no longer uses the claim
        elif others:
            await self._write_status(claim, {"reservedFor": [_consumer_manifest(user) for user in others]})
        else:
            await self._deallocate(claim)

    async def delete_own_claim(self, pod: WorkloadPod) -> None:
        """Delete the claim that the bridge created for a pod that is gone."""
        claim = self._devices.claims.get(extended_claim_key(pod))
        if claim is not None and any(owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references):
            await self._delete(claim)

    async def _delete(self, claim: ResourceClaim) -> None:
        with contextlib.suppress(NotFound):
            await self._client.delete(RESOURCE_CLAIMS, claim.key, uid=claim.metadata.uid)

    async def _deallocate(self, claim: ResourceClaim) -> ResourceClaim:
        return await self._write_status(claim, {"allocation": None, "reservedFor": None})

    async def _write_status(self, claim: ResourceClaim, status: dict[str, Any]) -> ResourceClaim:
        # With the resource version the write fails if another client changed the claim; the reconcile is repeated.
        body = {"metadata": {"resourceVersion": claim.metadata.resource_version}, "status": status}
        patched = await self._client.patch(RESOURCE_CLAIMS, claim.key, body, subresource="status")
        return self._devices.claims.record_write(patched)


def extended_claim_key(pod: WorkloadPod) -> Key:
    """The claim of a pod's extended resources. The fixed name lets a second attempt find the claim of the first."""
    return Key(pod.metadata.namespace, f"{pod.metadata.name[:200]}-extended-resources-{pod.metadata.uid[:8]}")


def _consumer(pod: WorkloadPod) -> dict[str, str]:
    return {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}


def _consumer_manifest(user: Consumer) -> dict[str, str]:
    group = {"apiGroup": user.api_group} if user.api_group else {}
    return {**group, "resource": user.resource, "name": user.name, "uid": user.uid}


def _nodes_of(claim: ResourceClaim) -> set[str]:
    allocation = claim.status.allocation
    terms = allocation.node_selector.node_selector_terms if allocation and allocation.node_selector else ()
    return {name for term in terms for match in term.match_fields for name in match.values}


def _driver_config(
    requests: Sequence[ClassRequest], spec: ResourceClaimSpec | None, class_configs: Mapping[str, tuple[Opaque, ...]]
) -> list[dict[str, Any]]:
    """The configuration for the drivers, from the class of each request and from the claim."""
    configs = [
        {"source": "FromClass", "requests": [request.name], "opaque": _opaque_manifest(opaque)}
        for request in requests
        for opaque in class_configs.get(request.device_class, ())
    ]
    request_names = {name for request in requests for name in request.names}
    for config in spec.devices.config if spec else ():
        if config.opaque and (not config.requests or request_names & set(config.requests)):
            scope = {"requests": list(config.requests)} if config.requests else {}
            configs.append({"source": "FromClaim", **scope, "opaque": _opaque_manifest(config.opaque)})
    return configs


def _opaque_manifest(opaque: Opaque) -> dict[str, Any]:
    return {"driver": opaque.driver, "parameters": opaque.parameters}
