# SPDX-License-Identifier: Apache-2.0
"""The phase end: the job is over and some of its pods are not. Pure.

Pods that run are evicted, pods that wait are submitted again or left waiting. If a person or a rule ended the job, the
eviction is immediate. Ends by failures of nodes or of Slurm are limited: many of them at once may be the fault of a
slurmctld with a damaged state or of a wrong command, and an administrator should have time to act.
"""

from slinky.bridge.lifecycle.decide import actions, recover, retries
from slinky.bridge.lifecycle.decide.actions import EvictionLimit, Plan
from slinky.bridge.lifecycle.snapshot import WorkloadSnapshot
from slinky.bridge.state.observed_job import JobKnowledge, ObservedJob
from slinky.bridge.status import conditions, job_ends
from slinky.bridge.status.job_ends import JobEnd
from slinky.bridge.status.reasons import ConditionText, Reason
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import pod_state


def follow_ended(
    snapshot: WorkloadSnapshot, plan: Plan, job: str, observed: ObservedJob, active: tuple[WorkloadPod, ...]
) -> None:
    """Evict pods that run; submit waiting pods again, or leave them waiting."""
    record = observed.record if observed.knowledge is JobKnowledge.OVER else None
    end = job_ends.job_end(record.state.base if record else "", lost=record is None or record.lost)
    detail = record.detail if record else None
    text = conditions.end_text(job, end, detail, waiting=False)
    bound = [pod for pod in active if pod_state.is_bound(pod)]
    if running := tuple(pod for pod in bound if not pod.metadata.deleting):
        if end is job_ends.LOST:
            recover.recover(snapshot, plan, job, running, text)
        else:
            _evict(snapshot, plan, end, running, text)
    deleting = (pod for pod in bound if pod.metadata.deleting)
    if unexplained := tuple(pod for pod in deleting if conditions.differs(pod, text, snapshot.now)):
        plan.add(actions.ExplainEnd(unexplained, text))
    if unbound := tuple(pod for pod in active if not pod_state.is_bound(pod)):
        _resubmit(plan, end, unbound, conditions.end_text(job, end, detail, waiting=True))
    if observed.live_components and len(unbound) == len(active):
        plan.add(actions.CancelJob(job))


def follow_moved(snapshot: WorkloadSnapshot, plan: Plan, job: str, active: tuple[WorkloadPod, ...]) -> None:
    """End a job that has other nodes than its running pods, and let the pods have a new job on their nodes.

    Pods that have no node yet get theirs from the new job, or wait for one of their own.
    """
    plan.add(actions.CancelJob(job))
    text = conditions.end_text(job, job_ends.MOVED, None, waiting=False)
    running = tuple(pod for pod in active if pod_state.is_bound(pod) and not pod.metadata.deleting)
    recover.recover(snapshot, plan, job, running, text)
    if unbound := tuple(pod for pod in active if not pod_state.is_bound(pod)):
        _resubmit(plan, job_ends.MOVED, unbound, conditions.end_text(job, job_ends.MOVED, None, waiting=True))


def _evict(
    snapshot: WorkloadSnapshot, plan: Plan, end: JobEnd, pods: tuple[WorkloadPod, ...], text: ConditionText
) -> None:
    """Evict the pods of one job, which counts once: a gang ends as a whole."""
    if not end.limited:
        plan.add(actions.EvictPods(pods, text))
    elif snapshot.failed_evictions_left > _count_limited(plan):
        plan.add(actions.EvictPods(pods, text, EvictionLimit.FAILED))
    else:
        plan.write(pods, Reason.EVICTION_LIMITED.text(end=text.message))
        plan.retry_after(retries.EVICTION_LIMITED)


def _count_limited(plan: Plan) -> int:
    planned = (action for action in plan.actions if isinstance(action, actions.EvictPods))
    return sum(action.limit is EvictionLimit.FAILED for action in planned)


def _resubmit(plan: Plan, end: JobEnd, pods: tuple[WorkloadPod, ...], text: ConditionText) -> None:
    """Submit pods that have no node again, unless the job was ended on purpose."""
    if end.deliberate:
        plan.add(actions.WriteCondition(pods, text), actions.ReleaseDevices(pods))
        return
    if end is job_ends.LOST:
        plan.add(actions.PauseSubmissions())
    plan.add(actions.DetachPods(pods, text))
