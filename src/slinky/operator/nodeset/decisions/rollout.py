# SPDX-License-Identifier: Apache-2.0
"""Which workers are replaced next by workers of a new revision. Pure.

The budget counts every worker that is not available, whatever the cause. So a broken image stops an update by itself:
once `maxUnavailable` workers are unavailable, no healthy worker is replaced.
"""

from collections.abc import Sequence

from slinky.api.fields.amounts import scaled_value
from slinky.api.nodeset import NodeSet
from slinky.operator.nodeset.decisions.ordering import removal_order
from slinky.operator.nodeset.decisions.reservation import is_in_maintenance
from slinky.operator.nodeset.workers import Worker


def workers_to_replace(node_set: NodeSet, workers: Sequence[Worker], revision: str) -> list[Worker]:
    """Workers that are to be replaced now."""
    strategy = node_set.spec.update_strategy.type
    old = [worker for worker in workers if worker.active and not worker.has_revision(revision)]
    if strategy == "OnDelete" or not old:
        return []
    if strategy == "ScheduledUpdate":
        return [worker for worker in old if not worker.ready or is_in_maintenance(worker, node_set.reservation_name)]
    if is_halted(node_set, workers, revision):
        return []
    due = [worker for worker in outdated_workers(node_set, workers, revision) if worker.active]
    broken = [worker for worker in due if not worker.ready]
    healthy = removal_order(worker for worker in due if worker.ready)
    budget = max(replacement_budget(node_set, workers), _blocking_workers(node_set, workers, revision))
    return [*broken, *healthy[:budget]]


def outdated_workers(node_set: NodeSet, workers: Sequence[Worker], revision: str) -> list[Worker]:
    """Workers that a rolling update has still to replace; none while it is paused."""
    rolling = node_set.spec.update_strategy.rolling_update
    if node_set.spec.update_strategy.type != "RollingUpdate" or rolling.paused:
        return []
    old = (worker for worker in workers if not worker.terminating and not worker.has_revision(revision))
    return [worker for worker in old if worker.ordinal is None or worker.ordinal >= rolling.partition]


def replacement_budget(node_set: NodeSet, workers: Sequence[Worker]) -> int:
    """How many more healthy workers may become unavailable."""
    desired = len(workers) if node_set.per_node else node_set.spec.replicas
    minimum = desired - scaled_value(node_set.spec.update_strategy.rolling_update.max_unavailable, desired)
    available = sum(worker.active and worker.available(node_set.spec.min_ready_seconds) for worker in workers)
    return max(0, available - minimum)


def _blocking_workers(node_set: NodeSet, workers: Sequence[Worker], revision: str) -> int:
    """How many old workers are replaced although too few are available: one, if old workers keep new ones out.

    Old workers of a NodeSet that now shares its nodes still refuse other workers on their nodes. New workers then wait
    for the end of old workers, and the budget would wait for the new workers. One at a time is replaced: the next one
    only if the scheduler names the same cause again.
    """
    if not node_set.spec.oversubscribe_node or any(worker.terminating or worker.condemned for worker in workers):
        return 0
    return int(any(worker.has_revision(revision) and worker.kept_out for worker in workers))


def is_halted(node_set: NodeSet, workers: Sequence[Worker], revision: str) -> bool:
    """Whether `maxFailures` updated workers have not become ready within `progressDeadlineSeconds`."""
    rolling = node_set.spec.update_strategy.rolling_update
    if rolling.max_failures is None:
        return False
    failed = sum(
        worker.has_revision(revision)
        and not worker.terminating
        and not worker.ready
        and worker.age > rolling.progress_deadline_seconds
        for worker in workers
    )
    return failed >= rolling.max_failures
