# SPDX-License-Identifier: Apache-2.0
"""Which waiting jobs are read again, for their reason and expected start.

Slurm changes both without a sign that could be watched, so they are read job by job. An allowance that grows with
time bounds that: a short queue is told of a change at once, and a long one costs no more than a short one. Pure.
"""

import heapq
from collections.abc import Iterable
from typing import NamedTuple

#: Waiting jobs are read again: so many a second in the long run ...
RATE = 0.3
#: ... and so many at once after a quiet while.
BURST = 15.0
#: How long after it was first seen a job without a reason is worth another look soon, in seconds.
CURIOUS = 60.0


class Waiting(NamedTuple):
    """A job that waits; the smallest is read first: those without a reason, then the longest unread."""

    explained: bool
    read_at: float
    key: str
    first_seen: float


class Allowance:
    """How many jobs may be read again by now."""

    def __init__(self, now: float) -> None:
        self._left = BURST
        self._at = now

    def choose(self, waiting: Iterable[Waiting], now: float, patience: float) -> list[str]:
        """The jobs to read now, of those that were not read within `patience` seconds."""
        self._left = min(BURST, self._left + (now - self._at) * RATE)
        self._at = now
        chosen = heapq.nsmallest(int(self._left), (job for job in waiting if now - job.read_at >= patience))
        self._left -= len(chosen)
        return [job.key for job in chosen]


def curious(waiting: Iterable[Waiting], now: float) -> bool:
    """Whether a young job waits of which Slurm has not said why: it soon will."""
    return any(not job.explained and now - job.first_seen < CURIOUS for job in waiting)
