# SPDX-License-Identifier: Apache-2.0
"""Decides what to do next for one workload: its whole life as one function of a snapshot. Pure.

    new -> (gang complete) -> SubmitJob -> WriteCondition -> BindPods -> ... -> CancelJob -> RemoveFinalizers
                                  |        (why pending)        |
                                  |             |          EvictPods (the job ended),
                              submit again <- DetachPods   ReplaceJob (the job was lost)

Pods are grouped by the job that their label names; each job is followed, then pods without a job are submitted. If the
state of a job is not known, nothing is done about the job or its pods: unknown does not mean gone. The plan then says
when to look again, because no change is reported when the same state is confirmed.
"""

from slinky.bridge import names
from slinky.bridge.lifecycle.decide import actions, admit, end, place, release, retries, run, wait
from slinky.bridge.lifecycle.decide.actions import Plan
from slinky.bridge.lifecycle.snapshot import WorkloadSnapshot
from slinky.bridge.state.observed_job import JobKnowledge, ObservedJob
from slinky.bridge.status.reasons import Reason
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import pod_state
from slinky.kube.conditions import find_condition
from slinky.slurm import JobRecord


def decide(snapshot: WorkloadSnapshot) -> Plan:
    """The next actions for a workload; an empty plan if there is nothing to do."""
    plan = Plan()
    by_job = group_by_job(snapshot)
    without_job = by_job.pop("", [])
    new_pods = tuple(pod for pod in without_job if pod_state.is_waiting(pod))
    for job, pods in sorted(by_job.items(), key=lambda pair: int(pair[0])):
        _follow_job(snapshot, plan, job, pods, new_pods)
    release.cancel_orphaned_jobs(snapshot, plan)
    release.remove_finalizers(plan, without_job)
    if new_pods and not plan.joined:
        admit.submit(snapshot, plan, new_pods, by_job)
    if snapshot.problem is not None and (seconds := retries.MISSING_OBJECT.get(snapshot.problem.reason)):
        plan.retry_after(seconds)
    if snapshot.avoided_hosts and any(map(pod_state.is_waiting, snapshot.pods)):
        plan.retry_after(min(avoided.left for avoided in snapshot.avoided_hosts))
    return plan


def group_by_job(snapshot: WorkloadSnapshot) -> dict[str, list[WorkloadPod]]:
    """The pods by the job of their label or of their submission; pods without a job under the empty string."""
    groups: dict[str, list[WorkloadPod]] = {}
    for pod in snapshot.pods:
        groups.setdefault(pod_state.job_id(pod) or snapshot.adopted.get(pod.metadata.uid, ""), []).append(pod)
    return groups


def _follow_job(
    snapshot: WorkloadSnapshot, plan: Plan, job: str, pods: list[WorkloadPod], new_pods: tuple[WorkloadPod, ...]
) -> None:
    """Decide about a job and the pods that are labelled with it."""
    observed = snapshot.jobs.get(job, ObservedJob(JobKnowledge.UNKNOWN))
    _report_rejections(plan, job, pods)
    given_up = release.given_up_pods(snapshot, plan, pods)
    active = tuple(pod for pod in pods if not pod_state.is_gone(pod) and pod.metadata.uid not in given_up)
    if not active:
        release.finish_job(snapshot, plan, job, observed, pods, given_up)
        return
    release.give_up(plan, pods, given_up)
    release.remove_finalizers(plan, pods)
    if observed.knowledge in (JobKnowledge.OVER, JobKnowledge.FOREIGN):
        end.follow_ended(snapshot, plan, job, observed, active)
    elif observed.knowledge is JobKnowledge.MOVED:
        end.follow_moved(snapshot, plan, job, active)
    elif observed.knowledge is JobKnowledge.LIVE and observed.record is not None:
        _follow_live(snapshot, plan, observed, observed.record, active, new_pods)
    else:
        plan.retry_after(_unknown_retry(observed, active))


def _follow_live(
    snapshot: WorkloadSnapshot,
    plan: Plan,
    observed: ObservedJob,
    record: JobRecord,
    active: tuple[WorkloadPod, ...],
    new_pods: tuple[WorkloadPod, ...],
) -> None:
    if unlabelled := _pods_to_label(record, active):
        plan.add(actions.LabelPods(record.job_id, unlabelled))
    elif record.state.pending:
        wait.follow_pending(snapshot, plan, observed, record, active, new_pods)
    elif record.state.ready and all(map(pod_state.is_bound, active)):
        run.report_nodes(snapshot, plan, record, active)
    elif record.state.ready:
        place.place_pods(snapshot, plan, record, active)
    else:
        if record.state.suspended:
            plan.write(active, Reason.SUSPENDED.text(job=record.job_id))
        plan.retry_after(retries.IDLE_UNKNOWN)


def _unknown_retry(observed: ObservedJob, active: tuple[WorkloadPod, ...]) -> float:
    """Seconds until a job of active pods is looked at again: few if it may have started without its pods."""
    started = observed.record is not None and not observed.record.state.pending
    return retries.UNKNOWN if started and not all(map(pod_state.is_bound, active)) else retries.IDLE_UNKNOWN


def _report_rejections(plan: Plan, job: str, pods: list[WorkloadPod]) -> None:
    """Write to pods that their kubelet rejected them, and do not use their node for such pods for a while."""
    for pod in pods:
        if not pod_state.is_rejected(pod) or not pod_state.has_finalizer(pod):
            continue
        condition = find_condition(pod.status.conditions, names.SCHEDULED)
        if condition is not None and condition.reason == Reason.KUBELET_REJECTED.token:
            continue
        node, status = pod.spec.node_name, pod.status
        problem = status.message.strip().rstrip(".") or "the kubelet gave no further reason"
        text = Reason.KUBELET_REJECTED.text(node=node, job=job, reason=status.reason, problem=problem)
        plan.add(actions.BlockNode(node, (pod,), rejected=True), actions.WriteCondition((pod,), text))


def _pods_to_label(record: JobRecord, active: tuple[WorkloadPod, ...]) -> tuple[WorkloadPod, ...]:
    """Pods without a job label, except those that get the label with their binding now."""

    def is_labelled_by_binding(pod: WorkloadPod) -> bool:
        return record.state.ready and pod_state.has_finalizer(pod) and not pod_state.is_bound(pod)

    return tuple(pod for pod in active if not pod_state.job_id(pod) and not is_labelled_by_binding(pod))
