# SPDX-License-Identifier: Apache-2.0
"""Explains a NodeSet: which workers are missing or start no jobs and why, its rollout, and its autoscaler. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from slinky.insight.explain.explanation import Finding, QueueExplanation, Topic
from slinky.insight.explain.pods import MESSAGE_LIMIT, PodFacts
from slinky.insight.explain.resource_checks import unavailable_text
from slinky.insight.pending_reasons import Remedy
from slinky.insight.plain_text import counted, plain
from slinky.insight.queue_snapshot import QueueSnapshot

#: Workers that cannot start that are named one by one.
WORKERS_MAX = 5


@dataclass(frozen=True, slots=True)
class ConditionFacts:
    """A condition of a NodeSet."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """The pod of a worker and its node in Slurm."""

    pod: PodFacts
    host: str


@dataclass(frozen=True, slots=True)
class NodeSetFacts:
    """A NodeSet as an explanation reads it. `scaling` is the last decision of the autoscaler, in words."""

    namespace: str
    name: str
    desired: int
    ready: int
    updated: int
    conditions: tuple[ConditionFacts, ...] = ()
    workers: tuple[WorkerFacts, ...] = ()
    scaling: str = ""
    #: Pending jobs that no worker can run, in words.
    impossible: tuple[str, ...] = ()


def explain_node_set(node_set: NodeSetFacts, snapshot: QueueSnapshot) -> QueueExplanation:
    """What a NodeSet lacks, and what each missing worker waits for."""
    conditions = {condition.type: condition for condition in node_set.conditions}
    degraded, ready = (conditions.get(name, ConditionFacts(name, "Unknown")) for name in ("Degraded", "Ready"))
    is_degraded, is_ready = degraded.status == "True", ready.status == "True"
    return QueueExplanation(
        subject=f"NodeSet {plain(node_set.namespace, 80)}/{plain(node_set.name, 80)}",
        state="degraded" if is_degraded else "ready" if is_ready else "not ready",
        reason=plain((degraded if is_degraded else ready).reason, 80),
        findings=(*_condition_findings(conditions), *_worker_findings(node_set), *_host_findings(node_set, snapshot)),
        notes=tuple(_notes(node_set)),
        unknown=snapshot.unknown,
    )


def _condition_findings(conditions: dict[str, ConditionFacts]) -> Iterator[Finding]:
    """The conditions that describe a problem or a change in progress."""
    for name, remedy in (("Degraded", Remedy.ADMINISTRATOR), ("SlurmReachable", Remedy.ADMINISTRATOR),
                         ("Progressing", Remedy.WAITING)):  # fmt: skip
        condition = conditions.get(name)
        unwanted = "False" if name == "SlurmReachable" else "True"
        if condition is not None and condition.status == unwanted and condition.message:
            yield Finding(
                Topic.NODES,
                f"{plain(condition.message, MESSAGE_LIMIT).rstrip('.')} ({plain(condition.reason, 80)}).",
                remedy=remedy,
            )


def _worker_findings(node_set: NodeSetFacts) -> Iterator[Finding]:
    broken = [worker.pod for worker in node_set.workers if worker.pod.fault]
    for pod in broken[:WORKERS_MAX]:
        name = plain(pod.name, 80)
        yield Finding(
            Topic.NODES,
            f"The worker {name} cannot start: {plain(pod.fault, MESSAGE_LIMIT).rstrip('.')}.",
            "",
            f"Look at it with `kubectl describe pod -n {plain(pod.namespace, 80)} {name}`.",
            Remedy.ADMINISTRATOR,
            (f"pod {name}",),
        )
    if len(broken) > WORKERS_MAX:
        yield Finding(Topic.NODES, f"{counted(len(broken) - WORKERS_MAX, 'more worker')} cannot start either.")
    missing = node_set.desired - len(node_set.workers)
    if missing > 0:
        yield Finding(
            Topic.NODES,
            f"{missing} of the {node_set.desired} workers {'does' if missing == 1 else 'do'} not exist yet.",
        )


def _host_findings(node_set: NodeSetFacts, snapshot: QueueSnapshot) -> Iterator[Finding]:
    """Workers that are drained or down in Slurm, with who drained them and why."""
    known = (snapshot.hosts_by_name.get(worker.host) for worker in node_set.workers)
    stopped = tuple(host for host in known if host is not None and not host.state.schedulable)
    if stopped:
        yield Finding(
            Topic.NODES,
            f"{counted(len(stopped), 'worker')} {'starts' if len(stopped) == 1 else 'start'} no jobs. "
            + unavailable_text(stopped, snapshot.now),
            "",
            "When the cause is gone, run `slinky undrain` with the nodes.",
            Remedy.ADMINISTRATOR,
            tuple(f"node {plain(host.name, 80)}" for host in stopped[:20]),
        )


def _notes(node_set: NodeSetFacts) -> Iterator[str]:
    yield f"Ready: {node_set.ready} of {counted(node_set.desired, 'worker')}; up to date: {node_set.updated}."
    if node_set.scaling:
        yield f"Autoscaler: {plain(node_set.scaling, MESSAGE_LIMIT).rstrip('.')}."
    for text in node_set.impossible[:3]:
        yield f"No worker can run {plain(text, MESSAGE_LIMIT).rstrip('.')}."
