# SPDX-License-Identifier: Apache-2.0
"""Reconciles RestApis: applies the manifests of a RestApi, writes its status."""

from slinky.api.controller import Controller
from slinky.api.names import wellknown
from slinky.api.names.child_names import SLURMRESTD
from slinky.api.restapi import REST_APIS, RestApi
from slinky.kube.errors import Later
from slinky.kube.types import Key, Object
from slinky.kube.views import CONFIG_MAPS, DEPLOYMENTS, SECRETS
from slinky.operator.build.cluster_dns import cluster_domain
from slinky.operator.build.pod_parts import DaemonHashes, digest_value
from slinky.operator.framework import references
from slinky.operator.framework.children import Child
from slinky.operator.framework.conditions import deployment_health
from slinky.operator.framework.context import Context, parents_of
from slinky.operator.framework.deletion_order import OrderedReconciler, remaining_workers
from slinky.operator.framework.failure_causes import describe_wait, with_failure
from slinky.operator.framework.failures import FailureFinder
from slinky.operator.framework.reconciler import ReconcileResult, recheck_after
from slinky.operator.outages.conditions import stopped_health
from slinky.operator.restapi import certificates
from slinky.operator.restapi.certificates import RENEWAL_CHECK_SECONDS
from slinky.operator.restapi.objects import manifests, wanted_image, with_image, with_replicas
from slinky.operator.slurm.clusters import Clusters
from slinky.operator.upgrades.conditions import with_verdict
from slinky.operator.upgrades.version_reader import VersionReader
from slinky.slurm import Change, ObjectKind


class RestApiReconciler(OrderedReconciler[RestApi]):
    """Keeps slurmrestd running."""

    resource = REST_APIS

    def __init__(self, context: Context, clusters: Clusters) -> None:
        super().__init__(context, context.rest_apis)
        self.clusters = clusters
        self.failures = FailureFinder(context)
        self.versions = VersionReader(context)
        context.rest_apis.add_indexes({references.CONTROLLER: lambda rest_api: (str(rest_api.controller_key),)})
        watch = self.loop.watch
        watch(context.pods, parents_of(SLURMRESTD))
        watch(context.controllers, lambda controller: self._rest_apis_of(controller.key))
        watch(context.referenced_data.secrets, self._rest_apis_of_secret)
        for kind in (CONFIG_MAPS, SECRETS):
            watch(context.children.caches[kind.name], self._rest_apis_of_config)
        clusters.listen(self._slurm_changed)

    async def sync(self, rest_api: RestApi) -> ReconcileResult:
        """Apply the certificates, Service and Deployment."""
        controller = self.context.controllers.get(rest_api.controller_key)
        hashes = await self._hashes(controller) if controller else DaemonHashes()
        workload = Key(rest_api.metadata.namespace, rest_api.workload_name)
        choice = await self.versions.choose_image(
            controller,
            SLURMRESTD.app,
            self.context.children.find(DEPLOYMENTS, workload),
            wanted_image(rest_api, self.context.images),
            rest_api.spec.template,
        )
        stops = controller if controller and controller.outage_phase.stops_controller else None
        running = with_image(rest_api, choice.image)
        running = with_replicas(running, 0) if stops else running
        await self._apply_certificates(rest_api)
        for resource, manifest in manifests(running, controller, hashes, self.context.images):
            await self.context.children.apply(resource, manifest)
        replicas, observed = self.context.children.workload_status(DEPLOYMENTS, workload)
        slurm = self.clusters.snapshot(rest_api.controller_key).condition()
        pods = self.context.daemon_pods(SLURMRESTD, rest_api.key)
        health = deployment_health(running.spec.replicas, replicas, observed, slurm, describe_wait(pods))
        failure = await self.failures.of_workload(DEPLOYMENTS, workload, pods) or choice.failure
        health = with_verdict(with_failure(health, failure), choice.verdict)
        health = stopped_health(health, stops) if stops else health
        selector = SLURMRESTD.selector_text(rest_api.metadata.name)
        again = recheck_after(health)
        if rest_api.spec.tls.enabled:
            again = min(again or RENEWAL_CHECK_SECONDS, RENEWAL_CHECK_SECONDS)
        return ReconcileResult(self.with_scale(rest_api, health, replicas, selector), again)

    async def _apply_certificates(self, rest_api: RestApi) -> None:
        """Renew the certificates that are due; without TLS, delete them."""
        children, namespace = self.context.children, rest_api.metadata.namespace
        secret_key, config_key = Key(namespace, rest_api.tls_secret_name), Key(namespace, rest_api.ca_config_name)
        if not rest_api.spec.tls.enabled:
            await children.delete_owned(SECRETS, secret_key, rest_api.metadata.uid)
            await children.delete_owned(CONFIG_MAPS, config_key, rest_api.metadata.uid)
            return
        live, domain = children.find(SECRETS, secret_key), cluster_domain(self.context.settings.cluster_domain)
        bundle = certificates.renew(live.data if live else None, rest_api, self.context.clock.now(), domain)
        await children.apply(SECRETS, certificates.secret(rest_api, bundle))
        await children.apply(CONFIG_MAPS, certificates.ca_config(rest_api, bundle))

    def dependents(self, rest_api: RestApi) -> list[str]:
        """Return the workers of its cluster, unless the cluster has another RestApi."""
        rest_apis = (self.context.rest_apis.get(key) for key in self._rest_apis_of(rest_api.controller_key))
        if any(other is not None and not other.metadata.deleting for other in rest_apis):
            return []
        return remaining_workers(self.context, rest_api.controller_key)

    async def _hashes(self, controller: Controller) -> DaemonHashes:
        namespace = controller.metadata.namespace
        config = self.context.children.find(CONFIG_MAPS, Key(namespace, controller.config_name))
        if config is None:
            raise Later(f"the configuration of Controller {controller.key} is not written yet", after=1)
        slurm_key = await self.context.referenced_data.slurm_keys(namespace, controller.spec.slurm_key_ref)
        # slurmrestd reads only this file.
        return DaemonHashes(slurm_key, config=digest_value((config.data or {}).get(wellknown.SLURM_CONF, "")))

    def _rest_apis_of(self, controller: Key) -> tuple[Key, ...]:
        rest_apis = self.context.rest_apis.by(references.CONTROLLER, str(controller))
        return tuple(rest_api.key for rest_api in rest_apis)

    def _rest_apis_of_secret(self, secret: Object) -> tuple[Key, ...]:
        controllers = self.context.controllers.by(references.SECRETS, str(secret.metadata.key))
        return tuple(key for controller in controllers for key in self._rest_apis_of(controller.key))

    def _rest_apis_of_config(self, config: Child) -> tuple[Key, ...]:
        owner = config.metadata.controller
        if owner is None:
            return ()
        key = Key(config.metadata.namespace, owner.name)
        return {"Controller": self._rest_apis_of(key), "RestApi": (key,)}.get(owner.kind, ())

    def _slurm_changed(self, cluster: Key, change: Change) -> None:
        if change.kind is ObjectKind.MIRROR:
            self.enqueue(self._rest_apis_of(cluster))
