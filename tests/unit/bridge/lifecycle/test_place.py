# SPDX-License-Identifier: Apache-2.0
"""Whether the pods of an allocated job are bound, wait, or give their nodes back."""

from typing import Any

import pytest
from tests.unit.bridge.build import NOW, pod, record

from slinky.bridge.feasibility.kubelet_capacity import Shortage
from slinky.bridge.lifecycle.decide import actions, retries
from slinky.bridge.lifecycle.decide.actions import Plan
from slinky.bridge.lifecycle.decide.assignment import Assignment
from slinky.bridge.lifecycle.decide.workload import decide
from slinky.bridge.lifecycle.snapshot import (
    AvoidedHost,
    Obstacle,
    ObstacleKind,
    PlacementFacts,
    PlacementNode,
    WorkloadSnapshot,
)
from slinky.bridge.state.observed_job import JobKnowledge, ObservedJob
from slinky.bridge.workload.grouping import Workload, WorkloadRoot

GANG = Workload("ns", "PodGroup", "g")
RECORD = record("7", "RUNNING", hosts=("h1", "h2"))
A, B = pod("a", job="7"), pod("b", job="7")
BOUND = pod("b", job="7", node="n2", phase="Running")
OTHER = pod("other", job="6", node="n1", phase="Running")
LEAVING = pod("leaving", job="6", node="n1", phase="Running", deleted="2026-06-01T12:00:30Z")
LACK = Shortage("cpu", 2, 1, 4)


def place(
    *nodes: PlacementNode,
    pods: tuple[Any, ...] = (A, B),
    obstacle: Obstacle | None = None,
    exclusive: bool = False,
    misplaced: AvoidedHost | None = None,
) -> Plan:
    assignments = {pod.metadata.uid: Assignment("n1", RECORD) for pod in pods}
    facts = PlacementFacts(assignments, nodes, exclusive, misplaced)
    jobs, obstacles = {"7": ObservedJob(JobKnowledge.LIVE, RECORD)}, {"7": obstacle} if obstacle else {}
    snapshot = WorkloadSnapshot(GANG, pods, jobs, WorkloadRoot(), NOW, placements={"7": facts}, obstacles=obstacles)
    return decide(snapshot)


def kinds(plan: Plan) -> list[str]:
    return [type(action).__name__ for action in plan.actions]


def text(plan: Plan) -> str:
    """Reason and message of the only condition."""
    (found,) = [
        action.text for action in plan.actions if isinstance(action, actions.WriteCondition | actions.DetachPods)
    ]
    return f"{found.reason}: {found.message}"


def test_pods_are_bound_if_every_node_is_usable() -> None:
    (action,) = place(PlacementNode("n1", "h1", (A, B), other_pods=(OTHER,))).actions
    assert isinstance(action, actions.BindPods)
    assert (action.pods, action.reserve_room) == ((A, B), True)
    (action,) = place(PlacementNode("n1", "h1", (A, B)), exclusive=True).actions
    assert isinstance(action, actions.BindPods)
    assert not action.reserve_room  # Slurm gives whole nodes to one job


def test_unknown_nodes_of_a_job_are_looked_at_again() -> None:
    jobs = {"7": ObservedJob(JobKnowledge.LIVE, RECORD)}
    plan = decide(WorkloadSnapshot(GANG, [A], jobs, WorkloadRoot(), NOW))
    assert (plan.actions, plan.again) == ([], retries.UNKNOWN)


@pytest.mark.parametrize(
    ("facts", "reason", "again"),
    [
        ({"unavailable": "is not ready"}, "NodeNotReady", retries.NODE_NOT_READY),
        ({"unavailable": "is cordoned"}, "NodeNotReady", retries.NODE_NOT_READY),
        ({"other_pods": (OTHER, LEAVING), "shortage": LACK}, "NodeClearing", retries.NODE_CLEARING),
    ],
)
def test_pods_wait_for_nodes(facts: dict[str, Any], reason: str, again: float) -> None:
    plan = place(PlacementNode("n1", "h1", (A,), **facts), PlacementNode("n2", "h2", (B,)))
    assert kinds(plan) == ["WriteCondition"]
    assert text(plan).startswith(f"{reason}: ")
    assert "n1" in text(plan)
    assert plan.again == again


def test_only_a_whole_node_must_be_empty() -> None:
    busy = PlacementNode("n1", "h1", (A, B), other_pods=(OTHER,))
    assert text(place(busy, exclusive=True)).startswith("NodeClearing: ")
    assert kinds(place(busy, exclusive=False)) == ["BindPods"]


def test_the_pod_that_is_about_to_leave_is_named() -> None:
    assert "ns/leaving" in text(place(PlacementNode("n1", "h1", (A,), other_pods=(OTHER, LEAVING), shortage=LACK)))


def test_room_that_other_pods_are_about_to_take_is_waited_for_in_silence() -> None:
    plan = place(PlacementNode("n1", "h1", (A,), shortage=LACK))
    assert (plan.actions, plan.again) == ([], retries.NODE_CLEARING)


@pytest.mark.parametrize(
    ("obstacle", "reason", "again"),
    [
        (Obstacle(ObstacleKind.DEVICES_HELD, "gpu-0 is in use"), "DevicesHeld", retries.DEVICES_HELD),
        (Obstacle(ObstacleKind.VOLUME_PENDING, "no volume", retry=5.0), "VolumePending", 5.0),
        (Obstacle(ObstacleKind.NOT_PREPARED, "no claim", retry=0.5), "", 0.5),
    ],
)
def test_pods_wait_for_devices_and_volumes(obstacle: Obstacle, reason: str, again: float) -> None:
    unlabelled = pod("a", held=True)
    jobs = {"7": ObservedJob(JobKnowledge.LIVE, RECORD)}
    snapshot = WorkloadSnapshot(
        GANG,
        [unlabelled, B],
        jobs,
        WorkloadRoot(),
        NOW,
        adopted={"uid-a": "7"},
        placements={"7": PlacementFacts({}, [PlacementNode("n1", "h1", (unlabelled, B))])},
        obstacles={"7": obstacle},
    )
    plan = decide(snapshot)
    assert kinds(plan) == [*(["WriteCondition"] if reason else []), "LabelPods"]
    assert plan.again == again
    if reason:
        assert text(plan).startswith(f"{reason}: ")


MISPLACED = Obstacle(ObstacleKind.MISPLACED, "gres.conf has 8 GPUs, the driver has 4", host="h1")


@pytest.mark.parametrize(
    ("facts", "memory"),
    [
        ({"misplaced": AvoidedHost("h1", "it has a taint", 0.0)}, ["AvoidHost"]),
        ({"misplaced": AvoidedHost("", "there are fewer nodes than pods", 0.0)}, []),
        ({"obstacle": MISPLACED}, ["AvoidHost"]),
    ],
)
def test_nodes_that_do_not_suit_are_given_back_and_remembered(facts: dict[str, Any], memory: list[str]) -> None:
    plan = place(PlacementNode("n1", "h1", (A, B)), **facts)
    assert kinds(plan) == [*memory, "DetachPods", "CancelJob"]
    assert text(plan).startswith("NodeUnsuitable: ")
    assert "7" not in text(plan).replace("gres.conf", "")  # a new job does not make the same problem news
    if memory:
        assert isinstance(plan.actions[0], actions.AvoidHost)
        assert plan.actions[0].host == "h1"


def test_a_node_that_slurm_has_drained_is_given_back() -> None:
    plan = place(PlacementNode("n1", "h1", (A, B), unavailable="is not ready", drained=True))
    assert kinds(plan) == ["DetachPods", "CancelJob"]


@pytest.mark.parametrize(("drained", "steps"), [(True, ["DetachPods", "CancelJob"]), (False, ["WriteCondition"])])
@pytest.mark.parametrize("exclusive", [True, False])
def test_a_node_where_a_pod_does_not_stop_is_given_back_once_its_host_is_drained(
    drained: bool, steps: list[str], exclusive: bool
) -> None:
    node = PlacementNode(
        "n1",
        "h1",
        (A, B),
        drained=drained,
        other_pods=(LEAVING,),
        stuck_pod=LEAVING,
        shortage=None if exclusive else LACK,
    )
    assert kinds(place(node, exclusive=exclusive)) == steps


def test_a_node_that_pods_of_other_schedulers_occupy_is_given_back_and_blocked() -> None:
    plan = place(PlacementNode("n1", "h1", (A, B), shortage=LACK, occupied="node n1: cpu"))
    assert kinds(plan) == ["BlockNode", "DetachPods", "CancelJob"]
    assert text(plan).startswith("InsufficientNodeResources: ")


def test_a_gang_that_runs_in_part_keeps_its_job_and_reports_what_is_wrong() -> None:
    plan = place(PlacementNode("n1", "h1", (A,)), pods=(A, BOUND), obstacle=MISPLACED)
    assert kinds(plan) == ["AvoidHost", "WriteCondition"]
    assert plan.again is not None


def test_nodes_with_bound_pods_only_are_not_checked() -> None:
    gone = PlacementNode("n2", "h2", (), unavailable="is not ready")
    assert kinds(place(PlacementNode("n1", "h1", (A,)), gone, pods=(A, BOUND))) == ["BindPods"]
