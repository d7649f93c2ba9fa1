# SPDX-License-Identifier: Apache-2.0
"""The phases wait and revise: a pending job is explained, updated, replaced or cancelled. Pure."""

from slinky.bridge.lifecycle.decide import actions, admit, retries
from slinky.bridge.lifecycle.decide.actions import Plan
from slinky.bridge.lifecycle.snapshot import ObstacleKind, WorkloadSnapshot
from slinky.bridge.state.observed_job import ObservedJob
from slinky.bridge.status import conditions
from slinky.bridge.status.reasons import Reason
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import pod_state
from slinky.slurm import JobRecord

#: Obstacles after which the job is replaced.
REPLACED = {ObstacleKind.OUTGROWN: Reason.JOB_OUTGROWN, ObstacleKind.RESHAPED: Reason.GANG_RESHAPED}


def follow_pending(
    snapshot: WorkloadSnapshot,
    plan: Plan,
    observed: ObservedJob,
    record: JobRecord,
    active: tuple[WorkloadPod, ...],
    new_pods: tuple[WorkloadPod, ...],
) -> None:
    """Cancel, revise or explain a pending job. New pods of the workload join it."""
    job = record.job_id
    members = tuple(pod for pod in (*active, *new_pods) if pod_state.is_waiting(pod))
    if snapshot.root is not None and (count := admit.member_count(snapshot)) < snapshot.root.min_members:
        text = Reason.GANG_SHRUNK.text(count=count, needed=snapshot.root.min_members, job=job)
        plan.add(actions.DetachPods(active, text), actions.CancelJob(job))
    elif snapshot.problem is not None and snapshot.root is not None:
        plan.write(members, snapshot.problem)
    elif new_pods or observed.stale:
        plan.joined = True
        _revise(snapshot, plan, job, active, members)
    else:
        position = snapshot.queue_positions.get(job, "")
        start = snapshot.start_ranges.get(job)
        plan.write(members, conditions.pending_text(record, position, snapshot.now, start))
        if (left := conditions.seconds_until_start(record, snapshot.now, start)) is not None:
            plan.retry_after(left + 1)  # an expected start that has passed is not shown any more


def _revise(
    snapshot: WorkloadSnapshot,
    plan: Plan,
    job: str,
    active: tuple[WorkloadPod, ...],
    members: tuple[WorkloadPod, ...],
) -> None:
    """Update a pending job, or cancel it if that is impossible, so that its pods are submitted again."""
    obstacle, refusal = snapshot.obstacles.get(job), snapshot.refusals.get(job)
    if obstacle is not None and obstacle.kind in REPLACED:
        labelled = tuple(pod for pod in active if pod_state.job_id(pod) == job)
        text = REPLACED[obstacle.kind].text(problem=obstacle.problem)
        plan.add(actions.DetachPods(labelled, text), actions.CancelJob(job))
    elif obstacle is not None:
        plan.retry_after(retries.UNKNOWN)
    elif (shortage := admit.shortage_text(snapshot)) is not None:
        plan.write(members, shortage)
        plan.retry_after(retries.TOO_FEW_NODES)
    elif refusal is not None:
        plan.write(members, Reason.UPDATE_REFUSED.text(job=job, explanation=admit.explain_refusal(refusal)))
        plan.retry_after(refusal.retry_in)
    else:
        plan.add(actions.ReviseJob(job, members))
