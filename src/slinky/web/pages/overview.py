# SPDX-License-Identifier: Apache-2.0
"""The first page. Pure."""

from slinky.web.markup import Html, join, tag
from slinky.web.pages.charts import legend, stacked_bar, use_bar
from slinky.web.pages.frame import definitions, row, table
from slinky.web.views.overview import OverviewView, PartitionRow
from slinky.web.views.paging import address


def overview_page(view: OverviewView) -> Html:
    """The first page."""
    return join(
        tag("section", _jobs(view), _nodes(view), class_="columns"),
        _reasons(view),
        _partitions(view),
        tag("section", _drains(view), _reservations(view), class_="columns"),
        definitions(_facts(view)),
    )


def _jobs(view: OverviewView) -> Html:
    numbers = (
        tag("li", tag("a", tag("strong", count), f" {state}", href=address("/queue", state=state)))
        for state, count in view.jobs.items()
    )
    return tag("div", tag("h2", "Jobs"), tag("ul", numbers, class_="numbers") if view.jobs else tag("p", "No jobs."))


def _nodes(view: OverviewView) -> Html:
    devices = (
        tag("li", f"{used} of {total} {kind} in use ", use_bar(used, total, kind)) for kind, used, total in view.devices
    )
    return tag(
        "div",
        tag("h2", "Nodes"),
        stacked_bar(view.conditions, "Nodes"),
        legend(view.conditions),
        tag("ul", devices, class_="devices") if view.devices else None,
    )


def _reasons(view: OverviewView) -> Html:
    rows = (
        row(
            tag("a", entry.reason, href=address("/queue", state="pending", reason=entry.reason)),
            entry.jobs,
            entry.meaning,
        )
        for entry in view.reasons
    )
    title = tag("h2", "Why jobs wait")
    return join(title, table("Reasons of pending jobs", ("Reason", "Jobs", "Meaning"), rows, empty="No job waits."))


def _partitions(view: OverviewView) -> Html:
    columns = ("Partition", "Nodes", "CPUs in use", "GPUs in use", "Running", "Pending")
    rows = map(_partition, view.partitions)
    return join(tag("h2", "Partitions"), table("Partitions", columns, rows, empty="There are no partitions."))


def _partition(entry: PartitionRow) -> Html:
    name = tag("a", entry.name, href=address("/nodes", partition=entry.name))
    return row(
        join(name, None if entry.up else tag("span", " not up", class_="badge")),
        join(f"{sum(entry.conditions.values())} ", stacked_bar(entry.conditions, f"Nodes of {entry.name}")),
        _use(entry.cpus_used, entry.cpus, f"CPUs of {entry.name}"),
        _use(entry.gpus_used, entry.gpus, f"GPUs of {entry.name}") if entry.gpus else "none",
        tag("a", entry.running, href=address("/queue", partition=entry.name, state="running")),
        tag("a", entry.pending, href=address("/queue", partition=entry.name, state="pending")),
    )


def _use(used: int, total: int, label: str) -> Html:
    return join(f"{used}/{total} ", use_bar(used, total, label))


def _drains(view: OverviewView) -> Html:
    rows = (row(owner, count) for owner, count in view.drains.items())
    content = table("Drained nodes by owner", ("Drained by", "Nodes"), rows, empty="No node is drained.")
    more = tag("p", tag("a", "Drained nodes with their reasons", href="/nodes?state=drain"))
    return tag("div", tag("h2", "Drained"), content, more if view.drains else None)


def _reservations(view: OverviewView) -> Html:
    rows = (row(entry.name, entry.when, entry.nodes, entry.owners) for entry in view.reservations)
    columns = ("Reservation", "When", "Nodes", "For")
    content = table("Reservations", columns, rows, empty="There are no reservations.")
    return tag("div", tag("h2", "Reservations"), content)


def _facts(view: OverviewView) -> list[tuple[str, str]]:
    facts = [("Last backfill cycle", view.backfill)]
    return [*facts, ("Not known", "; ".join(view.unknown))] if view.unknown else facts
