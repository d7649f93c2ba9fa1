# SPDX-License-Identifier: Apache-2.0
"""Carries out what was planned for workers: thin, in the order given, never twice.

Kubernetes comes first and does not wait for Slurm. A failure of Slurm ends its own step only and is reported; one
of Kubernetes lets the remaining steps be tried and is raised at the end.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Set
from dataclasses import dataclass, field

from slinky.api.names import metadata
from slinky.api.nodeset import NodeSet
from slinky.kube.errors import AlreadyExists, Forbidden, Later, NotFound
from slinky.kube.rate_limit import RateLimit
from slinky.kube.timestamps import format_timestamp
from slinky.kube.views import PODS, VOLUME_CLAIMS
from slinky.observe import Log
from slinky.operator.framework.context import Context
from slinky.operator.metrics import ACTIONS, BRAKED, DRAIN_SECONDS, SLURM_ERRORS, SLURM_WRITES, WRITES
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
    ForgetHost,
    UpdateHost,
)
from slinky.operator.nodeset.decisions.reservation import EndReservation, Reserve
from slinky.operator.nodeset.objects import WorkerContext
from slinky.operator.nodeset.workers import Condemned
from slinky.operator.slurm.clusters import Clusters
from slinky.slurm import JobSelection, SlurmClient, SlurmError
from slinky.slurm import SlurmNotFound as NotThere

log = Log("slinky.operator.nodeset")

#: So many requests at once, and so many pods in one pass; the rest follows in the next.
ABREAST = 16
MOST = 500

Note = Callable[..., None]

#: What is done first: choices and creations, then Kubernetes, then Slurm; deletions last.
ORDER: tuple[tuple[type, ...], ...] = (
    (CondemnWorker,),
    (CreateWorker,),
    (AnnotateWorker, DeleteClaim, AdoptClaim),
    (UpdateHost, CancelJobs, ForgetHost, Reserve, EndReservation),
    (DeleteWorker,),
)


@dataclass
class ExecutionReport:
    """What became of a plan."""

    done: int = 0
    braked: int = 0
    reserved: str = ""  # the start time for which a reservation was made
    slurm: list[str] = field(default_factory=list)  # what Slurm would not do
    errors: list[Exception] = field(default_factory=list)


class Executor:
    """Hands that do what was decided."""

    def __init__(self, world: Context, clusters: Clusters) -> None:
        self.world = world
        self.clusters = clusters
        self._deletions: dict[str, RateLimit] = {}

    def keep_only(self, alive: Set[str]) -> None:
        """Remember nothing but of these NodeSets, by uid."""
        self._deletions = {uid: limit for uid, limit in self._deletions.items() if uid in alive}

    async def carry_out(
        self, of: NodeSet, actions: Iterable[Action], setting: WorkerContext | None, note: Note
    ) -> ExecutionReport:
        """Do all of it, as far as possible."""
        work = _Work(self, of, setting, note)
        planned = list(actions)
        if wanted := sum(isinstance(action, CreateWorker) for action in planned):
            note("ScalingUp", f"{wanted} workers are to be made")
        for kinds in ORDER:
            chosen = [action for action in planned if isinstance(action, kinds)]
            await work.all(chosen[:MOST])
        return work.report

    def deletions(self, of: NodeSet) -> RateLimit:
        """The limit on unplanned deletions of a NodeSet's workers."""
        return self._deletions.setdefault(of.metadata.uid, RateLimit(self.world.settings.deletion_limit_window))


class _Work:
    """One plan of one NodeSet being carried out."""

    def __init__(self, acts: Executor, of: NodeSet, setting: WorkerContext | None, note: Note) -> None:
        self.acts = acts
        self.world = acts.world
        self.of = of
        self.setting = setting
        self.note = note
        self.report = ExecutionReport()
        self.limit = asyncio.Semaphore(ABREAST)
        self.deletions = acts.deletions(of)
        self.workers = sum(1 for _ in acts.world.pods.by("owner", of.metadata.uid))

    async def all(self, actions: Iterable[Action]) -> None:
        await asyncio.gather(*(self._one(action) for action in actions))

    async def _one(self, action: Action) -> None:
        async with self.limit:
            try:
                await self._do(action)
            except SlurmError as error:
                SLURM_ERRORS.labels(*self.of.controller_key, "refused").inc()
                self.report.slurm.append(str(error))
                log.warning("slurm refused", action=type(action).__name__, why=str(error))
            except (NotFound, AlreadyExists):
                self.report.done += 1  # somebody was faster: progress all the same
            except Exception as error:
                if reason := FAILED.get(type(action)):
                    self.note(reason, str(error), warning=True)
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
                await self.world.children.delete(VOLUME_CLAIMS, claim)
            case AdoptClaim(claim, owners):
                await self.world.children.patch(VOLUME_CLAIMS, claim, {"ownerReferences": list(owners)})
            case UpdateHost():
                await self._update(action)
            case CancelJobs(host):
                await self._slurm("cancel", lambda client: client.cancel_many(JobSelection(nodes=[host])))
                self.note("DrainTimeout", f"Jobs on {host} were cancelled: its drain took longer than allowed")
            case ForgetHost(host, why):
                await self._forget(host)
                self.note("DefunctSlurmNodePruned", f"Slurm node {host} was removed: {why}")
            case Reserve(request, start):
                await self._slurm("reserve", lambda client: client.write_reservation(request))
                self.report.reserved = start
                self.note("ScheduledUpdate", f"Reservation {request.name} holds {len(request.node_list or ())} hosts")
            case EndReservation(name):
                with contextlib.suppress(NotThere):
                    await self._slurm("release", lambda client: client.delete_reservation(name))
                    self.note("ScheduledUpdate", f"Reservation {name} was removed")
        ACTIONS.labels(type(action).__name__.lower()).inc()

    async def _create(self, action: CreateWorker) -> None:
        assert self.setting is not None  # noqa: S101 - a NodeSet that goes makes nothing
        if action.stale:
            try:
                if action.freed:
                    await self._do(action.freed)
                await self._forget(action.stale)
            except SlurmError as error:  # a worker is made all the same
                log.info("a stale host stays", host=action.stale, why=str(error))
        for claim in objects.claims(self.of, action.slot):
            await self.world.children.ensure(VOLUME_CLAIMS, claim, adopt=True)
        manifest = objects.pod(self.of, action.slot, self.setting)
        WRITES.labels("create", "Pod").inc()
        try:
            self.world.pods.record_write(await self.world.client.create(PODS, manifest))
        except Forbidden as error:
            # A quota, or a namespace so new that its service account is still to come: both pass.
            raise Later(str(error), after=3) from error
        self.note("SuccessfulCreate", f"Created pod {manifest['metadata']['name']}")

    async def _condemn(self, action: CondemnWorker) -> None:
        before = action.worker.condemned
        since = before.since if before else format_timestamp(self.world.clock.now())
        text = str(Condemned(action.cause, since))
        owned = {metadata.POD_CONDEMNED: text, metadata.POD_CORDON_OWNER: action.cause}
        await self._patch(AnnotateWorker(action.worker, {}, owned))
        self.note(EVENTS.get(action.cause, "Condemned"), f"Pod {action.worker.meta.name} has to go: {action.cause}")

    async def _delete(self, action: DeleteWorker) -> None:
        now = self.world.clock.monotonic()
        if action.braked:
            settings = self.world.settings
            limit = max(settings.deletion_limit_minimum, int(self.workers * settings.deletion_limit_share))
            if not self.deletions.remaining(limit, now):
                self.report.braked += 1
                BRAKED.labels(*self.of.key).inc()
                return
            self.deletions.record(now)
        pod = action.worker.pod
        if self.of.per_node and pod.status.phase in ENDED:
            reason, warning = ENDED[pod.status.phase]
            self.note(reason, f"Pod {pod.metadata.name} has ended and is replaced", warning=warning)
        WRITES.labels("delete", "Pod").inc()
        self.world.pods.record_deletion(pod, await self.world.client.delete(PODS, pod.key, uid=pod.metadata.uid))
        ACTIONS.labels("delete").inc()
        if condemned := action.worker.condemned:
            DRAIN_SECONDS.labels(condemned.cause).observe(condemned.seconds(self.world.clock.now()))
        self.note("SuccessfulDelete", f"Deleted pod {pod.metadata.name}: {action.why}")

    async def _patch(self, action: AnnotateWorker) -> None:
        meta = {
            name: dict(values)
            for name, values in (("labels", action.labels), ("annotations", action.annotations))
            if values
        }
        pod = action.worker.pod
        WRITES.labels("patch", "Pod").inc()
        # The uid makes it this very pod and not one that took its name meanwhile.
        patch = {"metadata": {**meta, "uid": pod.metadata.uid}}
        self.world.pods.record_write(await self.world.client.patch(PODS, pod.key, patch))

    async def _update(self, action: UpdateHost) -> None:
        if action.seen is not None and await self._reason(action.host) != action.seen:
            log.info("somebody else has just changed a host", host=action.host)
            self.acts.clusters.stir(self.of.controller_key)
            return
        await self._slurm(action.what, lambda client: client.update_node(action.host, action.change))
        if action.what in NOTED:
            self.note(NOTED[action.what], f"Slurm node {action.host}: {action.what} {action.why}".rstrip())

    async def _reason(self, host: str) -> str | None:
        """The reason as slurmctld has it this moment; what the mirror shows is up to two seconds old."""
        client = self.acts.clusters.client(self.of.controller_key)
        return (await client.node(host)).reason if client else None

    async def _forget(self, host: str) -> None:
        self.acts.clusters.expect_removal(self.of.controller_key, (host,))
        with contextlib.suppress(NotThere):
            await self._slurm("forget", lambda client: client.delete_nodes(host))

    async def _slurm(self, what: str, call: Callable[[SlurmClient], Awaitable[object]]) -> None:
        client = self.acts.clusters.client(self.of.controller_key)
        if client is None:
            return
        SLURM_WRITES.labels(what).inc()
        await call(client)
        self.acts.clusters.stir(self.of.controller_key)


#: Events by cause of condemnation, by what was done to a host, by what failed, and by how a pod ended that should not.
EVENTS = {"scale-in": "ScalingDown", "update": "RollingUpdate", "unregistered": "SlurmNodeNotRegistered"}
NOTED = {"drain": "NodeCordon", "undrain": "NodeUncordon", "resume": "NodeUncordon", "down": "DrainTimeout"}
FAILED = {
    CreateWorker: "FailedCreate",
    DeleteWorker: "FailedDelete",
    AnnotateWorker: "FailedUpdate",
    CondemnWorker: "FailedUpdate",
}
ENDED = {"Failed": ("FailedDaemonPod", True), "Succeeded": ("SucceededDaemonPod", False)}
