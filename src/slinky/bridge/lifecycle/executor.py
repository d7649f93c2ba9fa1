# SPDX-License-Identifier: Apache-2.0
"""Carries out the actions of a plan, and nothing else. It decides nothing: what prevents an action is an obstacle, and
the next decision says what follows from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from slinky.bridge import metrics
from slinky.bridge.feasibility.job_specs import JobSpecs
from slinky.bridge.lifecycle.attempts import UNKNOWN_HOST, Attempts
from slinky.bridge.lifecycle.binder import Binder
from slinky.bridge.lifecycle.decide import actions
from slinky.bridge.lifecycle.decide.actions import EvictionLimit
from slinky.bridge.lifecycle.pod_writer import PodWriter, for_each_pod
from slinky.bridge.lifecycle.release.releaser import Releaser
from slinky.bridge.lifecycle.snapshot import SUBMISSION, Obstacle, ObstacleKind
from slinky.bridge.lifecycle.submit import GangReshaped, JobOutgrown, Submitter
from slinky.bridge.status.reasons import ConditionText
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import identity
from slinky.bridge.workload.grouping import Workload
from slinky.bridge.workload.job_spec import JobSpec
from slinky.kube import Later
from slinky.observe import Log
from slinky.slurm import AuthError, Busy, Rejected, Retryable, SlurmNotFound

log = Log("slinky.bridge.lifecycle.executor")

#: Seconds until a replacement on a host that Slurm does not know is tried again: the host is being registered.
UNKNOWN_HOST_RETRY = 3.0
#: Seconds until the rejected job of some of the waiting pods is tried again.
REFUSED_RETRY = 60.0


@dataclass
class Execution:
    """What became of a plan: whether a decision is needed at once, and what prevented actions, by job."""

    decide_again: bool = False
    obstacles: dict[str, Obstacle] = field(default_factory=dict)

    def report(self, key: str, obstacle: Obstacle) -> None:
        """An action could not be carried out; decide again."""
        self.obstacles[key] = obstacle
        self.decide_again = True

    def report_refusal(self, key: str, error: Rejected, *, remembered: bool) -> None:
        """Slurm rejected a job. The next snapshot has the rejection if it is `remembered` for all waiting pods."""
        self.decide_again = True
        if not remembered:
            self.obstacles[key] = Obstacle(ObstacleKind.NOT_PREPARED, str(error), retry=REFUSED_RETRY)


class WorkloadExecutor:
    """Carries out plans."""

    def __init__(
        self,
        job_specs: JobSpecs,
        submitter: Submitter,
        binder: Binder,
        releaser: Releaser,
        writer: PodWriter,
        attempts: Attempts,
    ) -> None:
        self._job_specs, self._submitter, self._binder = job_specs, submitter, binder
        self._releaser, self._writer, self._attempts = releaser, writer, attempts

    async def execute(
        self, workload: Workload, planned: Sequence[actions.Action], job_spec: JobSpec | None
    ) -> Execution:
        """Carry out actions in their order. `job_spec` is that of all waiting pods."""
        # Without a pause after the decision, so that no other plan counts on the same room or evictions.
        self._attempts.evictions.record(planned)
        for action in planned:
            if isinstance(action, actions.BindPods) and action.reserve_room:
                self._binder.reserve_room(action)
        execution = Execution()
        for action in planned:
            await self._execute(workload, action, job_spec, execution)
        return execution

    async def _execute(  # noqa: PLR0912 -- one branch for each action
        self, workload: Workload, action: actions.Action, job_spec: JobSpec | None, execution: Execution
    ) -> None:
        match action:
            case actions.SubmitJob(pods):
                await self._submit(workload, pods, job_spec, execution)
            case actions.ReviseJob(job, pods):
                await self._revise(workload, job, pods, job_spec, execution)
            case actions.LabelPods(job, pods):
                await for_each_pod(pods, lambda pod: self._writer.label(pod, job))
            case actions.BindPods():
                await self._bind(action, execution)
            case actions.AvoidHost(host, problem):
                self._attempts.avoid(workload, host, problem)
            case actions.BlockNode():
                self._binder.block_node(action)
            case actions.WriteCondition(pods, text):
                await self._writer.write_conditions(pods, text)
            case actions.ReportNodes(texts):
                text_of = {pod.metadata.uid: text for pod, text in texts}
                await for_each_pod(
                    [pod for pod, _ in texts], lambda pod: self._writer.write_condition(pod, text_of[pod.metadata.uid])
                )
            case actions.DetachPods(pods, text):
                await self._detach(pods, text)
            case actions.ReleaseDevices(pods):
                await for_each_pod(pods, self._binder.release_devices)
            case actions.PauseSubmissions():
                self._attempts.pause()
            case actions.ReplaceJob():
                await self._replace(workload, action, execution)
            case actions.CancelJob(job, outcome):
                await self._releaser.end_job(job, outcome)
            case actions.RecordOutcome(job, outcome, witness):
                await self._binder.delete_claim(witness)  # its devices are free, other pods may wait for them
                self._releaser.record_outcome(job, outcome)
            case actions.EvictPods(pods, text, limit):
                await self._evict(pods, text, limit)
            case actions.ExplainEnd(pods, text):
                await for_each_pod(pods, lambda pod: self._writer.write_end_conditions(pod, text))
            case actions.RemoveFinalizers(pods, event):
                await for_each_pod(pods, lambda pod: self._remove_finalizer(pod, event))

    # --- submission

    async def _submit(
        self, workload: Workload, pods: tuple[WorkloadPod, ...], all_waiting: JobSpec | None, execution: Execution
    ) -> None:
        job_spec = await self._job_spec_for(workload, all_waiting, pods)
        if job_spec is None:
            return
        namespace, digest = workload.namespace, identity.request_digest(job_spec.requests)
        try:
            with self._submitter.reserve_start(job_spec) as allocate:
                if allocate:
                    # Before the allocation: allocated nodes should not idle while the finalizers are written.
                    await for_each_pod(pods, self._writer.add_finalizer)
                job = await self._submitter.submit(workload, job_spec, allocate=allocate)
        except Rejected as error:
            self._record_refusal(namespace, SUBMISSION, digest, error)
            execution.report_refusal(SUBMISSION, error, remembered=job_spec is all_waiting)
        except (Retryable, AuthError) as error:
            execution.report(SUBMISSION, Obstacle(ObstacleKind.UNREACHABLE, str(error)))
        except Later as error:
            execution.report(SUBMISSION, Obstacle(ObstacleKind.NOT_PREPARED, str(error), retry=error.after))
        else:
            log.info("submitted a job", workload=str(workload), job=job, pods=len(pods))
            self._attempts.record_acceptance(namespace, SUBMISSION, digest)
            self._attempts.record_submission(identity.members_digest(pods))
            self._writer.report_notes(pods[0], job_spec.notes)
            execution.decide_again = True

    async def _revise(
        self,
        workload: Workload,
        job: str,
        pods: tuple[WorkloadPod, ...],
        all_waiting: JobSpec | None,
        execution: Execution,
    ) -> None:
        job_spec = await self._job_spec_for(workload, all_waiting, pods)
        if job_spec is None:
            return
        digest = identity.request_digest(job_spec.requests)
        try:
            if await self._submitter.revise(workload, job, job_spec, pods):
                self._attempts.record_acceptance(workload.namespace, job, digest)
                self._writer.report_notes(pods[0], job_spec.notes)
                execution.decide_again = True
            else:
                execution.report(job, Obstacle(ObstacleKind.NOT_PENDING, f"Slurm job {job} is no longer pending"))
        except GangReshaped as error:
            execution.report(job, Obstacle(ObstacleKind.RESHAPED, str(error)))
        except JobOutgrown as error:
            execution.report(job, Obstacle(ObstacleKind.OUTGROWN, str(error)))
        except Rejected as error:
            self._record_refusal(workload.namespace, job, digest, error)
            execution.report_refusal(job, error, remembered=job_spec is all_waiting)

    async def _job_spec_for(
        self, workload: Workload, job_spec: JobSpec | None, pods: tuple[WorkloadPod, ...]
    ) -> JobSpec | None:
        """The job spec of exactly these pods: other pods of the workload may wait with a job of their own."""
        if job_spec is None or job_spec.is_for(pods):
            return job_spec
        avoided = [avoided.host for avoided in self._attempts.avoided_hosts(workload)]
        return await self._job_specs.try_build(workload, pods, avoided)

    def _record_refusal(self, namespace: str, job: str, digest: str, error: Rejected) -> None:
        log.info("Slurm rejected a job", namespace=namespace, job=job, error=error)
        self._attempts.record_refusal(namespace, job, digest, error)
        if error.number == UNKNOWN_HOST:
            self._job_specs.exclusions.invalidate()

    async def _replace(self, workload: Workload, action: actions.ReplaceJob, execution: Execution) -> None:
        key = action.pods[0].metadata.uid
        try:
            job, sluid = await self._submitter.submit_replacement(workload, action.job_spec, action.hosts)
        except Rejected as error:
            log.info("Slurm rejected the replacement of a lost job", workload=str(workload), error=error)
            reallocated = await self._submitter.is_reallocated(error, action.job_spec.request, action.hosts)
            kind = ObstacleKind.NOT_STARTED if isinstance(error, Busy) else ObstacleKind.NOT_REPLACED
            kind = ObstacleKind.REALLOCATED if reallocated else kind
            retry = UNKNOWN_HOST_RETRY if isinstance(error, SlurmNotFound) else None
            execution.report(key, Obstacle(kind, str(error), retry=retry))
        except (Retryable, AuthError) as error:
            execution.report(key, Obstacle(ObstacleKind.UNREACHABLE, str(error)))
        except Later as error:
            execution.report(key, Obstacle(ObstacleKind.NOT_PREPARED, str(error), retry=error.after))
        else:
            log.info("replaced a lost job", workload=str(workload), job=job, pods=len(action.pods))
            metrics.RECOVERED_PODS.labels("kept").inc(len(action.pods))
            await for_each_pod(action.pods, lambda pod: self._writer.replace_label(pod, job, sluid))

    # --- pods

    async def _bind(self, action: actions.BindPods, execution: Execution) -> None:
        if (obstacle := await self._binder.bind(action)) is not None:
            execution.report(action.job, obstacle)
        else:
            await self._binder.report_groups_scheduled(action.pods)

    async def _detach(self, pods: tuple[WorkloadPod, ...], text: ConditionText) -> None:
        """Release the devices and remove the job label of pods without a node, so that they are submitted again."""
        await self._writer.write_conditions(pods, text)
        await for_each_pod(pods, self._binder.release_devices)
        await for_each_pod(pods, self._writer.remove_label)

    async def _evict(self, pods: tuple[WorkloadPod, ...], text: ConditionText, limit: EvictionLimit) -> None:
        if limit is EvictionLimit.LOST:
            metrics.RECOVERED_PODS.labels("evicted").inc(len(pods))
        await for_each_pod(pods, lambda pod: self._writer.evict(pod, text))

    async def _remove_finalizer(self, pod: WorkloadPod, event: ConditionText | None) -> None:
        await self._binder.delete_claim(pod)
        await self._writer.remove_finalizer(pod, event)
