# SPDX-License-Identifier: Apache-2.0
"""One job: why it waits, when it is expected to start, its times, its nodes and pods. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from slinky.bounds import PAGE_NAME_MAX
from slinky.insight.explain import explain_job
from slinky.insight.explain.explanation import Finding
from slinky.insight.explain.priority import queue_rank
from slinky.insight.job_pods import pods_of_job
from slinky.insight.listed_jobs import job_label
from slinky.insight.plain_text import plain
from slinky.insight.queue_snapshot import host_names
from slinky.slurm import Job
from slinky.web.page_data import PageData
from slinky.web.views.job_row import JobRow, job_row, limit_text, shown_name, shown_text
from slinky.web.views.timeline import Timeline, job_timeline

#: Nodes, and pods, of a job that are named.
HOSTS_MAX = PODS_MAX = 500


@dataclass(frozen=True)
class JobHost:
    """A node of a job, and the devices that the job has there."""

    name: str
    state: str
    devices: str


@dataclass(frozen=True)
class JobView:
    """What the page of one job shows."""

    row: JobRow
    summary: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    unknown: tuple[str, ...]
    expected: str
    timeline: Timeline
    facts: tuple[tuple[str, str], ...]
    hosts: tuple[JobHost, ...]
    more_hosts: int
    #: The pods that a job of the bridge stands for.
    pods: tuple[str, ...]
    more_pods: int
    #: Components of the same heterogeneous job, or tasks of the same array.
    related: tuple[JobRow, ...]


def job_view(job: Job, data: PageData) -> JobView:
    """What the page of a job shows."""
    explanation = explain_job(job, data.snapshot)
    if explanation.rank is not None and data.whole is not data.snapshot:
        # The rank counts every job, also those that this viewer may not see.
        explanation = replace(explanation, rank=queue_rank(job, data.whole))
    start = data.ranges.get(job.job_id) if job.state.pending else None
    hosts = host_names(job.nodes) if job.nodes and not job.state.pending else ()
    pods = pods_of_job(job)
    return JobView(
        row=job_row(job, data),
        summary=f"{explanation.subject} is {explanation.state}.",
        findings=explanation.findings,
        notes=(*explanation.notes, *((explanation.rank.sentence(),) if explanation.rank else ())),
        unknown=explanation.unknown,
        expected=start.text(data.now) if start is not None else "",
        timeline=job_timeline(job, start, data.now),
        facts=tuple((name, text) for name, text in _facts(job) if text),
        hosts=tuple(_host(name, index, job, data) for index, name in enumerate(hosts[:HOSTS_MAX])),
        more_hosts=max(len(hosts) - HOSTS_MAX, 0),
        pods=tuple(map(shown_text, pods[:PODS_MAX])),
        more_pods=max(len(pods) - PODS_MAX, 0),
        related=tuple(job_row(other, data) for other in _related(job, data)),
    )


def _host(name: str, index: int, job: Job, data: PageData) -> JobHost:
    host = data.snapshot.hosts_by_name.get(name)
    devices = job.gres_detail[index] if index < len(job.gres_detail) else ""
    return JobHost(shown_name(name), str(host.state).lower() if host else "not shown", shown_name(devices))


def _facts(job: Job) -> Iterator[tuple[str, str]]:
    yield "Owner", shown_name(job.user_name)
    yield "Account", shown_name(job.account)
    yield "QOS", shown_name(job.qos)
    yield "Partition", shown_name(job.partition)
    yield "Priority", str(job.priority.whole) if job.priority.set else ""
    yield "Requested", shown_text(job.tres_req_str)
    yield "Allocated", shown_text(job.tres_alloc_str)
    yield "Time limit", limit_text(job)
    yield "Features", shown_name(job.features)
    yield "Licences", shown_name(job.licenses)
    yield "Reservation", shown_name(job.resv_name)
    yield "Dependency", shown_text(job.dependency)
    yield "Planned nodes", plain(job.scheduled_nodes, PAGE_NAME_MAX)
    yield "Restarts", str(job.restart_cnt) if job.restart_cnt else ""
    yield "Exit code", str(job.exit_code.code) if job.state.ended else ""
    yield "Slurm reports", shown_text(job.state_description)
    yield "Comment", shown_text(job.comment)
    # The bridge keeps the pods of its jobs in this field; they have a section of their own.
    yield "Administrator's comment", "" if pods_of_job(job) else shown_text(job.admin_comment)
    yield "Extra", shown_text(job.extra)
    yield "Working directory", shown_text(job.current_working_directory)
    yield "Output", shown_text(job.standard_output)


def _related(job: Job, data: PageData) -> list[Job]:
    """Components of the same gang, or other tasks of the same array; at most fifty."""
    leader, array = job.het_job_id.whole, job.array_job_id.whole
    if not leader and not array:
        return []
    own = job_label(job)
    return [
        other
        for other in data.snapshot.jobs
        if job_label(other) != own
        and ((leader and other.het_job_id.whole == leader) or (array and other.array_job_id.whole == array))
    ][:50]
