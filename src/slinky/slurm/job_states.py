# SPDX-License-Identifier: Apache-2.0
"""The states of all jobs, from the cheaper of two requests.

`jobs/state/` has one entry for each task of an array, and slurmrestd needs 0.9 s for 25,000 tasks, 10 s for 45,000 and
more than its deadline for 100,000. `jobs/` has one record for all pending tasks of an array, but a large record for
every other job: 100 MB for 10,000 running ones. So while a queue consists of large arrays, the states are taken from
the records.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator

from slinky.slurm.errors import TransportError
from slinky.slurm.model.array_tasks import SHORTENED, count_tasks, task_ranges
from slinky.slurm.model.statistics import Diag
from slinky.slurm.model.views import Job, JobStatus

#: Tasks of arrays from which records may be cheaper, and how many times fewer there must be of them.
MANY_TASKS = 10_000
FEWER_RECORDS = 10
#: Running jobs up to which the records of a queue of arrays are cheap.
FEW_RUNNING = 1_000
#: Entries up to which records are expanded, whatever they say.
MAX_ENTRIES = 1_000_000


class JobStateReader:
    """Reads the states of all jobs of one cluster."""

    def __init__(
        self,
        read_states: Callable[[], Awaitable[tuple[JobStatus, ...]]],
        read_records: Callable[[], Awaitable[tuple[Job, ...]]],
        read_statistics: Callable[[], Awaitable[Diag]],
    ) -> None:
        self._read_states, self._read_records, self._read_statistics = read_states, read_records, read_statistics
        self._prefers_records = False

    async def read(self) -> tuple[JobStatus, ...]:
        """Id and state of every job, with one entry for each task of an array."""
        failure: TransportError | None = None
        if not self._prefers_records:
            try:
                statuses = await self._read_states()
            except TransportError as error:
                if not has_large_arrays(await self._read_statistics()):
                    raise
                failure = error
            else:
                self._prefers_records = len(statuses) >= MANY_TASKS and is_condensed(
                    len(statuses), records=count_records(statuses)
                )
                return statuses
        jobs = await self._read_records()
        entries = sum(max(count_tasks(job.array_task_string), 1) for job in jobs)
        # An incomplete list would say that the jobs which it lacks are gone.
        is_complete = entries <= MAX_ENTRIES and not any(SHORTENED in job.array_task_string for job in jobs)
        self._prefers_records = is_complete and is_condensed(entries, records=len(jobs))
        if is_complete:
            return tuple(expand_records(jobs))
        if failure is not None:
            raise failure
        return await self._read_states()


def has_large_arrays(statistics: Diag) -> bool:
    """Whether records are probably cheap: many tasks are pending (slurmctld counts each), and few jobs run."""
    return statistics.jobs_pending >= MANY_TASKS and statistics.jobs_running <= FEW_RUNNING


def is_condensed(entries: int, *, records: int) -> bool:
    """Whether the records are so much fewer than the entries of `jobs/state/` that they are cheaper."""
    return entries >= MANY_TASKS and records * FEWER_RECORDS <= entries


def count_records(statuses: Collection[JobStatus]) -> int:
    """The records behind these entries: one for all pending tasks of an array, one for every other entry."""
    pending_arrays: set[str] = set()
    others = 0
    for status in statuses:
        array, _, task = status.job_id.partition("_")
        if task and status.state.pending:
            pending_arrays.add(array)
        else:
            others += 1
    return len(pending_arrays) + others


def expand_records(jobs: Iterable[Job]) -> Iterator[JobStatus]:
    """The entries that `jobs/state/` has for these records: a task that has started has an id of its own."""
    for job in jobs:
        if job.array_task_id.set:
            yield JobStatus(f"{job.job_id}_{job.array_task_id.whole}", job.job_state)
        elif job.array_task_string:
            for numbers in task_ranges(job.array_task_string):
                for number in numbers:
                    yield JobStatus(f"{job.job_id}_{number}", job.job_state)
        elif job.het_job_id.whole:
            yield JobStatus(f"{job.job_id}+{job.het_job_offset.whole}", job.job_state)
        else:
            yield JobStatus(str(job.job_id), job.job_state)
