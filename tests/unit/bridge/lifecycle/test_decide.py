# SPDX-License-Identifier: Apache-2.0
"""The life of a workload, law by law."""

from typing import Any

import pytest
from tests.unit.bridge.build import NOW, pod, record

from slinky.bridge import names
from slinky.bridge.lifecycle import decide
from slinky.bridge.lifecycle.actions import (
    CancelJob,
    DetachPods,
    EvictPods,
    ExplainEnd,
    JobKnowledge,
    LabelPods,
    ObservedJob,
    PlacePods,
    Plan,
    RemoveFinalizer,
    ReviseJob,
    SubmitJob,
    WriteCondition,
)
from slinky.bridge.lifecycle.decide import WorkloadSnapshot
from slinky.bridge.state.views import WorkloadPod
from slinky.bridge.status.conditions import ConditionText
from slinky.bridge.workload.grouping import Workload, WorkloadRoot

ALONE = Workload("ns", "Pod", "p")
GROUP = Workload("ns", "PodGroup", "g")
PENDING = ObservedJob(JobKnowledge.LIVE, record("7", "PENDING", reason="Resources"))
RUNNING = ObservedJob(JobKnowledge.LIVE, record("7", "RUNNING", hosts=("n1",)))


def over(*words: str, lost: bool = False) -> ObservedJob:
    return ObservedJob(JobKnowledge.OVER, record("7", *words, lost=lost))


def plan(
    *pods: WorkloadPod,
    seen: ObservedJob | None = None,
    unit: Workload = ALONE,
    root: WorkloadRoot | None = None,
    **more: Any,
) -> Plan:
    jobs = {} if seen is None else {"7": seen}
    return decide.decide(WorkloadSnapshot(unit, pods, jobs, root or WorkloadRoot(), NOW, **more))


def kinds(found: Plan) -> list[str]:
    return [type(action).__name__ for action in found.actions]


def test_a_new_pod_is_submitted_at_once() -> None:
    assert plan(pod()).actions == [SubmitJob((pod(),))]


def test_a_gated_or_deleted_pod_is_not_submitted() -> None:
    assert plan(pod(spec={"schedulingGates": [{"name": "wait"}]})).actions == []
    assert plan(pod(deleted="2026-06-01T12:00:00Z")).actions == []


@pytest.mark.parametrize("there", [1, 2, 3])
def test_a_gang_is_submitted_whole_or_not_at_all(there: int) -> None:
    pods = [pod(f"p-{i}") for i in range(there)]
    found = plan(*pods, unit=GROUP, root=WorkloadRoot(min_members=3))
    assert kinds(found) == (["SubmitJob"] if there == 3 else ["WriteCondition"])


@pytest.mark.parametrize(
    ("newest", "left"),
    [("2026-06-01T11:59:59Z", 1.0), ("2026-06-01T11:59:58Z", None), ("2026-06-01T12:00:01Z", None)],
)
def test_a_gang_whose_pods_keep_coming_is_told_of_the_missing_once_it_is_still(newest: str, left: float | None) -> None:
    pods = pod("a", made="2026-06-01T11:00:00Z"), pod("b", made=newest)
    found = plan(*pods, unit=GROUP, root=WorkloadRoot(min_members=3))
    assert (kinds(found), found.again) == (([], left) if left else (["WriteCondition"], None))
    assert kinds(plan(*pods, unit=GROUP, root=WorkloadRoot(min_members=2))) == ["SubmitJob"]


@pytest.mark.parametrize("young", [True, False])
def test_a_pod_whose_root_is_not_in_sight_waits_and_is_told_if_that_lasts(young: bool) -> None:
    missing = ConditionText(False, "GroupMissing", "Job j, which made the pod, has not been seen yet.")
    newcomer = pod(made="2026-06-01T11:59:59Z" if young else "2026-06-01T11:00:00Z")
    found = decide.decide(WorkloadSnapshot(ALONE, [newcomer], {}, None, NOW, missing))
    assert (found.actions, found.again) == (([], 1.0) if young else ([WriteCondition((newcomer,), missing)], None))


def test_a_waiting_job_without_a_root_is_explained_and_otherwise_left_alone() -> None:
    missing = ConditionText(False, "GroupMissing", "Job j does not exist yet.")
    found = decide.decide(WorkloadSnapshot(GROUP, [pod(job="7")], {"7": PENDING}, None, NOW, missing))
    assert [action.said.reason for action in found.actions if isinstance(action, WriteCondition)] == ["Resources"]


@pytest.mark.parametrize("moved", [True, False])
def test_a_job_by_which_pods_of_another_unit_live_is_not_ended(moved: bool) -> None:
    done = pod("a", job="7", node="n1", phase="Succeeded")
    ended = plan(done, seen=RUNNING, unit=GROUP, elsewhere=lambda _: moved)
    assert kinds(ended) == (["RemoveFinalizer"] if moved else ["CancelJob", "RemoveFinalizer"])
    assert kinds(plan(unit=GROUP, strays=["7"], elsewhere=lambda _: moved)) == ([] if moved else ["CancelJob"])


def test_finished_pods_do_not_make_a_gang_whole() -> None:
    found = plan(pod("a"), pod("b", phase="Succeeded"), unit=GROUP, root=WorkloadRoot(min_members=2))
    assert kinds(found) == ["WriteCondition"]


def test_a_waiting_job_is_explained_and_otherwise_left_alone() -> None:
    found = plan(pod(job="7"), seen=PENDING)
    assert kinds(found) == ["WriteCondition"]
    assert isinstance(found.actions[0], WriteCondition)
    assert found.actions[0].said.reason == "Resources"


def test_a_newcomer_joins_the_waiting_job_of_its_gang() -> None:
    old, new = pod("a", job="7"), pod("b")
    found = plan(old, new, seen=PENDING, unit=GROUP)
    assert found.actions == [ReviseJob("7", (old, new))]


def test_a_newcomer_to_a_running_gang_gets_a_job_of_its_own_size() -> None:
    old, new = pod("a", job="7", node="n1", phase="Running"), pod("b")
    found = plan(old, new, seen=RUNNING, unit=GROUP, root=WorkloadRoot(min_members=2))
    assert found.actions == [SubmitJob((new,))]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("latest", [PENDING, RUNNING])
def test_a_newcomer_keeps_its_own_job_however_long_that_waits(latest: ObservedJob, exact: bool) -> None:
    old, new = pod("a", job="6", node="n1", phase="Running"), pod("b", job="7")
    seen = {"6": ObservedJob(JobKnowledge.LIVE, record("6", "RUNNING", hosts=("n1",))), "7": latest}
    found = decide.decide(WorkloadSnapshot(GROUP, [old, new], seen, WorkloadRoot(min_members=2, fixed_size=exact), NOW))
    assert kinds(found) == (["WriteCondition"] if latest is PENDING else ["PlacePods"])


@pytest.mark.parametrize(
    ("done", "counted", "steps"),
    [
        (1, 0, ["WriteCondition"]),
        (1, 1, ["DetachPods", "CancelJob"]),
        (2, 1, ["WriteCondition"]),
        (1, None, ["DetachPods", "CancelJob"]),
    ],
)
def test_a_member_that_succeeded_is_needed_until_it_has_been_counted(
    done: int, counted: int | None, steps: list[str]
) -> None:
    """Its batch job says so a moment later; until then nobody who waits loses a place in line."""
    ended = [pod(f"a-{i}", phase="Succeeded") for i in range(done)]
    found = plan(
        *ended, pod("b", job="7"), seen=PENDING, unit=GROUP, root=WorkloadRoot(min_members=2, succeeded=counted)
    )
    assert kinds(found) == steps


def test_pods_that_leave_do_not_make_their_successors_a_gang() -> None:
    soon = "2026-06-01T12:00:30Z"
    leaving = [pod(f"p-{i}", job="7", node="n1", phase="Running", deleted=soon) for i in range(2)]
    found = plan(*leaving, pod("p-2"), seen=RUNNING, unit=GROUP, root=WorkloadRoot(min_members=2))
    assert [action.said.reason for action in found.actions if isinstance(action, WriteCondition)] == ["GangIncomplete"]
    assert plan(
        *leaving, pod("p-2"), pod("p-3"), seen=RUNNING, unit=GROUP, root=WorkloadRoot(min_members=2)
    ).actions == [SubmitJob((pod("p-2"), pod("p-3")))]


def test_changed_wishes_reach_a_waiting_job() -> None:
    stale = ObservedJob(JobKnowledge.LIVE, PENDING.record, stale=True)
    assert plan(pod(job="7"), seen=stale).actions == [ReviseJob("7", (pod(job="7"),))]


def test_a_waiting_gang_that_shrank_is_withdrawn() -> None:
    left = pod("a", job="7")
    found = plan(
        left,
        pod("b", job="7", deleted="2026-06-01T12:00:00Z"),
        seen=PENDING,
        unit=GROUP,
        root=WorkloadRoot(min_members=2),
    )
    assert kinds(found) == ["RemoveFinalizer", "DetachPods", "CancelJob"]


def test_an_allocated_job_places_its_pods() -> None:
    assert plan(pod(job="7"), seen=RUNNING).actions == [PlacePods("7", (pod(job="7"),))]


def test_a_job_that_still_configures_places_nothing() -> None:
    seen = ObservedJob(JobKnowledge.LIVE, record("7", "RUNNING", "CONFIGURING"))
    assert plan(pod(job="7"), seen=seen).actions == []


def test_an_exact_gang_that_lost_a_member_before_its_start_does_not_start() -> None:
    found = plan(pod("a", job="7"), seen=RUNNING, unit=GROUP, root=WorkloadRoot(min_members=2, fixed_size=True))
    assert kinds(found) == ["DetachPods", "CancelJob"]


def test_a_suspended_job_keeps_its_pods_and_starts_no_others() -> None:
    suspended = ObservedJob(JobKnowledge.LIVE, record("7", "SUSPENDED"))
    for member in (pod(job="7"), pod(job="7", node="n1", phase="Running")):
        found = plan(member, seen=suspended)
        assert kinds(found) == ["WriteCondition"]
        assert isinstance(found.actions[0], WriteCondition)
        assert found.actions[0].said.reason == "Suspended"


def test_a_pod_that_runs_says_so_again_after_a_suspension_or_a_crash() -> None:
    other = {"type": "SlurmScheduled", "status": "Unknown", "reason": "Suspended"}
    for conditions in ([other], []):
        found = plan(pod(job="7", node="n1", phase="Running", status={"conditions": conditions}), seen=RUNNING)
        assert [action.said.reason for action in found.actions if isinstance(action, WriteCondition)] == ["Allocated"]
    assert plan(pod(job="7", node="n1", phase="Running"), seen=RUNNING).actions == []


@pytest.mark.parametrize(
    ("since", "busy", "waits"),
    [
        ("2026-06-01T11:59:55Z", True, True),
        ("2026-06-01T11:59:55Z", False, False),
        ("2026-06-01T11:59:50Z", True, False),
        ("2026-06-01T12:00:05Z", True, False),
        ("", True, False),
    ],
)
def test_words_about_a_new_node_wait_for_a_short_while_for_pods_that_have_none(
    since: str, busy: bool, waits: bool
) -> None:
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": since}
    one = pod(job="7", node="n1", phase="Running", status={"conditions": [bound]})
    found = plan(one, seen=RUNNING, busy=busy)
    assert (kinds(found), found.hushed, found.again) == (
        ([], True, 5.0) if waits else (["WriteCondition"], False, None)
    )


def test_what_is_left_of_a_half_ended_job_ends_only_after_its_containers() -> None:
    half = ObservedJob(JobKnowledge.OVER, record("7", "CANCELLED"), remains=True)
    assert kinds(plan(pod(job="7", node="n1", phase="Running"), seen=half)) == ["EvictPods"]
    assert kinds(plan(pod(job="7", node="n1", phase="Failed"), seen=half)) == ["CancelJob", "RemoveFinalizer"]
    assert kinds(plan(pod(job="7"), seen=half)) == ["WriteCondition", "WithdrawJob", "CancelJob"]


def test_unknown_is_not_gone() -> None:
    running = pod(job="7", node="n1", phase="Running")
    for seen in (None, ObservedJob(JobKnowledge.UNKNOWN), ObservedJob(JobKnowledge.UNKNOWN, record("7", "RUNNING"))):
        assert plan(running, seen=seen).actions == []
        assert plan(pod(job="7"), seen=seen).actions == []
        assert plan(pod(job="7", phase="Succeeded"), seen=seen).actions == []  # its job may still run: keep our hold


def test_a_gang_with_a_job_nobody_can_see_is_not_submitted_again() -> None:
    found = plan(pod("a", job="7"), pod("b"), seen=ObservedJob(JobKnowledge.UNKNOWN), unit=GROUP)
    assert kinds(found) == ["WriteCondition"]


def test_pods_that_are_done_with_do_not_hold_back_their_successors() -> None:
    old = pod("a", job="7", phase="Succeeded", held=False)
    assert plan(old, pod("b"), unit=GROUP).actions == [SubmitJob((pod("b"),))]


@pytest.mark.parametrize("state", ["CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "FAILED", "COMPLETED"])
def test_running_pods_of_an_ended_job_are_evicted_with_its_reason(state: str) -> None:
    found = plan(pod(job="7", node="n1", phase="Running"), seen=over(state))
    assert kinds(found) == ["EvictPods"]
    assert isinstance(found.actions[0], EvictPods)
    assert found.actions[0].said.message.startswith("Slurm job 7 ")


def test_a_pod_that_is_being_deleted_is_told_why_once_and_not_evicted_again() -> None:
    soon = "2026-06-01T12:00:30Z"
    (action,) = plan(pod(job="7", node="n1", phase="Running", deleted=soon), seen=over("CANCELLED")).actions
    assert isinstance(action, ExplainEnd)
    told = {"type": names.SCHEDULED, "status": "False", "reason": action.said.reason, "message": action.said.message}
    leaving = pod(job="7", node="n1", phase="Running", deleted=soon, status={"conditions": [told]})
    assert plan(leaving, seen=over("CANCELLED")).actions == []


def test_a_whole_gang_leaves_in_one_step() -> None:
    gang = [pod(f"p-{rank}", job="7", node="n1", phase="Running") for rank in range(3)]
    (action,) = plan(*gang, seen=over("TIMEOUT"), unit=GROUP).actions
    assert isinstance(action, EvictPods)
    assert list(action.pods) == gang


def test_eviction_looks_at_binding_and_not_at_readiness() -> None:
    assert kinds(plan(pod(job="7", node="n1", phase="Pending"), seen=over("PREEMPTED"))) == ["EvictPods"]


def test_a_users_cancel_of_a_waiting_job_sticks() -> None:
    for state in ("CANCELLED", "DEADLINE", "COMPLETED"):
        assert kinds(plan(pod(job="7"), seen=over(state))) == ["WriteCondition", "WithdrawJob"]


@pytest.mark.parametrize("state", ["TIMEOUT", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "FAILED"])
def test_a_job_that_ended_before_its_pods_started_is_submitted_again(state: str) -> None:
    assert kinds(plan(pod(job="7"), seen=over(state))) == ["DetachPods"]


def test_a_lost_job_is_submitted_again_or_reclaimed_for_pods_that_run() -> None:
    assert kinds(plan(pod(job="7"), seen=over("PENDING", lost=True))) == ["DetachPods"]
    assert kinds(plan(pod(job="7", node="n1", phase="Running"), seen=over("RUNNING", lost=True))) == ["RecoverJob"]


def test_an_id_that_belongs_to_somebody_else_now_is_never_cancelled() -> None:
    foreign = ObservedJob(JobKnowledge.FOREIGN, record("7", "RUNNING"))
    assert kinds(plan(pod(job="7"), seen=foreign)) == ["DetachPods"]
    assert kinds(plan(pod(job="7", phase="Succeeded"), seen=foreign)) == ["RemoveFinalizer"]


def test_a_job_ends_only_when_every_pod_of_it_is_gone() -> None:
    done, running = pod("a", job="7", node="n1", phase="Succeeded"), pod("b", job="7", node="n2", phase="Running")
    assert plan(done, running, seen=RUNNING, unit=GROUP).actions == [RemoveFinalizer(done)]
    found = plan(done, pod("b", job="7", node="n2", phase="Failed"), seen=RUNNING, unit=GROUP)
    assert kinds(found) == ["CancelJob", "RemoveFinalizer", "RemoveFinalizer"]


def test_a_deleted_pod_holds_its_job_until_its_containers_are_gone() -> None:
    leaving = pod(job="7", node="n1", phase="Running", deleted="2026-06-01T12:00:30Z")
    assert plan(leaving, seen=RUNNING).actions == []


def test_a_pod_deleted_before_it_had_a_node_frees_its_job_at_once() -> None:
    assert kinds(plan(pod(job="7", deleted="2026-06-01T12:00:00Z"), seen=PENDING)) == ["CancelJob", "RemoveFinalizer"]


def test_a_dead_kubelet_is_waited_for_and_then_given_up() -> None:
    leaving = pod(job="7", node="n1", phase="Running", deleted="2026-06-01T11:59:00Z")
    waiting = plan(leaving, seen=RUNNING, reachable=lambda _: False)
    assert waiting.actions == []
    assert waiting.again == 60
    late = pod(job="7", node="n1", phase="Running", deleted="2026-06-01T11:57:00Z")
    found = plan(late, seen=RUNNING, reachable=lambda _: False)
    assert sorted(kinds(found)) == ["CancelJob", "RemoveFinalizer"]
    assert plan(late, seen=RUNNING).actions == []  # its kubelet answers: it only needs longer


def test_a_pod_on_a_node_that_does_not_exist_is_given_up_after_its_grace() -> None:
    leaving = pod(job="7", node="n1", phase="Running", deleted="2026-06-01T12:00:00Z")
    assert sorted(kinds(plan(leaving, seen=RUNNING, reachable=lambda _: None))) == ["CancelJob", "RemoveFinalizer"]


def test_a_job_without_pods_is_cancelled() -> None:
    assert plan(strays=["9"]).actions == [CancelJob("9")]


def test_a_problem_is_told_and_nothing_is_submitted() -> None:
    found = plan(pod(), problem=ConditionText(False, "InvalidOption", "no"))
    assert kinds(found) == ["WriteCondition"]


def test_detached_pods_are_told_why() -> None:
    found = plan(pod(job="7"), seen=over("PREEMPTED"))
    assert isinstance(found.actions[0], DetachPods)
    assert found.actions[0].said.reason == "SlurmJobPreempted"


@pytest.mark.parametrize(
    ("seen", "member", "expected"),
    [
        (PENDING, pod(), LabelPods),  # a crash came between submission and label
        (RUNNING, pod(), LabelPods),  # as above, and Slurm was quick: without our hold it may not be bound
        (RUNNING, pod(held=True), PlacePods),  # the binding brings the label
        (RUNNING, pod(held=True, node="n1"), LabelPods),  # an API server that does not copy labels of bindings
    ],
)
def test_a_pod_without_the_name_of_its_job_gets_it_once(seen: ObservedJob, member: WorkloadPod, expected: type) -> None:
    found = plan(member, seen=seen, adopted={member.metadata.uid: "7"})
    assert [(type(action), getattr(action, "job", "")) for action in found.actions] == [(expected, "7")]


def test_the_rest_of_a_gang_whose_binding_was_cut_short_is_placed_with_it() -> None:
    done, left = pod("a", job="7", node="n1", held=True), pod("b", held=True)
    found = plan(
        done, left, seen=RUNNING, unit=GROUP, root=WorkloadRoot(min_members=2), adopted={left.metadata.uid: "7"}
    )
    assert found.actions == [PlacePods("7", (done, left))]
