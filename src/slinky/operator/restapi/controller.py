# SPDX-License-Identifier: Apache-2.0
"""Glue: carries out the plan of a RestApi, writes its status."""

from slinky.api.controller import Controller
from slinky.api.names import wellknown
from slinky.api.names.child_names import SLURMRESTD
from slinky.api.restapi import REST_APIS, RestApi
from slinky.kube.errors import Later
from slinky.kube.types import Key, Object
from slinky.kube.views import CONFIG_MAPS, DEPLOYMENTS
from slinky.operator.build.pod_parts import DaemonHashes, hashed
from slinky.operator.framework import references
from slinky.operator.framework.children import Child
from slinky.operator.framework.context import Context
from slinky.operator.framework.deletion_order import OrderedReconciler, workers
from slinky.operator.framework.reconciler import ReconcileResult
from slinky.operator.restapi.plan import plan
from slinky.operator.restapi.status import health
from slinky.operator.slurm.clusters import Clusters
from slinky.slurm import ObjectKind as What


class RestApiReconciler(OrderedReconciler[RestApi]):
    """Keeps slurmrestd running."""

    resource = REST_APIS

    def __init__(self, world: Context, clusters: Clusters) -> None:
        super().__init__(world, world.rest_apis)
        self.clusters = clusters
        world.rest_apis.add_indexes({references.CONTROLLER: lambda of: (str(of.controller_key),)})
        watch = self.controller.watch
        watch(world.controllers, lambda of: self._speaking_for(of.key))
        watch(world.contents.secrets, self._using_secret)
        watch(world.children.caches[CONFIG_MAPS.name], self._using_config)
        clusters.listen(lambda key, change: self.enqueue(self._speaking_for(key) if change.kind is What.MIRROR else ()))

    async def act(self, found: RestApi) -> ReconcileResult:
        """Apply Service and Deployment."""
        controller = self.world.controllers.get(found.controller_key)
        hashes = await self._hashes(controller) if controller else DaemonHashes()
        for resource, manifest in plan(found, controller, hashes, self.world.settings.images):
            await self.world.children.ensure(resource, manifest)
        workload = Key(found.metadata.namespace, found.workload_name)
        live, observed = self.world.children.progress(DEPLOYMENTS, workload)
        known = health(found, live, observed, self.clusters.sight(found.controller_key))
        return ReconcileResult(self.with_scale(found, known, live, SLURMRESTD.selector_text(found.metadata.name)))

    def needed_by(self, found: RestApi) -> list[str]:
        """The workers of its cluster, unless another one speaks for it."""
        speaking = (self.world.rest_apis.get(key) for key in self._speaking_for(found.controller_key))
        if any(api is not None and not api.metadata.deleting for api in speaking):
            return []
        return workers(self.world, found.controller_key)

    async def _hashes(self, of: Controller) -> DaemonHashes:
        config = self.world.children.find(CONFIG_MAPS, Key(of.metadata.namespace, of.config_name))
        if config is None:
            raise Later(f"the configuration of {of.key} is not written yet", after=1)
        key = await self.world.contents.slurm_keys(of.metadata.namespace, of.spec.slurm_key_ref)
        # Of all the files slurmrestd reads one.
        return DaemonHashes(key, config=hashed((config.data or {}).get(wellknown.SLURM_CONF, "")))

    def _speaking_for(self, controller: Key) -> tuple[Key, ...]:
        return tuple(found.key for found in self.world.rest_apis.by(references.CONTROLLER, str(controller)))

    def _using_secret(self, secret: Object) -> tuple[Key, ...]:
        key = secret.metadata.key
        users = self.world.controllers.by(references.SECRETS, str(key))
        return tuple(api for user in users for api in self._speaking_for(user.key))

    def _using_config(self, config: Child) -> tuple[Key, ...]:
        owner = config.metadata.controller
        if owner is None or owner.kind != "Controller":
            return ()
        return self._speaking_for(Key(config.metadata.namespace, owner.name))
