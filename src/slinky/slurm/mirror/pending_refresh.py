# SPDX-License-Identifier: Apache-2.0
"""Chooses how the reasons and expected starts of pending jobs are read again. Pure.

Slurm changes both without any sign that could be polled. A few jobs are read one by one; a token bucket limits these
reads, so that a short queue is refreshed at once. Many jobs are read by one list of all jobs, because slurmctld locks
its jobs for each request; slurmrestd cannot list only some of them.
"""

import heapq
from collections.abc import Iterable
from typing import NamedTuple

#: Reads of pending jobs per second in the long run ...
RATE = 0.15
#: ... and at once after a quiet time.
BURST = 15.0
#: Seconds after a job was first seen within which Slurm is expected to give a reason, so it is worth another read.
REASON_EXPECTED_SECONDS = 60.0


#: Up to this many pending jobs are read one by one within a minute.
SINGLE_READS_MAX = 8
#: A list must not have more jobs than this ...
LISTED_JOBS_MAX = 15_000
#: ... and above the second number not more than this many jobs of other users for each pending job.
LISTED_JOBS_PER_PENDING, SHORT_LIST = 20, 1000


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


def prefers_list(pending: int, total: int) -> bool:
    """Whether the reasons of `pending` jobs are read by a list of all `total` jobs.

    slurmrestd needs about one millisecond, 5 kB of text and 100 kB of memory for each job of the list.
    """
    affordable = min(LISTED_JOBS_MAX, max(SHORT_LIST, LISTED_JOBS_PER_PENDING * pending))
    return pending > SINGLE_READS_MAX and total <= affordable
