# SPDX-License-Identifier: Apache-2.0
"""Reconciles one workload: build a snapshot, `decide`, execute.

After an action that changes what can be decided next, such as a submission whose job started at once, a second
decision is made on a fresh snapshot in the same reconcile. The reconciler has no state of its own except the bindings
in flight: after a restart, everything it needs is on the pods and in the jobs.
"""

import asyncio
import contextlib
from collections.abc import Callable

from slinky.bridge.lifecycle.attempts import Attempts
from slinky.bridge.lifecycle.decide.workload import decide
from slinky.bridge.lifecycle.deferral import Deferral
from slinky.bridge.lifecycle.executor import WorkloadExecutor
from slinky.bridge.lifecycle.snapshot_builder import SnapshotBuilder
from slinky.bridge.state.cluster import ClusterState
from slinky.bridge.state.job_registry import JobEntry, JobRegistry
from slinky.bridge.status import rejections
from slinky.bridge.status.reasons import Reason
from slinky.bridge.workload import pod_state
from slinky.bridge.workload.grouping import Workload
from slinky.kube import ErrorDecision, ErrorKind, Later, RequeueAfter
from slinky.observe import Clock
from slinky.slurm import Busy, Rejected, SlurmConflict, SlurmError, SlurmNotFound

#: Decisions in one reconcile: submit, bind, and what follows from an obstacle.
MAX_DECISIONS = 4
#: Seconds until the next reconcile if that was not enough.
UNSETTLED_RETRY = 1.0


class WorkloadReconciler:
    """Carries workloads through their life."""

    def __init__(
        self,
        cluster: ClusterState,
        registry: JobRegistry,
        builder: SnapshotBuilder,
        executor: WorkloadExecutor,
        attempts: Attempts,
        clock: Clock,
        enqueue: Callable[[Workload], None],
    ) -> None:
        self._cluster, self._registry, self._attempts = cluster, registry, attempts
        self._builder, self._executor, self._enqueue = builder, executor, enqueue
        self._deferral = Deferral(enqueue, clock)

    async def reconcile(self, workload: Workload) -> RequeueAfter | None:
        """Carry out the next actions for one workload. Raises `Later` if they failed."""
        snapshot = await self._builder.build(workload, binding_in_progress=self._deferral.active)
        if isinstance(snapshot, frozenset):
            for other in snapshot:
                self._enqueue(other)
            return None
        for _ in range(MAX_DECISIONS):
            plan = decide(snapshot)
            self._deferral.record(workload, deferred=plan.deferred)
            with self._deferral.binding() if plan.binds else contextlib.nullcontext():
                execution = await self._executor.execute(workload, plan.actions, snapshot.job_spec)
            if not execution.decide_again:
                break
            await asyncio.sleep(0)  # both halves are long for a large gang
            snapshot = await self._builder.refresh(snapshot, execution.obstacles)
        else:
            plan.retry_after(UNSETTLED_RETRY)
        self._forget_jobs(workload)
        if not snapshot.pods:
            self._attempts.forget(workload)
        if plan.failure:
            raise Later(plan.failure)
        return RequeueAfter(plan.again) if plan.again is not None else None

    def hosts_changed(self) -> None:
        """Slurm has other hosts than before: rejected jobs are tried again soon."""
        self._attempts.hosts_changed()

    def _forget_jobs(self, workload: Workload) -> None:
        """Remove jobs from the registry that no pod is labelled with and that are over or foreign."""
        unused = [entry.job for entry in self._registry.entries_of(workload) if self._is_unused(entry)]
        if unused:
            labelled = {pod_state.job_id(pod) for pod in self._cluster.pods_of(workload)}
            for job in unused:
                if job not in labelled:
                    self._registry.forget(job)

    def _is_unused(self, entry: JobEntry) -> bool:
        foreign = not entry.members_digest and not self._registry.is_ours(entry.job)
        return foreign or not self._registry.is_live(entry.job)


def classify_slurm_error(error: Exception) -> ErrorDecision | None:
    """Whether a control loop tries again after an error of Slurm, or reports that a person must act."""
    if isinstance(error, Rejected) and not isinstance(error, Busy | SlurmConflict | SlurmNotFound):
        text = Reason.SLURM_REFUSED.text(explanation=rejections.explain_rejection(error.number, error.text))
        return ErrorDecision(ErrorKind.BLOCKED, text.reason, text.message)
    if isinstance(error, SlurmError):
        return ErrorDecision(ErrorKind.LATER, type(error).__name__, str(error))
    return None
