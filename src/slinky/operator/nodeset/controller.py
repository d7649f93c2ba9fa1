# SPDX-License-Identifier: Apache-2.0
"""Reconciles NodeSets: takes a snapshot, plans actions, executes them, writes the status."""

import asyncio
from collections import Counter
from functools import partial
from typing import Any, TypeGuard

import msgspec

from slinky.api.controller import Controller
from slinky.api.names import metadata
from slinky.api.names.child_names import SLURMD
from slinky.api.names.wellknown import FIELD_MANAGER
from slinky.api.nodeset import NODE_SETS, NodeSet
from slinky.kube.controller import RequeueAfter
from slinky.kube.errors import Blocked, NotFound
from slinky.kube.resource import owned_by
from slinky.kube.types import Key, Object
from slinky.kube.views import CONFIG_MAPS, DISRUPTION_BUDGETS, PODS, SERVICES, VOLUME_CLAIMS, Node
from slinky.observe import Log
from slinky.operator.build.cluster_dns import cluster_domain
from slinky.operator.build.pod_parts import digest_values
from slinky.operator.build.sshd import worker_config
from slinky.operator.framework import orphans, references
from slinky.operator.framework.conditions import ConditionState
from slinky.operator.framework.context import Context
from slinky.operator.framework.failures import FailureFinder
from slinky.operator.framework.reconciler import Reconciler, ReconcileResult
from slinky.operator.framework.references import referrers
from slinky.operator.metrics import WRITES, DrainMetrics, WorkerMetrics
from slinky.operator.nodeset import objects, status
from slinky.operator.nodeset.actions import Action, CondemnWorker, ExecutionReport
from slinky.operator.nodeset.autoscaling.autoscaler import Autoscaler, AutoscalerResult
from slinky.operator.nodeset.decisions import reservation
from slinky.operator.nodeset.decisions.reservation import EndReservation
from slinky.operator.nodeset.executor import Executor
from slinky.operator.nodeset.objects import WorkerContext, WorkerHashes
from slinky.operator.nodeset.plan import NodeSetSnapshot, plan
from slinky.operator.nodeset.revisions.adoption import Adoption
from slinky.operator.nodeset.revisions.revision import contents_digest, newest_image, with_image
from slinky.operator.nodeset.revisions.store import RevisionStatus, RevisionStore
from slinky.operator.nodeset.wait_metrics import count_waits, longest_wait
from slinky.operator.nodeset.workers import build_worker
from slinky.operator.outages.decision import drain_text
from slinky.operator.slurm.clusters import Clusters
from slinky.operator.slurm.pending_jobs import PENDING
from slinky.operator.upgrades.conditions import with_verdict
from slinky.operator.upgrades.version_reader import ImageChoice, VersionReader
from slinky.slurm import Change

log = Log("slinky.operator.nodeset.controller")

#: Seconds between reconciles while something is in progress, since some changes have no event: the age of a snapshot.
ACTIVE_INTERVAL = 3.0
SETTLED_INTERVAL = 60.0
#: Least seconds between reconciles of a NodeSet: thousands of workers change one by one, and are handled together.
MIN_INTERVAL = 0.25


class NodeSetReconciler(Reconciler[NodeSet]):
    """Reconciles NodeSets."""

    resource = NODE_SETS

    def __init__(self, context: Context, clusters: Clusters) -> None:
        super().__init__(context, context.node_sets, group=self._cluster, min_interval=MIN_INTERVAL)
        self.clusters = clusters
        self.failures = FailureFinder(context)
        self.versions = VersionReader(context)
        self.executor = Executor(context, clusters)
        self.autoscaler = Autoscaler(context, clusters)
        self.revisions = RevisionStore(context)
        self.adoption = Adoption(context, self.revisions.cache)
        self.drain_metrics = DrainMetrics()
        self.worker_metrics = WorkerMetrics()
        self.domain = cluster_domain(context.settings.cluster_domain)
        context.node_sets.add_indexes(
            {
                references.SECRETS: references.qualified(references.node_set_secrets),
                references.CONTROLLER: lambda node_set: (str(node_set.controller_key),),
            }
        )
        context.pods.add_indexes(
            {
                "owner": lambda pod: tuple(owner.uid for owner in pod.metadata.owner_references if owner.controller),
                "node": lambda pod: (pod.spec.node_name,) if pod.spec.node_name else (),
            }
        )
        watch = self.loop.watch
        watch(context.pods, owned_by(NODE_SETS))
        watch(context.pods, orphans.former_node_set)
        watch(context.controllers, lambda controller: self._node_sets_of(controller.key))
        watch(context.referenced_data.secrets, referrers(context.node_sets, references.SECRETS))
        watch(context.referenced_data.secrets, self._node_sets_with_key)
        watch(context.nodes, self._node_sets_on, when=_node_changed)
        clusters.listen(self._slurm_changed)

    async def sync(self, node_set: NodeSet) -> ReconcileResult:
        """Reconcile a NodeSet that is not being deleted."""
        controller = self.context.controllers.get(node_set.controller_key)
        if controller is None:
            name = node_set.spec.controller_ref.name
            raise Blocked("ControllerMissing", f"the Controller {name} does not exist; create it")
        node_set = await self.revisions.roll_back(node_set, partial(self.record_event, node_set))
        await self._add_finalizers(node_set)
        await self.adoption.adopt(node_set, partial(self.record_event, node_set))
        scaled = await self._scale(node_set, controller)
        node_set = scaled.node_set
        await self._apply_shared_objects(node_set, controller)
        hashes = await self._hashes(node_set, controller)
        node_set, choice = await self._choose_image(node_set, controller)
        revisions = await self.revisions.sync(node_set, contents_digest(hashes), self._used_revisions(node_set))
        hashes = hashes._replace(revision=revisions.update.hash)
        worker_context = WorkerContext(controller, hashes, self.context.images, self.domain)
        snapshot, actions, deferred = await self._plan(node_set, hashes.revision)
        report = await self.executor.execute(node_set, actions, worker_context, partial(self.record_event, node_set))
        if report.done:
            snapshot = self._snapshot(node_set, hashes.revision)
        failed = await self._write_pod_conditions(snapshot)
        await self.revisions.prune(node_set, {hashes.revision, *self._used_revisions(node_set)})
        return await self._result(snapshot, report, revisions, scaled, choice, deferred or failed)

    async def _scale(self, node_set: NodeSet, controller: Controller) -> AutoscalerResult:
        """Follow the demand of jobs; not during an outage, whose pending jobs no further worker could run."""
        if controller.outage_phase.drains and node_set.autoscaling:
            text = f"the outage of Controller {controller.metadata.name} is in progress; the number of workers stays"
            return AutoscalerResult(node_set, condition=ConditionState(False, "Outage", text))
        return await self.autoscaler.scale(node_set, partial(self.record_event, node_set))

    async def _choose_image(self, node_set: NodeSet, controller: Controller) -> tuple[NodeSet, ImageChoice]:
        """Return the NodeSet with the image that its workers may have: the present one while slurmctld is older."""
        default = self.context.images.image_for("slurmd")
        wanted = str(node_set.spec.slurmd.get("image") or default)
        stored = newest_image(self.revisions.stored(node_set))
        running = None if stored is None else stored or default
        choice = await self.versions.choose_client_image(
            controller, SLURMD.app, running, wanted, node_set.spec.template
        )
        if stored is None or choice.image == wanted:
            return node_set, choice
        # Exactly as in the stored revision: an image that has to wait makes no revision of its own.
        spec = msgspec.structs.replace(node_set.spec, slurmd=with_image(node_set.spec.slurmd, stored))
        return msgspec.structs.replace(node_set, spec=spec), choice

    async def _plan(self, node_set: NodeSet, revision: str) -> tuple[NodeSetSnapshot, list[Action], bool]:
        """Plan the next actions; the last value tells whether a condemnation was deferred.

        A condemnation is final, and a job may have started a moment ago, so the state of Slurm is read again before
        workers are selected. If Slurm does not respond, no worker that may run jobs is condemned.
        """
        snapshot = self._snapshot(node_set, revision)
        actions = plan(snapshot)
        if not any(_is_selective(action) for action in actions):
            return snapshot, actions, False
        responded = await self.clusters.refresh(node_set.controller_key)
        snapshot = self._snapshot(node_set, revision)
        actions = plan(snapshot)
        if responded or snapshot.forced:
            return snapshot, actions, False
        allowed = [action for action in actions if not _is_selective(action) or not action.worker.scheduled]
        return snapshot, allowed, len(allowed) < len(actions)

    async def finalize(self, node_set: NodeSet) -> RequeueAfter | None:
        """Drain and delete all workers of a deleted NodeSet, then remove its finalizers.

        The finalizers are removed at once if its Controller is gone or if the workers are to be orphaned.
        """
        ours = {metadata.DRAIN_FINALIZER, metadata.RESERVATION_FINALIZER}
        if not ours & set(node_set.metadata.finalizers):
            return None
        others = [name for name in node_set.metadata.finalizers if name not in ours]
        if orphans.is_orphaning(node_set):
            await self.set_finalizers(node_set, others)
            return None
        snapshot = self._snapshot(node_set, node_set.status.node_set_hash)
        cluster_gone = self.context.controllers.get(node_set.controller_key) is None
        actions: list[Action] = [] if cluster_gone else plan(snapshot)
        if not snapshot.workers and not cluster_gone and metadata.RESERVATION_FINALIZER in node_set.metadata.finalizers:
            actions = [EndReservation(node_set.reservation_name)]  # even if the snapshot does not show it
        report = await self.executor.execute(node_set, actions, None, partial(self.record_event, node_set))
        self._publish_waits(snapshot, report)
        if report.errors:
            raise report.errors[0]
        if cluster_gone or not (snapshot.workers or (report.refusals and not snapshot.forced)):
            await self.set_finalizers(node_set, others)
            return None
        await self.write_status(node_set, self.with_progress(node_set, status.deletion_progress(snapshot)))
        return RequeueAfter(ACTIVE_INTERVAL)

    def blocked_fields(self, node_set: NodeSet) -> dict[str, Any]:
        """The number of desired workers, which needs neither Controller nor Slurm."""
        return {} if node_set.per_node else {"desired": node_set.spec.replicas}

    def forget(self, key: Key) -> None:
        """Discard the state of a NodeSet that no longer exists, so that a new one of the same name starts afresh."""
        self.drain_metrics.forget(key)
        self.worker_metrics.forget(key)
        self.autoscaler.forget(key)
        uids = {node_set.metadata.uid for node_set in self.context.node_sets}
        self.executor.keep_only(uids)
        self.revisions.keep_only(uids)

    # --- reading

    def _snapshot(self, node_set: NodeSet, revision: str) -> NodeSetSnapshot:
        slurm, now = self.clusters.snapshot(node_set.controller_key), self.context.clock.now()
        controller = self.context.controllers.get(node_set.controller_key)
        pods = self.context.pods.by("owner", node_set.metadata.uid)
        nodes = {node.metadata.name: node for node in self.context.nodes}
        workers = (build_worker(node_set, pod, nodes.get(pod.spec.node_name), slurm, now) for pod in pods)
        claims = (
            claim
            for claim in self.context.children.caches[VOLUME_CLAIMS.name]
            if node_set.selector.items() <= claim.metadata.labels.items()
            and claim.metadata.namespace == node_set.metadata.namespace
        )
        return NodeSetSnapshot(
            node_set,
            tuple(sorted(workers, key=lambda worker: worker.meta.name)),
            nodes,
            slurm,
            revision,
            now,
            self.context.settings.propagated_node_conditions,
            tuple(claims) if node_set.spec.volume_claim_templates else (),
            self.context.settings.unregistered_seconds,
            drain_text(controller) if controller else "",
        )

    def _used_revisions(self, node_set: NodeSet) -> Counter[str]:
        """Number of workers by revision."""
        pods = self.context.pods.by("owner", node_set.metadata.uid)
        return Counter(filter(None, (pod.metadata.labels.get(metadata.REVISION, "") for pod in pods)))

    async def _hashes(self, node_set: NodeSet, controller: Controller) -> WorkerHashes:
        contents, namespace, ssh = self.context.referenced_data, node_set.metadata.namespace, node_set.spec.ssh
        sssd = ssh.sssd_conf_ref if ssh.enabled else None
        return WorkerHashes(
            slurm_key=await contents.first_slurm_key(namespace, controller.spec.slurm_key_ref),
            sshd=digest_values({"": worker_config(ssh.extra_sshd_config)}) if ssh.enabled else "",
            sssd=digest_values({"": await contents.secret_value(namespace, sssd)}) if sssd else "",
        )

    # --- writing

    async def _add_finalizers(self, node_set: NodeSet) -> None:
        current = set(node_set.metadata.finalizers)
        desired = reservation.desired_finalizers(node_set, self.clusters.snapshot(node_set.controller_key), current)
        if desired != current:
            await self.set_finalizers(node_set, sorted(desired))

    async def _apply_shared_objects(self, node_set: NodeSet, controller: Controller) -> None:
        """Apply the objects that several workers share: Service, PodDisruptionBudget, sshd_config."""
        children, namespace = self.context.children, node_set.metadata.namespace
        await children.apply(SERVICES, objects.worker_service(controller), adopt=True)
        protected = any(
            item.spec.workload_disruption_protection
            for item in self.context.node_sets.by(references.CONTROLLER, str(controller.key))
        )
        if protected:
            await children.apply(DISRUPTION_BUDGETS, objects.worker_budget(controller), adopt=True)
        else:
            budget = Key(namespace, controller.worker_budget_name)
            await children.delete_owned(DISRUPTION_BUDGETS, budget, controller.metadata.uid)
        if node_set.spec.ssh.enabled:
            await children.apply(CONFIG_MAPS, objects.ssh_config(node_set))
        else:
            await children.delete_owned(CONFIG_MAPS, Key(namespace, node_set.ssh_config_name), node_set.metadata.uid)

    async def _write_pod_conditions(self, snapshot: NodeSetSnapshot) -> bool:
        """Write the state of each host to the conditions of its pod; True if some writes failed."""
        changes = [
            (worker.pod, conditions)
            for worker in snapshot.workers
            if not worker.terminating and (conditions := status.pod_conditions(worker, snapshot.now)) is not None
        ]
        manager = f"{FIELD_MANAGER}-conditions"
        results = await asyncio.gather(
            *(
                self.context.client.apply_status(PODS, pod.key, {"conditions": conditions}, manager=manager)
                for pod, conditions in changes
            ),
            return_exceptions=True,
        )
        WRITES.labels("status", "Pod").inc(len(changes))
        errors = [item for item in results if isinstance(item, BaseException) and not isinstance(item, NotFound)]
        for result in results:
            if not isinstance(result, BaseException):
                self.context.pods.record_write(result)
        if errors:
            name = str(snapshot.node_set.key)
            log.warning("pod conditions could not be written", nodeset=name, pods=len(errors), error=errors[0])
        return bool(errors)

    def _publish_waits(self, snapshot: NodeSetSnapshot, report: ExecutionReport) -> None:
        """Publish what removals wait for: as metrics, and to the mirror, which then polls more often."""
        key, waits = snapshot.node_set.key, count_waits(snapshot.workers)
        self.drain_metrics.publish(key, waits, longest_wait(snapshot.workers), report.limited)
        self.clusters.set_waiting(snapshot.node_set.controller_key, key, bool(waits))

    async def _result(
        self,
        snapshot: NodeSetSnapshot,
        report: ExecutionReport,
        revisions: RevisionStatus,
        scaled: AutoscalerResult,
        choice: ImageChoice,
        unfinished: bool,
    ) -> ReconcileResult:
        condemned = any(worker.condemned for worker in snapshot.workers)
        self._publish_waits(snapshot, report)
        # A large or slow cluster is polled rarely, but here the operator waits for a drain, or for the registration of
        # a worker that would otherwise be replaced as unregistered.
        unseen = any(item.ready and item.host is None and not item.jobs_forgotten for item in snapshot.workers)
        if unseen or (condemned and not snapshot.slurm.trusted):
            self.clusters.request_refresh(snapshot.node_set.controller_key)
        if report.errors:
            raise report.errors[0]
        numbers = status.counts(snapshot)
        self.worker_metrics.publish(snapshot.node_set.key, numbers, snapshot.now.timestamp())
        kept = (worker.pod for worker in snapshot.workers if not worker.condemned)
        failure = status.creation_refusal(report) or await self.failures.of_pods(kept) or choice.failure
        health = status.health(snapshot, report, numbers, failure)._replace(autoscaling=scaled.condition)
        health = with_verdict(health, choice.verdict)
        active = condemned or unseen or unfinished or report.limited or report.refusals or not health.ready.value
        active = active or failure is not None or not choice.verdict.allowed
        object_status = self.with_health(
            snapshot.node_set, health, **numbers, **revisions.fields(), autoscaling=scaled.status
        )
        interval = ACTIVE_INTERVAL if active else SETTLED_INTERVAL
        recheck = interval if scaled.recheck_seconds is None else max(scaled.recheck_seconds, MIN_INTERVAL)
        return ReconcileResult(object_status, min(interval, recheck))

    # --- events

    def _cluster(self, key: Key) -> str:
        """NodeSets are grouped by cluster, so that a Slurm that does not respond delays only its own NodeSets."""
        node_set = self.cache.get(key)
        return str(node_set.controller_key) if node_set else ""

    def _node_sets_of(self, controller: Key) -> tuple[Key, ...]:
        return tuple(item.key for item in self.context.node_sets.by(references.CONTROLLER, str(controller)))

    def _node_sets_with_key(self, secret: Object) -> tuple[Key, ...]:
        """NodeSets whose Controller refers to the Secret."""
        controllers = self.context.controllers.by(references.SECRETS, str(secret.metadata.key))
        return tuple(key for controller in controllers for key in self._node_sets_of(controller.key))

    def _node_sets_on(self, node: Node) -> tuple[Key, ...]:
        """NodeSets with a worker on the node, and all whose number of workers depends on the nodes."""
        pods = self.context.pods.by("node", node.metadata.name)
        keys = {key for pod in pods for key in owned_by(NODE_SETS)(pod)}
        return (*keys, *(item.key for item in self.context.node_sets if _counts_nodes(item) and item.key not in keys))

    def _slurm_changed(self, cluster: Key, change: Change) -> None:
        keys = self._node_sets_of(cluster)
        if change.key == PENDING:
            keys = tuple(key for key in keys if (node_set := self.cache.get(key)) and node_set.autoscaling)
        self.enqueue(keys)


def _counts_nodes(node_set: NodeSet) -> bool:
    policy = node_set.autoscaling
    return node_set.per_node or (policy is not None and policy.existing_nodes_only)


def _is_selective(action: Action) -> TypeGuard[CondemnWorker]:
    return isinstance(action, CondemnWorker) and action.cause.selective


def _node_changed(old: Node | None, new: Node | None) -> bool:
    """Whether something changed that matters to workers; heartbeats update a node every few seconds."""
    return old is None or new is None or _relevant_fields(old) != _relevant_fields(new)


def _relevant_fields(node: Node) -> tuple[object, ...]:
    meta, conditions = node.metadata, [(c.type, c.status, c.reason, c.message) for c in node.status.conditions]
    return node.spec.unschedulable, node.spec.taints, meta.labels, meta.annotations, meta.deleting, conditions
