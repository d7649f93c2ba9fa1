# SPDX-License-Identifier: Apache-2.0
"""Which worker goes first when one must: the one whose loss does least harm. Pure.

The first difference decides: not placed, not running, not ready and without a job, a lower deletion cost, known to be
idle, an earlier end of its jobs, asked to be drained, a higher ordinal, ready more recently, made more recently.
"""

from collections.abc import Iterable

from slinky.api.names import metadata
from slinky.operator.nodeset.workers import Worker

_PHASES = {"Pending": 0, "Unknown": 1}


def harm(worker: Worker) -> tuple[object, ...]:
    """Sorts workers by how much their loss would hurt."""
    return (
        bool(worker.pod.spec.node_name),
        _PHASES.get(worker.pod.status.phase, 2),
        worker.ready or worker.busy is True,  # Slurm starts jobs on a new worker before the kubelet calls it ready
        _cost(worker),
        worker.busy is not False,
        worker.deadline,
        not worker.cordoned,
        -(worker.ordinal if worker.ordinal is not None else -1),
        worker.ready_seconds,
        worker.age,
        worker.meta.name,
    )


def least_harm(workers: Iterable[Worker]) -> list[Worker]:
    """Workers in the order in which they should go."""
    return sorted(workers, key=harm)


def _cost(worker: Worker) -> int:
    try:
        return int(worker.meta.annotations.get(metadata.POD_DELETION_COST, "0"))
    except ValueError:
        return 0
