# SPDX-License-Identifier: Apache-2.0
"""Carries out the planned actions: in a fixed order, without decisions of its own.

Actions on Kubernetes come first and do not wait for Slurm. An error of Slurm ends only its own action and is reported.
After an error of Kubernetes the remaining actions are still tried; the controller raises the error at the end.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Set

from slinky.api.names import metadata
from slinky.api.nodeset import NodeSet
from slinky.kube.errors import AlreadyExists, Forbidden, NotFound
from slinky.kube.rate_limit import RateLimit
from slinky.kube.timestamps import format_timestamp
from slinky.kube.views import PODS, VOLUME_CLAIMS
from slinky.observe import Log
from slinky.operator.framework.context import Context
from slinky.operator.metrics import ACTIONS, DELETIONS_LIMITED, DRAIN_SECONDS, SLURM_ERRORS, SLURM_WRITES, WRITES
from slinky.operator.nodeset import objects
from slinky.operator.nodeset.actions import (
    Action,
    AdoptClaim,
    AnnotateWorker,
    CancelJobs,
    CondemnWorker,
    CreateWorker,
    DeleteClaim,
    DeleteWorker,
    ExecutionReport,
    ForgetHost,
    UpdateHost,
)
from slinky.operator.nodeset.decisions.drains import kept_drain
from slinky.operator.nodeset.decisions.reservation import EndReservation, Reserve
from slinky.operator.nodeset.objects import WorkerContext
from slinky.operator.nodeset.workers import Condemnation
from slinky.operator.slurm.clusters import Clusters
from slinky.slurm import JobSelection, SlurmClient, SlurmError, SlurmNotFound

log = Log("slinky.operator.nodeset.executor")

MAX_CONCURRENT_REQUESTS = 16
#: Actions of one type in one reconcile; the next reconcile continues with the rest.
MAX_ACTIONS = 500

RecordEvent = Callable[..., None]

#: Condemnations and creations first, then Kubernetes, then Slurm; deletions last.
ORDER: tuple[tuple[type, ...], ...] = (
    (CondemnWorker,),
    (CreateWorker,),
    (AnnotateWorker, DeleteClaim, AdoptClaim),
    (UpdateHost, CancelJobs, ForgetHost, Reserve, EndReservation),
    (DeleteWorker,),
)

#: Event reasons by change of a host, and by action that failed.
HOST_EVENTS = {"drain": "NodeCordon", "undrain": "NodeUncordon", "resume": "NodeUncordon", "down": "DrainTimeout"}
FAILURE_EVENTS: dict[type, str] = {
    CreateWorker: "FailedCreate",
    DeleteWorker: "FailedDelete",
    AnnotateWorker: "FailedUpdate",
    CondemnWorker: "FailedUpdate",
}
#: Event reasons by phase of a finished pod in DaemonSet mode, and whether the event is a warning.
FINISHED_EVENTS = {"Failed": ("FailedDaemonPod", True), "Succeeded": ("SucceededDaemonPod", False)}


class Executor:
    """Carries out plans, and keeps the deletion limit of each NodeSet."""

    def __init__(self, context: Context, clusters: Clusters) -> None:
        self.context = context
        self.clusters = clusters
        self._deletions: dict[str, RateLimit] = {}

    def keep_only(self, uids: Set[str]) -> None:
        """Forget the deletion limits of all NodeSets but these."""
        self._deletions = {uid: limit for uid, limit in self._deletions.items() if uid in uids}

    async def execute(
        self,
        node_set: NodeSet,
        actions: Iterable[Action],
        worker_context: WorkerContext | None,
        record_event: RecordEvent,
    ) -> ExecutionReport:
        """Carry out the actions as far as possible."""
        execution = _Execution(self, node_set, worker_context, record_event)
        planned = list(actions)
        if creations := sum(isinstance(action, CreateWorker) for action in planned):
            record_event("ScalingUp", f"Creating {creations} workers")
        for types in ORDER:
            await execution.run_all([action for action in planned if isinstance(action, types)][:MAX_ACTIONS])
        return execution.report

    def deletions(self, node_set: NodeSet) -> RateLimit:
        """The rate limit of unplanned deletions of a NodeSet's workers."""
        return self._deletions.setdefault(node_set.metadata.uid, RateLimit(self.context.settings.deletion_limit_window))


class _Execution:
    """The execution of one plan for one NodeSet."""

    def __init__(
        self, executor: Executor, node_set: NodeSet, worker_context: WorkerContext | None, record_event: RecordEvent
    ) -> None:
        self.context = executor.context
        self.clusters = executor.clusters
        self.node_set = node_set
        self.worker_context = worker_context
        self.record_event = record_event
        self.deletions = executor.deletions(node_set)
        settings, workers = self.context.settings, self.context.pods.by("owner", node_set.metadata.uid)
        limit = max(settings.deletion_limit_minimum, int(sum(1 for _ in workers) * settings.deletion_limit_share))
        self.report = ExecutionReport(deletion_limit=limit, deletion_window=settings.deletion_limit_window)
        self._requests = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)

    async def run_all(self, actions: Iterable[Action]) -> None:
        """Run actions concurrently; their errors go into the report."""
        async with asyncio.TaskGroup() as tasks:
            for action in actions:
                tasks.create_task(self._run(action))

    async def _run(self, action: Action) -> None:
        async with self._requests:
            try:
                await self._do(action)
            except SlurmError as error:
                SLURM_ERRORS.labels(*self.node_set.controller_key, "refused").inc()
                self.report.refusals.append(str(error))
                log.warning("slurm refused a request", action=action.label, error=str(error))
            except (NotFound, AlreadyExists):
                self.report.done += 1  # another writer was faster; the next reconcile sees the result
            except Exception as error:
                if reason := FAILURE_EVENTS.get(type(action)):
                    self.record_event(reason, str(error), warning=True)
                if isinstance(action, CreateWorker) and isinstance(error, Forbidden):
                    # A quota, or a new namespace whose service account does not exist yet: both are temporary.
                    self.report.uncreated[objects.pod_name(self.node_set, action.slot)] = error.status.message
                else:
                    self.report.errors.append(error)
            else:
                self.report.done += 1

    async def _do(self, action: Action) -> None:
        match action:
            case CreateWorker():
                await self._create(action)
            case CondemnWorker():
                await self._condemn(action)
            case DeleteWorker():
                await self._delete(action)
                return
            case AnnotateWorker():
                await self._patch(action)
            case DeleteClaim(claim):
                await self.context.children.delete(VOLUME_CLAIMS, claim)
            case AdoptClaim(claim, owners):
                await self.context.children.patch(VOLUME_CLAIMS, claim, {"ownerReferences": list(owners)})
            case UpdateHost():
                await self._update(action)
            case CancelJobs(host):
                await self._slurm("cancel", lambda client: client.cancel_many(JobSelection(nodes=[host])))
                self.record_event("DrainTimeout", f"Cancelled the jobs on {host}: they ran longer than drain.timeout")
            case ForgetHost(host, why):
                await self._forget(host)
                self.record_event("DefunctSlurmNodePruned", f"Deleted Slurm node {host}: {why}")
            case Reserve(request, start):
                await self._slurm("reserve", lambda client: client.write_reservation(request))
                self.report.reservation_start = start
                hosts = len(request.node_list or ())
                self.record_event("ScheduledUpdate", f"Reservation {request.name} contains {hosts} hosts")
            case EndReservation(name):
                with contextlib.suppress(SlurmNotFound):
                    await self._slurm("release", lambda client: client.delete_reservation(name))
                    self.record_event("ScheduledUpdate", f"Deleted reservation {name}")
        ACTIONS.labels(action.label).inc()

    async def _create(self, action: CreateWorker) -> None:
        assert self.worker_context is not None  # noqa: S101 - a NodeSet that is being deleted creates no worker
        for claim in objects.claims(self.node_set, action.slot):
            await self.context.children.apply(VOLUME_CLAIMS, claim, adopt=True)
        manifest = objects.pod(self.node_set, action.slot, self.worker_context)
        if action.drain:
            manifest["metadata"]["annotations"][metadata.POD_KEPT_DRAIN] = action.drain.annotation()
        if not await self._has_planned_drain(action):
            return
        # A drain is in the annotation of the pod before it is lost with the host, whatever happens in between. Without
        # a drain, the host is deleted before a new slurmd can register.
        if not action.drain:
            await self._forget_stale(action)
        WRITES.labels("create", "Pod").inc()
        self.context.pods.record_write(await self.context.client.create(PODS, manifest))
        self.record_event("SuccessfulCreate", f"Created pod {manifest['metadata']['name']}")
        if action.drain:
            await self._forget_stale(action)

    async def _has_planned_drain(self, action: CreateWorker) -> bool:
        """Whether the host of an earlier worker still has the drain of the plan: the mirror may be some seconds old.

        The worker is created also if Slurm does not answer; slurmctld then keeps the host and its drain.
        """
        client = self.clusters.client(self.node_set.controller_key)
        if client is None or not action.stale_host:
            return True
        try:
            is_planned = kept_drain(await client.node(action.stale_host)) == action.drain
        except SlurmError as error:
            log.info("stale host could not be read", host=action.stale_host, error=str(error))
            return True
        if not is_planned:
            log.info("the drain of a stale host has just changed", host=action.stale_host)
            self.clusters.request_refresh(self.node_set.controller_key)
        return is_planned

    async def _forget_stale(self, action: CreateWorker) -> None:
        """Delete the host of an earlier worker; if Slurm refuses, the new slurmd takes it over."""
        if not action.stale_host:
            return
        try:
            if action.release:
                await self._do(action.release)
            await self._forget(action.stale_host)
        except SlurmError as error:
            log.info("stale host could not be deleted", host=action.stale_host, error=str(error))

    async def _condemn(self, action: CondemnWorker) -> None:
        cause, earlier = action.cause, action.worker.condemned
        since = earlier.since if earlier else format_timestamp(self.context.clock.now())
        annotations = {
            metadata.POD_CONDEMNED: str(Condemnation(cause.value, since)),
            metadata.POD_CORDON_OWNER: cause.value,
        }
        await self._patch(AnnotateWorker(action.worker, {}, annotations))
        self.record_event(cause.event, f"Pod {action.worker.meta.name} will be removed: it is {cause.description}")

    async def _delete(self, action: DeleteWorker) -> None:
        if action.limited and not self._use_deletion():
            return
        pod = action.worker.pod
        if self.node_set.per_node and pod.status.phase in FINISHED_EVENTS:
            reason, warning = FINISHED_EVENTS[pod.status.phase]
            self.record_event(reason, f"Pod {pod.metadata.name} has ended and will be replaced", warning=warning)
        WRITES.labels("delete", "Pod").inc()
        self.context.pods.record_deletion(pod, await self.context.client.delete(PODS, pod.key, uid=pod.metadata.uid))
        ACTIONS.labels(action.label).inc()
        if condemned := action.worker.condemned:
            DRAIN_SECONDS.labels(condemned.cause).observe(condemned.seconds(self.context.clock.now()))
        self.record_event("SuccessfulDelete", f"Deleted pod {pod.metadata.name}: {action.why}")

    def _use_deletion(self) -> bool:
        """Count an unplanned deletion; False if the deletion limit is reached."""
        now = self.context.clock.monotonic()
        if not self.deletions.remaining(self.report.deletion_limit, now):
            self.report.limited += 1
            DELETIONS_LIMITED.labels(*self.node_set.key).inc()
            return False
        self.deletions.record(now)
        return True

    async def _patch(self, action: AnnotateWorker) -> None:
        fields = {
            name: dict(values)
            for name, values in (("labels", action.labels), ("annotations", action.annotations))
            if values
        }
        pod = action.worker.pod
        WRITES.labels("patch", "Pod").inc()
        # With the uid, the patch cannot reach a new pod of the same name.
        patch = {"metadata": {**fields, "uid": pod.metadata.uid}}
        self.context.pods.record_write(await self.context.client.patch(PODS, pod.key, patch))

    async def _update(self, action: UpdateHost) -> None:
        if action.expected_reason is not None and await self._reason(action.host) != action.expected_reason:
            log.info("the reason of a host has just changed", host=action.host)
            self.clusters.request_refresh(self.node_set.controller_key)
            return
        await self._slurm(action.what, lambda client: client.update_node(action.host, action.change))
        if reason := HOST_EVENTS.get(action.what):
            self.record_event(reason, f"Slurm node {action.host}: {action.what} {action.why}".rstrip())

    async def _reason(self, host: str) -> str | None:
        """The reason as slurmctld has it now; the mirror may be up to two seconds old."""
        client = self.clusters.client(self.node_set.controller_key)
        return (await client.node(host)).reason if client else None

    async def _forget(self, host: str) -> None:
        self.clusters.expect_removal(self.node_set.controller_key, (host,))
        with contextlib.suppress(SlurmNotFound):
            await self._slurm("forget", lambda client: client.delete_nodes(host))

    async def _slurm(self, what: str, call: Callable[[SlurmClient], Awaitable[object]]) -> None:
        client = self.clusters.client(self.node_set.controller_key)
        if client is None:
            return
        SLURM_WRITES.labels(what).inc()
        await call(client)
        self.clusters.request_refresh(self.node_set.controller_key)
