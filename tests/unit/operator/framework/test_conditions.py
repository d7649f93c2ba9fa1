# SPDX-License-Identifier: Apache-2.0
"""Every kind says the same five things of itself, each in a sentence."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.operator.samples import (
    NOW,
    UNTRUSTED,
    accounting,
    controller,
    host,
    node_set,
    node_set_snapshot,
    pod,
    trusted_snapshot,
)

from slinky.api.fields.conditions import CONFIG_SYNCED, DEGRADED, PROGRESSING, READY, SLURM_REACHABLE
from slinky.api.nodeset import NodeSetStatus
from slinky.kube.types import Condition
from slinky.kube.views import ReplicaStatus
from slinky.operator.accounting import status as accounting_status
from slinky.operator.controller import status as controller_status
from slinky.operator.controller.config_generation import Decision, Generation, GenerationState
from slinky.operator.framework.conditions import (
    ConditionState,
    ObjectHealth,
    blocked_health,
    deployment_health,
    previous_state,
    update_conditions,
)
from slinky.operator.framework.reconciler import status_manifest
from slinky.operator.nodeset import status as node_status
from slinky.operator.nodeset.actions import ExecutionReport
from slinky.operator.slurm.snapshot import SlurmSnapshot
from slinky.operator.token import status as token_status

EVERY = [READY, PROGRESSING, DEGRADED, SLURM_REACHABLE, CONFIG_SYNCED]

SNAPSHOTS = {
    "no RestApi": SlurmSnapshot(),
    "blind": UNTRUSTED,
    "down": SlurmSnapshot(connected=True, error="no answer"),
    "doubtful": SlurmSnapshot(connected=True, doubt="9 vanished at once"),
    "seeing": trusted_snapshot(host("gpu-0")),
}
STUCK = Condition("Progressing", "False", "ProgressDeadlineExceeded", "ReplicaSet x has timed out progressing.")
WORKLOADS = {
    "none": None,
    "starting": ReplicaStatus(replicas=1),
    "running": ReplicaStatus(replicas=1, ready_replicas=1, updated_replicas=1),
}


def every_health() -> Iterator[tuple[str, ObjectHealth]]:
    outside: Any = {"external": True, "externalConfig": {"host": "h", "port": 1}}
    for (observed, sight), (there, workload) in itertools.product(SNAPSHOTS.items(), WORKLOADS.items()):
        words = f"{observed}, {there}"
        for state in GenerationState:
            generation = Generation(1, "d", {}, state, "a message")
            decision = Decision(generation, generation, "")
            yield f"Controller {words}", controller_status.health(controller(), workload, True, sight, decision)
        yield f"external Controller {words}", controller_status.external_health(sight)
        yield f"Deployment {words}", deployment_health(1, workload, True, sight.condition())
    for there, workload in WORKLOADS.items():
        for database in (accounting(), accounting(**outside)):
            yield f"Accounting {there}", accounting_status.health(database, workload, True)
    for observed, sight in SNAPSHOTS.items():
        for pods in ([], [pod()], [pod(pod_condemned="scale-in 2026-11-16T11:00:00Z")]):
            result = node_set_snapshot(node_set(replicas=1), pods, sight)
            yield f"NodeSet {observed}, {len(pods)} pods", node_status.health(result)
            yield f"NodeSet {observed}, deletions limited", node_status.health(result, ExecutionReport(limited=2))
    for signed in (True, False):
        yield "Token", token_status.health(b"no token", 0.0, signed=signed)


@pytest.mark.parametrize(("parent", "health"), list(every_health()))
def test_every_kind_reports_all_five_conditions_with_messages(parent: str, health: ObjectHealth) -> None:
    said = update_conditions((), health, generation=7, now=NOW)
    assert [result.type for result in said][:5] == EVERY, parent
    for result in said:
        assert result.observed_generation == 7
        assert result.reason.isalnum()
        assert len(result.message) > 8, (parent, result)
        assert result.last_transition_time


def test_a_blocked_object_reports_it_in_every_condition_but_slurm_reachable() -> None:
    before = update_conditions(
        (), ObjectHealth(ConditionState(True, "A"), slurm=ConditionState(True, "Answering")), generation=1, now=NOW
    )
    health = blocked_health("KeyMissing", "make the Secret x", previous_state(before, SLURM_REACHABLE))
    said = {result.type: result for result in update_conditions(before, health, generation=2, now=NOW)}
    assert {result.observed_generation for result in said.values()} == {2}
    assert (said[SLURM_REACHABLE].status, said[SLURM_REACHABLE].reason) == ("True", "Answering")
    assert said[DEGRADED].message == said[READY].message == "make the Secret x"
    assert said[CONFIG_SYNCED].status == "False"
    assert previous_state((), SLURM_REACHABLE).value is None


@pytest.mark.parametrize(
    ("said", "degraded"),
    [
        ((), False),
        ((Condition("Progressing", "True", "NewReplicaSetAvailable"), Condition("Available", "False")), False),
        ((STUCK,), True),
    ],
)
def test_a_stuck_deployment_is_reported_with_its_own_message(said: tuple[Condition, ...], degraded: bool) -> None:
    status = ReplicaStatus(replicas=1, conditions=said)
    result = deployment_health(1, status, True, UNTRUSTED.condition()).degraded
    assert result.value is degraded
    assert not degraded or result.message == said[-1].message


@pytest.mark.parametrize(("sight", "ready"), [("no RestApi", True), ("down", False), ("seeing", True)])
def test_an_external_daemon_is_not_ready_if_slurm_is_unreachable(sight: str, ready: bool) -> None:
    result = controller_status.external_health(SNAPSHOTS[sight]).ready
    assert result.value is ready
    assert SNAPSHOTS[sight].condition().message in result.message
    outside = accounting_status.health(accounting(external=True, externalConfig={"host": "h", "port": 1}), None, True)
    assert all("outside Kubernetes" in fact.message for fact in (outside.ready, outside.slurm, outside.config))


def test_numbers_in_a_status_are_written_when_they_are_zero() -> None:
    said = update_conditions((), ObjectHealth(ConditionState(True, "A")), generation=1, now=NOW)
    result = status_manifest(NodeSetStatus(conditions=said, desired=3, selector="a=b"))
    assert (result["desired"], result["replicas"], result["readyReplicas"], result["slurmIdle"]) == (3, 0, 0, 0)
    assert "collisionCount" not in result
    assert "ordinalToNode" not in result
    assert [one["type"] for one in result["conditions"]] == EVERY


def test_equal_health_gives_equal_conditions() -> None:
    health = ObjectHealth(ConditionState(True, "A"))
    once = update_conditions((), health, generation=1, now=NOW)
    assert update_conditions(once, health, generation=1, now=NOW.replace(year=2027)) == once
