# SPDX-License-Identifier: Apache-2.0
"""Which pods keep running and which are evicted when Slurm has lost the jobs of running pods."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.bridge.build import NOW, needing, pod, record

from slinky.bridge import names
from slinky.bridge.config import BridgeSettings
from slinky.bridge.devices.inventory import GresKind
from slinky.bridge.lifecycle.decide import actions, retries
from slinky.bridge.lifecycle.decide.actions import Plan
from slinky.bridge.lifecycle.decide.workload import decide
from slinky.bridge.lifecycle.snapshot import Obstacle, ObstacleKind, WorkloadSnapshot
from slinky.bridge.state.observed_job import JobKnowledge, ObservedJob
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload.grouping import Workload, WorkloadRoot
from slinky.bridge.workload.job_spec import JobContext, JobSpec, build_job_spec

GANG = Workload("ns", "PodGroup", "g")
LOST = ObservedJob(JobKnowledge.OVER, record("7", "RUNNING", lost=True))
SHARED = {names.OPTION + "exclusive": "false"}
HOSTS = {"n1": "h1", "n2": "h2", "n3": "h3"}


def gang(
    options: Mapping[str, str] | None = None, claims: Mapping[str, int] | None = None
) -> tuple[JobSpec, tuple[WorkloadPod, ...]]:
    """A leader on n1 and workers on n2 and n3; `claims` are devices by pod."""
    pods = tuple(
        needing({"cpu": cpu}, name, spec={"nodeName": f"n{number}"}, job="7")
        for number, (name, cpu) in enumerate((("leader", "4"), ("w-1", "1"), ("w-2", "1")), 1)
    )
    devices = {f"uid-{name}": {GresKind("gpu", "x"): count} for name, count in (claims or {}).items()}
    context = JobContext(BridgeSettings(), devices_by_pod=devices)
    return build_job_spec(GANG, WorkloadRoot(options or {}), pods, context), pods


def recover(job_spec: JobSpec | None, pods: tuple[WorkloadPod, ...], **more: Any) -> Plan:
    lost_job_specs = {"7": job_spec} if job_spec else {}
    snapshot = WorkloadSnapshot(
        GANG, pods, {"7": LOST}, WorkloadRoot(), NOW, lost_job_specs=lost_job_specs, hosts=HOSTS, **more
    )
    return decide(snapshot)


def replaced(plan: Plan) -> list[tuple[str, ...]]:
    """The hosts of each replacement."""
    return [action.hosts for action in plan.actions if isinstance(action, actions.ReplaceJob)]


def evicted(plan: Plan) -> list[str]:
    evictions = [action for action in plan.actions if isinstance(action, actions.EvictPods)]
    assert all(action.limit is actions.EvictionLimit.LOST for action in evictions)
    return [pod.metadata.name for action in evictions for pod in action.pods]


def conditions(plan: Plan) -> dict[str, str]:
    """The reason on each pod."""
    written = [action for action in plan.actions if isinstance(action, actions.WriteCondition)]
    assert all(action.text.warning for action in written)
    return {pod.metadata.name: action.text.reason for action in written for pod in action.pods}


def test_every_role_of_a_mixed_gang_gets_a_job_on_its_nodes() -> None:
    plan = recover(*gang())
    assert replaced(plan) == [("h1",), ("h2", "h3")]
    assert (evicted(plan), conditions(plan)) == ([], {})
    assert isinstance(plan.actions[0], actions.PauseSubmissions)


def test_a_rejected_role_does_not_prevent_the_jobs_of_other_roles() -> None:
    obstacles = {"uid-leader": Obstacle(ObstacleKind.NOT_REPLACED, "no account")}
    plan = recover(*gang(), obstacles=obstacles)
    assert (conditions(plan), evicted(plan)) == ({"leader": "LostJobNotReplaced"}, [])
    assert (replaced(plan), plan.again) == ([("h2", "h3")], retries.NOT_REPLACED)


@pytest.mark.parametrize(("paused", "again"), [(0.1, retries.NOT_STARTED), (0.0, retries.NOT_REPLACED)])
def test_a_replacement_that_cannot_start_is_repeated_soon_while_submissions_pause(paused: float, again: float) -> None:
    obstacles = {"uid-leader": Obstacle(ObstacleKind.NOT_STARTED, "Job can not start immediately")}
    plan = recover(*gang(), obstacles=obstacles, submissions_paused=paused)
    assert (conditions(plan), plan.again) == ({"leader": "LostJobNotReplaced"}, again)


def test_pods_whose_nodes_other_jobs_have_are_evicted() -> None:
    plan = recover(*gang(), obstacles={"uid-leader": Obstacle(ObstacleKind.REALLOCATED, "busy")})
    assert evicted(plan) == ["leader"]


def test_a_replacement_that_was_not_answered_is_repeated_later() -> None:
    plan = recover(*gang(), obstacles={"uid-leader": Obstacle(ObstacleKind.UNREACHABLE, "no answer")})
    assert (evicted(plan), conditions(plan), plan.failure) == ([], {}, "no answer")


@pytest.mark.parametrize(("options", "leaves"), [(SHARED, ["leader"]), ({}, [])])
def test_only_pods_whose_devices_could_change_are_evicted(options: dict[str, str], leaves: list[str]) -> None:
    plan = recover(*gang(options, {"leader": 1}))
    assert evicted(plan) == leaves


def test_pods_whose_requests_are_no_longer_known_keep_running() -> None:
    plan = recover(None, gang()[1])
    assert (replaced(plan), evicted(plan), set(conditions(plan).values())) == ([], [], {"LostJobNotReplaced"})
    assert plan.again == retries.NOT_REPLACED


def test_pods_of_removed_nodes_are_evicted() -> None:
    assert evicted(recover(*gang(), missing_nodes=frozenset({"n2"}))) == ["leader", "w-1", "w-2"]


@pytest.mark.parametrize("left", [0, 1, 2])
def test_evictions_after_a_loss_are_limited(left: int) -> None:
    plan = recover(*gang(), missing_nodes=frozenset({"n2"}), lost_evictions_left=left)
    assert len(evicted(plan)) == left
    assert list(conditions(plan).values()) == ["EvictionLimited"] * (3 - left)
    assert plan.again == retries.EVICTION_LIMITED


@pytest.mark.parametrize(
    ("reasons", "new"),
    [
        (["Allocated"], True),
        ([""], True),
        (["LostJobNotReplaced"], False),
        (["EvictionLimited"], False),
        (["EvictionLimited", "Allocated"], True),
    ],
)
def test_submissions_pause_for_a_new_loss_and_not_for_one_that_lasts(reasons: list[str], new: bool) -> None:
    statuses = [
        [{"type": names.SCHEDULED, "status": "Unknown", "reason": reason}] if reason else [] for reason in reasons
    ]
    pods = tuple(
        pod(f"p-{index}", job="7", node="n1", phase="Running", status={"conditions": conditions})
        for index, conditions in enumerate(statuses)
    )
    pauses = [action for action in recover(None, pods).actions if isinstance(action, actions.PauseSubmissions)]
    assert bool(pauses) is new
