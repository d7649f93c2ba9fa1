# SPDX-License-Identifier: Apache-2.0
"""Which workers are replaced next by a new revision. Pure.

The budget counts everything that is not available, whatever the cause, so a broken image stops an update by itself:
once as many workers are missing as may be, nothing healthy is touched.
"""

from collections.abc import Sequence

from slinky.api.fields.amounts import scaled_value
from slinky.api.nodeset import NodeSet
from slinky.operator.nodeset.decisions.drains import in_maintenance
from slinky.operator.nodeset.decisions.ordering import least_harm
from slinky.operator.nodeset.workers import Worker


def outdated(of: NodeSet, workers: Sequence[Worker], revision: str) -> list[Worker]:
    """Workers that are to be replaced now."""
    kind = of.spec.update_strategy.type
    old = [worker for worker in workers if worker.staying and not worker.revised(revision)]
    if kind == "OnDelete" or not old:
        return []
    if kind == "ScheduledUpdate":
        return [worker for worker in old if not worker.ready or in_maintenance(worker, of.reservation_name)]
    if halted(of, workers, revision):
        return []
    due = [worker for worker in awaiting(of, workers, revision) if worker.staying]
    broken = [worker for worker in due if not worker.ready]
    healthy = least_harm(worker for worker in due if worker.ready)
    return [*broken, *healthy[: budget(of, workers)]]


def awaiting(of: NodeSet, workers: Sequence[Worker], revision: str) -> list[Worker]:
    """Workers that a rolling update has still to replace; none while it is paused."""
    rolling = of.spec.update_strategy.rolling_update
    if of.spec.update_strategy.type != "RollingUpdate" or rolling.paused:
        return []
    old = (worker for worker in workers if not worker.leaving and not worker.revised(revision))
    return [worker for worker in old if worker.ordinal is None or worker.ordinal >= rolling.partition]


def budget(of: NodeSet, workers: Sequence[Worker]) -> int:
    """How many more healthy workers may be taken out of service."""
    want = len(workers) if of.per_node else of.spec.replicas
    least = want - scaled_value(of.spec.update_strategy.rolling_update.max_unavailable, want)
    available = sum(worker.staying and worker.available(of.spec.min_ready_seconds) for worker in workers)
    return max(0, available - least)


def halted(of: NodeSet, workers: Sequence[Worker], revision: str) -> bool:
    """Too many updated workers have failed to become ready in time."""
    rolling = of.spec.update_strategy.rolling_update
    if rolling.max_failures is None:
        return False
    failed = sum(
        worker.revised(revision)
        and not worker.leaving
        and not worker.ready
        and worker.age > rolling.progress_deadline_seconds
        for worker in workers
    )
    return failed >= rolling.max_failures
