# SPDX-License-Identifier: Apache-2.0
"""What the mirror remembers of a job, and what it must find out next. All of it is pure.

A job is known by its id only as long as slurmctld lives: after a crash ids are used again. So a record that
somebody tracks carries the SLUID, and `questions` says when a fact (identity, placement, outcome) has to be
read before the record may be believed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Flag, auto

from msgspec import structs

from slinky.slurm.accounting.accounting_jobs import PastJob
from slinky.slurm.hostlist import expand
from slinky.slurm.mirror.observed_table import FEW, SHARE
from slinky.slurm.model.states import JobState
from slinky.slurm.model.values import Value
from slinky.slurm.model.views import Job, JobStatus, NodeResources

#: slurmctld saves its state every few seconds: what was older than this at a crash is not lost.
YOUNG = 60.0


class JobRecord(Value, frozen=True, gc=False):
    """A job as the mirror knows it."""

    job_id: str
    state: JobState
    sluid: str = ""
    #: The whole job, for tracked ones: read when first seen, when it ended, and now and then while it waits.
    detail: Job | None = None
    #: What it was granted, for tracked ones that run (v0.0.44).
    resources: tuple[NodeResources, ...] | None = None
    #: The accounting record, if slurmctld had already forgotten the job when we looked.
    outcome: PastJob | None = None
    #: slurmctld denies the job although we never saw it end: lost in a crash, or purged while we were blind.
    lost: bool = False

    @property
    def over(self) -> bool:
        """Ended, or positively gone."""
        return self.lost or self.state.ended

    @property
    def explained(self) -> bool:
        """Slurm has given a reason for what it does."""
        return self.detail is not None and self.detail.state_reason not in {"", "None"}


class Question(Flag):
    """What has to be read about one job."""

    NOTHING = 0
    DETAIL = auto()
    RESOURCES = auto()


def questions(record: JobRecord | None, state: JobState, *, verify: bool) -> Question:
    """What to read about a tracked job that is now seen in this state."""
    asked = Question.NOTHING
    if verify or record is None or record.detail is None or _turned(record, state):
        asked |= Question.DETAIL
    if state.running and (record is None or record.resources is None or not record.state.running):
        asked |= Question.RESOURCES
    return asked


def _turned(record: JobRecord, now: JobState) -> bool:
    """Whether a state alone does not tell what happened: an end, or a job that seems younger than it was."""
    return (now.ended and not knows_end(record)) or _went_back(record.state, now)


def knows_end(record: JobRecord) -> bool:
    """Whether the job was read after its end."""
    return record.detail is not None and record.detail.state.ended


def _went_back(before: JobState, now: JobState) -> bool:
    """Whether a job seems younger than it was: requeued, or another one under its id."""
    return (before.ended and now.live) or (before.holds_nodes and now.pending)


def same_job(record: JobRecord, job: Job) -> bool:
    """Whether a job that was just read is the one we knew; without a SLUID the submit time must do."""
    if record.sluid and job.sluid:
        return record.sluid == job.sluid
    if record.detail is not None:
        return record.detail.submit_time == job.submit_time
    return True


def same_past(record: JobRecord, past: PastJob) -> bool:
    """Whether an accounting record is of the job we knew."""
    if record.sluid and past.sluid:
        return record.sluid == past.sluid
    return record.detail is not None and record.detail.submit_time.whole == past.time.submission


def with_detail(record: JobRecord, job: Job) -> JobRecord:
    """The record with a freshly read job in it."""
    return structs.replace(record, state=job.state, sluid=job.sluid or record.sluid, detail=job)


def where(record: JobRecord) -> tuple[NodeResources, ...] | None:
    """The nodes of a job by its own word, without their cores and devices; None if it names none."""
    hosts = expand(record.detail.nodes) if record.detail else []
    return tuple(NodeResources(host) for host in hosts) or None


def departed(record: JobRecord, past: PastJob | None) -> JobRecord:
    """The record of a job that slurmctld denies, completed from accounting if that has its end."""
    if past is not None and past.state.ended:
        return structs.replace(record, state=past.state, sluid=past.sluid or record.sluid, outcome=past)
    return structs.replace(record, outcome=past, lost=not record.state.ended)


def sort_states(statuses: Iterable[JobStatus], tracked: Collection[str]) -> dict[str, JobState]:
    """States by key. Slurm writes `id+offset` for a heterogeneous job's component, `id_task` for an array's.

    A component has an id of its own and is known by it. Tasks of an array that wait share one, so they keep
    their full name; an array that is tracked by its plain id is also seen under that, live tasks first.
    """
    seen: dict[str, JobState] = {}
    for status in statuses:
        own, _, task = status.job_id.partition("_")
        seen[status.job_id if task else own.partition("+")[0]] = status.state
        if task and own in tracked and (own not in seen or seen[own].ended):
            seen[own] = status.state
    return seen


def too_many(gone: int, live: int) -> bool:
    """Whether so many live jobs vanished at once that the list, not the jobs, is suspect."""
    return gone > max(FEW, live * SHARE)
