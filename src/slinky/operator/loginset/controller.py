# SPDX-License-Identifier: Apache-2.0
"""Glue: reads what a LoginSet refers to, carries out its plan, writes its status."""

import asyncio

from slinky.api.controller import Controller
from slinky.api.loginset import LOGIN_SETS, LoginSet
from slinky.api.names.child_names import LOGIN
from slinky.kube.errors import AlreadyExists, Blocked
from slinky.kube.types import Key, Object
from slinky.kube.views import DEPLOYMENTS, SECRETS
from slinky.operator.build.cluster_dns import cluster_domain
from slinky.operator.build.pod_parts import digest
from slinky.operator.framework import references
from slinky.operator.framework.context import Context
from slinky.operator.framework.reconciler import Reconciler, ReconcileResult
from slinky.operator.framework.references import users
from slinky.operator.loginset import objects
from slinky.operator.loginset.hostkeys import host_keys
from slinky.operator.loginset.objects import LoginSetHashes
from slinky.operator.loginset.plan import plan
from slinky.operator.loginset.status import health
from slinky.operator.metrics import WRITES
from slinky.operator.slurm.clusters import Clusters
from slinky.slurm import ObjectKind as What


class LoginSetReconciler(Reconciler[LoginSet]):
    """Keeps login hosts running."""

    resource = LOGIN_SETS

    def __init__(self, world: Context, clusters: Clusters) -> None:
        super().__init__(world, world.login_sets)
        self.clusters = clusters
        self.domain = cluster_domain(world.settings.cluster_domain)
        world.login_sets.add_indexes(
            {
                references.SECRETS: references.local(references.login_secrets),
                references.CONTROLLER: lambda of: (str(of.controller_key),),
            }
        )
        watch = self.controller.watch
        watch(world.controllers, lambda of: self._of_cluster(of.key))
        watch(world.contents.secrets, users(world.login_sets, references.SECRETS))
        watch(world.contents.secrets, self._using_key)
        clusters.listen(lambda key, change: self.enqueue(self._of_cluster(key) if change.kind is What.MIRROR else ()))

    async def act(self, found: LoginSet) -> ReconcileResult:
        """Apply everything the LoginSet consists of."""
        controller = self.world.controllers.get(found.controller_key)
        if controller is None:
            raise Blocked("ControllerMissing", f"there is no Controller {found.spec.controller_ref.name}; create it")
        await self._host_keys(found)
        hashes = await self._hashes(found, controller)
        for resource, manifest in plan(found, controller, hashes, self.world.settings.images, self.domain):
            await self.world.children.ensure(resource, manifest)
        workload = Key(found.metadata.namespace, found.workload_name)
        live, observed = self.world.children.progress(DEPLOYMENTS, workload)
        known = health(found, live, observed, self.clusters.sight(found.controller_key))
        return ReconcileResult(self.with_scale(found, known, live, LOGIN.selector_text(found.metadata.name)))

    async def _host_keys(self, of: LoginSet) -> None:
        """Make the host keys if there are none. What exists is never touched, whoever made it."""
        if self.world.contents.secrets.get(Key(of.metadata.namespace, of.host_keys_name)) is not None:
            return
        manifest = objects.host_key_secret(of, await asyncio.to_thread(host_keys))
        WRITES.labels("create", "Secret").inc()
        try:
            made = await self.world.client.create(SECRETS, manifest)
        except AlreadyExists:
            return
        self.world.contents.remember(made)

    async def _hashes(self, of: LoginSet, controller: Controller) -> LoginSetHashes:
        contents, namespace, key = self.world.contents, of.metadata.namespace, controller.spec.slurm_key_ref
        held = await contents.secret(namespace, of.host_keys_name)
        return LoginSetHashes(
            slurm_key=await contents.slurm_keys(namespace, key),
            host_keys=digest(held.data),
            sshd=digest(objects.ssh_data(of)),
            sssd=digest({"": await contents.secret_value(namespace, of.spec.sssd_conf_ref)}),
        )

    def _of_cluster(self, controller: Key) -> tuple[Key, ...]:
        return tuple(found.key for found in self.world.login_sets.by(references.CONTROLLER, str(controller)))

    def _using_key(self, secret: Object) -> tuple[Key, ...]:
        holders = self.world.controllers.by(references.SECRETS, str(secret.metadata.key))
        return tuple(found for holder in holders for found in self._of_cluster(holder.key))
