# SPDX-License-Identifier: Apache-2.0
"""Glue: reads what a Controller refers to, carries out its plan, writes its status."""

import asyncio

from slinky.api.controller import CONTROLLERS, Controller
from slinky.api.names import metadata
from slinky.api.names.child_names import SLURMCTLD
from slinky.api.nodeset import NodeSet
from slinky.kube.errors import Blocked
from slinky.kube.types import Key
from slinky.kube.views import STATEFUL_SETS, Pod
from slinky.operator.controller.config_generation import Decision, GenerationState
from slinky.operator.controller.files import Files, files, referenced
from slinky.operator.controller.generation_store import GenerationStore, Story
from slinky.operator.controller.plan import ControllerInputs, plan
from slinky.operator.controller.rollout import next_turn
from slinky.operator.controller.status import health
from slinky.operator.framework import orphans, references
from slinky.operator.framework.conditions import Fact
from slinky.operator.framework.context import Context
from slinky.operator.framework.deletion_order import OrderedReconciler, workers
from slinky.operator.framework.reconciler import ReconcileResult
from slinky.operator.framework.references import users
from slinky.operator.keys.jwt_keyring import Ring
from slinky.operator.metrics import WRITES
from slinky.operator.slurm.clusters import Clusters
from slinky.slurm import ObjectKind as What

#: Seconds between looks at a configuration that is tried or being loaded.
LOOK = 3.0
#: What is said of a generation that gets a verdict: reason, words, and whether it is a warning.
EVENTS = {
    GenerationState.UNKNOWN: ("ConfigUntried", "is used without a trial", False),
    GenerationState.BAD: ("ConfigRefused", "is not used, since slurmctld refuses it", True),
    GenerationState.LOADED: ("ConfigLoaded", "is what slurmctld runs now", False),
    GenerationState.FAILED: ("ConfigRolledBack", "is taken back, since slurmctld fails with it", True),
}


class ControllerReconciler(OrderedReconciler[Controller]):
    """Keeps slurmctld running."""

    resource = CONTROLLERS

    def __init__(self, world: Context, clusters: Clusters) -> None:
        super().__init__(world, world.controllers)
        self.clusters = clusters
        self.history = GenerationStore(world, clusters)
        world.controllers.add_indexes(
            {
                references.SECRETS: references.local(references.controller_secrets),
                references.CONFIG_MAPS: references.local(references.controller_maps),
                references.ACCOUNTING: lambda of: (str(of.accounting_key),) if of.accounting_key else (),
            }
        )
        world.node_sets.add_indexes({references.CONTROLLER: lambda of: (str(of.controller_key),)})
        watch = self.controller.watch
        watch(world.contents.secrets, users(world.controllers, references.SECRETS))
        watch(world.contents.config_maps, users(world.controllers, references.CONFIG_MAPS))
        watch(world.accountings, users(world.controllers, references.ACCOUNTING))
        watch(world.node_sets, lambda of: (of.controller_key,), when=_shapes)
        watch(world.pods, _controller_of)
        orphans.watch_homes(world.pods)
        watch(world.pods, orphans.cluster_of, when=lambda old, new: orphans.homeless(world, new or old))
        clusters.listen(lambda key, change: self.enqueue([key] if change.kind is What.MIRROR else []))

    async def act(self, found: Controller) -> ReconcileResult:
        """Apply everything the Controller consists of."""
        self._wait_for_orphans(found)
        facts = await self._facts(found)
        story = None if found.spec.external else await self.history.advance(found, facts)
        planned = plan(found, facts, self.world.settings.images, story.running if story else None)
        for resource, manifest in planned.apply:
            await self.world.children.ensure(resource, manifest)
        for resource, key in planned.remove:
            await self.world.children.remove(resource, key, found.metadata.uid)
        if story is not None:
            self._tell(found, story.decision)
            await self.history.unstick(found, story)
            await self._take_turns(found)
            await self.history.spread(found, story)
        await self._mark_active(found)
        return self._outcome(found, facts, story)

    def _wait_for_orphans(self, found: Controller) -> None:
        """Without its NodeSet the partition of a worker would leave slurm.conf, and slurmctld end the jobs in it."""
        lost = orphans.lost_sets(self.world, found.key)
        if lost and not found.spec.external:
            text = f"there are workers of NodeSet {', '.join(lost)}, which does not exist any more"
            raise Blocked("WorkersOrphaned", f"{text}; create it again to take them over, or delete their pods")

    def forget(self, key: Key) -> None:
        """The Controller is gone."""
        self.history.forget(key)

    def _outcome(self, found: Controller, facts: ControllerInputs, story: Story | None) -> ReconcileResult:
        workload = Key(found.metadata.namespace, found.workload_name)
        status, observed = self.world.children.progress(STATEFUL_SETS, workload)
        sight = self.clusters.sight(found.key)
        if story is None:
            return ReconcileResult(self.with_health(found, health(found, status, observed, sight)))
        decision, crashed = story.decision, story.crash.words if story.crash else None
        known = health(found, status, observed, sight, decision, story.loaded, crashed, facts.accounting)
        if facts.rotation:
            known = known._replace(progressing=Fact(True, "RotatingKey", facts.rotation))
        said = self.with_health(found, known, wanted_config=decision.wanted.mark, loaded_config=story.loaded or "")
        return ReconcileResult(said, self._again(found, story))

    def _again(self, found: Controller, story: Story) -> float | None:
        """Trials end and daemons load without telling; ask while something is open."""
        if story.decision.trying:
            return LOOK
        if story.decision.used is None or story.loaded == story.decision.used.mark:
            return None
        return LOOK if any(pod.ready for pod in self.history.pods(found)) else None

    def _tell(self, found: Controller, decision: Decision) -> None:
        for generation in decision.changed:
            if generation.verdict in EVENTS:
                reason, words, warning = EVENTS[generation.verdict]
                about = f": {generation.words}" if generation.words else ""
                self.note(found, reason, f"Generation {generation.mark} {words}{about}", warning=warning)

    def needed_by(self, found: Controller) -> list[str]:
        """Its workers."""
        return workers(self.world, found.key)

    async def _facts(self, of: Controller) -> ControllerInputs:
        namespace, contents = of.metadata.namespace, self.world.contents
        names = referenced(of)
        maps = await asyncio.gather(*(contents.config_map(namespace, name) for name in names))
        spec = of.spec
        ring = await contents.jwt(namespace, spec.jwt_key) if spec.jwt_key else Ring(b"")
        return ControllerInputs(
            accounting=self.world.accountings.get(of.accounting_key) if of.accounting_key else None,
            node_sets=tuple(self.world.node_sets.by(references.CONTROLLER, str(of.key))),
            files=files(of, dict(zip(names, maps, strict=True))) if names else Files(),
            slurm_key=await contents.slurm_keys(namespace, spec.slurm_key_ref),
            rotation=await contents.rotation(namespace, spec),
            jwt_key=ring.current,
            jwks=ring.document(await contents.config_value(namespace, spec.jwks_key_ref) if spec.jwks_key_ref else ""),
            monitors=self.world.monitors,
        )

    async def _take_turns(self, of: Controller) -> None:
        """Replace one of several slurmctld that is not as wanted."""
        status, observed = self.world.children.progress(STATEFUL_SETS, Key(of.metadata.namespace, of.workload_name))
        if of.spec.ha.enabled and status is not None and observed:
            turn = next_turn(self.history.pods(of), of.replicas, status)
            if turn is not None:
                self.note(of, "Replacing", f"Pod {turn.key.name} is replaced by one of the new revision")
                await self.history.delete(turn)

    async def _mark_active(self, of: Controller) -> None:
        """Label the slurmctld in charge, for people and tools; our own Service does not need it."""
        for pod in self.history.pods(of):
            if pod.metadata.deleting:
                continue
            label = "true" if pod.ready else None
            if pod.metadata.labels.get(metadata.ACTIVE) != label:
                WRITES.labels("patch", "Pod").inc()
                patch = {"metadata": {"labels": {metadata.ACTIVE: label}}}
                self.world.pods.record_write(await self.world.client.patch(self.world.pods.resource, pod.key, patch))


def _shapes(old: NodeSet | None, new: NodeSet | None) -> bool:
    """Whether a change of a NodeSet may concern slurm.conf."""
    return old is None or new is None or _shape(old) != _shape(new)


def _shape(of: NodeSet) -> tuple[object, ...]:
    return of.metadata.generation, of.metadata.deleting, of.status.desired


def _controller_of(pod: Pod) -> tuple[Key, ...]:
    labels = pod.metadata.labels
    if labels.get(metadata.APP_COMPONENT) != SLURMCTLD.component:
        return ()
    return (Key(pod.metadata.namespace, labels.get(metadata.APP_INSTANCE, "")),)
