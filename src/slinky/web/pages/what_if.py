# SPDX-License-Identifier: Apache-2.0
"""The page of a change that was not made: its form, and what would start earlier or later. Pure."""

from collections.abc import Iterable

from slinky.web.markup import Child, Html, join, tag
from slinky.web.pages.frame import options, row, table
from slinky.web.views.paging import job_address
from slinky.web.views.what_if import ShiftRow, WhatIfView

_COLUMNS = ("Job", "Name", "User", "Expected now", "Expected then", "Change")


def what_if_form(view: WhatIfView) -> Html:
    """The change, as a form whose values are in the address."""
    fields: list[Child] = [
        _select(view, "add", "Add nodes like those of", view.partitions, "none"),
        _input(view, "count", "How many", "number"),
        _input(view, "drain", "Drain nodes (hostlist)"),
        _input(view, "job", "Change job"),
        _input(view, "limit", "Its time limit in minutes", "number"),
        _select(view, "qos", "Its QOS", view.qos, "as it is"),
        _select(view, "partition", "Its partition", view.partitions, "as it is"),
    ]
    buttons = tag("p", tag("button", "Compare", type="submit"), tag("a", "Reset", href="/whatif"), class_="buttons")
    return tag(
        "form", *fields, buttons, method="get", action="/whatif", class_="filters", aria_label="Describe a change"
    )


def what_if_page(view: WhatIfView) -> Html:
    """What the change would do."""
    if not view.asked:
        return tag("p", "Describe a change; nothing is changed in the cluster. Two simulations are compared.")
    if view.problem:
        return tag("p", view.problem, class_="notice", role="alert")
    counts = f"{len(view.earlier)} jobs earlier, {len(view.later)} later, {view.unchanged} unchanged."
    return join(
        *(tag("p", note) for note in view.notes),
        tag("p", counts),
        _table("Jobs that would start earlier", view.earlier),
        _table("Jobs that would start later", view.later),
    )


def _table(caption: str, rows: Iterable[ShiftRow]) -> Html | None:
    lines = [
        row(
            tag("a", entry.label, href=job_address(entry.label)),
            entry.name, entry.user, entry.before, entry.after, entry.change,
        )
        for entry in rows
    ]  # fmt: skip
    return join(tag("h2", caption), table(caption, _COLUMNS, lines)) if lines else None


def _input(view: WhatIfView, name: str, label: str, kind: str = "text") -> Html:
    field = tag("input", id=name, name=name, value=view.chosen[name], maxlength=100, type=kind)
    return tag("p", tag("label", label, for_=name), field)


def _select(view: WhatIfView, name: str, label: str, choices: Iterable[str], anything: str) -> Html:
    field = tag("select", options(choices, view.chosen[name], anything), id=name, name=name)
    return tag("p", tag("label", label, for_=name), field)
