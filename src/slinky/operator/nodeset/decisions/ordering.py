# SPDX-License-Identifier: Apache-2.0
"""Which workers are removed first: those whose removal disturbs least. Pure.

The first difference decides: not scheduled, not running, not ready and without a job, a lower deletion cost, known to
be idle, not planned for a job by Slurm, an earlier end of its jobs, cordoned, a higher ordinal, ready more recently,
created more recently.
"""

from collections.abc import Iterable

from slinky.api.names import metadata
from slinky.bounds import INT32_MAX, parse_integer
from slinky.operator.nodeset.workers import Worker

_PHASES = {"Pending": 0, "Unknown": 1}


def removal_rank(worker: Worker) -> tuple[object, ...]:
    """Sort key: workers with a lower rank are removed first."""
    return (
        bool(worker.pod.spec.node_name),
        _PHASES.get(worker.pod.status.phase, 2),
        worker.ready or worker.busy is True,  # Slurm starts jobs on a new worker before the kubelet reports it ready
        _deletion_cost(worker),
        worker.busy is not False,
        worker.planned,
        worker.deadline,
        not worker.cordoned,
        -(worker.ordinal if worker.ordinal is not None else -1),
        worker.ready_seconds,
        worker.age,
        worker.meta.name,
    )


def removal_order(workers: Iterable[Worker]) -> list[Worker]:
    """Workers in the order in which they should be removed."""
    return sorted(workers, key=removal_rank)


def _deletion_cost(worker: Worker) -> int:
    return parse_integer(worker.meta.annotations.get(metadata.POD_DELETION_COST, "0"), -INT32_MAX, INT32_MAX) or 0
