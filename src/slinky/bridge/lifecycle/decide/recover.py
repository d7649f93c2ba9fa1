# SPDX-License-Identifier: Apache-2.0
"""The phase recover: running pods whose job Slurm has lost get a new job on their nodes, or are evicted. Pure.

slurmctld forgets the last seconds before a crash, and everything if its state is lost. The containers keep running, so
Slurm must not give their nodes to other jobs, and the pods must not all be deleted. A rejection of the new job alone
evicts no pod: a drained host, a missing account or a partition that is down may be repaired. A pod is evicted if its
node was reallocated, is gone, or if Slurm might choose other devices or cores for the new job. A loss may be the fault
of a database, a restored backup or a wrong address, so evictions are limited, and an administrator has time to act.
"""

from collections.abc import Iterable

from slinky.bridge import names
from slinky.bridge.lifecycle.decide import actions, retries
from slinky.bridge.lifecycle.decide.actions import EvictionLimit, Plan
from slinky.bridge.lifecycle.snapshot import ObstacleKind, WorkloadSnapshot
from slinky.bridge.status.reasons import ConditionText, Reason
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload.job_spec import JobSpec
from slinky.kube.conditions import find_condition

#: Reasons on pods that run without a job.
WITHOUT_JOB = frozenset({Reason.LOST_JOB_NOT_REPLACED.token, Reason.EVICTION_LIMITED.token})


def recover(
    snapshot: WorkloadSnapshot, plan: Plan, job: str, pods: tuple[WorkloadPod, ...], end: ConditionText
) -> None:
    """Submit new jobs for these pods on their nodes; evict pods that cannot have one.

    Every role gets a job of its own: a heterogeneous job would wait for backfill, and its purpose, a common start, no
    longer matters.
    """
    if _is_new_loss(pods):
        plan.add(actions.PauseSubmissions())
    job_spec = snapshot.lost_job_specs.get(job)
    if any(pod.spec.node_name in snapshot.missing_nodes for pod in pods):
        _evict(snapshot, plan, pods, end)
    elif job_spec is None:
        _keep_running(plan, pods, end, "the requests of the lost job are no longer known", retries.NOT_REPLACED)
    else:
        for part in job_spec.split_by_role():
            _replace(snapshot, plan, part, end)


def _replace(snapshot: WorkloadSnapshot, plan: Plan, job_spec: JobSpec, end: ConditionText) -> None:
    """Submit a new job for the pods of one role, or decide what follows from its rejection."""
    (pods,) = job_spec.roles
    obstacle = snapshot.obstacles.get(pods[0].metadata.uid)
    if not _is_repeatable(job_spec) or (obstacle is not None and obstacle.kind is ObstacleKind.REALLOCATED):
        _evict(snapshot, plan, pods, end)
    elif obstacle is None:
        hosts = {snapshot.hosts[pod.spec.node_name] for pod in pods}
        plan.add(actions.ReplaceJob(job_spec, tuple(sorted(hosts))))
    elif obstacle.kind in (ObstacleKind.NOT_REPLACED, ObstacleKind.NOT_STARTED):
        problem = f"Slurm rejected a new job on its nodes ({obstacle.problem})"
        soon = obstacle.kind is ObstacleKind.NOT_STARTED and snapshot.submissions_paused > 0
        _keep_running(plan, pods, end, problem, retries.NOT_STARTED if soon else obstacle.retry or retries.NOT_REPLACED)
    else:
        plan.fail(obstacle.problem, obstacle.retry)


def _keep_running(plan: Plan, pods: tuple[WorkloadPod, ...], end: ConditionText, problem: str, seconds: float) -> None:
    """Leave pods running and write why they have no job."""
    plan.write(pods, Reason.LOST_JOB_NOT_REPLACED.text(end=end.message, problem=problem))
    plan.retry_after(seconds)


def _evict(snapshot: WorkloadSnapshot, plan: Plan, pods: tuple[WorkloadPod, ...], end: ConditionText) -> None:
    """Evict as many pods as the limit allows; the others keep running."""
    allowed = max(0, snapshot.lost_evictions_left - _count_limited(plan))
    evicted, remaining = pods[:allowed], pods[allowed:]
    if evicted:
        plan.add(actions.EvictPods(evicted, end, EvictionLimit.LOST))
    if remaining:
        plan.write(remaining, Reason.EVICTION_LIMITED.text(end=end.message))
        plan.retry_after(retries.EVICTION_LIMITED)


def _count_limited(plan: Plan) -> int:
    planned = (action for action in plan.actions if isinstance(action, actions.EvictPods))
    return sum(len(action.pods) for action in planned if action.limit is EvictionLimit.LOST)


def _is_new_loss(pods: Iterable[WorkloadPod]) -> bool:
    """Whether the loss has not been reported on the pods yet. Submissions pause only once for each loss."""
    conditions = (find_condition(pod.status.conditions, names.SCHEDULED) for pod in pods)
    return not all(condition is not None and condition.reason in WITHOUT_JOB for condition in conditions)


def _is_repeatable(job_spec: JobSpec) -> bool:
    """Whether a new job gets the same devices and cores as the lost one. On a node that is shared with other jobs,
    Slurm may choose others.
    """
    return bool(job_spec.request.shared) or not job_spec.needs_device_ids
