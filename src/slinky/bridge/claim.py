# SPDX-License-Identifier: Apache-2.0
"""Device claims with exactly the devices that Slurm granted.

Extended resources get one claim of ours per pod; claims that a pod names itself are filled in the same way. No
device is given while another claim holds it: the claim of a pod that is just leaving is waited for.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from slinky.bridge import grant, names
from slinky.bridge.annotations import OptionError
from slinky.bridge.devices import Located
from slinky.bridge.grant import Ask, Held, Unclaimable
from slinky.bridge.place import Misplaced
from slinky.bridge.stock import Stock, device_key
from slinky.bridge.views import (
    CLAIM_TEMPLATES,
    OUR_PODS,
    RESOURCE_CLAIMS,
    Pod,
    ResourceClaim,
    ResourceClaimRef,
    ResourceClaimSpec,
)
from slinky.kube import AlreadyExists, Client, Key, Later
from slinky.kube.client import STRATEGIC
from slinky.slurm import JobRecord

#: How often granted devices are looked at that somebody else still holds.
HELD_AGAIN = 0.5


class Claims:
    """Writes claims."""

    def __init__(self, client: Client, stock: Stock) -> None:
        self._client, self._stock = client, stock
        # Pods of one job may share a node: what one takes the next must see.
        self._turn = asyncio.Lock()

    async def wanted(self, pods: Sequence[Pod]) -> dict[str, dict[str, int]]:
        """Devices that pods ask for by claims of their own, by pod uid and GRES type. Raises `OptionError`."""
        found: dict[str, dict[str, int]] = {}
        for pod in pods:
            asks: list[Ask] = []
            for reference in pod.spec.resource_claims:
                try:
                    asks += grant.asks_of_claim(await self._spec(pod, reference))
                except Unclaimable as error:
                    raise OptionError(f"resource claim {reference.name}: {error}") from None
            if asks:
                found[pod.metadata.uid] = grant.counted(asks, self._stock.catalog)
        return found

    async def _spec(self, pod: Pod, reference: ResourceClaimRef) -> ResourceClaimSpec:
        namespace = pod.metadata.namespace
        if reference.resource_claim_template_name:
            template = await self._client.find(CLAIM_TEMPLATES, Key(namespace, reference.resource_claim_template_name))
            if template is None:
                raise Later(f"claim template {reference.resource_claim_template_name} does not exist", after=5)
            return template.spec.spec
        claim = await self._client.find(RESOURCE_CLAIMS, Key(namespace, reference.resource_claim_name))
        if claim is None:
            raise Later(f"resource claim {reference.resource_claim_name} does not exist", after=5)
        return claim.spec

    async def prepare(self, pod: Pod, node: str, record: JobRecord) -> None:
        """Make sure that the pod's devices are its own before it is bound. Raises `Misplaced` or `Later`."""
        asks = grant.asks(pod, self._stock.catalog)
        if not asks and not pod.spec.resource_claims:
            return
        async with self._turn:
            try:
                await self._fill_named(pod, node, record)
                if asks:
                    await self._fill_extended(pod, node, record, asks)
            except Held as error:
                raise Later(str(error), after=HELD_AGAIN) from error
            except Unclaimable as error:
                raise Misplaced(str(error)) from error

    def _shares(self, pod: Pod, node: str, record: JobRecord, asks: Sequence[Ask]) -> dict[str, list[Located]]:
        given: dict[str, list[Located]] = {}
        for resources in record.resources or ():
            behind = self._stock.node_of_host(resources.node)
            if behind is not None and behind.metadata.name == node:
                given = grant.granted(resources, self._stock.inventory(node))
        return grant.share(asks, given, self._stock.catalog, self._taken)

    def _taken(self, device: Located) -> bool:
        return bool(self._stock.claims.by("device", device_key(*device)))

    # --- claims that the pod names

    async def _fill_named(self, pod: Pod, node: str, record: JobRecord) -> None:
        named = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
        for reference in pod.spec.resource_claims:
            name = reference.resource_claim_name or named.get(reference.name, "")
            if not name:
                raise Later(f"the claim {reference.name} of {pod.key} is not made yet", after=HELD_AGAIN)
            claim = await self._client.get(RESOURCE_CLAIMS, Key(pod.metadata.namespace, name))
            if any(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for):
                continue
            if claim.status.allocation is not None:
                raise Unclaimable(f"claim {name} is in use; a claim that pods share cannot be placed by Slurm")
            shared = self._shares(pod, node, record, grant.asks_of_claim(claim.spec))
            await self._allocate(claim, pod, grant.allocation(shared, node))

    # --- the claim behind extended resources

    async def _fill_extended(self, pod: Pod, node: str, record: JobRecord, asks: list[Ask]) -> None:
        claim = await self._own_claim(pod, asks)
        if claim.status.allocation is None:
            shared = self._shares(pod, node, record, asks)
            claim = await self._allocate(claim, pod, grant.allocation(shared, node))
        held = pod.status.extended_resource_claim_status
        if held is None or held.resource_claim_name != claim.metadata.name:
            await self._map(pod, claim, asks)

    async def _own_claim(self, pod: Pod, asks: list[Ask]) -> ResourceClaim:
        # A fixed name makes the second try find the claim of the first.
        key = Key(pod.metadata.namespace, f"{pod.metadata.name[:200]}-extended-resources-{pod.metadata.uid[:8]}")
        requests = [
            {"name": ask.name, "exactly": {"deviceClassName": ask.device_class, "count": ask.count}} for ask in asks
        ]
        meta = {"annotations": {names.CLAIM_ANNOTATION: "true"}, "ownerReferences": [OUR_PODS.owner(pod)]}
        wanted = RESOURCE_CLAIMS.manifest(key, metadata=meta, spec={"devices": {"requests": requests}})
        try:
            return self._stock.claims.wrote(await self._client.create(RESOURCE_CLAIMS, wanted))
        except AlreadyExists:
            found = await self._client.get(RESOURCE_CLAIMS, key)
        if all(owner.uid != pod.metadata.uid for owner in found.metadata.owner_references):
            raise Unclaimable(f"claim {key.name} belongs to somebody else")
        return found

    async def _allocate(self, claim: ResourceClaim, pod: Pod, allocation: dict[str, Any]) -> ResourceClaim:
        user = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
        # The version makes this conditional: whoever changed the claim meanwhile wins, and we look again.
        meta = {"resourceVersion": claim.metadata.resource_version}
        body = {"metadata": meta, "status": {"allocation": allocation, "reservedFor": [user]}}
        done = await self._client.patch(RESOURCE_CLAIMS, claim.key, body, subresource="status")
        return self._stock.claims.wrote(done)

    async def _map(self, pod: Pod, claim: ResourceClaim, asks: list[Ask]) -> None:
        mappings = [
            {"containerName": ask.container, "resourceName": ask.resource, "requestName": ask.name} for ask in asks
        ]
        status = {"resourceClaimName": claim.metadata.name, "requestMappings": mappings}
        body = {"metadata": {"uid": pod.metadata.uid}, "status": {"extendedResourceClaimStatus": status}}
        done = await self._client.patch(OUR_PODS, pod.key, body, subresource="status", kind=STRATEGIC)
        self._stock.pods.wrote(done)
