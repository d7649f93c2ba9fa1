# SPDX-License-Identifier: Apache-2.0
"""Decides what to do next for one workload: its whole life as one function of a snapshot.

    new -> (gang complete) -> SubmitJob -> WriteCondition -> PlacePods -> ... -> CancelJob -> RemoveFinalizer
                                  |        (why pending)        |
                                  |             |          EvictPods (the job ended),
                              submit again <- DetachPods   RecoverJob (the job was lost)

Pods are grouped by the job that their label names; each job is followed, then pods without a job are submitted. If the
state of a job is not known, nothing is done about the job or its pods: unknown does not mean gone. The plan then says
when to look again, because no change is reported when the same state is confirmed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from slinky.bridge import names
from slinky.bridge.lifecycle import actions, outcome
from slinky.bridge.lifecycle.actions import Plan
from slinky.bridge.state.observed_job import JobKnowledge, ObservedJob
from slinky.bridge.status import conditions, reasons
from slinky.bridge.status.reasons import ConditionText, Reason
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import pod_state
from slinky.bridge.workload.grouping import Workload, WorkloadRoot
from slinky.kube.conditions import find_condition
from slinky.kube.timestamps import seconds_since
from slinky.slurm import JobRecord

#: A gang is reported as incomplete once no pod has been added for this many seconds.
GANG_SETTLE_SECONDS = 2.0
#: Condition writes for bound pods are deferred for at most this many seconds while other pods are being bound.
MAX_DEFERRAL = 10.0
#: Seconds until a job whose state is not known is looked at again: if its pods wait for an action, and otherwise.
UNKNOWN_RETRY, IDLE_UNKNOWN_RETRY = 3.0, 30.0


@dataclass(frozen=True)
class WorkloadSnapshot:
    """What is known about a workload at one moment."""

    workload: Workload
    pods: Sequence[WorkloadPod]
    jobs: Mapping[str, ObservedJob]
    root: WorkloadRoot | None
    now: datetime
    problem: ConditionText | None = None  # why the pods cannot be translated to a job, or why there is no root
    dead_kubelet_seconds: float = 120.0
    is_reachable: Callable[[str], bool | None] = lambda _: True  # by node name; None: the node does not exist
    orphaned_jobs: Sequence[str] = ()  # live jobs of this workload that no pod is labelled with
    queue_position: Callable[[JobRecord], str] = lambda _: ""  # a sentence about the position of a pending job
    adopted: Mapping[str, str] = field(default_factory=dict)  # jobs of pods without a job label, by pod uid
    binding_in_progress: bool = False  # pods of other workloads are being bound
    is_used_elsewhere: Callable[[str], bool] = lambda _: False  # whether pods of other workloads use a job


def decide(snapshot: WorkloadSnapshot) -> Plan:
    """The next actions for a workload; an empty plan if there is nothing to do."""
    plan = Plan()
    by_job: dict[str, list[WorkloadPod]] = {}
    for pod in snapshot.pods:
        by_job.setdefault(pod_state.job_id(pod) or snapshot.adopted.get(pod.metadata.uid, ""), []).append(pod)
    without_job = by_job.pop("", [])
    for job, pods in sorted(by_job.items(), key=lambda pair: int(pair[0])):
        _follow_job(snapshot, plan, job, pods, without_job)
    plan.add(*(actions.CancelJob(job) for job in snapshot.orphaned_jobs if not snapshot.is_used_elsewhere(job)))
    plan.add(*_finalizer_removals(without_job))
    new_pods = [pod for pod in without_job if pod_state.is_waiting(pod)]
    if new_pods and not any(isinstance(action, actions.ReviseJob) for action in plan.actions):
        _submit(snapshot, plan, new_pods, by_job)
    return plan


def _submit(
    snapshot: WorkloadSnapshot, plan: Plan, new_pods: list[WorkloadPod], by_job: Mapping[str, list[WorkloadPod]]
) -> None:
    """Submit pods without a job once the gang is complete; until then, write why they wait."""
    pods = tuple(new_pods)
    if snapshot.root is None and (left := _settle_time(snapshot, pods)) > 0:
        plan.retry_after(left)
        return
    if snapshot.problem is not None:
        plan.add(actions.WriteCondition(pods, snapshot.problem))
    if snapshot.root is None:
        plan.retry_after(IDLE_UNKNOWN_RETRY)
    if snapshot.root is None or snapshot.problem is not None:
        return
    unknown = [job for job, group in by_job.items() if _is_unknown(snapshot, job) and _has_unfinished(group)]
    if unknown and not snapshot.workload.is_single_pod:
        plan.add(actions.WriteCondition(pods, Reason.SLURM_UNKNOWN.text(job=unknown[0])))
        plan.retry_after(UNKNOWN_RETRY)
        return
    count = _member_count(snapshot)
    if count < snapshot.root.min_members:
        if (left := _settle_time(snapshot, pods)) > 0:
            plan.retry_after(left)
            return
        hint = f"{snapshot.root.hint}." if snapshot.root.hint else ""
        text = Reason.GANG_INCOMPLETE.text(count=count, needed=snapshot.root.min_members, hint=hint)
        plan.add(actions.WriteCondition(pods, text))
        return
    plan.add(actions.SubmitJob(pods))


def _remaining_deferral(snapshot: WorkloadSnapshot, pod: WorkloadPod) -> float:
    """Seconds for which the condition of a bound pod may still be deferred."""
    condition = find_condition(pod.status.conditions, "PodScheduled")
    age = seconds_since(condition.last_transition_time, snapshot.now) if condition else None
    return max(0.0, MAX_DEFERRAL - age) if age is not None and age >= 0 else 0.0


def _settle_time(snapshot: WorkloadSnapshot, pods: Sequence[WorkloadPod]) -> float:
    """Seconds until no pod has been added to a gang for a while. To update every pod for each new one would cost more
    writes than everything else. A creation time in the future means that clocks differ, and is ignored.
    """
    ages = (seconds_since(pod.metadata.creation_timestamp, snapshot.now) for pod in pods)
    youngest = min((age for age in ages if age is not None and age >= 0), default=GANG_SETTLE_SECONDS)
    return GANG_SETTLE_SECONDS - youngest


def _follow_job(
    snapshot: WorkloadSnapshot, plan: Plan, job: str, pods: list[WorkloadPod], without_job: list[WorkloadPod]
) -> None:
    """Decide about a job and the pods that are labelled with it."""
    observed = snapshot.jobs.get(job, ObservedJob(JobKnowledge.UNKNOWN))
    plan.add(*(actions.ReportRejection(job, pod) for pod in pods if _is_unreported_rejection(pod)))
    active = [pod for pod in pods if not pod_state.is_gone(pod) and not _is_given_up(snapshot, plan, pod)]
    if not active:
        _finish_job(snapshot, plan, job, observed, pods)
        return
    plan.add(*_finalizer_removals(pods))
    if observed.knowledge in (JobKnowledge.OVER, JobKnowledge.FOREIGN):
        _follow_ended(snapshot, plan, job, observed, active)
    elif observed.knowledge is JobKnowledge.LIVE and observed.record is not None:
        if unlabelled := _pods_to_label(observed.record, active):
            plan.add(actions.LabelPods(job, unlabelled))
        elif observed.record.state.pending:
            _follow_pending(snapshot, plan, job, observed, active, without_job)
        elif observed.record.state.ready:
            _follow_running(snapshot, plan, job, observed.record, active)
        else:
            if observed.record.state.suspended:
                plan.add(actions.WriteCondition(tuple(active), Reason.SUSPENDED.text(job=job)))
            plan.retry_after(IDLE_UNKNOWN_RETRY)
    else:
        plan.retry_after(_unknown_retry(observed, active))


def _unknown_retry(observed: ObservedJob, active: list[WorkloadPod]) -> float:
    """Seconds until a job of active pods is looked at again: few if it may have started without its pods."""
    started = observed.record is not None and not observed.record.state.pending
    return UNKNOWN_RETRY if started and not all(map(pod_state.is_bound, active)) else IDLE_UNKNOWN_RETRY


def _is_unreported_rejection(pod: WorkloadPod) -> bool:
    """Whether the kubelet rejected a pod and its condition does not say so yet."""
    condition = find_condition(pod.status.conditions, names.SCHEDULED)
    is_reported = condition is not None and condition.reason == Reason.KUBELET_REJECTED.token
    return pod_state.is_rejected(pod) and pod_state.has_finalizer(pod) and not is_reported


def _finalizer_removals(pods: Iterable[WorkloadPod]) -> list[actions.RemoveFinalizer]:
    """Removals of the finalizers of pods that have ended."""
    return [actions.RemoveFinalizer(pod) for pod in pods if pod_state.is_gone(pod) and pod_state.has_finalizer(pod)]


def _pods_to_label(record: JobRecord, active: list[WorkloadPod]) -> tuple[WorkloadPod, ...]:
    """Pods without a job label, except those that get the label with their binding now."""

    def is_labelled_by_binding(pod: WorkloadPod) -> bool:
        return record.state.ready and pod_state.has_finalizer(pod) and not pod_state.is_bound(pod)

    return tuple(pod for pod in active if not pod_state.job_id(pod) and not is_labelled_by_binding(pod))


def _follow_pending(
    snapshot: WorkloadSnapshot,
    plan: Plan,
    job: str,
    observed: ObservedJob,
    active: list[WorkloadPod],
    without_job: list[WorkloadPod],
) -> None:
    """Cancel, revise or explain a pending job."""
    new_pods = [pod for pod in without_job if pod_state.is_waiting(pod)]
    members = tuple(pod for pod in (*active, *new_pods) if pod_state.is_waiting(pod))
    if snapshot.root is not None and (count := _member_count(snapshot)) < snapshot.root.min_members:
        text = Reason.GANG_SHRUNK.text(count=count, needed=snapshot.root.min_members, job=job)
        plan.add(actions.DetachPods(tuple(active), text), actions.CancelJob(job))
        return
    if snapshot.problem is not None and snapshot.root is not None:
        plan.add(actions.WriteCondition(members, snapshot.problem))
    elif new_pods or observed.stale:
        plan.add(actions.ReviseJob(job, members))
    elif observed.record is not None:
        text = conditions.pending_text(observed.record, snapshot.queue_position(observed.record))
        plan.add(actions.WriteCondition(members, text))


def _follow_running(
    snapshot: WorkloadSnapshot, plan: Plan, job: str, record: JobRecord, active: list[WorkloadPod]
) -> None:
    """Place the pods of an allocated job, or write that they have their nodes."""
    unbound = [pod for pod in active if not pod_state.is_bound(pod)]
    if not unbound:
        _report_running(snapshot, plan, record, active)
        return
    root = snapshot.root
    incomplete = root is not None and root.fixed_size and _member_count(snapshot) < root.min_members
    if incomplete and len(unbound) == len(active):
        plan.add(actions.DetachPods(tuple(active), Reason.GANG_BROKEN.text(job=job)), actions.CancelJob(job))
    else:
        plan.add(actions.PlacePods(job, tuple(active)))


def _report_running(snapshot: WorkloadSnapshot, plan: Plan, record: JobRecord, active: list[WorkloadPod]) -> None:
    """Write that pods have their node, if that changed; deferred while other pods are being bound."""
    texts = ((pod, conditions.running_text(record, pod.spec.node_name)) for pod in active if not pod.metadata.deleting)
    changed = [(pod, text) for pod, text in texts if conditions.differs(pod, text, snapshot.now)]
    left = min((_remaining_deferral(snapshot, pod) for pod, _ in changed), default=0.0)
    if snapshot.binding_in_progress and left > 0:
        plan.deferred = True
        plan.retry_after(left)
    else:
        plan.add(*(actions.WriteCondition((pod,), text) for pod, text in changed))


def _follow_ended(
    snapshot: WorkloadSnapshot, plan: Plan, job: str, observed: ObservedJob, active: list[WorkloadPod]
) -> None:
    """The job is over and some pods are not: evict pods that run; submit waiting pods again, or leave them waiting."""
    record = observed.record if observed.knowledge is JobKnowledge.OVER else None
    end = reasons.job_end(record.state.base if record else "", lost=record is None or record.lost)
    detail = record.detail if record else None
    text = conditions.end_text(job, end, detail, waiting=False)
    bound = [pod for pod in active if pod_state.is_bound(pod)]
    if running := tuple(pod for pod in bound if not pod.metadata.deleting):
        lost = end is reasons.LOST
        plan.add(actions.RecoverJob(job, running, text) if lost else actions.EvictPods(running, text))
    deleting = (pod for pod in bound if pod.metadata.deleting)
    if unexplained := tuple(pod for pod in deleting if conditions.differs(pod, text, snapshot.now)):
        plan.add(actions.ExplainEnd(unexplained, text))
    unbound = tuple(pod for pod in active if not pod_state.is_bound(pod))
    if unbound:
        text = conditions.end_text(job, end, detail, waiting=True)
        if end.deliberate:
            plan.add(actions.WriteCondition(unbound, text), actions.WithdrawJob(unbound))
        else:
            plan.add(actions.DetachPods(unbound, text))
    if observed.live_components and len(unbound) == len(active):
        plan.add(actions.CancelJob(job))


def _finish_job(
    snapshot: WorkloadSnapshot, plan: Plan, job: str, observed: ObservedJob, pods: list[WorkloadPod]
) -> None:
    """No pod of the job is left: end the job, then remove the finalizers. Waits while the job is not known.

    If pods of the job were moved to another workload, the last of them ends the job.
    """
    with_finalizer = [pod for pod in pods if pod_state.has_finalizer(pod)]
    if observed.knowledge is JobKnowledge.UNKNOWN:
        if with_finalizer:
            plan.retry_after(UNKNOWN_RETRY)
        return
    live = observed.knowledge is JobKnowledge.LIVE or observed.live_components
    if live and not snapshot.is_used_elsewhere(job):
        plan.add(actions.CancelJob(job, outcome.summarize(pods)))
    plan.add(*(actions.RemoveFinalizer(pod) for pod in with_finalizer if not _is_planned_removal(plan, pod)))


def _is_given_up(snapshot: WorkloadSnapshot, plan: Plan, pod: WorkloadPod) -> bool:
    """Whether a deleted pod counts as ended although its kubelet has not confirmed it: the node is gone, or has been
    unreachable beyond the deadline.
    """
    if not (pod.metadata.deleting and pod_state.is_bound(pod)):
        return False
    reachable = snapshot.is_reachable(pod.spec.node_name)
    if reachable:
        return False
    patience = snapshot.dead_kubelet_seconds if reachable is not None else 0.0
    left = pod_state.seconds_until_overdue(pod, snapshot.now, patience)
    if left is not None and left > 0:
        plan.retry_after(left)
        return False
    if pod_state.has_finalizer(pod):
        plan.add(actions.RemoveFinalizer(pod, Reason.POD_GIVEN_UP.text(node=pod.spec.node_name)))
    return True


def _member_count(snapshot: WorkloadSnapshot) -> int:
    """Pods of the gang that run or want to run, whatever their job. Excludes pods that are being deleted and pods whose
    job has ended.

    A pod that succeeded still counts until the batch job has counted it.
    """
    ended = {
        job
        for job, observed in snapshot.jobs.items()
        if observed.knowledge in (JobKnowledge.OVER, JobKnowledge.FOREIGN)
    }
    active = (
        pod for pod in snapshot.pods if not (pod_state.is_gone(pod) or pod_state.is_gated(pod) or pod.metadata.deleting)
    )
    count = sum(pod_state.job_id(pod) not in ended for pod in active)
    if snapshot.root is None or snapshot.root.succeeded is None:
        return count
    return count + max(0, sum(pod.status.phase == "Succeeded" for pod in snapshot.pods) - snapshot.root.succeeded)


def _has_unfinished(pods: Iterable[WorkloadPod]) -> bool:
    """Whether some pod runs, waits, or has the finalizer of the bridge."""
    return any(pod_state.has_finalizer(pod) or not pod_state.is_gone(pod) for pod in pods)


def _is_planned_removal(plan: Plan, pod: WorkloadPod) -> bool:
    return any(isinstance(action, actions.RemoveFinalizer) and action.pod is pod for action in plan.actions)


def _is_unknown(snapshot: WorkloadSnapshot, job: str) -> bool:
    return snapshot.jobs.get(job, ObservedJob(JobKnowledge.UNKNOWN)).knowledge is JobKnowledge.UNKNOWN
