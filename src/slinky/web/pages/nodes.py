# SPDX-License-Identifier: Apache-2.0
"""The map and the table of the nodes, and the page of one node. Pure."""

from slinky.web.markup import Child, Html, join, tag
from slinky.web.pages.charts import legend, stacked_bar
from slinky.web.pages.frame import definitions, options, pager, row, table
from slinky.web.pages.job import explained
from slinky.web.pages.queue import job_table
from slinky.web.views.nodes import GROUPINGS, GroupSummary, HostCondition, HostGroup, HostRow, NodesView, NodeView
from slinky.web.views.paging import address, job_address, node_address

#: The letter of each condition on the map: colour alone says nothing to many people.
LETTERS = {
    HostCondition.IDLE: "·",
    HostCondition.MIXED: "m",
    HostCondition.ALLOCATED: "a",
    HostCondition.DRAINING: "d",
    HostCondition.DRAINED: "D",
    HostCondition.DOWN: "X",
    HostCondition.OTHER: "?",
}
_COLUMNS = ("Node", "State", "Jobs", "Pods of the jobs", "CPUs in use", "Memory in use", "Devices in use", "Partitions",
            "Reason", "Set by", "Since")  # fmt: skip


def nodes_form(view: NodesView) -> Html:
    """The filters; a form whose values are in the address."""
    states = [kind.value for kind in HostCondition]
    selects = (("group", "Group by", GROUPINGS, view.grouping), ("state", "State", states, view.state),
               ("partition", "Partition", view.partitions, view.partition))  # fmt: skip
    fields = [
        tag("p", tag("label", label, for_=name), tag("select", options(values, chosen, "any"), id=name, name=name))
        for name, label, values, chosen in selects
    ]
    button = tag("p", tag("button", "Show", type="submit"), tag("a", "Reset", href="/nodes"), class_="buttons")
    return tag("form", *fields, button, method="get", action="/nodes", class_="filters", aria_label="Filter the nodes")


def nodes_page(view: NodesView) -> Html:
    """Summary, map and table of the nodes."""
    page = view.page
    link = {"group": view.grouping, "partition": view.partition, "state": view.state}
    neighbours = (address("/nodes", **link, page=page.number - 1), address("/nodes", **link, page=page.number + 1))
    return join(
        stacked_bar(view.counts, "Nodes"),
        legend(view.counts),
        tag("p", tag("a", "Skip the map", href="#node-table")),
        tag("section", tag("h2", "Map"), map(_group, view.groups), class_="map"),
        tag("h2", "Table", id="node-table", tabindex="-1"),
        table("Nodes", _COLUMNS, (_row(host) for group in view.groups for host in group.hosts), empty="No such node."),
        pager(page.number, page.pages, page.total, "nodes", neighbours),
        _summaries(view) if len(view.summaries) > 1 else None,
    )


def node_page(view: NodeView) -> Html:
    """The page of one node."""
    own = view.row
    row_facts = (
        ("CPUs in use", own.cpus),
        ("Memory in use", own.memory),
        ("Devices in use", own.devices),
        ("Partitions", own.partitions),
        ("Pods of the jobs", _pods(own)),
        ("Reason", own.reason),
        ("Set by", own.owner),
    )
    facts = [(name, text) for name, text in (*row_facts, *view.facts) if text]
    return join(
        tag("section", tag("p", view.summary, class_="lead"), explained(view.findings, view.notes)),
        tag("section", tag("h2", "Facts"), definitions(facts)),
        tag("section", tag("h2", "Jobs"), job_table("Jobs on the node", view.jobs, empty="No job that you may see.")),
    )


def _group(group: HostGroup) -> Html:
    cells = (
        tag(
            "li",
            tag(
                "a",
                tag("span", LETTERS[host.condition], aria_hidden="true"),
                tag("span", f"{host.name}, {host.condition.value}", class_="hidden-text"),
                href=node_address(host.name),
                class_=f"cell {host.condition.value}",
                title=_tooltip(host),
            ),
        )
        for host in group.hosts
    )
    return join(tag("h3", group.name), tag("ul", cells, class_="cells"))


def _tooltip(host: HostRow) -> str:
    lines = [f"{host.name}: {host.state}", f"CPUs {host.cpus}", host.devices]
    lines += [f"jobs {', '.join(host.jobs)}{' and more' if host.more_jobs else ''}"] if host.jobs else []
    lines += [f"pods {_pods(host)}"] if host.pods else []
    lines += [f"{host.reason} [{host.owner}]"] if host.reason else []
    return "; ".join(filter(None, lines))


def _pods(host: HostRow) -> str:
    return ", ".join(host.pods) + (f" and {host.more_pods} more" if host.more_pods else "")


def _row(host: HostRow) -> Html:
    jobs: list[Child] = []
    for number in host.jobs:
        jobs += [tag("a", number, href=job_address(number)), " "]
    jobs += [f"and {host.more_jobs} more"] if host.more_jobs else []
    state = tag("span", tag("span", class_=f"key {host.condition.value}"), host.state)
    return row(
        tag("a", host.name, href=node_address(host.name)), state, jobs, _pods(host), host.cpus, host.memory,
        host.devices, host.partitions, host.reason, host.owner, host.since,
    )  # fmt: skip


def _summaries(view: NodesView) -> Html:
    rows = (_summary(entry) for entry in view.summaries)
    return tag("section", tag("h2", "Groups"), table("Nodes by group", ("Group", "Nodes", "Conditions"), rows))


def _summary(entry: GroupSummary) -> Html:
    text = ", ".join(f"{count} {kind.value}" for kind, count in entry.counts.items())
    return row(entry.name, entry.total, join(stacked_bar(entry.counts, entry.name), " ", text))
