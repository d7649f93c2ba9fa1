# SPDX-License-Identifier: Apache-2.0
"""Reconciles Controllers: reads what a Controller refers to, carries out its plan, writes its status."""

import asyncio
from functools import partial

import msgspec

from slinky.api.accounting import Accounting
from slinky.api.controller import CONTROLLERS, Controller
from slinky.api.names import metadata
from slinky.api.names.child_names import SLURMCTLD
from slinky.api.nodeset import NodeSet
from slinky.kube.errors import Blocked
from slinky.kube.types import Key
from slinky.kube.views import CONFIG_MAPS, STATEFUL_SETS, Pod
from slinky.operator.build.config_files import Files, collect_files, referenced_config_maps
from slinky.operator.controller.accounting_switch import (
    Registration,
    accounting_to_use,
    needs_restart,
    storage_host,
    with_accounting,
)
from slinky.operator.controller.config_generation import Decision, GenerationState
from slinky.operator.controller.generation_store import ConfigState, GenerationStore
from slinky.operator.controller.plan import ControllerInputs, plan
from slinky.operator.controller.registration import RegistrationReader
from slinky.operator.controller.rollout import is_standby, next_pod_to_replace
from slinky.operator.controller.status import external_health, health
from slinky.operator.framework import orphans, references
from slinky.operator.framework.conditions import ConditionState
from slinky.operator.framework.context import Context
from slinky.operator.framework.deletion_order import OrderedReconciler, remaining_workers
from slinky.operator.framework.failure_causes import describe_wait
from slinky.operator.framework.failures import FailureFinder
from slinky.operator.framework.pods import delete_pod
from slinky.operator.framework.reconciler import ReconcileResult, recheck_after
from slinky.operator.framework.references import referrers
from slinky.operator.keyrings.jwt_keyring import JwtKeyRing
from slinky.operator.metrics import WRITES
from slinky.operator.outages.conditions import with_outage
from slinky.operator.outages.runner import OutageRunner
from slinky.operator.slurm.clusters import Clusters
from slinky.slurm import ObjectKind

#: Seconds between looks at a configuration that is tried or loaded.
RECHECK_SECONDS = 3.0
#: Events about generations: reason, text, and whether the event is a warning.
EVENTS = {
    GenerationState.UNKNOWN: ("ConfigUntried", "is used without a trial", False),
    GenerationState.BAD: ("ConfigRefused", "is not used, because slurmctld rejects it", True),
    GenerationState.LOADED: ("ConfigLoaded", "is loaded by slurmctld", False),
    GenerationState.FAILED: ("ConfigRolledBack", "is rolled back, because slurmctld fails with it", True),
}


class ControllerReconciler(OrderedReconciler[Controller]):
    """Keeps slurmctld running."""

    resource = CONTROLLERS

    def __init__(self, context: Context, clusters: Clusters) -> None:
        super().__init__(context, context.controllers)
        self.clusters = clusters
        self.failures = FailureFinder(context)
        self.generations = GenerationStore(context, clusters)
        self.registrations = RegistrationReader(context, clusters)
        self.outages = OutageRunner(context, clusters)
        context.controllers.add_indexes(
            {
                references.SECRETS: references.qualified(references.controller_secrets),
                references.CONFIG_MAPS: references.qualified(references.controller_config_maps),
                references.ACCOUNTING: _accounting_of,
            }
        )
        context.node_sets.add_indexes({references.CONTROLLER: lambda node_set: (str(node_set.controller_key),)})
        watch = self.loop.watch
        watch(context.referenced_data.secrets, referrers(context.controllers, references.SECRETS))
        watch(context.referenced_data.config_maps, referrers(context.controllers, references.CONFIG_MAPS))
        watch(context.accountings, referrers(context.controllers, references.ACCOUNTING))
        watch(context.node_sets, lambda node_set: (node_set.controller_key,), when=_affects_slurm_conf)
        watch(context.pods, _controller_of)
        orphans.index_workers(context.pods)
        watch(context.pods, orphans.worker_cluster, when=lambda old, new: orphans.lacks_node_set(context, new or old))
        clusters.listen(lambda key, change: self.enqueue([key] if change.kind is ObjectKind.MIRROR else []))

    async def sync(self, controller: Controller) -> ReconcileResult:
        """Apply the children of a Controller."""
        self._check_orphans(controller)
        controller, recheck = await self.outages.advance(controller, partial(self.record_event, controller))
        inputs = await self._inputs(controller)
        state = None if controller.spec.external else await self.generations.advance(controller, inputs)
        children = plan(controller, inputs, self.context.images, state.active if state else None)
        await self.context.children.carry_out(children, controller.metadata.uid)
        if state is not None:
            self._record_generations(controller, state.decision)
            await self.generations.delete_failed_pods(controller, state)
            await self._replace_next_pod(controller)
            await self.generations.refresh_files(controller, state)
        await self._label_active_pod(controller)
        registration = await self._register(controller, inputs, state)
        result = await self._result(controller, inputs, state, registration)
        # The status that was read is the one before this phase.
        status = msgspec.structs.replace(result.status, outage=controller.status.outage)
        waits = [seconds for seconds in (recheck, result.requeue_after) if seconds is not None]
        return ReconcileResult(status, min(waits, default=None))

    async def _register(
        self, controller: Controller, inputs: ControllerInputs, state: ConfigState | None
    ) -> Registration:
        """Find out whether slurmdbd has the cluster; restart a slurmctld that started before slurmdbd answered."""
        accounting = inputs.accounting
        if accounting is None or state is None or state.active is None:
            return Registration.UNKNOWN
        if storage_host(state.active.data) != accounting.host:
            return Registration.POSTPONED
        loaded = state.decision.used is not None and state.loaded == state.decision.used.id
        registration = await self.registrations.read(controller, accounting, loaded=loaded)
        if registration is Registration.UNREGISTERED:
            pod = needs_restart(accounting, self.generations.pods(controller))
            if pod is not None:
                text = f"Pod {pod.key.name} is replaced, so that slurmctld registers with slurmdbd"
                self.record_event(controller, "Replacing", text)
                await delete_pod(self.context, pod)
        return registration

    def _check_orphans(self, controller: Controller) -> None:
        """Raise `Blocked` while a worker has no NodeSet.

        Without the NodeSet its partition would be removed from slurm.conf, and slurmctld would end the jobs in it.
        """
        missing = orphans.missing_node_sets(self.context, controller.key)
        if missing and not controller.spec.external:
            text = f"there are workers of NodeSet {', '.join(missing)}, which does not exist"
            raise Blocked("WorkersOrphaned", f"{text}; create it again to adopt them, or delete their pods")

    def forget(self, key: Key) -> None:
        """Discard what is remembered of a Controller that no longer exists."""
        self.generations.forget(key)
        self.registrations.forget(key)

    async def _result(
        self,
        controller: Controller,
        inputs: ControllerInputs,
        state: ConfigState | None,
        registration: Registration,
    ) -> ReconcileResult:
        snapshot = self.clusters.snapshot(controller.key)
        if state is None:
            external = with_outage(external_health(snapshot), controller.status.outage)
            return ReconcileResult(self.with_health(controller, external))
        workload = Key(controller.metadata.namespace, controller.workload_name)
        replicas, observed = self.context.children.workload_status(STATEFUL_SETS, workload)
        pods = [pod for pod in self.generations.pods(controller) if not is_standby(controller, pod)]
        failure = await self.failures.of_workload(STATEFUL_SETS, workload, pods) or state.trial_failure
        wait = describe_wait(pods)
        current = health(
            controller,
            replicas,
            observed,
            snapshot,
            state.decision,
            state.loaded,
            failure,
            inputs.accounting,
            wait,
            state.load,
        )
        current = with_accounting(current, inputs.wanted_accounting, inputs.accounting, registration)
        if inputs.rotation:
            current = current._replace(progressing=ConditionState(True, "RotatingKey", inputs.rotation))
        current = with_outage(current, controller.status.outage)
        used = state.decision.used
        # Others wait for a slurmctld that runs, not for one that is about to.
        running = state.active is not None and self.generations.is_running(controller, state.active)
        configs = {
            "wanted_config": state.decision.wanted.id,
            "loaded_config": state.loaded or "",
            "slurm_version": used.version if used and running else controller.status.slurm_version,
        }
        requeue_after = self._requeue_after(controller, state) or recheck_after(current)
        unconfirmed = inputs.accounting is not None and registration is not Registration.REGISTERED
        if unconfirmed and self.clusters.client(controller.key) is not None:
            requeue_after = requeue_after or RECHECK_SECONDS
        return ReconcileResult(self.with_health(controller, current, **configs), requeue_after)

    def _requeue_after(self, controller: Controller, state: ConfigState) -> float | None:
        """Trials and other pods end, and daemons load files, without an event: look again while one is in progress."""
        if state.decision.trial_needed or state.reading:
            return RECHECK_SECONDS
        if state.decision.used is None or state.loaded == state.decision.used.id:
            return None
        return RECHECK_SECONDS if any(pod.ready for pod in self.generations.pods(controller)) else None

    def _record_generations(self, controller: Controller, decision: Decision) -> None:
        for generation in decision.changed:
            if generation.state in EVENTS:
                reason, text, warning = EVENTS[generation.state]
                detail = f": {generation.message}" if generation.message else ""
                self.record_event(controller, reason, f"Generation {generation.id} {text}{detail}", warning=warning)

    def dependents(self, controller: Controller) -> list[str]:
        """Return the workers of the cluster."""
        return remaining_workers(self.context, controller.key)

    async def _inputs(self, controller: Controller) -> ControllerInputs:
        namespace, data, spec = controller.metadata.namespace, self.context.referenced_data, controller.spec
        names = referenced_config_maps(controller)
        config_maps = await asyncio.gather(*(data.config_map(namespace, name) for name in names))
        ring = await data.jwt_key_ring(namespace, spec.jwt_key) if spec.jwt_key else JwtKeyRing(b"")
        site_jwks = await data.config_value(namespace, spec.jwks_key_ref) if spec.jwks_key_ref else ""
        wanted = self.context.accountings.get(controller.accounting_key) if controller.accounting_key else None
        return ControllerInputs(
            accounting=self._accounting_to_use(controller, wanted),
            wanted_accounting=wanted,
            node_sets=tuple(self.context.node_sets.by(references.CONTROLLER, str(controller.key))),
            files=collect_files(controller, dict(zip(names, config_maps, strict=True))) if names else Files(),
            slurm_key=await data.slurm_keys(namespace, spec.slurm_key_ref),
            rotation=await data.describe_rotations(namespace, spec),
            jwt_key=ring.current,
            jwks=ring.document(site_jwks),
            service_monitors=self.context.service_monitors,
        )

    def _accounting_to_use(self, controller: Controller, wanted: Accounting | None) -> Accounting | None:
        key = Key(controller.metadata.namespace, controller.config_name)
        live = None if controller.spec.external else self.context.children.find(CONFIG_MAPS, key)
        siblings = (item for item in self.context.accountings if item.metadata.namespace == key.namespace)
        return accounting_to_use(wanted, live.data or {} if live else None, siblings)

    async def _replace_next_pod(self, controller: Controller) -> None:
        """Delete one of several slurmctld pods that is not of the latest revision."""
        workload = Key(controller.metadata.namespace, controller.workload_name)
        status, observed = self.context.children.workload_status(STATEFUL_SETS, workload)
        if not controller.spec.ha.enabled or status is None or not observed:
            return
        pod = next_pod_to_replace(self.generations.pods(controller), controller.replicas, status)
        if pod is not None:
            self.record_event(controller, "Replacing", f"Pod {pod.key.name} is replaced by one of the new revision")
            await delete_pod(self.context, pod)

    async def _label_active_pod(self, controller: Controller) -> None:
        """Label the active slurmctld for people and tools; the operator's own Service does not use the label."""
        for pod in self.generations.pods(controller):
            if pod.metadata.deleting:
                continue
            label = "true" if pod.ready else None
            if pod.metadata.labels.get(metadata.ACTIVE) != label:
                WRITES.labels("patch", "Pod").inc()
                patch = {"metadata": {"labels": {metadata.ACTIVE: label}}}
                self.context.pods.record_write(
                    await self.context.client.patch(self.context.pods.resource, pod.key, patch)
                )


def _accounting_of(controller: Controller) -> tuple[str, ...]:
    return (str(controller.accounting_key),) if controller.accounting_key else ()


def _affects_slurm_conf(old: NodeSet | None, new: NodeSet | None) -> bool:
    """Return whether a change of a NodeSet may change slurm.conf."""
    return old is None or new is None or _slurm_conf_fields(old) != _slurm_conf_fields(new)


def _slurm_conf_fields(node_set: NodeSet) -> tuple[object, ...]:
    return node_set.metadata.generation, node_set.metadata.deleting, node_set.status.desired


def _controller_of(pod: Pod) -> tuple[Key, ...]:
    labels = pod.metadata.labels
    if labels.get(metadata.APP_COMPONENT) != SLURMCTLD.component:
        return ()
    return (Key(pod.metadata.namespace, labels.get(metadata.APP_INSTANCE, "")),)
