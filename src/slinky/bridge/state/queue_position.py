# SPDX-License-Identifier: Apache-2.0
"""Positions of pending jobs in the queue: how many jobs of this bridge are ahead, by partition and priority.

Slurm reports no position, and counting all jobs would mean reading all of them, so only jobs of this bridge count.
The first ten positions are exact and every change is reported. Positions further back are rounded to a power of ten:
otherwise ten thousand pending pods would be written whenever one job starts.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping

from slinky.observe import Clock
from slinky.slurm import Change, Job, JobRecord, ObjectKind

#: Positions that are reported exactly.
EXACT_POSITIONS = 10
#: Seconds between two evaluations of a queue that changes: each may write the first ten positions anew.
MIN_INTERVAL = 10.0

SortKey = tuple[int, int]
"""Order of jobs in the queue: highest priority first, then lowest job id."""


def position_text(jobs_ahead: int) -> str:
    """A sentence about the position in the queue."""
    if jobs_ahead < EXACT_POSITIONS:
        return f"Position {jobs_ahead + 1} among the pending jobs of this bridge in the partition."
    return f"More than {10 ** (len(str(jobs_ahead)) - 1) - 1} jobs of this bridge are ahead."


def sort_queues(records: Iterable[JobRecord]) -> dict[str, list[SortKey]]:
    """The pending jobs of each partition in the order of the queue; a heterogeneous job counts once."""
    queues: dict[str, list[SortKey]] = {}
    for record in records:
        if record.state.pending and (job := record.detail) is not None and job.het_job_id.whole in {0, job.job_id}:
            queues.setdefault(job.partition, []).append(_sort_key(job))
    for queue in queues.values():
        queue.sort()
    return queues


class QueuePositions:
    """Computes the positions of pending jobs, and notifies a callback of jobs whose position text changed."""

    def __init__(self, jobs: Mapping[str, JobRecord], notify: Callable[[str], None], clock: Clock) -> None:
        self._jobs, self._notify, self._clock = jobs, notify, clock
        self._queues: dict[str, list[SortKey]] = {}
        self._reported: dict[int, int] = {}  # rounded position by job id
        self._changed = asyncio.Event()

    def handle_change(self, change: Change) -> None:
        """Handle a change in Slurm."""
        if change.kind is ObjectKind.JOB and _queue_entry(change.before) != _queue_entry(change.after):
            self._changed.set()

    def describe(self, record: JobRecord) -> str:
        """A sentence about the position of a pending job, also before the queue is evaluated with the job."""
        if record.detail is None:
            return ""
        return position_text(bisect_left(self._queues.get(record.detail.partition, []), _sort_key(record.detail)))

    async def run(self) -> None:
        """Evaluate the queues whenever they changed, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._queues = sort_queues(self._jobs.values())
            before, self._reported = (
                self._reported,
                {job: _rounded(ahead) for queue in self._queues.values() for ahead, (_, job) in enumerate(queue)},
            )
            for job, position in self._reported.items():
                if before.get(job) != position:
                    self._notify(str(job))
            await self._clock.sleep(MIN_INTERVAL)


def _sort_key(job: Job) -> SortKey:
    return -job.priority.whole, job.job_id


def _rounded(jobs_ahead: int) -> int:
    """The same number for all positions that have the same text."""
    return jobs_ahead if jobs_ahead < EXACT_POSITIONS else EXACT_POSITIONS + len(str(jobs_ahead))


def _queue_entry(record: JobRecord | None) -> tuple[object, ...] | None:
    """What decides the position of a job; None for a job that is not pending."""
    if record is None or not record.state.pending or record.detail is None:
        return None
    return record.detail.partition, record.detail.priority.whole
