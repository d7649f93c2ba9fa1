# SPDX-License-Identifier: Apache-2.0
"""The phases admit and submit: which pods form one job, and whether the job may be submitted now. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from slinky.bridge.feasibility.exclusions import HostShortage
from slinky.bridge.lifecycle.decide import actions, retries
from slinky.bridge.lifecycle.decide.actions import Plan
from slinky.bridge.lifecycle.snapshot import SUBMISSION, ObstacleKind, Refusal, WorkloadSnapshot
from slinky.bridge.state.observed_job import JobKnowledge, ObservedJob
from slinky.bridge.status import rejections
from slinky.bridge.status.reasons import ConditionText, Reason
from slinky.bridge.status.rejections import Explanation
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import pod_state
from slinky.kube.timestamps import seconds_since


def submit(
    snapshot: WorkloadSnapshot,
    plan: Plan,
    new_pods: tuple[WorkloadPod, ...],
    by_job: Mapping[str, Sequence[WorkloadPod]],
) -> None:
    """Submit pods without a job once the gang is complete; until then, write why they wait."""
    if snapshot.root is None and (left := _settle_time(snapshot, new_pods)) > 0:
        plan.retry_after(left)
        return
    if snapshot.problem is not None:
        plan.write(new_pods, snapshot.problem)
    if snapshot.root is None:
        plan.retry_after(retries.IDLE_UNKNOWN)
    if snapshot.root is None or snapshot.problem is not None:
        return
    unknown = [job for job, group in by_job.items() if _is_unknown(snapshot, job) and _has_unfinished(group)]
    if unknown and not snapshot.workload.is_single_pod:
        plan.write(new_pods, Reason.SLURM_UNKNOWN.text(job=unknown[0]))
        plan.retry_after(retries.UNKNOWN)
        return
    count = member_count(snapshot)
    if count >= snapshot.root.min_members:
        _submit_or_wait(snapshot, plan, new_pods)
    elif (left := _settle_time(snapshot, new_pods)) > 0:
        plan.retry_after(left)
    else:
        hint = f"{snapshot.root.hint}." if snapshot.root.hint else ""
        plan.write(new_pods, Reason.GANG_INCOMPLETE.text(count=count, needed=snapshot.root.min_members, hint=hint))


def _submit_or_wait(snapshot: WorkloadSnapshot, plan: Plan, pods: tuple[WorkloadPod, ...]) -> None:
    """Submit a complete gang, unless an earlier attempt or the state of the cluster is a reason to wait."""
    facts = snapshot.submission
    obstacle, refusal = snapshot.obstacles.get(SUBMISSION), snapshot.refusals.get(SUBMISSION)
    if obstacle is not None:
        if obstacle.kind is ObstacleKind.UNREACHABLE:
            plan.write(pods, Reason.SLURM_UNREACHABLE.text())
        plan.fail(obstacle.problem, obstacle.retry)
    elif not facts.searched:
        plan.retry_after(retries.SEARCH)
    elif snapshot.submissions_paused > 0:
        plan.retry_after(snapshot.submissions_paused)
    elif (shortage := shortage_text(snapshot)) is not None:
        plan.write(pods, shortage)
        plan.retry_after(retries.TOO_FEW_NODES)
    elif refusal is not None:
        plan.write(pods, Reason.SLURM_REFUSED.text(explanation=explain_refusal(refusal)))
        plan.retry_after(refusal.retry_in)
    elif facts.delay > 0:
        plan.retry_after(facts.delay)
    elif facts.namespace_delay > 0:
        plan.write(pods, Reason.SUBMISSIONS_LIMITED.text(namespace=snapshot.workload.namespace))
        plan.retry_after(facts.namespace_delay)
    else:
        plan.add(actions.SubmitJob(pods))


def shortage_text(snapshot: WorkloadSnapshot) -> ConditionText | None:
    """Why a job would be rejected for want of nodes, and recorded as failed in Slurm; None if it would not."""
    if snapshot.submission.room_shortage is not None:
        return snapshot.submission.room_shortage
    shortage = snapshot.submission.host_shortage
    if shortage is None:
        return None
    if shortage.needed - shortage.free <= len(snapshot.avoided_hosts):
        return _avoidance_text(snapshot, shortage)
    return Reason.NEVER_FITS.text(problem=shortage.problem)


def _avoidance_text(snapshot: WorkloadSnapshot, shortage: HostShortage) -> ConditionText:
    avoided = min(snapshot.avoided_hosts, key=lambda avoided: avoided.left)
    return Reason.NODES_AVOIDED.text(
        free=shortage.free, needed=shortage.needed, host=avoided.host, problem=avoided.problem
    )


def explain_refusal(refusal: Refusal) -> Explanation:
    """Why Slurm rejected a job, with the name that it does not know."""
    explanation = rejections.explain_rejection(refusal.number, refusal.text)
    return replace(explanation, sentence=f"{explanation.sentence} {refusal.detail}".strip())


def member_count(snapshot: WorkloadSnapshot) -> int:
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


def _settle_time(snapshot: WorkloadSnapshot, pods: Sequence[WorkloadPod]) -> float:
    """Seconds until no pod has been added to a gang for a while. To update every pod for each new one would cost more
    writes than everything else. A creation time in the future means that clocks differ, and is ignored.
    """
    ages = (seconds_since(pod.metadata.creation_timestamp, snapshot.now) for pod in pods)
    youngest = min((age for age in ages if age is not None and age >= 0), default=retries.GANG_SETTLE)
    return retries.GANG_SETTLE - youngest


def _has_unfinished(pods: Iterable[WorkloadPod]) -> bool:
    """Whether some pod runs, waits, or has the finalizer of the bridge."""
    return any(pod_state.has_finalizer(pod) or not pod_state.is_gone(pod) for pod in pods)


def _is_unknown(snapshot: WorkloadSnapshot, job: str) -> bool:
    return snapshot.jobs.get(job, ObservedJob(JobKnowledge.UNKNOWN)).knowledge is JobKnowledge.UNKNOWN
