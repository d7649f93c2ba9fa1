# SPDX-License-Identifier: Apache-2.0
"""Chooses the pending jobs whose reason and expected start are read again. Pure.

Slurm changes both without any sign that could be polled, so the mirror reads them job by job. A token bucket limits
these reads: a short queue is refreshed at once, and a long queue costs no more than a short one.
"""

import heapq
from collections.abc import Iterable
from typing import NamedTuple

#: Reads of pending jobs per second in the long run ...
RATE = 0.3
#: ... and at once after a quiet time.
BURST = 15.0
#: Seconds after a job was first seen within which Slurm is expected to give a reason, so it is worth another read.
REASON_EXPECTED_SECONDS = 60.0


class PendingJob(NamedTuple):
    """A pending job. The smallest is read first: jobs without a reason, then the job that was read longest ago."""

    has_reason: bool
    read_at: float
    job_id: str
    first_seen: float


class RefreshBudget:
    """How many pending jobs may be read again now."""

    def __init__(self, now: float) -> None:
        self._tokens = BURST
        self._updated_at = now

    def choose(self, jobs: Iterable[PendingJob], now: float, interval: float) -> list[str]:
        """The ids of the jobs to read now, among those that were not read within `interval` seconds."""
        self._tokens = min(BURST, self._tokens + (now - self._updated_at) * RATE)
        self._updated_at = now
        chosen = heapq.nsmallest(int(self._tokens), (job for job in jobs if now - job.read_at >= interval))
        self._tokens -= len(chosen)
        return [job.job_id for job in chosen]


def awaits_reason(jobs: Iterable[PendingJob], now: float) -> bool:
    """Whether one of these jobs is young and has no reason yet: Slurm will soon give one."""
    return any(not job.has_reason and now - job.first_seen < REASON_EXPECTED_SECONDS for job in jobs)
