# SPDX-License-Identifier: Apache-2.0
"""Glue: takes a snapshot of a NodeSet, has it planned, carries out the plan, writes the status."""

import asyncio
from collections import Counter
from functools import partial
from typing import TypeGuard

from slinky.api.controller import Controller
from slinky.api.names import metadata
from slinky.api.nodeset import NODE_SETS, NodeSet
from slinky.kube.controller import RequeueAfter
from slinky.kube.errors import Blocked, NotFound
from slinky.kube.resource import owned_by
from slinky.kube.types import Key, Object
from slinky.kube.views import CONFIG_MAPS, DISRUPTION_BUDGETS, PODS, SERVICES, VOLUME_CLAIMS, Node
from slinky.observe import Log
from slinky.operator.build.cluster_dns import cluster_domain
from slinky.operator.build.pod_parts import digest
from slinky.operator.build.sshd import worker_config
from slinky.operator.framework import orphans, references
from slinky.operator.framework.context import Context
from slinky.operator.framework.reconciler import Reconciler, ReconcileResult
from slinky.operator.framework.references import users
from slinky.operator.metrics import WRITES, Awaiting
from slinky.operator.nodeset import conditions, objects, status
from slinky.operator.nodeset.actions import Action, CondemnWorker
from slinky.operator.nodeset.decisions import reservation
from slinky.operator.nodeset.decisions.reservation import EndReservation
from slinky.operator.nodeset.decisions.scaling import SCALE_IN
from slinky.operator.nodeset.executor import ExecutionReport, Executor
from slinky.operator.nodeset.objects import WorkerContext, WorkerHashes
from slinky.operator.nodeset.plan import NodeSetSnapshot, plan
from slinky.operator.nodeset.revisions.adoption import Adoption
from slinky.operator.nodeset.revisions.revision import contents
from slinky.operator.nodeset.revisions.store import RevisionStore, Standing
from slinky.operator.nodeset.wait_metrics import longest, waits
from slinky.operator.nodeset.workers import worker
from slinky.operator.slurm.clusters import Clusters
from slinky.slurm import Change

log = Log("slinky.operator.nodeset")

#: While something is under way we look again this often, for what changes without an event: the age of knowledge.
BUSY_AGAIN = 3.0
CALM_AGAIN = 60.0
#: Thousands of workers change one by one: we look at all of them together, this often at most.
REST = 0.25
#: Causes for which some workers are chosen among several: the idle ones, if Slurm knows of any.
OF_SEVERAL = frozenset({SCALE_IN, "update"})


class NodeSetReconciler(Reconciler[NodeSet]):
    """Keeps Slurm's workers running."""

    resource = NODE_SETS

    def __init__(self, world: Context, clusters: Clusters) -> None:
        super().__init__(world, world.node_sets, group=self._cluster, min_interval=REST)
        self.clusters = clusters
        self.acts = Executor(world, clusters)
        self.history = RevisionStore(world)
        self.adoption = Adoption(world, self.history.cache)
        self.awaiting = Awaiting()
        self.domain = cluster_domain(world.settings.cluster_domain)
        world.node_sets.add_indexes(
            {
                references.SECRETS: references.local(references.worker_secrets),
                references.CONTROLLER: lambda of: (str(of.controller_key),),
            }
        )
        world.pods.add_indexes(
            {
                "owner": lambda pod: tuple(owner.uid for owner in pod.metadata.owner_references if owner.controller),
                "node": lambda pod: (pod.spec.node_name,) if pod.spec.node_name else (),
            }
        )
        watch = self.controller.watch
        watch(world.pods, owned_by(NODE_SETS))
        watch(world.pods, orphans.set_of)
        watch(world.controllers, lambda of: self._of_cluster(of.key))
        watch(world.contents.secrets, users(world.node_sets, references.SECRETS))
        watch(world.contents.secrets, self._using_key)
        watch(world.nodes, self._on_node, when=_node_matters)
        clusters.listen(self._slurm_changed)

    async def act(self, found: NodeSet) -> ReconcileResult:
        """One pass over a NodeSet that is to be."""
        controller = self.world.controllers.get(found.controller_key)
        if controller is None:
            raise Blocked("ControllerMissing", f"there is no Controller {found.spec.controller_ref.name}; create it")
        found = await self.history.go_back(found, partial(self.note, found))
        await self._hold(found)
        await self.adoption.adopt(found, partial(self.note, found))
        await self._shared(found, controller)
        hashes = await self._hashes(found, controller)
        standing = await self.history.settle(found, contents(hashes), self._carried(found))
        hashes = hashes._replace(revision=standing.wanted.hash)
        setting = WorkerContext(controller, hashes, self.world.settings.images, self.domain)
        seen, steps, put_off = await self._next_steps(found, hashes.revision)
        report = await self.acts.carry_out(found, steps, setting, partial(self.note, found))
        if report.done:
            seen = self._snapshot(found, hashes.revision)
        unsaid = await self._show(seen)
        await self.history.prune(found, {hashes.revision, *self._carried(found)})
        return self._outcome(seen, report, standing, put_off or unsaid)

    async def _next_steps(self, found: NodeSet, revision: str) -> tuple[NodeSetSnapshot, list[Action], bool]:
        """What to do on what is seen, and whether a choice had to be put off.

        Who goes is chosen once and for good, and a job may have started a moment ago, so Slurm is asked again before.
        While it does not answer, nobody who may be at work is chosen.
        """
        seen = self._snapshot(found, revision)
        steps = plan(seen)
        if not any(_of_several(step) for step in steps):
            return seen, steps, False
        heard = await self.clusters.look(found.controller_key)
        seen = self._snapshot(found, revision)
        steps = plan(seen)
        certain = [step for step in steps if heard or seen.forced or not _of_several(step) or not step.worker.placed]
        return seen, certain, len(certain) < len(steps)

    async def depart(self, found: NodeSet) -> RequeueAfter | None:
        """Drain and delete every worker, then let the NodeSet go; at once if its cluster is gone, or if they stay."""
        ours = {metadata.DRAIN_FINALIZER, metadata.RESERVATION_FINALIZER}
        if not ours & set(found.metadata.finalizers):
            return None
        if orphans.stays_behind(found):
            await self.set_finalizers(found, [name for name in found.metadata.finalizers if name not in ours])
            return None
        controller = self.world.controllers.get(found.controller_key)
        seen = self._snapshot(found, found.status.node_set_hash)
        alone = controller is None
        steps: list[Action] = [] if alone else plan(seen)
        if not seen.workers and not alone and metadata.RESERVATION_FINALIZER in found.metadata.finalizers:
            steps = [EndReservation(found.reservation_name)]  # whatever was seen of it last: Slurm knows
        report = await self.acts.carry_out(found, steps, None, partial(self.note, found))
        self._tell_waits(seen, report)
        if report.errors:
            raise report.errors[0]
        if alone or not (seen.workers or (report.slurm and not seen.forced)):
            await self.set_finalizers(found, [name for name in found.metadata.finalizers if name not in ours])
            return None
        return RequeueAfter(BUSY_AGAIN)

    def forget(self, key: Key) -> None:
        """Drop what was remembered under its name."""
        self.awaiting.forget(key)
        # Nothing that was remembered of sets that are gone may reach one that takes their name.
        alive = {found.metadata.uid for found in self.world.node_sets}
        self.acts.keep_only(alive)
        self.history.keep_only(alive)

    # --- seeing

    def _snapshot(self, of: NodeSet, hashed: str) -> NodeSetSnapshot:
        sight, now = self.clusters.sight(of.controller_key), self.world.clock.now()
        pods = self.world.pods.by("owner", of.metadata.uid)
        nodes = {node.metadata.name: node for node in self.world.nodes}
        workers = (worker(of, pod, nodes.get(pod.spec.node_name), sight, now) for pod in pods)
        claims = (
            claim
            for claim in self.world.children.caches[VOLUME_CLAIMS.name]
            if of.selector.items() <= claim.metadata.labels.items()
            and claim.metadata.namespace == of.metadata.namespace
        )
        return NodeSetSnapshot(
            of,
            tuple(sorted(workers, key=lambda found: found.meta.name)),
            nodes,
            sight,
            hashed,
            now,
            self.world.settings.propagated_node_conditions,
            tuple(claims) if of.spec.volume_claim_templates else (),
            self.world.settings.unregistered_seconds,
        )

    def _carried(self, of: NodeSet) -> Counter[str]:
        """How many workers have which revision."""
        labels = (
            pod.metadata.labels.get(metadata.REVISION, "") for pod in self.world.pods.by("owner", of.metadata.uid)
        )
        return Counter(filter(None, labels))

    async def _hashes(self, of: NodeSet, controller: Controller) -> WorkerHashes:
        contents, namespace = self.world.contents, of.metadata.namespace
        key, sssd = controller.spec.slurm_key_ref, of.spec.ssh.sssd_conf_ref if of.spec.ssh.enabled else None
        return WorkerHashes(
            slurm_key=await contents.first_slurm_key(namespace, key),
            sshd=digest({"": worker_config(of.spec.ssh.extra_sshd_config)}) if of.spec.ssh.enabled else "",
            sssd=digest({"": await contents.secret_value(namespace, sssd)}) if sssd else "",
        )

    # --- doing

    async def _hold(self, of: NodeSet) -> None:
        held = set(of.metadata.finalizers)
        wanted = reservation.finalizers(of, self.clusters.sight(of.controller_key), held)
        if wanted != held:
            await self.set_finalizers(of, sorted(wanted))

    async def _shared(self, of: NodeSet, controller: Controller) -> None:
        children, namespace = self.world.children, of.metadata.namespace
        await children.ensure(SERVICES, objects.worker_service(controller), adopt=True)
        protected = any(
            other.spec.workload_disruption_protection
            for other in self.world.node_sets.by(references.CONTROLLER, str(controller.key))
        )
        if protected:
            await children.ensure(DISRUPTION_BUDGETS, objects.worker_budget(controller), adopt=True)
        else:
            budget = Key(namespace, controller.worker_budget_name)
            await children.remove(DISRUPTION_BUDGETS, budget, controller.metadata.uid)
        if of.spec.ssh.enabled:
            await children.ensure(CONFIG_MAPS, objects.ssh_config(of))
        else:
            await children.remove(CONFIG_MAPS, Key(namespace, of.ssh_config_name), of.metadata.uid)

    async def _show(self, seen: NodeSetSnapshot) -> bool:
        """Show each host's state on its pod; whether that has to be tried again."""
        changed = [
            (found.pod, said)
            for found in seen.workers
            if not found.leaving and (said := conditions.wanted(found, seen.now)) is not None
        ]
        manager = f"{self.world.settings.manager}-conditions"
        results = await asyncio.gather(
            *(
                self.world.client.apply_status(PODS, pod.key, {"conditions": said}, manager=manager)
                for pod, said in changed
            ),
            return_exceptions=True,
        )
        WRITES.labels("status", "Pod").inc(len(changed))
        failed = [made for made in results if isinstance(made, BaseException) and not isinstance(made, NotFound)]
        for made in results:
            if not isinstance(made, BaseException):
                self.world.pods.record_write(made)
        if failed:
            log.warning("states could not be shown", nodeset=str(seen.of.key), pods=len(failed), error=failed[0])
        return bool(failed)

    def _tell_waits(self, seen: NodeSetSnapshot, report: ExecutionReport) -> None:
        """Who waits for what: to those who watch us, and to the mirror, which then looks out for the end of work."""
        found = waits(seen.workers)
        self.awaiting.show(seen.of.key, found, longest(seen.workers), report.braked)
        self.clusters.attend(seen.of.controller_key, seen.of.key, bool(found))

    def _outcome(
        self, seen: NodeSetSnapshot, report: ExecutionReport, standing: Standing, unfinished: bool
    ) -> ReconcileResult:
        going = sum(found.condemned is not None for found in seen.workers)
        self._tell_waits(seen, report)
        # A large cluster, or a slow one, is read rarely, and here someone waits for news: of a drain, or of a worker
        # that has registered by now and must not be taken for lost.
        unseen = any(found.ready and found.host is None and not found.forgotten for found in seen.workers)
        if unseen or (going and not seen.sight.trusted):
            self.clusters.stir(seen.of.controller_key)
        if report.errors:
            raise report.errors[0]
        counted = status.counts(seen)
        known = status.health(seen, counted, braked=report.braked, refused=report.slurm, reserved=report.reserved)
        settled = not (going or unseen or unfinished or report.braked or report.slurm) and known.ready.value
        said = self.with_health(seen.of, known, **counted, **standing.status())
        return ReconcileResult(said, CALM_AGAIN if settled else BUSY_AGAIN)

    # --- being woken

    def _cluster(self, key: Key) -> str:
        """Sets of one cluster share the workers of this controller: a Slurm that hangs delays its own sets only."""
        found = self.cache.get(key)
        return str(found.controller_key) if found else ""

    def _of_cluster(self, controller: Key) -> tuple[Key, ...]:
        return tuple(found.key for found in self.world.node_sets.by(references.CONTROLLER, str(controller)))

    def _using_key(self, secret: Object) -> tuple[Key, ...]:
        key = str(secret.metadata.key)
        users_ = self.world.controllers.by(references.SECRETS, key)
        return tuple(found for user in users_ for found in self._of_cluster(user.key))

    def _on_node(self, node: Node) -> tuple[Key, ...]:
        """Sets with a worker on the node, and sets that have one on every node."""
        pods = self.world.pods.by("node", node.metadata.name)
        there = {key for pod in pods for key in owned_by(NODE_SETS)(pod)}
        return (*there, *(found.key for found in self.world.node_sets if found.per_node and found.key not in there))

    def _slurm_changed(self, cluster: Key, change: Change) -> None:
        self.enqueue(self._of_cluster(cluster))


def _of_several(step: Action) -> TypeGuard[CondemnWorker]:
    return isinstance(step, CondemnWorker) and step.cause in OF_SEVERAL


def _node_matters(old: Node | None, new: Node | None) -> bool:
    """Heartbeats change a node every few seconds; only this concerns workers."""
    return old is None or new is None or _shape(old) != _shape(new)


def _shape(node: Node) -> tuple[object, ...]:
    meta, said = node.metadata, [(c.type, c.status, c.reason, c.message) for c in node.status.conditions]
    return node.spec.unschedulable, node.spec.taints, meta.labels, meta.annotations, meta.deleting, said
