# SPDX-License-Identifier: Apache-2.0
"""What condemned workers wait for, for metrics and alerts. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable

from slinky.operator.metrics import Wait
from slinky.operator.nodeset.workers import Worker

#: The first that holds is what a worker waits for.
REASONS: tuple[tuple[Callable[[Worker], bool], str], ...] = (
    (lambda worker: worker.leaving, "termination"),  # deleted; its node has yet to stop it
    (lambda worker: worker.host is None, "slurm"),  # nothing is known of it just now
    (lambda worker: worker.drained, "brake"),  # nothing but the pace of deletions holds it
    (lambda worker: bool(worker.busy), "jobs"),
)
OTHERWISE = "drain"  # idle, and Slurm has yet to be told, or to agree


def waits(workers: Iterable[Worker]) -> Counter[Wait]:
    """How many condemned workers wait for what."""
    return Counter(Wait(worker.condemned.cause, reason(worker)) for worker in workers if worker.condemned)


def reason(worker: Worker) -> str:
    """What this worker waits for."""
    return next((name for holds, name in REASONS if holds(worker)), OTHERWISE)


def longest(workers: Iterable[Worker]) -> float:
    """For how many seconds the one has waited that waits longest."""
    return max((worker.condemned.seconds(worker.now) for worker in workers if worker.condemned), default=0.0)
