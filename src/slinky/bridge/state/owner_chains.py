# SPDX-License-Identifier: Apache-2.0
"""Finds the objects from which a workload takes its job options: pods, their groups and their owners.

From the lowest to the highest: the pod; its native PodGroup; the owners of the pod and of that PodGroup, from the
nearest to the topmost; then what groups the pods without owning them, which is a native Workload or a PodGroup of
scheduling.x-k8s.io. `option_layers` merges them.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from slinky.bounds import OWNER_CHAIN_MAX
from slinky.bridge import names
from slinky.bridge.views import NativeGroup, WorkloadBatchJob, WorkloadPod
from slinky.bridge.workload import annotations, grouping
from slinky.bridge.workload.grouping import FindGroup, Workload
from slinky.bridge.workload.option_layers import OptionLayer
from slinky.kube import Key, Object, Owner

FindOwner = Callable[[Owner, str], Awaitable[Object | None]]
"""The object behind an owner reference in a namespace; None if it is not known or its kind is not read."""

FindWorkload = Callable[[Key], Awaitable[Object | None]]
"""A native Workload, or None."""


class OwnerChain(NamedTuple):
    """The objects from a pod to the topmost, as layers of options, and the batch jobs among them."""

    layers: tuple[OptionLayer, ...]
    batch_jobs: tuple[WorkloadBatchJob, ...]


class NamedObject(NamedTuple):
    """An object with its kind, which decoded objects do not have."""

    kind: str
    item: Object

    @property
    def layer(self) -> OptionLayer:
        """The options of the object."""
        return OptionLayer(f"{self.kind} {self.item.metadata.name}", self.item.metadata.annotations)


class OwnerChains:
    """Finds the owner chains of the pods of one workload. Each owner is looked up once."""

    def __init__(self, find: FindGroup, find_owner: FindOwner, find_workload: FindWorkload) -> None:
        self._find, self._find_owner, self._find_workload = find, find_owner, find_workload
        self._known: dict[str, Object | None] = {}

    async def chains_of(
        self, pods: Iterable[WorkloadPod], workload: Workload, group: Object | None
    ) -> list[OwnerChain]:
        """The chains of these pods without repetitions; the chain of the pod with the lowest rank comes first."""
        alike: dict[tuple[object, ...], list[WorkloadPod]] = {}
        for pod in pods:
            alike.setdefault(_distinction(pod), []).append(pod)
        first = [members[0] for members in alike.values()]
        if len(alike) > 1:
            first = sorted((min(members, key=grouping.rank) for members in alike.values()), key=grouping.rank)
        return [await self._chain_of(pod, workload, group) for pod in first]

    async def _chain_of(self, pod: WorkloadPod, workload: Workload, group: Object | None) -> OwnerChain:
        chain = [NamedObject("Pod", pod)]
        native = grouping.native_group_of(pod)
        native_group = self._find("NativeGroup", native.key) if native else None
        if native_group is not None:
            chain.append(NamedObject("PodGroup", native_group))
        chain += _without_repetition([*await self._owners_of_pod(pod), *await self._owners_of(native_group)])
        if group is not None and not isinstance(group, NativeGroup):
            chain.append(NamedObject(workload.kind, group))
        if isinstance(native_group, NativeGroup) and native_group.workload:
            above = await self._find_workload(Key(pod.metadata.namespace, native_group.workload))
            chain += [NamedObject("Workload", above)] if above is not None else []
        chain = _without_repetition(chain)
        batch_jobs = tuple(entry.item for entry in chain if isinstance(entry.item, WorkloadBatchJob))
        return OwnerChain(tuple(entry.layer for entry in chain), batch_jobs)

    async def _owners_of_pod(self, pod: WorkloadPod) -> list[NamedObject]:
        """The owners of a pod; those of a LeaderWorkerSet are found by label, because leader pods own the others."""
        if name := pod.metadata.labels.get(names.LWS_NAME):
            found = self._find("LeaderWorkerSet", Key(pod.metadata.namespace, name))
            return [NamedObject("LeaderWorkerSet", found)] if found is not None else []
        return await self._owners_of(pod)

    async def _owners_of(self, item: Object | None) -> list[NamedObject]:
        owners: list[NamedObject] = []
        while item is not None and (owner := item.metadata.controller) and len(owners) < OWNER_CHAIN_MAX:
            if owner.uid not in self._known:
                self._known[owner.uid] = await self._find_owner(owner, item.metadata.namespace)
            item = self._known[owner.uid]
            owners += [NamedObject(owner.kind, item)] if item is not None else []
        return owners


def _distinction(pod: WorkloadPod) -> tuple[object, ...]:
    """What distinguishes the chains of two pods of one workload."""
    owner = pod.metadata.controller
    options = annotations.select_options(pod.metadata.annotations)
    return owner.uid if owner else "", grouping.native_group_of(pod), frozenset(options.items())


def _without_repetition(chain: Sequence[NamedObject]) -> list[NamedObject]:
    """The chain in which each object has only its first place."""
    first = {(entry.kind, entry.item.metadata.key): entry for entry in reversed(chain)}
    return [entry for entry in chain if first[entry.kind, entry.item.metadata.key] is entry]
