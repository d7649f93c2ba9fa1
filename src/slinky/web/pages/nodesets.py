# SPDX-License-Identifier: Apache-2.0
"""The page of the NodeSets. Pure."""

from urllib.parse import quote

from slinky.insight.plain_text import counted
from slinky.web.markup import Child, Html, join, tag
from slinky.web.pages.frame import definitions, moment, pager, row, table
from slinky.web.views.nodesets import ConditionRow, DecisionRow, ImpossibleJob, NodeSetRow, NodeSetsView, ScalingView
from slinky.web.views.paging import address, job_address

_COLUMNS = ("NodeSet", "Desired", "Ready", "Updated", "Health", "Rollout", "Autoscaling", "In Slurm")


def nodesets_page(view: NodeSetsView) -> Html:
    """A table of the NodeSets, and a section for each."""
    page = view.page
    fault = tag("p", view.fault, class_="notice bad", role="alert") if view.fault else None
    if not view.read:
        return fault or tag("p", "The NodeSets have not been read yet.", class_="empty")
    neighbours = (address("/nodesets", page=page.number - 1), address("/nodesets", page=page.number + 1))
    return join(
        fault,
        _unreadable(view),
        table("NodeSets", _COLUMNS, map(_row, page.items), empty="No NodeSet belongs to this cluster."),
        pager(page.number, page.pages, page.total, "NodeSets", neighbours),
        map(_section, page.items),
    )


def _unreadable(view: NodeSetsView) -> Html | None:
    if not view.unreadable:
        return None
    text = (
        f"These NodeSets of the namespace cannot be read, or only in an earlier version: {', '.join(view.unreadable)}"
    )
    return tag("p", text, class_="notice")


def _row(entry: NodeSetRow) -> Html:
    health = tag("span", entry.health, class_="badge") if entry.degraded else entry.health
    return row(
        tag("a", entry.name, href=f"#{quote(_section_id(entry))}"), entry.desired, entry.ready, entry.updated, health,
        entry.rollout, _scaling_text(entry.scaling), entry.in_slurm,
    )  # fmt: skip


def _scaling_text(scaling: ScalingView | None) -> str:
    if scaling is None:
        return "off"
    reason = f": {scaling.reason}" if scaling.reason else ""
    return f"{scaling.current} now, {scaling.next} next{reason}"


def _section_id(entry: NodeSetRow) -> str:
    return f"nodeset-{entry.name}"


def _section(entry: NodeSetRow) -> Html:
    partition = tag("a", entry.partition, href=address("/nodes", partition=entry.partition)) if entry.partition else ""
    facts: tuple[tuple[str, Child], ...] = (
        ("Workers", f"{entry.desired} desired, {entry.ready} ready, {entry.updated} updated"),
        ("In Slurm", entry.in_slurm),
        ("Partition", partition),
        ("Mode", entry.mode),
        ("Rollout", entry.rollout),
        ("Update strategy", entry.strategy),
        ("Revision", entry.revision),
        ("Newest revision", entry.next_revision),
    )
    columns = ("Condition", "Value", "Reason", "Message", "For")
    conditions = table(
        f"Conditions of {entry.name}", columns, map(_condition, entry.conditions), empty="There are no conditions yet."
    )
    return tag(
        "section",
        tag("h2", entry.name, id=_section_id(entry), tabindex="-1"),
        definitions((name, value) for name, value in facts if value),
        conditions,
        _scaling(entry.name, entry.scaling) if entry.scaling else None,
    )


def _condition(entry: ConditionRow) -> Html:
    return row(entry.type, entry.value, entry.reason, entry.message, entry.age)


def _scaling(name: str, scaling: ScalingView) -> Html:
    facts: tuple[tuple[str, Child], ...] = (
        ("Mode", scaling.mode),
        ("Limits", f"{scaling.least} to {counted(scaling.most, 'worker')}"),
        ("Now", counted(scaling.current, "worker")),
        ("Next", counted(scaling.next, "worker")),
        ("Reason", scaling.reason),
        ("Message", scaling.message),
        ("Next attempt", moment(scaling.retry_at) if scaling.retry_at else ""),
    )
    columns = ("Time", "Before", "After", "Reason", "Message")
    return join(
        tag("h3", "Autoscaling"),
        definitions((name, value) for name, value in facts if value),
        table(f"Last decisions for {name}", columns, map(_decision, scaling.decisions), empty="No decision yet."),
        _impossible(scaling.impossible),
    )


def _decision(entry: DecisionRow) -> Html:
    at = moment(entry.at) if entry.at else "not known"
    return row(at, entry.before, entry.after, entry.reason, entry.message)


def _impossible(jobs: tuple[ImpossibleJob, ...]) -> Html | None:
    if not jobs:
        return None
    items = (
        tag("li", tag("a", f"Job {job.label}", href=job_address(job.label)), f": {job.text}")
        if job.label
        else tag("li", job.text)
        for job in jobs
    )
    return join(tag("h3", "Jobs that no worker can run"), tag("ul", items, class_="findings"))
