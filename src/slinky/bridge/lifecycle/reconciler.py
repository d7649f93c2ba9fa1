# SPDX-License-Identifier: Apache-2.0
"""One unit at a time: look, decide, act.

The reconcile gathers a view from the caches and the mirror, asks `decide`, and carries the plan out in order. It
holds no state of its own but who is at work: what it needs after a restart is on the pods and in the jobs.
"""

import asyncio
from collections.abc import Callable, Iterable

from slinky.bridge.config import BridgeSettings
from slinky.bridge.devices.claims import ClaimWriter
from slinky.bridge.devices.demand import ClaimPending, DeviceDemand
from slinky.bridge.feasibility import constraints
from slinky.bridge.feasibility.exclusions import Exclusions
from slinky.bridge.feasibility.volume_state import MISSING_RETRY_SECONDS, VolumePending
from slinky.bridge.lifecycle import decide, lost_jobs
from slinky.bridge.lifecycle.actions import (
    Action,
    CancelJob,
    DetachPods,
    EvictPods,
    ExplainEnd,
    JobKnowledge,
    LabelPods,
    PlacePods,
    RecoverJob,
    RemoveFinalizer,
    ReviseJob,
    SubmitJob,
    WithdrawJob,
    WriteCondition,
)
from slinky.bridge.lifecycle.decide import WorkloadSnapshot
from slinky.bridge.lifecycle.deferral import Deferral
from slinky.bridge.lifecycle.lost_jobs import LostJobs
from slinky.bridge.lifecycle.placement import VOLUME_PENDING, Placement
from slinky.bridge.lifecycle.pod_writer import PodWriter, each
from slinky.bridge.lifecycle.release import Releaser
from slinky.bridge.lifecycle.submit import Outgrown, Submitter
from slinky.bridge.state.cluster import ClusterState
from slinky.bridge.state.job_registry import JobRegistry
from slinky.bridge.state.views import WorkloadPod
from slinky.bridge.status import reasons
from slinky.bridge.status.conditions import ConditionText
from slinky.bridge.status.queue_position import QueuePositions
from slinky.bridge.workload import grouping, identity, pod_state
from slinky.bridge.workload.annotations import OptionError
from slinky.bridge.workload.grouping import GroupMissing, Workload, WorkloadRoot
from slinky.bridge.workload.job_spec import JobContext, JobSpec, build_job_spec
from slinky.kube import ErrorDecision, ErrorKind, Later, RequeueAfter
from slinky.observe import Clock, Log
from slinky.slurm import AuthError, Busy, Rejected, Retryable, SlurmConflict, SlurmError, SlurmNotFound

log = Log("slinky.bridge.lifecycle.reconciler")

#: A submission that Slurm refuses is repeated this seldom, unless something changes.
REFUSED_AGAIN = 60.0
#: A host that was to be left out has just gone: the next look leaves it out of the list.
HOST_GONE, HOST_GONE_AGAIN = 2018, 3.0
#: How soon a job is looked at again whose pods have not been seen with its name.
UNSEEN = 2.0
#: Why nothing can be asked for, the first that fits; and how often what is not there yet is looked at.
PROBLEMS = {ClaimPending: "ClaimPending", VolumePending: VOLUME_PENDING, OptionError: "InvalidOption"}
NOT_YET = {"ClaimPending": 10.0, VOLUME_PENDING: MISSING_RETRY_SECONDS}


class WorkloadReconciler:
    """Carries units through their life."""

    def __init__(
        self,
        settings: BridgeSettings,
        stock: ClusterState,
        ledger: JobRegistry,
        feasible: Exclusions,
        submitter: Submitter,
        releaser: Releaser,
        hands: PodWriter,
        wants: DeviceDemand,
        claims: ClaimWriter,
        rescuer: LostJobs,
        seating: Placement,
        line: QueuePositions,
        clock: Clock,
        wake: Callable[[Workload], None],
    ) -> None:
        self._settings, self._stock, self._ledger, self._feasible = settings, stock, ledger, feasible
        self._submitter, self._releaser, self._hands = submitter, releaser, hands
        self._wants, self._claims, self._rescuer = wants, claims, rescuer
        self._seating, self._line, self._clock = seating, line, clock
        self._wake = wake
        self._hush = Deferral(wake)

    async def reconcile(self, unit: Workload) -> RequeueAfter | None:
        """Bring one unit a step further."""
        pods = self._stock.pods_of(unit)
        # Pods that are done with, and their jobs, are left in peace: there may be thousands of them.
        jobs = {
            job
            for pod in pods
            if (job := pod_state.job_id(pod)) and (pod_state.has_finalizer(pod) or not pod_state.is_gone(pod))
        }
        for job in jobs:
            self._ledger.track_labelled(job, unit)
        root, wish, problem = await self._wish(unit, pods)
        if self._stock.workloads_of(pods) - {unit}:
            # Meanwhile a job has told that it stands for others as well: what it needs is not decided for one alone.
            for other in self._stock.workloads_of(pods):
                self._wake(other)
            return None
        plan = decide.decide(self._view(unit, pods, jobs, root, wish, problem))
        self._hush.note(unit, quiet=plan.hushed)
        if problem is not None and problem.reason in NOT_YET:
            plan.look_again(NOT_YET[problem.reason])
        for action in plan.actions:
            await self._act(unit, action, wish)
        self._forget(unit, {job for pod in self._stock.pods_of(unit) if (job := pod_state.job_id(pod))})
        return RequeueAfter(plan.again) if plan.again is not None else None

    # --- looking

    async def _wish(
        self, unit: Workload, pods: list[WorkloadPod]
    ) -> tuple[WorkloadRoot | None, JobSpec | None, ConditionText | None]:
        """What the unit asks for, or why that cannot be said."""
        wanting = [pod for pod in pods if pod_state.is_waiting(pod)]
        if not pods:
            return None, None, None
        try:
            root = await self._stock.root_of(unit, pods)
        except GroupMissing as error:
            return None, None, ConditionText(False, "GroupMissing", f"{error}.")
        if told := root.unsupported or next(
            (told for pod in wanting for told in constraints.unsupported_constraints(pod)), ""
        ):
            return root, None, ConditionText(False, "NotSupported", f"{told}.")
        try:
            wish = await self._translated(unit, root, wanting) if wanting else None
        except (OptionError, VolumePending) as error:
            reason = next(reason for kind, reason in PROBLEMS.items() if isinstance(error, kind))
            return root, None, ConditionText(False, reason, f"{error}.")
        return root, wish, None

    async def _exact(self, unit: Workload, wish: JobSpec | None, pods: tuple[WorkloadPod, ...]) -> JobSpec | None:
        """The wish of these pods alone: others of the unit may wait for the node that a job of their own has."""
        return wish if wish is None or wish.is_for(pods) else await self._wish_of(unit, pods)

    async def _wish_of(self, unit: Workload, pods: tuple[WorkloadPod, ...]) -> JobSpec | None:
        """What these pods ask for, if that can be said."""
        try:
            return await self._translated(unit, await self._stock.root_of(unit, list(pods)), list(pods))
        except (GroupMissing, OptionError):
            return None

    async def _translated(self, unit: Workload, root: WorkloadRoot, pods: list[WorkloadPod]) -> JobSpec:
        needed = await self._wants.compute(pods)
        world = JobContext(self._settings, self._stock.catalog, needed.by_pod, needed.shared, needed.threads_per_core)
        first = build_job_spec(unit, root, pods, world)
        excluded = await self._feasible.excluded_hosts(pods, first.request.partition or "")
        if needed.restricts_nodes:
            unsuited = self._feasible.hosts_not_matching(needed.suits_node)
            excluded = {uid: hosts | unsuited for uid, hosts in excluded.items()}
        return build_job_spec(unit, root, pods, world, excluded=excluded) if any(excluded.values()) else first

    def _view(
        self,
        unit: Workload,
        pods: list[WorkloadPod],
        jobs: set[str],
        root: WorkloadRoot | None,
        wish: JobSpec | None,
        problem: ConditionText | None,
    ) -> WorkloadSnapshot:
        adopted = self._ledger.adoptable_jobs(unit, pods)
        groups: dict[str, list[WorkloadPod]] = {job: [] for job in jobs}
        for pod in pods:
            if job := pod_state.job_id(pod) or adopted.get(pod.metadata.uid, ""):
                groups.setdefault(job, []).append(pod)
        shown = jobs | set(adopted.values())
        seen = {job: self._ledger.observe(job, groups[job], _wanted(wish, groups[job])) for job in shown}
        # A job may already stand for running pods whose own is lost.
        running = [
            pod for pod in pods if pod_state.is_bound(pod) and not pod_state.is_gone(pod) and not pod.metadata.deleting
        ]
        bereft = [pod for pod in running if (job := pod_state.job_id(pod)) and seen[job].sight is not JobKnowledge.LIVE]
        strays = [
            entry.job
            for entry in self._ledger.entries_of(unit)
            if entry.job not in seen
            and not self._ledger.pods_submitted_with(entry, bereft)
            and self._ledger.is_ours(entry.job)
            and self._ledger.is_live(entry.job)
        ]
        return WorkloadSnapshot(
            unit,
            pods,
            seen,
            root,
            self._clock.now(),
            problem,
            self._settings.dead_kubelet_seconds,
            self._stock.is_reachable,
            strays,
            self._line.place,
            adopted,
            self._hush.on,
            lambda job: self._lives_elsewhere(unit, job),
        )

    def _lives_elsewhere(self, unit: Workload, job: str) -> bool:
        """Whether pods of other units live by a job: they carry its name, and it speaks for them.

        The name comes with the binding, and the watch tells of it later: if a batch job is deleted in between, the
        pods of its gang are seen without both. A job that was made for exactly these pods is theirs.
        """
        near = self._stock.pods.by("group", grouping.group_key(unit))
        strangers = [pod for pod in near if self._stock.workload_of(pod) != unit]
        if job in self._ledger.adoptable_jobs(unit, strangers).values():
            asyncio.get_running_loop().call_later(UNSEEN, self._wake, unit)
            return True
        others = [
            pod
            for pod in self._stock.pods.by("job", job)
            if self._stock.workload_of(pod) != unit and not pod_state.is_gone(pod)
        ]
        if not others:
            return False
        seen = self._ledger.observe(job, others, "")
        return seen.sight in (JobKnowledge.LIVE, JobKnowledge.UNKNOWN) or seen.remains

    def _forget(self, unit: Workload, jobs: set[str]) -> None:
        for entry in self._ledger.entries_of(unit):
            strange = not entry.members_digest and not self._ledger.is_ours(entry.job)
            if entry.job not in jobs and (strange or not self._ledger.is_live(entry.job)):
                self._ledger.forget(entry.job)

    # --- acting

    async def _act(self, unit: Workload, action: Action, wish: JobSpec | None) -> None:  # noqa: PLR0912 -- a branch a step
        match action:
            case SubmitJob(pods) if (exact := await self._exact(unit, wish, pods)) is not None:
                with self._hush.placing():
                    await self._submit(unit, exact, pods)
            case ReviseJob(job, pods) if (exact := await self._exact(unit, wish, pods)) is not None:
                await self._revise(unit, job, exact, pods)
            case LabelPods(job, pods):
                await self._label(pods, job)
            case PlacePods(job, pods):
                with self._hush.placing():
                    await self._seating.place(unit, job, pods, wish)
            case WriteCondition(pods, said, warning):
                await self._hands.tell(pods, said, warning=warning)
            case DetachPods(pods, said):
                if said.reason == reasons.LOST.reason:
                    self._submitter.pause()
                await self._hands.tell(pods, said, warning=True)
                await each(pods, self._claims.release)
                await each(pods, self._hands.unlabel)
            case WithdrawJob(pods):
                await each(pods, self._claims.release)
            case CancelJob(job, fate):
                await self._releaser.end(job, fate)
            case EvictPods(pods, said) | ExplainEnd(pods, said):
                deed = self._hands.evict if isinstance(action, EvictPods) else self._hands.explain
                await each(pods, lambda pod: deed(pod, said))
            case RecoverJob(_, pods, said):
                if lost_jobs.news(pods):
                    self._submitter.pause()
                await self._rescuer.reclaim(unit, await self._wish_of(unit, pods), pods, said)
            case RemoveFinalizer(pod, complaint):
                await self._claims.delete_own_claim(pod)
                await self._hands.let_go(pod, complaint)

    async def _submit(self, unit: Workload, wish: JobSpec, pods: tuple[WorkloadPod, ...]) -> None:
        at_once = self._submitter.at_once(wish)
        if at_once:
            # Before Slurm gives nodes away: they should not idle while we write.
            await each(pods, self._hands.hold)
        try:
            job = await self._submitter.submit(unit, wish, at_once=at_once)
        except Rejected as error:
            raise await self._refused(wish, pods, error) from error
        except (Retryable, AuthError) as error:
            said = ConditionText(
                False, "SlurmUnreachable", "Slurm does not answer; the pod is submitted as soon as it does."
            )
            await self._hands.tell(pods, said)
            raise Later(str(error)) from error
        log.info("submitted", unit=str(unit), job=job, pods=len(pods))
        if not (at_once and self._ledger.is_running(job)):
            await self._label(pods, job)
        elif (now := self._stock.current_pods(pods)) is not None:
            await self._seating.place(unit, job, now, wish)

    async def _refused(self, wish: JobSpec, pods: Iterable[WorkloadPod], error: Rejected, rest: str = "") -> Later:
        """Tell why Slurm takes no such job; when to try again."""
        told = f"{reasons.refused(error.number, error.text)} {rest}".strip()
        await self._hands.tell(pods, ConditionText(False, "SlurmRefused", told), warning=True)
        if error.number != HOST_GONE:
            return Later(str(error), after=REFUSED_AGAIN)
        log.info("a host that was left out has gone", hosts=wish.request.excluded_nodes or ())
        self._feasible.invalidate()
        return Later(str(error), after=HOST_GONE_AGAIN)

    async def _revise(self, unit: Workload, job: str, wish: JobSpec, pods: tuple[WorkloadPod, ...]) -> None:
        try:
            if await self._submitter.revise(unit, job, wish, pods):
                await self._label([pod for pod in pods if pod_state.job_id(pod) != job], job)
        except Outgrown as error:
            said = ConditionText(False, error.reason, f"{error}; it is withdrawn and submitted anew.")
            labelled = [pod for pod in pods if pod_state.job_id(pod) == job]
            await self._hands.tell(labelled, said)
            await each(labelled, self._hands.unlabel)
            await self._releaser.end(job)
        except Rejected as error:
            kept = f"Slurm job {job} waits as it was."
            raise await self._refused(wish, pods, error, kept) from error

    async def _label(self, pods: Iterable[WorkloadPod], job: str) -> None:
        await each(pods, lambda pod: self._hands.label(pod, job))


def _wanted(wish: JobSpec | None, pods: Iterable[WorkloadPod]) -> str:
    """A digest of what the pods of a job ask for; nothing if the wish is not theirs alone."""
    waiting = [pod for pod in pods if pod_state.is_waiting(pod)]
    return identity.spec_digest(wish.requests) if wish and wish.is_for(waiting) else ""


def judge(error: Exception) -> ErrorDecision | None:
    """What an error of Slurm means to a controller: try later, or tell a person."""
    if isinstance(error, Rejected) and not isinstance(error, Busy | SlurmConflict | SlurmNotFound):
        return ErrorDecision(ErrorKind.BLOCKED, "SlurmRefused", str(reasons.refused(error.number, error.text)))
    if isinstance(error, SlurmError):
        return ErrorDecision(ErrorKind.LATER, type(error).__name__, str(error))
    return None


def units_of_group(stock: ClusterState, kind: str, namespace: str, name: str) -> set[Workload]:
    """The units that a grouping object may concern: those of all its pods."""
    return stock.workloads_of(stock.pods.by("group", grouping.group_key(Workload(namespace, kind, name))))
