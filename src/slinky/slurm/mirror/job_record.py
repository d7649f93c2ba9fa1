# SPDX-License-Identifier: Apache-2.0
"""The mirror's record of a job, and which facts about a job must be read next. Pure.

A job id identifies a job only until slurmctld crashes: afterwards slurmctld gives lost ids to new jobs. The record of
a tracked job therefore has its SLUID, and `required_reads` says which facts (identity, resources, end) must be read
before the record is reliable.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from enum import Flag, auto

from msgspec import structs

from slinky.slurm.hostlist import expand
from slinky.slurm.mirror.observed_table import ACCEPTED_COUNT, ACCEPTED_SHARE
from slinky.slurm.model.accounting_jobs import AccountingJob
from slinky.slurm.model.states import JobState
from slinky.slurm.model.values import Value
from slinky.slurm.model.views import Job, JobStatus, NodeResources

#: slurmctld saves its state every few seconds: a job that is older than this survives a crash.
UNSAVED_SECONDS = 60.0


class JobRecord(Value, frozen=True, gc=False):
    """A job as the mirror knows it."""

    job_id: str
    state: JobState
    sluid: str = ""
    #: The full job, for tracked jobs: read when first seen, when ended, and from time to time while pending.
    detail: Job | None = None
    #: The allocated resources, for tracked jobs that run (v0.0.44).
    resources: tuple[NodeResources, ...] | None = None
    #: The accounting record, if slurmctld had already purged the job when the mirror read it.
    outcome: AccountingJob | None = None
    #: The running tasks of an array, when `detail` was read: each has an id of its own, which does not name the array.
    running_tasks: int = 0
    #: slurmctld does not know the job and its end was not observed: lost in a crash, or purged while disconnected.
    lost: bool = False

    @property
    def over(self) -> bool:
        """Whether the job has ended or is lost."""
        return self.lost or self.state.ended

    @property
    def has_reason(self) -> bool:
        """Whether Slurm has given a reason for the job's state."""
        return self.detail is not None and self.detail.state_reason not in {"", "None"}


class JobRead(Flag):
    """What must be read about one job."""

    NOTHING = 0
    DETAIL = auto()
    RESOURCES = auto()


def required_reads(record: JobRecord | None, state: JobState, *, verify: bool) -> JobRead:
    """What must be read about a tracked job that is now in this state."""
    reads = JobRead.NOTHING
    if record is not None and record.state is state and state.pending and record.detail is not None and not verify:
        return reads  # by far the most frequent case
    if verify or record is None or record.detail is None or _needs_detail(record, state):
        reads |= JobRead.DETAIL
    if state.running and (verify or record is None or record.resources is None or not record.state.running):
        reads |= JobRead.RESOURCES
    return reads


def _needs_detail(record: JobRecord, state: JobState) -> bool:
    """Whether the state alone does not explain what happened: the job ended, or it went back to an earlier state."""
    return (state.ended and not has_final_detail(record)) or _went_back(record.state, state)


def has_final_detail(record: JobRecord) -> bool:
    """Whether the full job was read after its end."""
    return record.detail is not None and record.detail.state.ended


def _went_back(before: JobState, after: JobState) -> bool:
    """Whether a job is in an earlier state than before: it was requeued, or another job has its id."""
    return (before.ended and after.live) or (before.holds_nodes and after.pending)


def is_same_job(record: JobRecord, job: Job) -> bool:
    """Whether a job that was just read is the recorded one; without a SLUID, the submit time decides."""
    if record.sluid and job.sluid:
        return record.sluid == job.sluid
    if record.detail is not None:
        return record.detail.submit_time == job.submit_time
    return True


def is_same_accounting_job(record: JobRecord, job: AccountingJob) -> bool:
    """Whether an accounting record belongs to the recorded job."""
    if record.sluid and job.sluid:
        return record.sluid == job.sluid
    return record.detail is not None and record.detail.submit_time.whole == job.time.submission


def with_detail(record: JobRecord, job: Job, running_tasks: int) -> JobRecord:
    """The record, updated from a job that was just read."""
    sluid = job.sluid or record.sluid
    return structs.replace(record, state=job.state, sluid=sluid, detail=job, running_tasks=running_tasks)


def count_running_tasks(jobs: Iterable[Job]) -> Counter[int]:
    """How many tasks of each array run among these jobs, by the id of the array."""
    return Counter(job.array_job_id.whole for job in jobs if job.array_task_id.set and job.state.running)


def resources_by_node_name(record: JobRecord) -> tuple[NodeResources, ...] | None:
    """The nodes that the job itself names, without cores and devices; None if it names none."""
    nodes = expand(record.detail.nodes) if record.detail else []
    return tuple(NodeResources(node) for node in nodes) or None


def with_departure(record: JobRecord, job: AccountingJob | None) -> JobRecord:
    """The record of a job that slurmctld does not know, completed from accounting if accounting has its end."""
    if job is not None and job.state.ended:
        return structs.replace(record, state=job.state, sluid=job.sluid or record.sluid, outcome=job)
    # A state without detail was listed for the id, and may be that of another job that has the id now.
    state = record.state if record.detail is not None else JobState.of(())
    return structs.replace(record, state=state, outcome=job, lost=not state.ended)


def states_by_key(statuses: Iterable[JobStatus], tracked: Collection[str]) -> dict[str, JobState]:
    """States by key. Slurm writes `id+offset` for a component of a heterogeneous job, `id_task` for an array task.

    A component has an id of its own, which is its key. Pending tasks of an array share one id, so their key is the full
    name. An array that is tracked by its plain id also has that key, with the state of a live task if there is one.
    """
    states: dict[str, JobState] = {}
    words: tuple[str, ...] = ()
    state = JobState.of(words)
    for status in statuses:
        if status.words != words:  # most jobs of a long queue have the state of their neighbour
            words, state = status.words, status.state
        if status.job_id.isdecimal():
            states[status.job_id] = state
            continue
        job_id, _, task = status.job_id.partition("_")
        states[status.job_id if task else job_id.partition("+")[0]] = state
        if task and job_id in tracked and (job_id not in states or states[job_id].ended):
            states[job_id] = state
    return states


def is_suspect_loss(missing: int, live: int) -> bool:
    """Whether so many live jobs are missing at once that the list may be wrong."""
    return missing > max(ACCEPTED_COUNT, live * ACCEPTED_SHARE)
