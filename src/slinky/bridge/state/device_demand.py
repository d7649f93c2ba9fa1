# SPDX-License-Identifier: Apache-2.0
"""The devices that a workload needs, as Slurm counts them, before its job is submitted.

A claim of one pod counts for that pod. A claim that several pods of the workload share counts once, for the one node
that the pods share. While another workload uses a claim, the pod waits, because the devices belong to that
workload's job.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slinky.bridge.devices.classes import Unclaimable
from slinky.bridge.devices.host_gres import UsableCounts
from slinky.bridge.devices.inventory import CPUS, GresKind
from slinky.bridge.devices.requests import ClassRequest, claim_requests, class_requests, extended_resource_requests
from slinky.bridge.state.device_mismatches import DeviceMismatches
from slinky.bridge.state.devices import ClaimMapping, DeviceState
from slinky.bridge.views import CLAIM_TEMPLATES, ResourceClaim, ResourceClaimRef, ResourceClaimSpec, WorkloadPod
from slinky.bridge.workload.annotations import OptionError
from slinky.kube import Key, KubeClient


class ClaimPending(OptionError):  # noqa: N818 -- a reason to wait
    """A resource claim or template of the pod does not exist, or the claim is in use."""


@dataclass(slots=True)
class DeviceNeeds:
    """The devices of the pods of a workload, and the nodes that can provide them."""

    by_pod: dict[str, Counter[GresKind]] = field(default_factory=dict)  # by pod uid
    shared: Counter[GresKind] = field(default_factory=Counter)
    unsuitable_nodes: frozenset[str] = frozenset()
    allowed_nodes: frozenset[str] | None = None  # None: all nodes
    usable: Mapping[str, UsableCounts] = field(default_factory=dict)  # by node that has too few devices
    threads_per_core: int = 1

    @property
    def restricts_nodes(self) -> bool:
        """Whether some nodes cannot provide the devices."""
        return bool(self.unsuitable_nodes or self.usable) or self.allowed_nodes is not None

    def suits_node(self, node: str, pods_per_node: int = 1) -> bool:
        """Whether a node can provide all devices of as many pods."""
        if node in self.unsuitable_nodes or (self.allowed_nodes is not None and node not in self.allowed_nodes):
            return False
        usable = self.usable.get(node, {})
        return all(self._most(kind) * pods_per_node + self.shared[kind] <= count for kind, count in usable.items())

    def _most(self, kind: GresKind) -> int:
        """The most devices of a kind that one pod needs."""
        return max((counts[kind] for counts in self.by_pod.values()), default=0)

    def restrict(self, mapping: ClaimMapping) -> None:
        """Remove the nodes that cannot satisfy the requests of a claim."""
        self.unsuitable_nodes |= mapping.unsuitable_nodes
        if mapping.allowed_nodes is not None:
            allowed = self.allowed_nodes
            self.allowed_nodes = mapping.allowed_nodes if allowed is None else allowed & mapping.allowed_nodes


class DeviceDemand:
    """Computes the devices of pods from their claims and templates."""

    def __init__(self, client: KubeClient, devices: DeviceState, mismatches: DeviceMismatches) -> None:
        self._client, self._devices, self._mismatches = client, devices, mismatches

    async def compute(self, pods: Sequence[WorkloadPod]) -> DeviceNeeds:
        """The devices that the pods of one workload need. Raises `OptionError`."""
        needs = DeviceNeeds()
        counted: set[str] = set()
        users = Counter(reference.resource_claim_name for pod in pods for reference in pod.spec.resource_claims)
        counts: Counter[GresKind] = Counter()
        for previous, pod in zip((None, *pods), pods, strict=False):
            if previous is not None and not pod.spec.resource_claims and pod.spec == previous.spec:
                if counts:  # as the pod before it, which has the same template
                    needs.by_pod[pod.metadata.uid] = counts
                continue
            counts = Counter()
            extended = extended_resource_requests(pod, self._devices.catalog)
            await self._devices.evaluate(extended)
            try:
                counts += self._count(extended, needs)
            except Unclaimable as error:
                raise OptionError(f"the claim of the extended resources of pod {pod.metadata.name}: {error}") from None
            for reference in pod.spec.resource_claims:
                spec = await self._read_spec(pod, reference, pods)
                await self._devices.evaluate(class_requests(spec))
                name = reference.resource_claim_name
                if not name or users[name] == 1:
                    counts += self._count_claim(reference, spec, needs)
                elif name not in counted:
                    counted.add(name)
                    needs.shared += self._count_claim(reference, spec, needs)
            if counts:
                needs.by_pod[pod.metadata.uid] = counts
        if CPUS in needs.shared:
            raise OptionError("pods cannot share a resource claim for CPUs; use a template to give each pod its own")
        if any(CPUS in counts for counts in needs.by_pod.values()):
            needs.threads_per_core = self._devices.threads_per_core
        if needs.by_pod or needs.shared:
            kinds = {kind for counts in (needs.shared, *needs.by_pod.values()) for kind in counts}
            needs.usable = self._mismatches.usable_counts(kinds)
        return needs

    def _count(self, requests: Sequence[ClassRequest], needs: DeviceNeeds) -> Counter[GresKind]:
        """The devices of the requests of one claim."""
        mapping = self._devices.map_claim(requests)
        needs.restrict(mapping)
        total: Counter[GresKind] = Counter()
        for mapped in mapping.requests:
            total[mapped.kind] += mapped.request.count
        return total

    def _count_claim(
        self, reference: ResourceClaimRef, spec: ResourceClaimSpec, needs: DeviceNeeds
    ) -> Counter[GresKind]:
        try:
            requests = claim_requests(spec, self._devices.is_offered)
            total = self._count(requests, needs)
            self._apply_constraints(requests, spec, needs)
        except Unclaimable as error:
            raise OptionError(f"resource claim {reference.name}: {error}") from None
        return total

    def _apply_constraints(self, requests: Iterable[ClassRequest], spec: ResourceClaimSpec, needs: DeviceNeeds) -> None:
        for constraint in spec.devices.constraints:
            affected = [
                request for request in requests if not constraint.requests or request.names & set(constraint.requests)
            ]
            if sum(request.count for request in affected) > 1:
                kinds = [self._devices.map_request(request).kind for request in affected]
                needs.unsuitable_nodes |= self._devices.nodes_with_different(kinds, constraint.match_attribute)

    async def _read_spec(
        self, pod: WorkloadPod, reference: ResourceClaimRef, pods: Iterable[WorkloadPod]
    ) -> ResourceClaimSpec:
        namespace = pod.metadata.namespace
        generated = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
        name = reference.resource_claim_name or generated.get(reference.name, "")
        claim = self._devices.claims.get(Key(namespace, name)) if name else None
        if claim is not None:
            _check_unused(claim, pods)
            return claim.spec
        if reference.resource_claim_name:
            raise ClaimPending(f"resource claim {name} does not exist")
        template = await self._client.find(CLAIM_TEMPLATES, Key(namespace, reference.resource_claim_template_name))
        if template is None:
            raise ClaimPending(f"resource claim template {reference.resource_claim_template_name} does not exist")
        return template.spec.spec


def _check_unused(claim: ResourceClaim, pods: Iterable[WorkloadPod]) -> None:
    """Raises `ClaimPending` while a pod outside of the workload uses a claim."""
    uids = {pod.metadata.uid for pod in pods}
    other = next((user for user in claim.status.reserved_for if user.uid not in uids), None)
    name = claim.metadata.name
    if other is not None:
        raise ClaimPending(
            f"resource claim {name} is in use by {other.resource} {other.name}, and its devices belong to that job; "
            "the pod waits until the claim is free (a template gives every pod its own claim)"
        )
    if claim.status.allocation is not None and not claim.status.reserved_for:
        raise ClaimPending(f"resource claim {name} is being released by its last user")
