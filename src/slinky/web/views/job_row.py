# SPDX-License-Identifier: Apache-2.0
"""A job as a row of a table. Pure."""

from dataclasses import dataclass

from slinky.bounds import PAGE_NAME_MAX, PAGE_TEXT_MAX
from slinky.insight.job_requirements import pending_tasks, requirements
from slinky.insight.listed_jobs import job_label
from slinky.insight.pending_reasons import explain
from slinky.insight.plain_text import duration, plain
from slinky.slurm import Job
from slinky.web.page_data import PageData


@dataclass(frozen=True)
class JobRow:
    """One job. `label` is its id as squeue writes it, `tasks` how many tasks of an array wait in it."""

    label: str
    tasks: int
    name: str
    user: str
    account: str
    partition: str
    qos: str
    state: str
    nodes: int
    #: How long it has run, or how long it has waited.
    elapsed: str
    time_limit: str
    #: Slurm's reason and what it means, for a job that waits.
    reason: str
    meaning: str
    #: The nodes that a running job has.
    hosts: str
    expected: str


def job_row(job: Job, data: PageData) -> JobRow:
    """The row of a job."""
    pending = job.state.pending
    since = job.submit_time.whole if pending else job.start_time.whole
    until = job.end_time.whole if job.state.ended else data.now
    start = data.ranges.get(job.job_id) if pending else None
    return JobRow(
        label=job_label(job),
        tasks=pending_tasks(job) if pending else 1,
        name=shown_name(job.name),
        user=shown_name(job.user_name),
        account=shown_name(job.account),
        partition=shown_name(job.partition),
        qos=shown_name(job.qos),
        state=shown_name(str(job.state).lower()),
        nodes=requirements(job).nodes,
        elapsed=duration(until - since) if since else "",
        time_limit=limit_text(job),
        reason=shown_name(job.state_reason) if pending else "",
        meaning=reason_sentence(job.state_reason) if pending else "",
        hosts="" if pending else plain(job.nodes, PAGE_NAME_MAX),
        expected=start.text(data.now) if start is not None and not start.why else "",
    )


def shown_name(text: str) -> str:
    """A name that a user of Slurm has chosen."""
    return plain(text, PAGE_NAME_MAX)


def shown_text(text: str) -> str:
    """A longer text, such as a comment."""
    return plain(text, PAGE_TEXT_MAX)


def reason_sentence(reason: str) -> str:
    """What a pending reason means."""
    return plain(explain(reason[:PAGE_NAME_MAX]).sentence, PAGE_TEXT_MAX)


def limit_text(job: Job) -> str:
    """The time limit of a job."""
    minutes = job.time_limit.value
    return duration(minutes * 60) if minutes is not None and minutes < 10**7 else "none"
