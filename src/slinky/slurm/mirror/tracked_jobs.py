# SPDX-License-Identifier: Apache-2.0
"""What the tracker remembers of each tracked job besides its record, and which tracked jobs are pending or finished.

A pass over the job states runs about once a second while jobs change, and a cluster may have ten thousand pending jobs.
The sets of pending jobs are therefore kept up to date with each record, so that no pass has to search all records.
"""

from collections.abc import Iterator, KeysView

from msgspec import Struct

from slinky.slurm.mirror import job_record
from slinky.slurm.mirror.job_record import JobRecord
from slinky.slurm.model.states import JobState


class TrackedJob(Struct, gc=False):
    """What the tracker remembers of one tracked job, besides its record in the table."""

    sluid: str = ""
    #: When the job first appeared in the table.
    first_seen: float | None = None
    #: When its state last changed.
    changed_at: float | None = None
    #: When the full job was last read.
    read_at: float | None = None
    #: The job's identity must be read again: its id may belong to another job.
    verify: bool = False
    #: `JobTracker.read_job` is reading the job, so a pass leaves it alone.
    reading: bool = False
    #: The state in which nothing about the job is left to read; None if something may be left.
    settled: JobState | None = None
    #: The job has ended and slurmctld has purged it: nothing more can be read.
    purged: bool = False
    #: Nothing more can change for the job: its end was read, or slurmctld does not know it any more.
    finished: bool = False
    #: The last record of a job that slurmctld does not know any more.
    departed: JobRecord | None = None


class TrackedJobs:
    """The tracked jobs by key."""

    def __init__(self) -> None:
        self._jobs: dict[str, TrackedJob] = {}
        #: The jobs that are pending, and those of them for which Slurm has given no reason yet.
        self.pending: set[str] = set()
        self.without_reason: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._jobs

    def __iter__(self) -> Iterator[TrackedJob]:
        return iter(self._jobs.values())

    def __getitem__(self, key: str) -> TrackedJob:
        return self._jobs[key]

    def keys(self) -> KeysView[str]:
        """The keys of all tracked jobs."""
        return self._jobs.keys()

    def get(self, key: str) -> TrackedJob | None:
        """What is remembered of a job; None if it is not tracked."""
        return self._jobs.get(key)

    def add(self, key: str, record: JobRecord | None) -> TrackedJob:
        """Track a job, of which the table has this record; what is remembered of a job that is tracked already."""
        tracked = self._jobs.get(key)
        if tracked is None:
            tracked = self._jobs[key] = TrackedJob()
            self.update(key, record)
        return tracked

    def remove(self, key: str) -> None:
        """Stop tracking a job."""
        self._jobs.pop(key, None)
        self.update(key, None)

    def unfinished(self) -> list[str]:
        """The keys of the jobs for which something can change."""
        return [key for key, tracked in self._jobs.items() if not tracked.finished]

    def update(self, key: str, record: JobRecord | None) -> None:
        """The table has this record of a job now, or none."""
        tracked = self._jobs.get(key)
        pending = tracked is not None and record is not None and record.state.pending
        _set_member(self.pending, key, pending)
        _set_member(self.without_reason, key, pending and record is not None and not record.has_reason)
        if tracked is not None:
            known = record is not None and record.state.ended and job_record.has_final_detail(record)
            tracked.finished = known or tracked.purged or tracked.departed is not None


def _set_member(members: set[str], key: str, member: bool) -> None:
    (members.add if member else members.discard)(key)
