# SPDX-License-Identifier: Apache-2.0
"""What the removal of condemned workers waits for, for metrics and alerts. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable

from slinky.operator.metrics import DrainWait
from slinky.operator.nodeset.workers import Worker

#: The first reason that applies is reported.
REASONS: tuple[tuple[Callable[[Worker], bool], str], ...] = (
    (lambda worker: worker.terminating, "termination"),  # deleted; the kubelet has yet to stop the pod
    (lambda worker: worker.host is None, "slurm"),  # its state in Slurm is not known
    (lambda worker: worker.drained, "deletion-limit"),  # only the deletion limit delays it
    (lambda worker: bool(worker.busy), "jobs"),
)
DEFAULT_REASON = "drain"  # idle; the drain has yet to be requested or to take effect


def count_waits(workers: Iterable[Worker]) -> Counter[DrainWait]:
    """Number of condemned workers by cause and by what their removal waits for."""
    return Counter(DrainWait(worker.condemned.cause, wait_reason(worker)) for worker in workers if worker.condemned)


def wait_reason(worker: Worker) -> str:
    """What the removal of this worker waits for."""
    return next((name for applies, name in REASONS if applies(worker)), DEFAULT_REASON)


def longest_wait(workers: Iterable[Worker]) -> float:
    """Seconds since the first of these workers was condemned; 0 if none is."""
    return max((worker.condemned.seconds(worker.now) for worker in workers if worker.condemned), default=0.0)
