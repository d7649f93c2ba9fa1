# SPDX-License-Identifier: Apache-2.0
"""The phase place: whether the pods of an allocated job are bound now, wait, or give their nodes back. Pure.

Pods wait for nodes that are not ready, for pods of earlier jobs that still run there, for devices and for volumes. If
the nodes do not suit the pods, or pods of other schedulers leave too little room there, the job is ended and the pods
are submitted again without the node. Either all pods of a gang are bound or none.
"""

from collections.abc import Sequence
from typing import NamedTuple

from slinky.bridge.lifecycle.decide import actions, admit, retries
from slinky.bridge.lifecycle.decide.actions import Plan
from slinky.bridge.lifecycle.snapshot import (
    AvoidedHost,
    Obstacle,
    ObstacleKind,
    PlacementFacts,
    PlacementNode,
    WorkloadSnapshot,
)
from slinky.bridge.status.reasons import ConditionText, Reason
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import pod_state
from slinky.slurm import JobRecord


def place_pods(snapshot: WorkloadSnapshot, plan: Plan, record: JobRecord, active: tuple[WorkloadPod, ...]) -> None:
    """Bind the pods of an allocated job, or write why they are not bound."""
    job, root = record.job_id, snapshot.root
    unbound = tuple(pod for pod in active if not pod_state.is_bound(pod))
    incomplete = root is not None and root.fixed_size and admit.member_count(snapshot) < root.min_members
    if incomplete and len(unbound) == len(active):
        plan.add(actions.DetachPods(active, Reason.GANG_BROKEN.text(job=job)), actions.CancelJob(job))
        return
    facts, obstacle = snapshot.placements.get(job), snapshot.obstacles.get(job)
    if facts is None:
        plan.retry_after(retries.UNKNOWN)
    elif (unsuitable := _find_unsuitable(facts, obstacle)) is not None:
        _return_nodes(plan, job, active, unbound, unsuitable)
    elif (pause := _wait_for_nodes(job, facts)) is not None:
        _wait(plan, job, unbound, pause)
    elif (occupied := next((node for node in facts.nodes if node.occupied), None)) is not None:
        text = Reason.NODE_OCCUPIED.text(problem=occupied.occupied)
        _return_nodes(plan, job, active, unbound, GiveBack(text, actions.BlockNode(occupied.name, occupied.arriving)))
    elif (pause := _wait_for_room(job, facts.nodes) or _wait_for_preparation(job, obstacle)) is not None:
        _wait(plan, job, unbound, pause)
    else:
        plan.add(actions.BindPods(record, active, facts.assignments, reserve_room=not facts.exclusive))


# --- give back


class GiveBack(NamedTuple):
    """Why the nodes of a job are given back, and what to remember for the next submission."""

    text: ConditionText
    memory: actions.AvoidHost | actions.BlockNode | None = None


def _find_unsuitable(facts: PlacementFacts, obstacle: Obstacle | None) -> GiveBack | None:
    """Why the nodes do not suit the pods; None if they suit."""
    misplaced = facts.misplaced
    if misplaced is None and obstacle is not None and obstacle.kind is ObstacleKind.MISPLACED:
        misplaced = AvoidedHost(obstacle.host, obstacle.problem, 0.0)
    if misplaced is not None:
        memory = actions.AvoidHost(misplaced.host, misplaced.problem) if misplaced.host else None
        return GiveBack(Reason.NODE_UNSUITABLE.text(problem=misplaced.problem), memory)
    for node in facts.nodes:
        if node.arriving and node.unavailable and node.drained:
            return GiveBack(Reason.NODE_UNSUITABLE.text(problem=f"node {node.name} {node.unavailable}"))
    return _find_stuck_pod(facts)


def _find_stuck_pod(facts: PlacementFacts) -> GiveBack | None:
    """A pod of an earlier job does not stop on a node, and the host has been drained for that: another host suits
    better than a long wait.
    """
    for node in facts.nodes:
        in_the_way = facts.exclusive or (node.shortage is not None and not node.occupied)
        if in_the_way and node.drained and node.stuck_pod is not None:
            problem = f"pod {node.stuck_pod.key} of an earlier job does not stop on node {node.name}"
            return GiveBack(Reason.NODE_UNSUITABLE.text(problem=problem))
    return None


def _return_nodes(
    plan: Plan, job: str, active: tuple[WorkloadPod, ...], unbound: tuple[WorkloadPod, ...], cause: GiveBack
) -> None:
    """Write that the nodes do not suit. Unless some pods run already, end the job and submit the pods again."""
    if cause.memory is not None:
        plan.add(cause.memory)
    if len(unbound) == len(active):
        plan.add(actions.DetachPods(unbound, cause.text), actions.CancelJob(job))
    else:
        plan.write(unbound, cause.text)
        plan.retry_after(retries.IDLE_UNKNOWN)


# --- wait


class Pause(NamedTuple):
    """Seconds until the next look, what the pods report meanwhile, and which pods report it (all if empty)."""

    seconds: float
    text: ConditionText | None = None
    pods: tuple[WorkloadPod, ...] = ()


def _wait(plan: Plan, job: str, unbound: tuple[WorkloadPod, ...], pause: Pause) -> None:
    """Write why pods without a node wait, and label those that the binding would have labelled."""
    if pause.text is not None:
        plan.write(pause.pods or unbound, pause.text)
    if unlabelled := tuple(pod for pod in unbound if not pod_state.job_id(pod)):
        plan.add(actions.LabelPods(job, unlabelled))
    plan.retry_after(pause.seconds)


def _wait_for_nodes(job: str, facts: PlacementFacts) -> Pause | None:
    """A node that is not ready may recover before it is drained in Slurm. A whole node must be empty: Slurm reallocates
    a node as soon as its job ends, before its pods stop.
    """
    for node in facts.nodes:
        if node.arriving and node.unavailable:
            text = Reason.NODE_NOT_READY.text(job=job, node=node.name, problem=node.unavailable)
            return Pause(retries.NODE_NOT_READY, text)
    for node in facts.nodes if facts.exclusive else ():
        if node.other_pods:
            text = Reason.NODE_CLEARING.text(job=job, node=node.name, pod=node.other_pods[0].key)
            return Pause(retries.NODE_CLEARING, text)
    return None


def _wait_for_room(job: str, nodes: Sequence[PlacementNode]) -> Pause | None:
    """Pods of jobs that have ended still use what the arriving pods need: the mirror may have read the new job before
    the end of theirs.
    """
    for node in nodes:
        if node.shortage is None:
            continue
        if not node.other_pods:
            return Pause(retries.NODE_CLEARING)
        leaving = max(node.other_pods, key=lambda pod: pod.metadata.deleting)
        text = Reason.NODE_FULL.text(job=job, node=node.name, pod=leaving.key, lack=node.shortage.resource)
        return Pause(retries.NODE_CLEARING, text, node.arriving)
    return None


def _wait_for_preparation(job: str, obstacle: Obstacle | None) -> Pause | None:
    """Devices or volumes of the pods are not available yet."""
    if obstacle is None:
        return None
    seconds = obstacle.retry or retries.DEVICES_HELD
    if obstacle.kind is ObstacleKind.DEVICES_HELD:
        return Pause(seconds, Reason.DEVICES_HELD.text(job=job, problem=obstacle.problem))
    if obstacle.kind is ObstacleKind.VOLUME_PENDING:
        return Pause(seconds, Reason.VOLUME_PENDING.text(job=job, problem=obstacle.problem))
    return Pause(seconds)
