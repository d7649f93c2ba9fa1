# SPDX-License-Identifier: Apache-2.0
"""How many workers should exist, which slots are vacant and which workers are surplus. Pure.

A slot stays occupied until its pod is gone, even if the worker is condemned, so two workers never have the same name.
A worker that is scaled in does not count as a replica, because it accepts no new jobs: a NodeSet that grows again gets
additional workers beside it.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence

from slinky.api.fields.amounts import scaled_value
from slinky.api.nodeset import NodeSet
from slinky.operator.nodeset.causes import RemovalCause
from slinky.operator.nodeset.decisions.ordering import removal_order
from slinky.operator.nodeset.decisions.rollout import outdated_workers
from slinky.operator.nodeset.objects import Slot
from slinky.operator.nodeset.workers import Worker

#: Causes after which the slot of the worker is not filled again.
_NOT_REPLACED = frozenset({RemovalCause.SCALE_IN, RemovalCause.SCALING_MODE})


def target_replicas(node_set: NodeSet, workers: Sequence[Worker], revision: str) -> int:
    """How many workers should exist now: `replicas`, and up to `maxSurge` more during a rolling update."""
    replicas = node_set.spec.replicas
    if not outdated_workers(node_set, workers, revision):
        return replicas
    return replicas + scaled_value(node_set.spec.update_strategy.rolling_update.max_surge, replicas)


def vacant_slots(workers: Sequence[Worker], target: int, pins: Mapping[str, str]) -> Iterator[Slot]:
    """Slots to fill: the lowest free ordinals, each on the node to which it is pinned."""
    occupied = {worker.ordinal for worker in workers}
    missing = target - sum(not is_scaled_in(worker) for worker in workers)
    free = (ordinal for ordinal in itertools.count() if ordinal not in occupied)
    for ordinal in itertools.islice(free, max(0, missing)):
        yield Slot(ordinal, node=pins.get(str(ordinal), ""))


def is_scaled_in(worker: Worker) -> bool:
    """Whether it was surplus and only finishes its jobs."""
    return worker.condemned is not None and worker.condemned.cause == RemovalCause.SCALE_IN


def is_replaced(worker: Worker) -> bool:
    """Whether it counts as a replica: it stays, or another worker will take its place."""
    return not (worker.condemned and worker.condemned.cause in _NOT_REPLACED)


def surplus_workers(workers: Sequence[Worker], target: int, *, only_unused: bool = False) -> list[Worker]:
    """Workers beyond the target: first those that are condemned anyway, then those whose removal disturbs least.

    With `only_unused`, workers that run a job or that Slurm has planned for one stay, even if that is too many.
    """
    counted = [worker for worker in workers if not worker.terminating and is_replaced(worker)]
    excess = len(counted) - target
    if excess <= 0:
        return []
    ordered = removal_order(counted)
    ordered.sort(key=lambda worker: worker.condemned is None)
    if only_unused:
        ordered = [worker for worker in ordered if worker.condemned or worker.unused]
    return ordered[:excess]
