# SPDX-License-Identifier: Apache-2.0
"""The nodes: a map by topology or partition with their states, and one node. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from slinky.insight.explain import explain_host
from slinky.insight.explain.explanation import Finding
from slinky.insight.job_pods import pods_of_job
from slinky.insight.job_requirements import capacity, free
from slinky.insight.plain_text import duration, megabytes
from slinky.slurm import Host
from slinky.slurm.hostlist import natural_sort_key
from slinky.slurm.model.states import NodeState
from slinky.web.page_data import PageData
from slinky.web.views.job_row import JobRow, job_row, shown_name, shown_text
from slinky.web.views.paging import ListPage, cut_page, page_number, query_text

#: Nodes on one page.
PAGE_SIZE = 500
#: Jobs, and pods of these jobs, that the row of a node names.
JOBS_SHOWN = PODS_SHOWN = 3
GROUPINGS = ("topology", "partition")


class HostCondition(Enum):
    """The state of a node in one word, as the map shows it."""

    IDLE = "idle"
    MIXED = "mixed"
    ALLOCATED = "allocated"
    DRAINING = "draining"
    DRAINED = "drained"
    DOWN = "down"
    OTHER = "other"


@dataclass(frozen=True)
class HostRow:
    """One node of the map and of the table."""

    name: str
    condition: HostCondition
    state: str
    cpus: str
    memory: str
    devices: str
    partitions: str
    jobs: tuple[str, ...]
    more_jobs: int
    #: Pods of the jobs on the node; a job on several nodes may have some of them on another one.
    pods: tuple[str, ...]
    more_pods: int
    reason: str
    owner: str
    since: str


@dataclass(frozen=True)
class HostGroup:
    """Nodes of one switch, block or partition."""

    name: str
    hosts: tuple[HostRow, ...]


@dataclass(frozen=True)
class GroupSummary:
    """How many nodes of a group are in which condition."""

    name: str
    total: int
    counts: Mapping[HostCondition, int]


@dataclass(frozen=True)
class NodesView:
    """One page of nodes, in groups, and a summary of every group."""

    grouping: str
    partition: str
    state: str
    groups: tuple[HostGroup, ...]
    page: ListPage[str]
    summaries: tuple[GroupSummary, ...]
    counts: Mapping[HostCondition, int]
    partitions: tuple[str, ...]


@dataclass(frozen=True)
class NodeView:
    """What the page of one node shows."""

    row: HostRow
    summary: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    jobs: tuple[JobRow, ...]


def nodes_view(data: PageData, query: Mapping[str, str]) -> NodesView:
    """What the page of the nodes shows."""
    grouping = query_text(query, "group").lower()
    grouping = grouping if grouping in GROUPINGS else default_grouping(data.snapshot.hosts)
    partition, state = query_text(query, "partition"), query_text(query, "state").lower()
    hosts = [
        host
        for host in data.hosts_in_order
        if (not partition or partition in host.partitions) and (not state or _has_state(host, state))
    ]
    members: dict[str, list[Host]] = {}
    for host in hosts:
        members.setdefault(group_name(host, grouping), []).append(host)
    keyed = [(name, host) for name in sorted(members, key=natural_sort_key) for host in members[name]]
    page = cut_page(keyed, page_number(query), PAGE_SIZE)
    groups: dict[str, list[HostRow]] = {}
    for name, host in page.items:
        groups.setdefault(name, []).append(host_row(host, data))
    return NodesView(
        grouping=grouping,
        partition=partition,
        state=state,
        groups=tuple(HostGroup(name, tuple(rows)) for name, rows in groups.items()),
        page=ListPage((), page.number, page.pages, page.total),
        summaries=tuple(GroupSummary(name, len(group), condition_counts(group)) for name, group in members.items()),
        counts=condition_counts(hosts),
        partitions=tuple(map(shown_name, sorted(data.snapshot.partitions_by_name))),
    )


def node_view(host: Host, data: PageData) -> NodeView:
    """What the page of a node shows."""
    explanation = explain_host(host, data.snapshot)
    facts = (
        ("Features", shown_text(",".join(host.features))),
        ("Topology", shown_text(host.topology)),
        ("Reservation", shown_name(host.reservation)),
        ("Address", shown_name(host.address)),
        ("Slurm", shown_name(host.version)),
        ("Comment", shown_text(host.comment)),
        ("Extra", shown_text(host.extra)),
    )
    return NodeView(
        row=host_row(host, data),
        summary=f"{explanation.subject} is {explanation.state}.",
        findings=explanation.findings,
        notes=explanation.notes,
        facts=tuple((name, text) for name, text in facts if text),
        jobs=tuple(job_row(job, data) for job in data.jobs_by_host.get(host.name, ())),
    )


def host_row(host: Host, data: PageData) -> HostRow:
    """A node as a row of a table."""
    whole, rest = capacity(host), free(host)
    jobs = data.jobs_by_host.get(host.name, ())
    pods = [name for job in jobs for name in pods_of_job(job)]
    changed = host.reason_changed_at.whole
    return HostRow(
        name=shown_name(host.name),
        condition=condition(host),
        state=str(host.state).lower(),
        cpus=f"{whole.cpus - rest.cpus}/{whole.cpus}",
        memory=f"{megabytes(whole.memory - rest.memory)}/{megabytes(whole.memory)}",
        devices=", ".join(
            f"{shown_name(':'.join(filter(None, kind)))} {count - rest.gres.get(kind, 0)}/{count}"
            for kind, count in whole.gres.items()
        ),
        partitions=shown_name(", ".join(host.partitions)),
        jobs=tuple(str(job.job_id) for job in jobs[:JOBS_SHOWN]),
        more_jobs=max(len(jobs) - JOBS_SHOWN, 0),
        pods=tuple(map(shown_name, pods[:PODS_SHOWN])),
        more_pods=max(len(pods) - PODS_SHOWN, 0),
        reason=shown_text(host.reason),
        owner=shown_name(host.reason_set_by_user) if host.reason else "",
        since=duration(data.now - changed) if host.reason and changed else "",
    )


def condition(host: Host) -> HostCondition:
    """The state of a node in one word."""
    return _condition(host.words)


@lru_cache(maxsize=1024)
def _condition(words: tuple[str, ...]) -> HostCondition:
    state = NodeState.of(words)
    if state.draining:
        return HostCondition.DRAINING if state.busy else HostCondition.DRAINED
    if state.down or not state.responding:
        return HostCondition.DOWN
    if not state.schedulable:
        return HostCondition.OTHER
    bases = {"IDLE": HostCondition.IDLE, "MIXED": HostCondition.MIXED, "ALLOCATED": HostCondition.ALLOCATED}
    return bases.get(state.base, HostCondition.OTHER)


def condition_counts(hosts: Iterable[Host]) -> Mapping[HostCondition, int]:
    """How many nodes are in which condition, in the order of the conditions."""
    counts = Counter(condition(host) for host in hosts)
    return {kind: counts[kind] for kind in HostCondition if counts[kind]}


def default_grouping(hosts: Iterable[Host]) -> str:
    """Topology if Slurm knows one, else partitions."""
    return "topology" if any(host.topology for host in hosts) else "partition"


def group_name(host: Host, grouping: str) -> str:
    """The switch or block of a node, which Slurm writes as `topology:switch:...`, or its first partition."""
    if grouping == "partition":
        return shown_name(host.partitions[0]) if host.partitions else "no partition"
    return shown_name(host.topology.partition(",")[0].removesuffix(f":{host.name}")) or "no topology"


def _has_state(host: Host, wanted: str) -> bool:
    return condition(host).value == wanted or wanted.upper() in host.state
