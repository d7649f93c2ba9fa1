# SPDX-License-Identifier: Apache-2.0
"""What pods want of devices, in Slurm's words, before they have a job.

A claim that one pod names is its own. One that several pods of a unit name is counted once, on the one node that they
share. One that somebody else uses is waited for: its devices are accounted to that one's job.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from slinky.bridge.devices import requests
from slinky.bridge.devices.classes import ClassMapping, Unclaimable
from slinky.bridge.devices.inventory import CPUS, GresKind
from slinky.bridge.devices.requests import ClassRequest
from slinky.bridge.devices.state import DeviceState
from slinky.bridge.state.views import CLAIM_TEMPLATES, ResourceClaim, ResourceClaimRef, ResourceClaimSpec, WorkloadPod
from slinky.bridge.workload.annotations import OptionError
from slinky.kube import Key, KubeClient


class ClaimPending(OptionError):  # noqa: N818 -- a reason to wait
    """Something that the pod names is not there, or not free, for now."""


@dataclass
class DeviceNeeds:
    """Devices of some pods, and where they can be had."""

    by_pod: dict[str, Counter[GresKind]] = field(default_factory=dict)
    shared: Counter[GresKind] = field(default_factory=Counter)
    unfit: frozenset[str] = frozenset()
    only: frozenset[str] | None = None
    threads_per_core: int = 1

    @property
    def restricts_nodes(self) -> bool:
        """Whether not every node will do."""
        return bool(self.unfit) or self.only is not None

    def suits_node(self, node: str) -> bool:
        """Whether a node can have all of it."""
        return node not in self.unfit and (self.only is None or node in self.only)

    def narrow(self, meaning: ClassMapping) -> None:
        """Leave out the nodes that do not suit one request."""
        self.unfit |= meaning.unfit
        if meaning.only is not None:
            self.only = meaning.only if self.only is None else self.only & meaning.only


class DeviceDemand:
    """Reads claims and templates."""

    def __init__(self, client: KubeClient, shelf: DeviceState) -> None:
        self._client, self._devices = client, shelf

    async def compute(self, pods: Sequence[WorkloadPod]) -> DeviceNeeds:
        """What these pods of one unit need. Raises `OptionError`."""
        found = DeviceNeeds()
        seen: set[str] = set()
        users = Counter(one.resource_claim_name for pod in pods for one in pod.spec.resource_claims)
        for pod in pods:
            own: Counter[GresKind] = Counter()
            try:
                own += self._counted(requests.extended_resource_requests(pod, self._devices.catalog), found)
            except Unclaimable as error:
                raise OptionError(str(error)) from None
            for reference in pod.spec.resource_claims:
                spec = await self._spec(pod, reference, pods)
                shared = bool(reference.resource_claim_name) and users[reference.resource_claim_name] > 1
                if not shared:
                    own += self._claimed(reference, spec, found)
                elif reference.resource_claim_name not in seen:
                    seen.add(reference.resource_claim_name)
                    found.shared += self._claimed(reference, spec, found)
            if own:
                found.by_pod[pod.metadata.uid] = own
        if CPUS in found.shared:
            raise OptionError("CPUs of a resource claim cannot be shared by pods; give each pod its own by a template")
        if any(CPUS in own for own in found.by_pod.values()):
            found.threads_per_core = self._devices.threads
        return found

    def _counted(self, wanted: Iterable[ClassRequest], found: DeviceNeeds) -> Counter[GresKind]:
        total: Counter[GresKind] = Counter()
        for ask in wanted:
            meaning = self._devices.meaning(ask)
            found.narrow(meaning)
            total[meaning.kind] += ask.count
        return total

    def _claimed(self, reference: ResourceClaimRef, spec: ResourceClaimSpec, found: DeviceNeeds) -> Counter[GresKind]:
        try:
            wanted = requests.claim_requests(spec, self._devices.offers)
            total = self._counted(wanted, found)
            self._related(wanted, spec, found)
        except Unclaimable as error:
            raise OptionError(f"resource claim {reference.name}: {error}") from None
        return total

    def _related(self, wanted: Iterable[ClassRequest], spec: ResourceClaimSpec, found: DeviceNeeds) -> None:
        for constraint in spec.devices.constraints:
            bound = [ask for ask in wanted if not constraint.requests or ask.names & set(constraint.requests)]
            if sum(ask.count for ask in bound) > 1:
                kinds = [self._devices.meaning(ask).kind for ask in bound]
                found.unfit |= self._devices.unrelated(kinds, constraint.match_attribute)

    async def _spec(
        self, pod: WorkloadPod, reference: ResourceClaimRef, pods: Iterable[WorkloadPod]
    ) -> ResourceClaimSpec:
        namespace = pod.metadata.namespace
        made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
        name = reference.resource_claim_name or made.get(reference.name, "")
        claim = self._devices.claims.get(Key(namespace, name)) if name else None
        if claim is not None:
            _free(claim, pods)
            return claim.spec
        if reference.resource_claim_name:
            raise ClaimPending(f"resource claim {name} does not exist")
        template = await self._client.find(CLAIM_TEMPLATES, Key(namespace, reference.resource_claim_template_name))
        if template is None:
            raise ClaimPending(f"resource claim template {reference.resource_claim_template_name} does not exist")
        return template.spec.spec


def _free(claim: ResourceClaim, pods: Iterable[WorkloadPod]) -> None:
    """Raises `NotYet` while a claim serves somebody outside of the unit."""
    ours = {pod.metadata.uid for pod in pods}
    other = next((user for user in claim.status.reserved_for if user.uid not in ours), None)
    name = claim.metadata.name
    if other is not None:
        raise ClaimPending(
            f"resource claim {name} is in use by {other.resource} {other.name}, with whose job Slurm counts its "
            "devices; the pod waits until it is free (a template gives every pod a claim of its own)"
        )
    if claim.status.allocation is not None and not claim.status.reserved_for:
        raise ClaimPending(f"resource claim {name} is just being freed by its last user")
