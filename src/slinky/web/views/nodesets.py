# SPDX-License-Identifier: Apache-2.0
"""NodeSets: workers, rollout and autoscaling. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from slinky.api.fields.conditions import AUTOSCALING_ACTIVE, DEGRADED, PROGRESSING, READY
from slinky.api.nodeset import NodeSet
from slinky.insight.plain_text import counted, duration
from slinky.kube.conditions import find_condition
from slinky.kube.timestamps import unix_seconds
from slinky.kube.types import Condition
from slinky.web.page_data import KnownNodeSets
from slinky.web.views.job_row import shown_name, shown_text
from slinky.web.views.paging import ListPage, cut_page, page_number

#: NodeSets of one page.
PAGE_SIZE = 50
#: Decisions, impossible jobs and unreadable NodeSets that are shown; the operator keeps as many decisions.
ENTRIES_MAX = 20
#: The conditions that are shown, in this order.
CONDITIONS = (READY, PROGRESSING, DEGRADED, AUTOSCALING_ACTIVE)
#: Times beyond this one, which no clock shows, are not known.
LATEST_SECONDS = 2.0**34
_IMPOSSIBLE = re.compile(r"Job (\d{1,10}): (.*)", re.DOTALL)


@dataclass(frozen=True)
class ConditionRow:
    """One condition of a NodeSet; `age` is how long it has had this value."""

    type: str
    value: str
    reason: str
    message: str
    age: str


@dataclass(frozen=True)
class DecisionRow:
    """A change of the number of workers by the autoscaler; `at` is 0 if the time is not known."""

    at: float
    before: int
    after: int
    reason: str
    message: str


@dataclass(frozen=True)
class ImpossibleJob:
    """A pending job that no worker can run; `label` is empty if the text names none."""

    label: str
    text: str


@dataclass(frozen=True)
class ScalingView:
    """The autoscaling of one NodeSet."""

    mode: str
    least: int
    most: int
    current: int
    next: int
    reason: str
    message: str
    #: When the NodeSet may grow again after new workers did not come; 0 if it need not wait.
    retry_at: float
    decisions: tuple[DecisionRow, ...]
    impossible: tuple[ImpossibleJob, ...]


@dataclass(frozen=True)
class NodeSetRow:
    """One NodeSet. `partition` is the name of its own partition, if it has one."""

    name: str
    mode: str
    partition: str
    desired: int
    ready: int
    updated: int
    #: Workers in Slurm: idle, allocated, draining, down.
    in_slurm: str
    health: str
    degraded: bool
    rollout: str
    strategy: str
    revision: str
    next_revision: str
    conditions: tuple[ConditionRow, ...]
    scaling: ScalingView | None


@dataclass(frozen=True)
class NodeSetsView:
    """What the page of the NodeSets shows."""

    read: bool
    fault: str
    unreadable: tuple[str, ...]
    page: ListPage[NodeSetRow]


def nodesets_view(known: KnownNodeSets, now: float, query: Mapping[str, str]) -> NodeSetsView:
    """What the page of the NodeSets shows."""
    cut = cut_page(known.items, page_number(query), PAGE_SIZE)
    rows = tuple(nodeset_row(item, now) for item in cut.items)
    return NodeSetsView(
        read=known.read,
        fault=shown_text(known.fault),
        unreadable=tuple(map(shown_name, known.unreadable[:ENTRIES_MAX])),
        page=ListPage(rows, cut.number, cut.pages, cut.total),
    )


def nodeset_row(node_set: NodeSet, now: float) -> NodeSetRow:
    """A NodeSet as the page shows it."""
    spec, status = node_set.spec, node_set.status
    found = (find_condition(status.conditions, kind) for kind in CONDITIONS)
    degraded = find_condition(status.conditions, DEGRADED)
    return NodeSetRow(
        name=shown_name(node_set.metadata.name),
        mode=spec.scaling_mode,
        partition=shown_name(node_set.slurm_name) if spec.partition.enabled else "",
        desired=status.desired,
        ready=status.ready_replicas,
        updated=status.updated_replicas,
        in_slurm=f"{status.slurm_idle} idle, {status.slurm_allocated} allocated, {status.slurm_drain} draining or "
        f"drained, {status.slurm_down} down",
        health=health(node_set),
        degraded=degraded is not None and degraded.status == "True",
        rollout=rollout(node_set),
        strategy=spec.update_strategy.type,
        revision=shown_name(status.current_revision),
        next_revision=shown_name(status.update_revision),
        conditions=tuple(_condition(entry, now) for entry in found if entry),
        scaling=_scaling(node_set),
    )


def health(node_set: NodeSet) -> str:
    """The most important condition in a few words."""
    if node_set.metadata.deleting:
        return "Being deleted"
    conditions = node_set.status.conditions
    for kind in (DEGRADED, PROGRESSING, READY):
        entry = find_condition(conditions, kind)
        if entry is not None and entry.status == "True":
            return kind if kind == READY else f"{kind}: {shown_name(entry.reason)}"
    ready = find_condition(conditions, READY)
    return f"Not ready: {shown_name(ready.reason)}" if ready else "Not known yet"


def rollout(node_set: NodeSet) -> str:
    """How far the update to the newest revision is, and what it waits for."""
    status, strategy = node_set.status, node_set.spec.update_strategy
    if status.observed_generation < node_set.metadata.generation:
        return "the operator has not seen the latest change yet"
    paused = strategy.type == "RollingUpdate" and strategy.rolling_update.paused
    old = max(status.replicas - status.updated_replicas, 0)
    if not old:
        return "up to date, updates are paused" if paused else "up to date"
    text = f"{counted(old, 'worker')} of an earlier revision"
    if paused:
        return f"paused, {text}"
    if strategy.type == "OnDelete":
        return f"{text}, until {'its pod is' if old == 1 else 'their pods are'} deleted"
    if strategy.type == "ScheduledUpdate":
        return f"{text}, until the reservation at {shown_name(strategy.scheduled_update.start_time or '')}"
    return f"updating, {text}"


def _condition(entry: Condition, now: float) -> ConditionRow:
    since = _seconds(entry.last_transition_time)
    return ConditionRow(
        type=shown_name(entry.type),
        value=shown_name(entry.status),
        reason=shown_name(entry.reason),
        message=shown_text(entry.message),
        age=duration(max(now - since, 0.0)) if since else "",
    )


def _scaling(node_set: NodeSet) -> ScalingView | None:
    policy, status = node_set.autoscaling, node_set.status.autoscaling
    if policy is None:
        return None
    current = node_set.spec.replicas
    limits = (policy.mode, policy.min_replicas, policy.max_replicas, current)
    if status is None:
        return ScalingView(*limits, current, "", "There is no decision yet.", 0.0, (), ())
    decisions = (
        DecisionRow(_seconds(item.time), item.before, item.after, shown_name(item.reason), shown_text(item.message))
        for item in status.decisions[:ENTRIES_MAX]
    )
    return ScalingView(
        *limits,
        next=status.next_replicas,
        reason=shown_name(status.reason),
        message=shown_text(status.message),
        retry_at=_seconds(status.retry_time) if status.failures else 0.0,
        decisions=tuple(decisions),
        impossible=tuple(map(_impossible, status.impossible_jobs[:ENTRIES_MAX])),
    )


def _impossible(text: str) -> ImpossibleJob:
    found = _IMPOSSIBLE.fullmatch(text)
    return ImpossibleJob(found[1], shown_text(found[2])) if found else ImpossibleJob("", shown_text(text))


def _seconds(timestamp: str | None) -> float:
    seconds = unix_seconds(timestamp)
    return seconds if 0 < seconds < LATEST_SECONDS else 0.0
