# SPDX-License-Identifier: Apache-2.0
"""The phase release: jobs that no pod needs are ended, then the finalizers of their pods are removed. Pure."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from slinky.bridge.lifecycle.decide import actions, retries
from slinky.bridge.lifecycle.decide.actions import Plan
from slinky.bridge.lifecycle.release import outcome
from slinky.bridge.lifecycle.snapshot import WorkloadSnapshot
from slinky.bridge.state.observed_job import JobKnowledge, ObservedJob
from slinky.bridge.status.reasons import Reason
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import pod_state


def finish_job(
    snapshot: WorkloadSnapshot,
    plan: Plan,
    job: str,
    observed: ObservedJob,
    pods: Sequence[WorkloadPod],
    given_up: AbstractSet[str],
) -> None:
    """No pod of the job is left: end the job, then remove the finalizers. Waits while the job is not known.

    If pods of the job were moved to another workload, the last of them ends the job. One pod keeps its finalizer until
    accounting has the outcome of the pods, so that a restart of the bridge can derive the outcome again.
    """
    give_up(plan, pods, given_up)
    with_finalizer = tuple(pod for pod in pods if pod_state.has_finalizer(pod) and pod.metadata.uid not in given_up)
    if observed.knowledge is JobKnowledge.UNKNOWN:
        if with_finalizer or given_up:
            plan.retry_after(retries.UNKNOWN)
        return
    live = observed.knowledge is JobKnowledge.LIVE or observed.live_components
    ends = live and not _is_used_elsewhere(snapshot, plan, job)
    summary = outcome.summarize(pods)
    if ends:
        plan.add(actions.CancelJob(job, summary))
    unrecorded = ends or (observed.knowledge is JobKnowledge.OVER and not live and not observed.outcome_settled)
    witness = outcome.find_witness(pods) if unrecorded else None
    if released := tuple(pod for pod in with_finalizer if pod is not witness):
        plan.add(actions.RemoveFinalizers(released))
    if witness is not None:
        plan.add(actions.RecordOutcome(job, summary, witness))
        plan.retry_after(retries.IDLE_UNKNOWN)


def cancel_orphaned_jobs(snapshot: WorkloadSnapshot, plan: Plan) -> None:
    """End live jobs of the workload that no pod is labelled with."""
    for job in snapshot.orphaned_jobs:
        if not _is_used_elsewhere(snapshot, plan, job):
            plan.add(actions.CancelJob(job))


def _is_used_elsewhere(snapshot: WorkloadSnapshot, plan: Plan, job: str) -> bool:
    """Whether pods of other workloads use a job."""
    if job in snapshot.unlabelled_elsewhere:
        plan.retry_after(retries.UNLABELLED)
        return True
    if job in snapshot.used_elsewhere:
        plan.retry_after(retries.IDLE_UNKNOWN)
        return True
    return False


def remove_finalizers(plan: Plan, pods: Iterable[WorkloadPod]) -> None:
    """Remove the finalizers of pods that have ended."""
    if ended := tuple(pod for pod in pods if pod_state.is_gone(pod) and pod_state.has_finalizer(pod)):
        plan.add(actions.RemoveFinalizers(ended))


def given_up_pods(snapshot: WorkloadSnapshot, plan: Plan, pods: Iterable[WorkloadPod]) -> set[str]:
    """The uids of deleted pods that count as ended although their kubelet has not confirmed it: the node is gone, or
    has been unreachable beyond the deadline.
    """
    given_up = set[str]()
    for pod in pods:
        node = pod.spec.node_name
        missing = node in snapshot.missing_nodes
        if pod_state.is_gone(pod) or not pod.metadata.deleting or not (missing or node in snapshot.unreachable_nodes):
            continue
        left = pod_state.seconds_until_overdue(pod, snapshot.now, 0.0 if missing else snapshot.dead_kubelet_seconds)
        if left is not None and left > 0:
            plan.retry_after(left)
        else:
            given_up.add(pod.metadata.uid)
    return given_up


def give_up(plan: Plan, pods: Iterable[WorkloadPod], given_up: AbstractSet[str]) -> None:
    """Remove the finalizers of pods that were given up, with an event that names their node."""
    by_node: dict[str, list[WorkloadPod]] = {}
    for pod in pods:
        if pod.metadata.uid in given_up and pod_state.has_finalizer(pod):
            by_node.setdefault(pod.spec.node_name, []).append(pod)
    for node, group in by_node.items():
        plan.add(actions.RemoveFinalizers(tuple(group), Reason.POD_GIVEN_UP.text(node=node)))
