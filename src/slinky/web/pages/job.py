# SPDX-License-Identifier: Apache-2.0
"""The page of one job. Pure."""

from collections.abc import Iterable

from slinky.insight.explain.explanation import Finding
from slinky.web.markup import Html, join, tag
from slinky.web.pages.charts import timeline_chart
from slinky.web.pages.frame import definitions, moment, row, table
from slinky.web.pages.queue import job_table
from slinky.web.views.job import JobView
from slinky.web.views.paging import node_address


def job_page(view: JobView) -> Html:
    """The page of one job."""
    return join(
        tag("section", tag("p", view.summary, class_="lead"), explained(view.findings, view.notes), _expected(view)),
        _timeline(view),
        tag("section", tag("h2", "Facts"), definitions(view.facts)),
        _hosts(view),
        _pods(view),
        _related(view),
        tag("p", f"Not known: {'; '.join(view.unknown)}.", class_="age") if view.unknown else None,
    )


def explained(findings: Iterable[Finding], notes: Iterable[str]) -> Html:
    """What keeps a job or node from its work, each with what would help."""
    items = [
        tag(
            "li",
            finding.sentence,
            tag("p", finding.cure) if finding.cure else None,
            tag("p", tag("strong", "Next step: "), finding.step) if finding.step else None,
        )
        for finding in findings
    ]
    return join(tag("ol", items, class_="findings") if items else None, (tag("p", note) for note in notes))


def _expected(view: JobView) -> Html | None:
    if not view.expected:
        return None
    return tag("p", tag("strong", "Expected start: "), view.expected, ".", class_="lead")


def _timeline(view: JobView) -> Html:
    events = (tag("li", f"{event.name}: ", moment(event.at)) for event in view.timeline.events)
    return tag("section", tag("h2", "Timeline"), timeline_chart(view.timeline), tag("ol", events, class_="events"))


def _hosts(view: JobView) -> Html | None:
    if not view.hosts:
        return None
    rows = (row(tag("a", host.name, href=node_address(host.name)), host.state, host.devices) for host in view.hosts)
    more = tag("p", f"And {view.more_hosts} more nodes.") if view.more_hosts else None
    content = table("Nodes of the job", ("Node", "State", "Devices"), rows)
    return tag("section", tag("h2", "Nodes"), content, more)


def _pods(view: JobView) -> Html | None:
    if not view.pods:
        return None
    more = tag("p", f"And {view.more_pods} more pods.") if view.more_pods else None
    return tag("section", tag("h2", "Pods"), tag("ul", (tag("li", name) for name in view.pods), class_="pods"), more)


def _related(view: JobView) -> Html | None:
    if not view.related:
        return None
    title = "Tasks of the same array, or components of the same gang"
    return tag("section", tag("h2", "Related jobs"), job_table(title, view.related))
