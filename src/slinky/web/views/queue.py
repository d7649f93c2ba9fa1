# SPDX-License-Identifier: Apache-2.0
"""The queue: jobs in the order in which Slurm looks at them, filtered by the address. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from slinky.insight.queue_snapshot import names
from slinky.slurm import Job
from slinky.web.page_data import PageData
from slinky.web.views.job_row import JobRow, job_row, shown_name
from slinky.web.views.paging import ListPage, address, cut_page, page_number, query_text

#: Jobs on one page.
PAGE_SIZE = 100
#: States that the form offers; `live` is every job that has not ended.
STATES = ("live", "pending", "running", "ended")
#: Values that the form offers for one filter at most.
CHOICES_MAX = 200


@dataclass(frozen=True)
class QueueFilter:
    """Which jobs an address asks for; an empty value asks for every job."""

    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    state: str = ""
    reason: str = ""
    name: str = ""

    def matches(self, job: Job) -> bool:
        """Whether the address asks for this job."""
        return (
            (not self.user or job.user_name == self.user)
            and (not self.account or job.account == self.account)
            and (not self.partition or self.partition in names(job.partition))
            and (not self.qos or job.qos == self.qos)
            and _has_state(job, self.state)
            and (not self.reason or (job.state.pending and (job.state_reason or "None") == self.reason))
            and (not self.name or self.name.lower() in job.name.lower())
        )

    def address(self, page: int = 1) -> str:
        """The address of these jobs."""
        return address("/queue", **asdict(self), page=page if page > 1 else "")


@dataclass(frozen=True)
class QueueView:
    """One page of the queue, the filter, and the values that the form offers for it."""

    chosen: QueueFilter
    jobs: ListPage[JobRow]
    pending: int
    running: int
    choices: Mapping[str, tuple[str, ...]]


def parse_filter(query: Mapping[str, str]) -> QueueFilter:
    """The filter of an address."""
    fields = {name: query_text(query, name) for name in QueueFilter.__dataclass_fields__}
    fields["state"] = fields["state"].lower()
    return QueueFilter(**fields)


def queue_view(data: PageData, query: Mapping[str, str]) -> QueueView:
    """What the page of the queue shows."""
    chosen = parse_filter(query)
    jobs = [job for job in data.jobs_in_order if chosen.matches(job)]
    page = cut_page(jobs, page_number(query), PAGE_SIZE)
    return QueueView(
        chosen=chosen,
        jobs=ListPage(tuple(job_row(job, data) for job in page.items), page.number, page.pages, page.total),
        pending=sum(1 for job in jobs if job.state.pending),
        running=sum(1 for job in jobs if job.state.holds_nodes),
        choices=_choices(data),
    )


def _has_state(job: Job, wanted: str) -> bool:
    state = job.state
    match wanted:
        case "" | "live":
            return state.live
        case "all":
            return True
        case "pending":
            return state.pending
        case "running":
            return state.holds_nodes
        case "ended":
            return state.ended
    return wanted.upper() in state


def _choices(data: PageData) -> Mapping[str, tuple[str, ...]]:
    jobs = data.snapshot.jobs
    values = {
        "user": {job.user_name for job in jobs},
        "account": {job.account for job in jobs},
        "partition": set(data.snapshot.partitions_by_name) or {name for job in jobs for name in names(job.partition)},
        "qos": {job.qos for job in jobs},
        "reason": {job.state_reason or "None" for job in jobs if job.state.pending},
    }
    return {
        name: tuple(shown_name(text) for text in sorted(found) if text)[:CHOICES_MAX] for name, found in values.items()
    }
