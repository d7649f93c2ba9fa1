# SPDX-License-Identifier: Apache-2.0
"""Reconciles LoginSets: reads what a LoginSet refers to, applies its manifests, writes its status."""

import asyncio

from slinky.api.controller import Controller
from slinky.api.loginset import LOGIN_SETS, LoginSet
from slinky.api.names.child_names import LOGIN
from slinky.kube.errors import AlreadyExists, Blocked
from slinky.kube.types import Key, Object
from slinky.kube.views import DEPLOYMENTS, SECRETS
from slinky.operator.build.cluster_dns import cluster_domain
from slinky.operator.build.pod_parts import digest_values
from slinky.operator.build.sshd import generate_host_keys
from slinky.operator.framework import references
from slinky.operator.framework.conditions import deployment_health
from slinky.operator.framework.context import Context, parents_of
from slinky.operator.framework.failure_causes import describe_wait, with_failure
from slinky.operator.framework.failures import FailureFinder
from slinky.operator.framework.reconciler import Reconciler, ReconcileResult, recheck_after
from slinky.operator.framework.references import referrers
from slinky.operator.loginset import objects
from slinky.operator.loginset.objects import LoginSetHashes
from slinky.operator.metrics import WRITES
from slinky.operator.outages.conditions import stopped_health
from slinky.operator.slurm.clusters import Clusters
from slinky.operator.upgrades.conditions import with_verdict
from slinky.operator.upgrades.version_reader import VersionReader
from slinky.slurm import Change, ObjectKind


class LoginSetReconciler(Reconciler[LoginSet]):
    """Keeps login hosts running."""

    resource = LOGIN_SETS

    def __init__(self, context: Context, clusters: Clusters) -> None:
        super().__init__(context, context.login_sets)
        self.clusters = clusters
        self.failures = FailureFinder(context)
        self.versions = VersionReader(context)
        self.domain = cluster_domain(context.settings.cluster_domain)
        context.login_sets.add_indexes(
            {
                references.SECRETS: references.qualified(references.login_set_secrets),
                references.CONTROLLER: lambda login_set: (str(login_set.controller_key),),
            }
        )
        watch = self.loop.watch
        watch(context.pods, parents_of(LOGIN))
        watch(context.controllers, lambda controller: self._login_sets_of(controller.key))
        watch(context.referenced_data.secrets, referrers(context.login_sets, references.SECRETS))
        watch(context.referenced_data.secrets, self._login_sets_of_secret)
        clusters.listen(self._slurm_changed)

    async def sync(self, login_set: LoginSet) -> ReconcileResult:
        """Apply the children of a LoginSet."""
        controller = self.context.controllers.get(login_set.controller_key)
        if controller is None:
            name = login_set.spec.controller_ref.name
            raise Blocked("ControllerMissing", f"there is no Controller {name}; create it")
        await self._create_host_keys(login_set)
        hashes = await self._hashes(login_set, controller)
        workload = Key(login_set.metadata.namespace, login_set.workload_name)
        choice = await self.versions.choose_image(
            controller,
            LOGIN.app,
            self.context.children.find(DEPLOYMENTS, workload),
            objects.wanted_image(login_set, self.context.images),
            login_set.spec.template,
        )
        stops = controller.outage_phase.stops_login
        running = objects.with_image(login_set, choice.image)
        running = objects.with_replicas(running, 0) if stops else running
        for resource, manifest in objects.manifests(running, controller, hashes, self.context.images, self.domain):
            await self.context.children.apply(resource, manifest)
        replicas, observed = self.context.children.workload_status(DEPLOYMENTS, workload)
        slurm = self.clusters.snapshot(login_set.controller_key).condition()
        pods = self.context.daemon_pods(LOGIN, login_set.key)
        health = deployment_health(running.spec.replicas, replicas, observed, slurm, describe_wait(pods))
        failure = await self.failures.of_workload(DEPLOYMENTS, workload, pods) or choice.failure
        health = with_verdict(with_failure(health, failure), choice.verdict)
        health = stopped_health(health, controller) if stops else health
        selector = LOGIN.selector_text(login_set.metadata.name)
        return ReconcileResult(self.with_scale(login_set, health, replicas, selector), recheck_after(health))

    async def _create_host_keys(self, login_set: LoginSet) -> None:
        """Create the host keys if there are none. Existing keys are never changed, whatever created them."""
        if self.context.referenced_data.secrets.get(Key(login_set.metadata.namespace, login_set.host_keys_name)):
            return
        manifest = objects.host_key_secret(login_set, await asyncio.to_thread(generate_host_keys))
        WRITES.labels("create", "Secret").inc()
        try:
            secret = await self.context.client.create(SECRETS, manifest)
        except AlreadyExists:
            return
        self.context.referenced_data.remember(secret)

    async def _hashes(self, login_set: LoginSet, controller: Controller) -> LoginSetHashes:
        data, namespace = self.context.referenced_data, login_set.metadata.namespace
        host_keys = await data.secret(namespace, login_set.host_keys_name)
        return LoginSetHashes(
            slurm_key=await data.slurm_keys(namespace, controller.spec.slurm_key_ref),
            host_keys=digest_values(host_keys.data),
            sshd=digest_values(objects.ssh_data(login_set)),
            sssd=digest_values({"": await data.secret_value(namespace, login_set.spec.sssd_conf_ref)}),
        )

    def _login_sets_of(self, controller: Key) -> tuple[Key, ...]:
        login_sets = self.context.login_sets.by(references.CONTROLLER, str(controller))
        return tuple(login_set.key for login_set in login_sets)

    def _login_sets_of_secret(self, secret: Object) -> tuple[Key, ...]:
        controllers = self.context.controllers.by(references.SECRETS, str(secret.metadata.key))
        return tuple(key for controller in controllers for key in self._login_sets_of(controller.key))

    def _slurm_changed(self, cluster: Key, change: Change) -> None:
        if change.kind is ObjectKind.MIRROR:
            self.enqueue(self._login_sets_of(cluster))
