# SPDX-License-Identifier: Apache-2.0
"""The page of the queue, and tables of jobs for other pages. Pure."""

from collections.abc import Iterable

from slinky.web.markup import Child, Html, join, tag
from slinky.web.pages.frame import options, pager, row, table
from slinky.web.views.job_row import JobRow
from slinky.web.views.paging import address, job_address
from slinky.web.views.queue import STATES, QueueView

_LABELS = {"user": "User", "account": "Account", "partition": "Partition", "qos": "QOS", "reason": "Reason"}
_COLUMNS = ("Job", "Name", "User", "Account", "Partition", "State", "Nodes", "Time", "Limit", "Nodes or reason",
            "Expected start")  # fmt: skip


def queue_form(view: QueueView) -> Html:
    """The filters; a form whose values are in the address."""
    fields: list[Child] = [_select("state", "State", STATES, view.chosen.state, "live")]
    for name, label in _LABELS.items():
        fields.append(_select(name, label, view.choices[name], getattr(view.chosen, name), "any"))
    name_field = tag("input", id="name", name="name", value=view.chosen.name, maxlength=100, type="search")
    fields.append(tag("p", tag("label", "Name contains", for_="name"), name_field))
    buttons = tag("p", tag("button", "Show", type="submit"), tag("a", "Reset", href="/queue"), class_="buttons")
    return tag("form", *fields, buttons, method="get", action="/queue", class_="filters", aria_label="Filter the jobs")


def queue_page(view: QueueView) -> Html:
    """One page of the queue."""
    jobs = view.jobs
    count = tag("p", f"{jobs.total} jobs: {view.pending} pending, {view.running} running.")
    neighbours = (view.chosen.address(jobs.number - 1), view.chosen.address(jobs.number + 1))
    caption = "Jobs in the order of the queue"
    content = job_table(caption, jobs.items, empty="There is no such job.")
    return join(count, content, pager(jobs.number, jobs.pages, jobs.total, "jobs", neighbours))


def job_table(caption: str, jobs: Iterable[JobRow], *, empty: str = "") -> Html:
    """Jobs as a table."""
    return table(caption, _COLUMNS, map(_row, jobs), empty=empty)


def _row(job: JobRow) -> Html:
    tasks = f" ({job.tasks} tasks)" if job.tasks > 1 else None
    where: Child = job.hosts
    if job.reason:
        where = join(tag("span", job.reason, class_="reason"), tag("span", f" {job.meaning}", class_="meaning"))
    return row(
        join(tag("a", job.label, href=job_address(job.label)), tasks),
        job.name,
        tag("a", job.user, href=address("/queue", user=job.user)) if job.user else "",
        job.account,
        job.partition,
        tag("span", job.state, class_=f"state {job.state.partition('+')[0]}"),
        job.nodes,
        job.elapsed,
        job.time_limit,
        where,
        job.expected,
    )


def _select(name: str, label: str, choices: Iterable[str], chosen: str, anything: str) -> Html:
    values = [choice for choice in choices if choice != anything]
    return tag(
        "p", tag("label", label, for_=name), tag("select", options(values, chosen, anything), id=name, name=name)
    )
