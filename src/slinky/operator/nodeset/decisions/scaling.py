# SPDX-License-Identifier: Apache-2.0
"""How many workers there should be, which slots are empty and which workers are too many. Pure.

A slot stays taken until its pod is gone, condemned or not, so no two workers ever have one name. But a worker that was
scaled away serves nobody new, so it does not count: a set that grows again gets others beside it.
"""

from collections.abc import Mapping, Sequence

from slinky.api.fields.amounts import scaled_value
from slinky.api.nodeset import NodeSet
from slinky.operator.nodeset.decisions.ordering import least_harm
from slinky.operator.nodeset.decisions.rollout import awaiting
from slinky.operator.nodeset.objects import Slot
from slinky.operator.nodeset.workers import Worker

#: Causes of condemnation after which the slot is not filled again.
SCALE_IN = "scale-in"
MODE = "scaling-mode"


def target(of: NodeSet, workers: Sequence[Worker], revision: str) -> int:
    """How many workers should exist now: more than asked for while a rolling update may surge."""
    if not awaiting(of, workers, revision):
        return of.spec.replicas
    return of.spec.replicas + scaled_value(of.spec.update_strategy.rolling_update.max_surge, of.spec.replicas)


def vacant(workers: Sequence[Worker], want: int, pins: Mapping[str, str]) -> list[Slot]:
    """Slots to fill: the lowest free ordinals, each on the node where it is pinned."""
    taken = {worker.ordinal for worker in workers}
    missing = want - sum(not scaled_away(worker) for worker in workers)
    found: list[Slot] = []
    ordinal = 0
    while len(found) < missing:
        if ordinal not in taken:
            found.append(Slot(ordinal, node=pins.get(str(ordinal), "")))
        ordinal += 1
    return found


def scaled_away(worker: Worker) -> bool:
    """It was too many, and finishes its jobs."""
    return worker.condemned is not None and worker.condemned.cause == SCALE_IN


def surplus(workers: Sequence[Worker], want: int) -> list[Worker]:
    """Workers that are too many: first those that have to go anyway, then those whose loss does least harm."""
    doomed = {SCALE_IN, MODE}
    counted = [
        worker
        for worker in workers
        if not worker.leaving and not (worker.condemned and worker.condemned.cause in doomed)
    ]
    excess = len(counted) - want
    if excess <= 0:
        return []
    ordered = least_harm(counted)
    ordered.sort(key=lambda worker: worker.condemned is None)
    return ordered[:excess]
