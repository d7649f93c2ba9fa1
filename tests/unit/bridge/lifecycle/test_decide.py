# SPDX-License-Identifier: Apache-2.0
"""The life of a workload."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.bridge.build import NOW, pod, record

from slinky.bridge import names
from slinky.bridge.feasibility.exclusions import HostShortage
from slinky.bridge.lifecycle.decide import actions, retries
from slinky.bridge.lifecycle.decide.actions import Plan
from slinky.bridge.lifecycle.decide.assignment import Assignment
from slinky.bridge.lifecycle.decide.workload import decide
from slinky.bridge.lifecycle.release.outcome import PodOutcome
from slinky.bridge.lifecycle.snapshot import (
    AvoidedHost,
    Obstacle,
    ObstacleKind,
    PlacementFacts,
    PlacementNode,
    Refusal,
    SubmissionFacts,
    WorkloadSnapshot,
)
from slinky.bridge.state.observed_job import JobKnowledge, ObservedJob
from slinky.bridge.status.reasons import ConditionText
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload.grouping import Workload, WorkloadRoot
from slinky.bridge.workload.job_spec import JobSpec
from slinky.slurm import JobRequest

SINGLE = Workload("ns", "Pod", "p")
GROUP = Workload("ns", "PodGroup", "g")
PENDING = ObservedJob(JobKnowledge.LIVE, record("7", "PENDING", reason="Resources"))
RUNNING = ObservedJob(JobKnowledge.LIVE, record("7", "RUNNING", hosts=("n1",)))


def over(*flags: str, lost: bool = False) -> ObservedJob:
    return ObservedJob(JobKnowledge.OVER, record("7", *flags, lost=lost))


def plan(
    *pods: WorkloadPod,
    job: ObservedJob | None = None,
    workload: Workload = SINGLE,
    root: WorkloadRoot | None = None,
    **more: Any,
) -> Plan:
    jobs = {} if job is None else {"7": job}
    more.setdefault("placements", {"7": placement(*pods)})
    return decide(WorkloadSnapshot(workload, pods, jobs, root or WorkloadRoot(), NOW, **more))


def placement(*pods: WorkloadPod) -> PlacementFacts:
    """All pods are assigned to the node n1, which is ready and has room."""
    assert RUNNING.record is not None
    assignments = {pod.metadata.uid: Assignment("n1", RUNNING.record) for pod in pods}
    return PlacementFacts(
        assignments, [PlacementNode("n1", "h1", tuple(pod for pod in pods if not pod.spec.node_name))]
    )


def kinds(result: Plan) -> list[str]:
    return [type(action).__name__ for action in result.actions]


def test_a_new_pod_is_submitted_at_once() -> None:
    assert plan(pod()).actions == [actions.SubmitJob((pod(),))]


def test_a_gated_or_deleted_pod_is_not_submitted() -> None:
    assert plan(pod(spec={"schedulingGates": [{"name": "wait"}]})).actions == []
    assert plan(pod(deleted="2026-06-01T12:00:00Z")).actions == []


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_gang_is_submitted_completely_or_not_at_all(count: int) -> None:
    pods = [pod(f"p-{i}") for i in range(count)]
    result = plan(*pods, workload=GROUP, root=WorkloadRoot(min_members=3))
    assert kinds(result) == (["SubmitJob"] if count == 3 else ["WriteCondition"])


@pytest.mark.parametrize(
    ("newest", "left"),
    [("2026-06-01T11:59:59Z", 1.0), ("2026-06-01T11:59:58Z", None), ("2026-06-01T12:00:01Z", None)],
)
def test_a_gang_is_reported_as_incomplete_once_no_pod_is_added(newest: str, left: float | None) -> None:
    pods = pod("a", made="2026-06-01T11:00:00Z"), pod("b", made=newest)
    result = plan(*pods, workload=GROUP, root=WorkloadRoot(min_members=3))
    assert (kinds(result), result.again) == (([], left) if left else (["WriteCondition"], None))
    assert kinds(plan(*pods, workload=GROUP, root=WorkloadRoot(min_members=2))) == ["SubmitJob"]


@pytest.mark.parametrize("young", [True, False])
def test_a_pod_whose_root_is_not_visible_waits_and_is_reported_if_that_lasts(young: bool) -> None:
    missing = ConditionText(False, "GroupMissing", "Job j, which created the pod, is not visible yet.")
    new_pod = pod(made="2026-06-01T11:59:59Z" if young else "2026-06-01T11:00:00Z")
    result = decide(WorkloadSnapshot(SINGLE, [new_pod], {}, None, NOW, missing))
    assert (result.actions, result.again) == (
        ([], 1.0) if young else ([actions.WriteCondition((new_pod,), missing)], retries.IDLE_UNKNOWN)
    )


def test_a_waiting_job_without_a_root_is_explained_and_not_changed() -> None:
    missing = ConditionText(False, "GroupMissing", "Job j does not exist yet.")
    result = decide(WorkloadSnapshot(GROUP, [pod(job="7")], {"7": PENDING}, None, NOW, missing))
    assert [action.text.reason for action in result.actions if isinstance(action, actions.WriteCondition)] == [
        "Resources"
    ]


@pytest.mark.parametrize("moved", [True, False])
def test_a_job_that_pods_of_another_workload_use_is_not_ended(moved: bool) -> None:
    done = pod("a", job="7", node="n1", phase="Succeeded")
    ended = plan(done, job=RUNNING, workload=GROUP, used_elsewhere=frozenset({"7"} if moved else ()))
    assert kinds(ended) == (["RemoveFinalizers"] if moved else ["CancelJob", "RecordOutcome"])
    assert kinds(plan(workload=GROUP, orphaned_jobs=["7"], used_elsewhere=frozenset({"7"} if moved else ()))) == (
        [] if moved else ["CancelJob"]
    )


def test_finished_pods_do_not_complete_a_gang() -> None:
    result = plan(pod("a"), pod("b", phase="Succeeded"), workload=GROUP, root=WorkloadRoot(min_members=2))
    assert kinds(result) == ["WriteCondition"]


def test_a_waiting_job_is_explained_and_not_changed() -> None:
    result = plan(pod(job="7"), job=PENDING)
    assert kinds(result) == ["WriteCondition"]
    assert isinstance(result.actions[0], actions.WriteCondition)
    assert result.actions[0].text.reason == "Resources"


def test_a_newcomer_joins_the_waiting_job_of_its_gang() -> None:
    old, new = pod("a", job="7"), pod("b")
    result = plan(old, new, job=PENDING, workload=GROUP)
    assert result.actions == [actions.ReviseJob("7", (old, new))]


def test_a_newcomer_to_a_running_gang_gets_a_job_of_its_own_size() -> None:
    old, new = pod("a", job="7", node="n1", phase="Running"), pod("b")
    result = plan(old, new, job=RUNNING, workload=GROUP, root=WorkloadRoot(min_members=2))
    assert result.actions == [actions.SubmitJob((new,))]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("latest", [PENDING, RUNNING])
def test_a_newcomer_keeps_its_own_job_however_long_that_waits(latest: ObservedJob, exact: bool) -> None:
    old, new = pod("a", job="6", node="n1", phase="Running"), pod("b", job="7")
    jobs = {"6": ObservedJob(JobKnowledge.LIVE, record("6", "RUNNING", hosts=("n1",))), "7": latest}
    root, placements = WorkloadRoot(min_members=2, fixed_size=exact), {"7": placement(new)}
    result = decide(WorkloadSnapshot(GROUP, [old, new], jobs, root, NOW, placements=placements))
    assert kinds(result) == (["WriteCondition"] if latest is PENDING else ["BindPods"])


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
    """The batch job counts it a moment later; until then the pending job must keep its position."""
    ended = [pod(f"a-{i}", phase="Succeeded") for i in range(done)]
    result = plan(
        *ended, pod("b", job="7"), job=PENDING, workload=GROUP, root=WorkloadRoot(min_members=2, succeeded=counted)
    )
    assert kinds(result) == steps


def test_pods_that_are_being_deleted_do_not_complete_a_gang() -> None:
    soon = "2026-06-01T12:00:30Z"
    leaving = [pod(f"p-{i}", job="7", node="n1", phase="Running", deleted=soon) for i in range(2)]
    result = plan(*leaving, pod("p-2"), job=RUNNING, workload=GROUP, root=WorkloadRoot(min_members=2))
    assert [action.text.reason for action in result.actions if isinstance(action, actions.WriteCondition)] == [
        "GangIncomplete"
    ]
    assert plan(
        *leaving, pod("p-2"), pod("p-3"), job=RUNNING, workload=GROUP, root=WorkloadRoot(min_members=2)
    ).actions == [actions.SubmitJob((pod("p-2"), pod("p-3")))]


def test_changed_requests_revise_a_pending_job() -> None:
    stale = ObservedJob(JobKnowledge.LIVE, PENDING.record, stale=True)
    assert plan(pod(job="7"), job=stale).actions == [actions.ReviseJob("7", (pod(job="7"),))]


def test_a_waiting_gang_that_shrank_is_withdrawn() -> None:
    left = pod("a", job="7")
    result = plan(
        left,
        pod("b", job="7", deleted="2026-06-01T12:00:00Z"),
        job=PENDING,
        workload=GROUP,
        root=WorkloadRoot(min_members=2),
    )
    assert kinds(result) == ["RemoveFinalizers", "DetachPods", "CancelJob"]


def test_an_allocated_job_places_its_pods() -> None:
    (action,) = plan(pod(job="7"), job=RUNNING).actions
    assert isinstance(action, actions.BindPods)
    assert (action.job, action.pods, action.reserve_room) == ("7", (pod(job="7"),), True)
    assert action.assignments["uid-p"].node == "n1"


def test_a_job_that_still_configures_places_nothing() -> None:
    job = ObservedJob(JobKnowledge.LIVE, record("7", "RUNNING", "CONFIGURING"))
    result = plan(pod(job="7"), job=job)
    assert (result.actions, result.again) == ([], retries.IDLE_UNKNOWN)


def test_an_exact_gang_that_lost_a_member_before_its_start_does_not_start() -> None:
    result = plan(pod("a", job="7"), job=RUNNING, workload=GROUP, root=WorkloadRoot(min_members=2, fixed_size=True))
    assert kinds(result) == ["DetachPods", "CancelJob"]


def test_a_suspended_job_keeps_its_pods_and_starts_no_others() -> None:
    suspended = ObservedJob(JobKnowledge.LIVE, record("7", "SUSPENDED"))
    for member in (pod(job="7"), pod(job="7", node="n1", phase="Running")):
        result = plan(member, job=suspended)
        assert kinds(result) == ["WriteCondition"]
        assert isinstance(result.actions[0], actions.WriteCondition)
        assert result.actions[0].text.reason == "Suspended"


def test_a_pod_that_runs_says_so_again_after_a_suspension_or_a_crash() -> None:
    other = {"type": "SlurmScheduled", "status": "Unknown", "reason": "Suspended"}
    for conditions in ([other], []):
        result = plan(pod(job="7", node="n1", phase="Running", status={"conditions": conditions}), job=RUNNING)
        (action,) = result.actions
        assert isinstance(action, actions.ReportNodes)
        assert [text.reason for _, text in action.texts] == ["Allocated"]
    assert plan(pod(job="7", node="n1", phase="Running"), job=RUNNING).actions == []


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
def test_conditions_of_bound_pods_are_deferred_for_a_short_while_during_bindings(
    since: str, busy: bool, waits: bool
) -> None:
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": since}
    one = pod(job="7", node="n1", phase="Running", status={"conditions": [bound]})
    result = plan(one, job=RUNNING, binding_in_progress=busy)
    assert (kinds(result), result.deferred, result.again) == (
        ([], True, 5.0) if waits else (["ReportNodes"], False, None)
    )


def test_live_components_of_an_ended_job_end_after_the_containers() -> None:
    half = ObservedJob(JobKnowledge.OVER, record("7", "CANCELLED"), live_components=True)
    assert kinds(plan(pod(job="7", node="n1", phase="Running"), job=half)) == ["EvictPods"]
    assert kinds(plan(pod(job="7", node="n1", phase="Failed"), job=half)) == ["CancelJob", "RecordOutcome"]
    assert kinds(plan(pod(job="7"), job=half)) == ["WriteCondition", "ReleaseDevices", "CancelJob"]


@pytest.mark.parametrize(
    "member",
    [
        pod(job="7", node="n1", phase="Running"),
        pod(job="7"),
        pod(job="7", phase="Succeeded"),  # its job may still run: the finalizer stays
    ],
    ids=["running", "waiting", "succeeded"],
)
@pytest.mark.parametrize("state", ["", "PENDING", "RUNNING"])
def test_a_job_that_is_not_known_is_left_alone_and_looked_at_again(member: WorkloadPod, state: str) -> None:
    result = plan(member, job=ObservedJob(JobKnowledge.UNKNOWN, record("7", state) if state else None))
    assert result.actions == []
    assert result.again is not None
    assert plan(member).again == plan(member, job=ObservedJob(JobKnowledge.UNKNOWN)).again


def test_an_unknown_job_is_looked_at_soon_if_its_pods_wait_for_an_action() -> None:
    unknown = ObservedJob(JobKnowledge.UNKNOWN, record("7", "RUNNING"))
    assert plan(pod(job="7"), job=unknown).again == retries.UNKNOWN
    assert plan(pod(job="7", phase="Succeeded"), job=unknown).again == retries.UNKNOWN
    assert plan(pod(job="7", node="n1", phase="Running"), job=unknown).again == retries.IDLE_UNKNOWN


def test_a_gang_with_a_job_that_is_not_known_is_not_submitted_again() -> None:
    result = plan(pod("a", job="7"), pod("b"), job=ObservedJob(JobKnowledge.UNKNOWN), workload=GROUP)
    assert (kinds(result), result.again) == (["WriteCondition"], retries.UNKNOWN)


def test_finished_pods_do_not_block_new_pods() -> None:
    old = pod("a", job="7", phase="Succeeded", held=False)
    assert plan(old, pod("b"), workload=GROUP).actions == [actions.SubmitJob((pod("b"),))]


@pytest.mark.parametrize("state", ["CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "FAILED", "COMPLETED"])
def test_running_pods_of_an_ended_job_are_evicted_with_its_reason(state: str) -> None:
    result = plan(pod(job="7", node="n1", phase="Running"), job=over(state))
    assert kinds(result) == ["EvictPods"]
    assert isinstance(result.actions[0], actions.EvictPods)
    assert result.actions[0].text.message.startswith("Slurm job 7 ")


def test_the_end_of_a_job_is_written_once_to_a_pod_that_is_being_deleted() -> None:
    soon = "2026-06-01T12:00:30Z"
    (action,) = plan(pod(job="7", node="n1", phase="Running", deleted=soon), job=over("CANCELLED")).actions
    assert isinstance(action, actions.ExplainEnd)
    condition = {
        "type": names.SCHEDULED,
        "status": "False",
        "reason": action.text.reason,
        "message": action.text.message,
    }
    leaving = pod(job="7", node="n1", phase="Running", deleted=soon, status={"conditions": [condition]})
    assert plan(leaving, job=over("CANCELLED")).actions == []


def test_a_gang_is_evicted_in_one_action() -> None:
    gang = [pod(f"p-{rank}", job="7", node="n1", phase="Running") for rank in range(3)]
    (action,) = plan(*gang, job=over("TIMEOUT"), workload=GROUP).actions
    assert isinstance(action, actions.EvictPods)
    assert list(action.pods) == gang


def test_every_bound_pod_is_evicted_ready_or_not() -> None:
    assert kinds(plan(pod(job="7", node="n1", phase="Pending"), job=over("PREEMPTED"))) == ["EvictPods"]


def test_a_users_cancel_of_a_waiting_job_sticks() -> None:
    for state in ("CANCELLED", "DEADLINE", "COMPLETED"):
        assert kinds(plan(pod(job="7"), job=over(state))) == ["WriteCondition", "ReleaseDevices"]


@pytest.mark.parametrize("state", ["TIMEOUT", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "FAILED"])
def test_a_job_that_ended_before_its_pods_started_is_submitted_again(state: str) -> None:
    assert kinds(plan(pod(job="7"), job=over(state))) == ["DetachPods"]


def test_a_lost_job_is_submitted_again_or_recovered_for_running_pods() -> None:
    assert kinds(plan(pod(job="7"), job=over("PENDING", lost=True))) == ["PauseSubmissions", "DetachPods"]
    assert kinds(plan(pod(job="7", node="n1", phase="Running"), job=over("RUNNING", lost=True))) == [
        "PauseSubmissions",
        "WriteCondition",
    ]


def test_a_job_on_other_nodes_than_its_running_pods_is_replaced() -> None:
    moved = ObservedJob(JobKnowledge.MOVED, record("7", "RUNNING", hosts=("n2",)))
    running = pod(job="7", node="n1", phase="Running")
    spec = JobSpec((JobRequest(nodes="1"),), ((running,),))
    result = plan(running, job=moved, lost_job_specs={"7": spec}, hosts={"n1": "h1"})
    assert result.actions == [
        actions.CancelJob("7"), actions.PauseSubmissions(), actions.ReplaceJob(spec, ("h1",))
    ]  # fmt: skip
    assert kinds(plan(running, job=moved)) == ["CancelJob", "PauseSubmissions", "WriteCondition"]


def test_a_foreign_job_under_a_known_id_is_never_cancelled() -> None:
    foreign = ObservedJob(JobKnowledge.FOREIGN, record("7", "RUNNING"))
    assert kinds(plan(pod(job="7"), job=foreign)) == ["PauseSubmissions", "DetachPods"]
    assert kinds(plan(pod(job="7", phase="Succeeded"), job=foreign)) == ["RemoveFinalizers"]


def test_a_job_ends_only_when_every_pod_of_it_is_gone() -> None:
    done, running = pod("a", job="7", node="n1", phase="Succeeded"), pod("b", job="7", node="n2", phase="Running")
    assert plan(done, running, job=RUNNING, workload=GROUP).actions == [actions.RemoveFinalizers((done,))]
    failed = pod("b", job="7", node="n2", phase="Failed")
    outcome = PodOutcome("Failed", 1, "b")
    assert plan(done, failed, job=RUNNING, workload=GROUP).actions == [
        actions.CancelJob("7", outcome),
        actions.RemoveFinalizers((done,)),
        actions.RecordOutcome("7", outcome, failed),
    ]


@pytest.mark.parametrize(
    ("member", "job", "expected"),
    [
        (pod(job="7", node="n1", phase="Succeeded"), over("CANCELLED"), ["RecordOutcome"]),  # after a restart
        (pod(job="7", node="n1", phase="Succeeded"), replace(over("CANCELLED"), outcome_settled=True), None),
        (pod(job="7", node="n1", phase="Succeeded", deleted="2026-06-01T12:00:00Z"), over("CANCELLED"), None),
        (pod(job="7", node="n1", phase="Failed", deleted="2026-06-01T12:00:00Z"), over("CANCELLED"), None),
        (pod(job="7", deleted="2026-06-01T12:00:00Z"), over("CANCELLED"), None),  # it never ran
    ],
)
def test_a_finished_pod_keeps_its_finalizer_until_its_outcome_is_recorded_unless_it_is_deleted(
    member: WorkloadPod, job: ObservedJob, expected: list[str] | None
) -> None:
    assert kinds(plan(member, job=job)) == (expected or ["RemoveFinalizers"])


def test_a_deleted_pod_keeps_its_job_until_its_containers_are_gone() -> None:
    leaving = pod(job="7", node="n1", phase="Running", deleted="2026-06-01T12:00:30Z")
    assert plan(leaving, job=RUNNING).actions == []


def test_a_pod_deleted_before_it_had_a_node_frees_its_job_at_once() -> None:
    assert kinds(plan(pod(job="7", deleted="2026-06-01T12:00:00Z"), job=PENDING)) == ["CancelJob", "RemoveFinalizers"]


def test_a_dead_kubelet_is_waited_for_and_then_given_up() -> None:
    leaving = pod(job="7", node="n1", phase="Running", deleted="2026-06-01T11:59:00Z")
    waiting = plan(leaving, job=RUNNING, unreachable_nodes=frozenset({"n1"}))
    assert waiting.actions == []
    assert waiting.again == 60
    late = pod(job="7", node="n1", phase="Running", deleted="2026-06-01T11:57:00Z")
    result = plan(late, job=RUNNING, unreachable_nodes=frozenset({"n1"}))
    assert sorted(kinds(result)) == ["CancelJob", "RemoveFinalizers"]
    assert plan(late, job=RUNNING).actions == []  # the kubelet answers: the pod only needs longer


def test_a_pod_on_a_node_that_does_not_exist_is_given_up_after_its_grace() -> None:
    leaving = pod(job="7", node="n1", phase="Running", deleted="2026-06-01T12:00:00Z")
    result = plan(leaving, job=RUNNING, missing_nodes=frozenset({"n1"}))
    assert sorted(kinds(result)) == ["CancelJob", "RemoveFinalizers"]


def test_a_job_without_pods_is_cancelled() -> None:
    assert plan(orphaned_jobs=["9"]).actions == [actions.CancelJob("9")]


def test_a_problem_is_reported_and_nothing_is_submitted() -> None:
    result = plan(pod(), problem=ConditionText(False, "InvalidOption", "no"))
    assert kinds(result) == ["WriteCondition"]


def test_detached_pods_get_the_reason() -> None:
    result = plan(pod(job="7"), job=over("PREEMPTED"))
    assert isinstance(result.actions[0], actions.DetachPods)
    assert result.actions[0].text.reason == "SlurmJobPreempted"


@pytest.mark.parametrize(
    ("job", "member", "expected"),
    [
        (PENDING, pod(), actions.LabelPods),  # a crash came between submission and label
        (
            RUNNING,
            pod(),
            actions.LabelPods,
        ),  # as above, and Slurm was quick: without the finalizer it must not be bound
        (RUNNING, pod(held=True), actions.BindPods),  # the binding brings the label
        (RUNNING, pod(held=True, node="n1"), actions.LabelPods),  # an API server that does not copy labels of bindings
    ],
)
def test_a_pod_without_job_label_is_labelled_once(job: ObservedJob, member: WorkloadPod, expected: type) -> None:
    result = plan(member, job=job, adopted={member.metadata.uid: "7"})
    assert [(type(action), getattr(action, "job", "")) for action in result.actions] == [(expected, "7")]


def test_the_rest_of_a_gang_whose_binding_was_cut_short_is_placed_with_it() -> None:
    done, left = pod("a", job="7", node="n1", held=True), pod("b", held=True)
    result = plan(
        done, left, job=RUNNING, workload=GROUP, root=WorkloadRoot(min_members=2), adopted={left.metadata.uid: "7"}
    )
    (action,) = result.actions
    assert isinstance(action, actions.BindPods)
    assert action.pods == (done, left)


@pytest.mark.parametrize(("reason", "reported"), [("OutOfcpu", True), ("OutOfpods", True), ("Evicted", False)])
def test_a_rejection_by_the_kubelet_is_reported_once_before_the_job_ends(reason: str, reported: bool) -> None:
    rejected = pod(job="7", node="n1", phase="Failed", status={"reason": reason})
    result = plan(rejected, job=RUNNING)
    report = ["BlockNode", "WriteCondition"] if reported else []
    assert kinds(result) == [*report, "CancelJob", "RecordOutcome"]
    condition = {"type": names.SCHEDULED, "status": "False", "reason": "KubeletRejected"}
    again = pod(job="7", node="n1", phase="Failed", status={"reason": reason, "conditions": [condition]})
    assert kinds(plan(again, job=RUNNING)) == ["CancelJob", "RecordOutcome"]


# --- limits and back-off


@pytest.mark.parametrize("state", ["NODE_FAIL", "BOOT_FAIL", "FAILED"])
@pytest.mark.parametrize("left", [0, 1])
def test_evictions_after_failures_of_slurm_or_nodes_are_limited(state: str, left: int) -> None:
    gang = [pod(f"p-{rank}", job="7", node="n1", phase="Running") for rank in range(3)]
    result = plan(*gang, job=over(state), workload=GROUP, failed_evictions_left=left)
    (action,) = result.actions
    if left:
        assert isinstance(action, actions.EvictPods)
        assert (len(action.pods), action.limit, result.again) == (3, actions.EvictionLimit.FAILED, None)
    else:
        assert isinstance(action, actions.WriteCondition)
        assert (action.text.reason, result.again) == ("EvictionLimited", retries.EVICTION_LIMITED)


@pytest.mark.parametrize("state", ["CANCELLED", "TIMEOUT", "PREEMPTED", "DEADLINE", "COMPLETED", "OUT_OF_MEMORY"])
def test_deliberate_ends_are_never_limited(state: str) -> None:
    (action,) = plan(
        pod(job="7", node="n1", phase="Running"), job=over(state), failed_evictions_left=0, lost_evictions_left=0
    ).actions
    assert isinstance(action, actions.EvictPods)
    assert action.limit is actions.EvictionLimit.NONE


AVOIDED = AvoidedHost("n1", "its devices differ", 30.0)
SHORTAGE = HostShortage(1, 2, "2 nodes are requested; 1 of the 2 hosts suit the pods.")


@pytest.mark.parametrize(
    ("facts", "reason", "again"),
    [
        ({"obstacles": {"": Obstacle(ObstacleKind.UNREACHABLE, "no answer")}}, "SlurmUnreachable", None),
        ({"obstacles": {"": Obstacle(ObstacleKind.NOT_PREPARED, "soon", retry=1.0)}}, "", 1.0),
        ({"submission": SubmissionFacts(searched=False)}, "", retries.SEARCH),
        ({"submissions_paused": 4.0}, "", 4.0),
        (
            {"submission": SubmissionFacts(room_shortage=ConditionText(False, "InsufficientNodeResources", "full"))},
            "InsufficientNodeResources",
            retries.TOO_FEW_NODES,
        ),
        ({"submission": SubmissionFacts(host_shortage=SHORTAGE)}, "SlurmRefused", retries.TOO_FEW_NODES),
        (
            {"submission": SubmissionFacts(host_shortage=SHORTAGE), "avoided_hosts": [AVOIDED]},
            "NodeUnsuitable",
            AVOIDED.left,
        ),
        ({"refusals": {"": Refusal(2045, "no account", 90.0)}}, "SlurmRefused", 90.0),
        ({"submission": SubmissionFacts(delay=8.0)}, "", 8.0),
        ({"submission": SubmissionFacts(namespace_delay=9.0)}, "SubmissionsLimited", 9.0),
    ],
)
def test_a_complete_gang_is_not_submitted_while_there_is_a_reason_to_wait(
    facts: dict[str, Any], reason: str, again: float | None
) -> None:
    result = plan(pod(), **facts)
    texts = [action.text.reason for action in result.actions if isinstance(action, actions.WriteCondition)]
    assert (texts, result.again) == ([reason] if reason else [], again)
    assert len(result.actions) == len(texts)
    assert bool(result.failure) is (again is None)


@pytest.mark.parametrize(
    ("facts", "steps", "again"),
    [
        ({}, ["ReviseJob"], None),
        (
            {"obstacles": {"7": Obstacle(ObstacleKind.OUTGROWN, "cannot remove constraints")}},
            ["DetachPods", "CancelJob"],
            None,
        ),
        ({"obstacles": {"7": Obstacle(ObstacleKind.RESHAPED, "two roles")}}, ["DetachPods", "CancelJob"], None),
        ({"obstacles": {"7": Obstacle(ObstacleKind.NOT_PENDING, "it runs")}}, [], retries.UNKNOWN),
        ({"submission": SubmissionFacts(host_shortage=SHORTAGE)}, ["WriteCondition"], retries.TOO_FEW_NODES),
        ({"refusals": {"7": Refusal(2000, "no partition", 90.0)}}, ["WriteCondition"], 90.0),
    ],
)
@pytest.mark.parametrize("joins", [True, False])
def test_a_pending_job_that_cannot_be_updated_is_replaced_or_left(
    facts: dict[str, Any], steps: list[str], again: float | None, joins: bool
) -> None:
    """A pod that joins the gang is not submitted on its own meanwhile."""
    stale = ObservedJob(JobKnowledge.LIVE, PENDING.record, stale=not joins)
    result = plan(pod("a", job="7"), *([pod("b")] if joins else []), job=stale, workload=GROUP, **facts)
    assert (kinds(result), result.again) == (steps, again)


def test_a_missing_claim_or_volume_is_looked_for_again() -> None:
    for reason, seconds in retries.MISSING_OBJECT.items():
        assert plan(pod(), problem=ConditionText(False, reason, "missing")).again == seconds


def test_an_avoided_host_is_used_again_when_its_time_is_over() -> None:
    assert plan(pod(job="7"), job=PENDING, avoided_hosts=[AVOIDED]).again == AVOIDED.left
    assert plan(pod(job="7", node="n1", phase="Running"), job=RUNNING, avoided_hosts=[AVOIDED]).again is None


@pytest.mark.parametrize("labelled", [True, False])
def test_a_job_that_other_workloads_use_is_looked_at_again(labelled: bool) -> None:
    used: dict[str, Any] = {"used_elsewhere" if labelled else "unlabelled_elsewhere": frozenset({"9"})}
    result = plan(orphaned_jobs=["9"], **used)
    assert (result.actions, result.again) == ([], retries.IDLE_UNKNOWN if labelled else retries.UNLABELLED)


def test_pods_that_were_given_up_name_their_node() -> None:
    late = [pod(name, job="7", node=name, phase="Running", deleted="2026-06-01T11:00:00Z") for name in ("n1", "n2")]
    result = plan(*late, job=ObservedJob(JobKnowledge.UNKNOWN), workload=GROUP, missing_nodes=frozenset({"n1", "n2"}))
    events = [action.event for action in result.actions if isinstance(action, actions.RemoveFinalizers)]
    assert [event is not None and name in event.message for event, name in zip(events, ("n1", "n2"), strict=True)]
    assert result.again == retries.UNKNOWN
