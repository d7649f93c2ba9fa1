# SPDX-License-Identifier: Apache-2.0
"""Reconciles one workload: build a snapshot, `decide`, carry out the plan.

The snapshot comes from the caches and from the mirror of Slurm. The reconciler has no state of its own except the
bindings in flight: after a restart, everything it needs is on the pods and in the jobs.
"""

from collections.abc import Callable, Iterable
from functools import partial

from slinky.bridge.config import BridgeSettings
from slinky.bridge.feasibility import constraints
from slinky.bridge.feasibility.exclusions import Exclusions
from slinky.bridge.feasibility.volume_state import MISSING_RETRY_SECONDS, VolumePending
from slinky.bridge.lifecycle import actions, decide, lost_jobs
from slinky.bridge.lifecycle.claim_writer import ClaimWriter
from slinky.bridge.lifecycle.decide import WorkloadSnapshot
from slinky.bridge.lifecycle.deferral import Deferral
from slinky.bridge.lifecycle.lost_jobs import LostJobs
from slinky.bridge.lifecycle.placement import Placement
from slinky.bridge.lifecycle.pod_writer import PodWriter, for_each_pod
from slinky.bridge.lifecycle.release import Releaser
from slinky.bridge.lifecycle.submit import JobOutgrown, Submitter
from slinky.bridge.state.cluster import ClusterState
from slinky.bridge.state.device_demand import ClaimPending, DeviceDemand
from slinky.bridge.state.job_registry import JobRegistry
from slinky.bridge.state.observed_job import JobKnowledge, ObservedJob
from slinky.bridge.state.queue_position import QueuePositions
from slinky.bridge.status import reasons
from slinky.bridge.status.reasons import ConditionText, Explanation, Reason
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import grouping, identity, pod_state
from slinky.bridge.workload.annotations import OptionError
from slinky.bridge.workload.grouping import GroupMissing, Workload, WorkloadRoot
from slinky.bridge.workload.job_spec import JobContext, JobSpec, build_job_spec
from slinky.kube import ErrorDecision, ErrorKind, Later, RequeueAfter
from slinky.observe import Clock, Log
from slinky.slurm import AuthError, Busy, Rejected, Retryable, SlurmConflict, SlurmError, SlurmNotFound

log = Log("slinky.bridge.lifecycle.reconciler")

#: Seconds until a rejected submission is tried again, unless something changes.
REJECTED_RETRY = 60.0
#: Slurm's error for an excluded host that no longer exists; the next attempt does not exclude it.
UNKNOWN_HOST, UNKNOWN_HOST_RETRY = 2018, 3.0
#: Slurm's error for a job that no set of nodes can run, whatever is in use.
NEVER_FITS = 2014
#: Seconds until a job is checked again whose pods have not been observed with its label yet.
UNLABELLED_RETRY = 2.0
#: Reasons why a workload cannot be translated to a job, by error; the first that matches counts.
PROBLEMS = {
    ClaimPending: Reason.CLAIM_PENDING,
    VolumePending: Reason.VOLUME_MISSING,
    OptionError: Reason.INVALID_OPTION,
}
#: Seconds until a missing object is checked again.
PROBLEM_RETRY = {Reason.CLAIM_PENDING.token: 10.0, Reason.VOLUME_MISSING.token: MISSING_RETRY_SECONDS}


class WorkloadReconciler:
    """Carries workloads through their life."""

    def __init__(
        self,
        settings: BridgeSettings,
        cluster: ClusterState,
        registry: JobRegistry,
        exclusions: Exclusions,
        submitter: Submitter,
        releaser: Releaser,
        writer: PodWriter,
        device_demand: DeviceDemand,
        claims: ClaimWriter,
        lost_jobs: LostJobs,
        placement: Placement,
        queue_positions: QueuePositions,
        clock: Clock,
        enqueue: Callable[[Workload], None],
    ) -> None:
        self._settings, self._cluster, self._registry, self._exclusions = settings, cluster, registry, exclusions
        self._submitter, self._releaser, self._writer = submitter, releaser, writer
        self._device_demand, self._claims, self._lost_jobs = device_demand, claims, lost_jobs
        self._placement, self._queue_positions, self._clock = placement, queue_positions, clock
        self._enqueue = enqueue
        self._deferral = Deferral(enqueue, clock)

    async def reconcile(self, workload: Workload) -> RequeueAfter | None:
        """Carry out the next actions for one workload."""
        pods = self._cluster.pods_of(workload)
        # Jobs of pods that are finished and released are skipped: there may be thousands of them.
        jobs = {
            job
            for pod in pods
            if (job := pod_state.job_id(pod)) and (pod_state.has_finalizer(pod) or not pod_state.is_gone(pod))
        }
        for job in jobs:
            self._registry.track_labelled(job, workload)
        root, job_spec, problem = await self._build_job_spec(workload, pods)
        if self._cluster.workloads_of(pods) - {workload}:
            # Meanwhile the record of a job showed that the pods belong to another workload; decide for that one.
            for other in self._cluster.workloads_of(pods):
                self._enqueue(other)
            return None
        plan = decide.decide(self._snapshot(workload, pods, jobs, root, job_spec, problem))
        self._deferral.record(workload, deferred=plan.deferred)
        if problem is not None and problem.reason in PROBLEM_RETRY:
            plan.retry_after(PROBLEM_RETRY[problem.reason])
        for action in plan.actions:
            await self._execute(workload, action, job_spec)
        self._forget_jobs(workload, {job for pod in self._cluster.pods_of(workload) if (job := pod_state.job_id(pod))})
        return RequeueAfter(plan.again) if plan.again is not None else None

    # --- snapshot

    async def _build_job_spec(
        self, workload: Workload, pods: list[WorkloadPod]
    ) -> tuple[WorkloadRoot | None, JobSpec | None, ConditionText | None]:
        """Root and job spec of the workload, or the problem that prevents them."""
        waiting = [pod for pod in pods if pod_state.is_waiting(pod)]
        if not pods:
            return None, None, None
        try:
            root = await self._cluster.root_of(workload, pods)
        except GroupMissing as error:
            return None, None, Reason.GROUP_MISSING.text(problem=error)
        unsupported = (problem for pod in waiting for problem in constraints.unsupported_constraints(pod))
        if problem := root.unsupported or next(unsupported, ""):
            return root, None, Reason.NOT_SUPPORTED.text(problem=problem)
        try:
            job_spec = await self._translate(workload, root, waiting) if waiting else None
        except (OptionError, VolumePending) as error:
            reason = next(reason for kind, reason in PROBLEMS.items() if isinstance(error, kind))
            return root, None, reason.text(problem=error)
        return root, job_spec, None

    async def _job_spec_for(
        self, workload: Workload, job_spec: JobSpec | None, pods: tuple[WorkloadPod, ...]
    ) -> JobSpec | None:
        """The job spec of exactly these pods: other pods of the workload may wait with a job of their own."""
        return job_spec if job_spec is None or job_spec.is_for(pods) else await self._try_translate(workload, pods)

    async def _try_translate(self, workload: Workload, pods: tuple[WorkloadPod, ...]) -> JobSpec | None:
        """The job spec of these pods; None if they cannot be translated."""
        try:
            return await self._translate(workload, await self._cluster.root_of(workload, list(pods)), list(pods))
        except (GroupMissing, OptionError):
            return None

    async def _translate(self, workload: Workload, root: WorkloadRoot, pods: list[WorkloadPod]) -> JobSpec:
        devices = await self._device_demand.compute(pods)
        context = JobContext(
            self._settings, self._cluster.catalog, devices.by_pod, devices.shared, devices.threads_per_core
        )
        job_spec = build_job_spec(workload, root, pods, context)
        partition = job_spec.request.partition or ""
        excluded = await self._exclusions.excluded_hosts(pods, partition, job_spec.pods_per_node)
        if devices.restricts_nodes:
            unsuitable = self._exclusions.hosts_not_matching(
                partial(devices.suits_node, pods_per_node=job_spec.pods_per_node)
            )
            excluded = {uid: hosts | unsuitable for uid, hosts in excluded.items()}
        if not any(excluded.values()):
            return job_spec
        return build_job_spec(workload, root, pods, context, excluded=excluded)

    def _snapshot(
        self,
        workload: Workload,
        pods: list[WorkloadPod],
        jobs: set[str],
        root: WorkloadRoot | None,
        job_spec: JobSpec | None,
        problem: ConditionText | None,
    ) -> WorkloadSnapshot:
        adopted = self._registry.adoptable_jobs(workload, pods)
        groups: dict[str, list[WorkloadPod]] = {job: [] for job in jobs}
        for pod in pods:
            if job := pod_state.job_id(pod) or adopted.get(pod.metadata.uid, ""):
                groups.setdefault(job, []).append(pod)
        observed = {
            job: self._registry.observe(job, groups[job], _spec_digest(job_spec, groups[job]))
            for job in jobs | set(adopted.values())
        }
        return WorkloadSnapshot(
            workload,
            pods,
            observed,
            root,
            self._clock.now(),
            problem,
            self._settings.dead_kubelet_seconds,
            self._cluster.is_reachable,
            self._orphaned_jobs(workload, pods, observed),
            self._queue_positions.describe,
            adopted,
            self._deferral.active,
            lambda job: self._is_used_elsewhere(workload, job),
        )

    def _orphaned_jobs(
        self, workload: Workload, pods: list[WorkloadPod], observed: dict[str, ObservedJob]
    ) -> list[str]:
        """Live jobs of the workload that no pod is labelled with. A new job for running pods whose own job was lost is
        not orphaned, although the pods do not have its label yet.
        """
        running = [
            pod for pod in pods if pod_state.is_bound(pod) and not pod_state.is_gone(pod) and not pod.metadata.deleting
        ]
        without_live_job = [
            pod
            for pod in running
            if (job := pod_state.job_id(pod)) and observed[job].knowledge is not JobKnowledge.LIVE
        ]
        return [
            entry.job
            for entry in self._registry.entries_of(workload)
            if entry.job not in observed
            and not self._registry.pods_submitted_with(entry, without_live_job)
            and self._registry.is_ours(entry.job)
            and self._registry.is_live(entry.job)
        ]

    def _is_used_elsewhere(self, workload: Workload, job: str) -> bool:
        """Whether pods of other workloads use a job: they have its label, and the job lists them.

        The binding writes the label, and the watch reports it later. If a batch job is deleted in between, the pods of
        its gang are observed without owner and label. A job that was submitted for exactly these pods is theirs.
        """
        neighbours = self._cluster.pods.by("group", grouping.group_key(workload))
        others = [pod for pod in neighbours if self._cluster.workload_of(pod) != workload]
        if job in self._registry.adoptable_jobs(workload, others).values():
            self._clock.call_later(UNLABELLED_RETRY, partial(self._enqueue, workload))
            return True
        labelled = [
            pod
            for pod in self._cluster.pods.by("job", job)
            if self._cluster.workload_of(pod) != workload and not pod_state.is_gone(pod)
        ]
        if not labelled:
            return False
        observed = self._registry.observe(job, labelled, "")
        return observed.knowledge in (JobKnowledge.LIVE, JobKnowledge.UNKNOWN) or observed.live_components

    def _forget_jobs(self, workload: Workload, labelled: set[str]) -> None:
        """Remove jobs from the registry that no pod is labelled with and that are over or foreign."""
        for entry in self._registry.entries_of(workload):
            foreign = not entry.members_digest and not self._registry.is_ours(entry.job)
            if entry.job not in labelled and (foreign or not self._registry.is_live(entry.job)):
                self._registry.forget(entry.job)

    # --- actions

    async def _execute(  # noqa: PLR0912 -- one branch for each action
        self, workload: Workload, action: actions.Action, job_spec: JobSpec | None
    ) -> None:
        match action:
            case actions.SubmitJob(pods) if (own := await self._job_spec_for(workload, job_spec, pods)) is not None:
                with self._deferral.binding():
                    await self._submit(workload, own, pods)
            case actions.ReviseJob(job, pods) if (
                own := await self._job_spec_for(workload, job_spec, pods)
            ) is not None:
                await self._revise(workload, job, own, pods)
            case actions.LabelPods(job, pods):
                await self._label(pods, job)
            case actions.PlacePods(job, pods):
                with self._deferral.binding():
                    await self._placement.place(workload, job, pods, job_spec)
            case actions.WriteCondition(pods, text):
                await self._writer.write_conditions(pods, text)
            case actions.DetachPods(pods, text):
                await self._detach(pods, text)
            case actions.WithdrawJob(pods):
                await for_each_pod(pods, self._claims.release)
            case actions.CancelJob(job, outcome):
                await self._releaser.end_job(job, outcome)
            case actions.EvictPods(pods, text):
                await for_each_pod(pods, lambda pod: self._writer.evict(pod, text))
            case actions.ExplainEnd(pods, text):
                await for_each_pod(pods, lambda pod: self._writer.write_end_conditions(pod, text))
            case actions.RecoverJob(_, pods, text):
                if lost_jobs.is_new_loss(pods):
                    self._submitter.pause()
                await self._lost_jobs.recover(workload, await self._try_translate(workload, pods), pods, text)
            case actions.ReportRejection(job, pod):
                await self._placement.report_rejection(job, pod)
            case actions.RemoveFinalizer(pod, event):
                await self._claims.delete_own_claim(pod)
                await self._writer.remove_finalizer(pod, event)

    async def _detach(self, pods: tuple[WorkloadPod, ...], text: ConditionText) -> None:
        """Release the devices and remove the job label of pods without a node, so that they are submitted again."""
        if text.reason == reasons.LOST.reason:
            self._submitter.pause()
        await self._writer.write_conditions(pods, text)
        await for_each_pod(pods, self._claims.release)
        await for_each_pod(pods, self._writer.remove_label)

    async def _submit(self, workload: Workload, job_spec: JobSpec, pods: tuple[WorkloadPod, ...]) -> None:
        """Submit a job. If it starts at once, place its pods in the same step."""
        await self._check_room(job_spec, pods)
        allocate = self._submitter.would_start(job_spec)
        if allocate:
            # Before the allocation: allocated nodes should not idle while the finalizers are written.
            await for_each_pod(pods, self._writer.add_finalizer)
        try:
            job = await self._submitter.submit(workload, job_spec, allocate=allocate)
        except Rejected as error:
            text = Reason.SLURM_REFUSED.text(explanation=self._explain_rejection(error, job_spec))
            raise await self._report_rejection(job_spec, pods, error, text) from error
        except (Retryable, AuthError) as error:
            await self._writer.write_conditions(pods, Reason.SLURM_UNREACHABLE.text())
            raise Later(str(error)) from error
        log.info("submitted a job", workload=str(workload), job=job, pods=len(pods))
        self._writer.report_notes(pods[0], job_spec.notes)
        if not (allocate and self._registry.is_running(job)):
            await self._label(pods, job)
        elif (current := self._cluster.current_pods(pods)) is not None:
            await self._placement.place(workload, job, current, job_spec)

    async def _check_room(self, job_spec: JobSpec, pods: tuple[WorkloadPod, ...]) -> None:
        """Raises `Later` if pods of other schedulers leave too few nodes: Slurm would reject the job and record it as
        failed. The pods are reconciled again when the room of a node changes.
        """
        if (text := await self._exclusions.room_shortage(job_spec)) is not None:
            await self._writer.write_conditions(pods, text)
            raise Later(text.message, after=REJECTED_RETRY)

    def _explain_rejection(self, error: Rejected, job_spec: JobSpec) -> Explanation:
        """Why Slurm rejected a job; if the job can never fit, with the request that is too large."""
        explanation = reasons.explain_rejection(error.number, error.text)
        if error.number != NEVER_FITS or not (excess := self._exclusions.find_excess(job_spec)):
            return explanation
        return Explanation(f"{explanation.sentence} {excess}", explanation.step)

    async def _report_rejection(
        self, job_spec: JobSpec, pods: Iterable[WorkloadPod], error: Rejected, text: ConditionText
    ) -> Later:
        """Write why Slurm rejected the job; returns when to try again."""
        await self._writer.write_conditions(pods, text)
        if error.number != UNKNOWN_HOST:
            return Later(str(error), after=REJECTED_RETRY)
        log.info("an excluded host no longer exists", hosts=job_spec.request.excluded_nodes or ())
        self._exclusions.invalidate()
        return Later(str(error), after=UNKNOWN_HOST_RETRY)

    async def _revise(self, workload: Workload, job: str, job_spec: JobSpec, pods: tuple[WorkloadPod, ...]) -> None:
        """Update a pending job, or cancel it if that is impossible, so that its pods are submitted again."""
        await self._check_room(job_spec, pods)
        try:
            if await self._submitter.revise(workload, job, job_spec, pods):
                self._writer.report_notes(pods[0], job_spec.notes)
                await self._label([pod for pod in pods if pod_state.job_id(pod) != job], job)
        except JobOutgrown as error:
            labelled = [pod for pod in pods if pod_state.job_id(pod) == job]
            await self._writer.write_conditions(labelled, error.reason.text(problem=error))
            await for_each_pod(labelled, self._writer.remove_label)
            await self._releaser.end_job(job)
        except Rejected as error:
            text = Reason.UPDATE_REFUSED.text(job=job, explanation=self._explain_rejection(error, job_spec))
            raise await self._report_rejection(job_spec, pods, error, text) from error

    async def _label(self, pods: Iterable[WorkloadPod], job: str) -> None:
        await for_each_pod(pods, lambda pod: self._writer.label(pod, job))


def _spec_digest(job_spec: JobSpec | None, pods: Iterable[WorkloadPod]) -> str:
    """A digest of the job spec; empty if the job spec is not that of exactly these pods."""
    waiting = [pod for pod in pods if pod_state.is_waiting(pod)]
    return identity.spec_digest(job_spec.requests) if job_spec and job_spec.is_for(waiting) else ""


def classify_slurm_error(error: Exception) -> ErrorDecision | None:
    """Whether a control loop tries again after an error of Slurm, or reports that a person must act."""
    if isinstance(error, Rejected) and not isinstance(error, Busy | SlurmConflict | SlurmNotFound):
        text = Reason.SLURM_REFUSED.text(explanation=reasons.explain_rejection(error.number, error.text))
        return ErrorDecision(ErrorKind.BLOCKED, text.reason, text.message)
    if isinstance(error, SlurmError):
        return ErrorDecision(ErrorKind.LATER, type(error).__name__, str(error))
    return None
