# SPDX-License-Identifier: Apache-2.0
"""Decides through which slurmrestd, and with which key, the operator connects to each cluster.

A Controller without a RestApi or without a JWT key has no connection; nothing is known of its Slurm.
"""

from collections.abc import Iterable

from slinky.api.controller import CONTROLLERS
from slinky.api.names import metadata, wellknown
from slinky.api.names.child_names import SLURMRESTD
from slinky.api.restapi import REST_APIS, RestApi
from slinky.kube.controller import ControlLoop, RequeueAfter
from slinky.kube.errors import Later
from slinky.kube.tls import CA_CERTIFICATE
from slinky.kube.types import Key
from slinky.kube.views import CONFIG_MAPS, Pod
from slinky.operator.framework import references
from slinky.operator.framework.children import Child
from slinky.operator.framework.context import Context
from slinky.operator.framework.reconciler import classify_error
from slinky.operator.framework.references import referrers
from slinky.operator.slurm.clusters import Clusters, TlsServer

#: The length of the signatures of HS256. Keys are not refused below it, because other tools have made shorter ones.
SAFE_KEY_BYTES = 32


class Connections:
    """Keeps one connection per Controller."""

    def __init__(self, context: Context, clusters: Clusters) -> None:
        self.context = context
        self.clusters = clusters
        context.rest_apis.add_indexes({references.CONTROLLER: lambda api: (str(api.controller_key),)})
        self.loop: ControlLoop[Key] = ControlLoop(
            "slurmclient-controller",
            self.reconcile,
            workers=context.settings.workers("slurmclient"),
            error_classifiers=(classify_error,),
        )
        watch = self.loop.watch
        watch(context.controllers)
        watch(context.rest_apis, lambda api: (api.controller_key,))
        watch(context.referenced_data.secrets, referrers(context.controllers, references.SECRETS))
        watch(context.children.caches[CONFIG_MAPS.name], self._controllers_of_config)
        if context.settings.pod_addresses:
            watch(context.pods, self._controllers_of_pod)
        context.runtime.add_controller(self.loop)

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        """Connect the cluster of a Controller, or disconnect it."""
        controller = self.context.controllers.get(key)
        # A Controller that is being deleted stays connected: the operator must see that its workers are drained.
        api = preferred_rest_api(self.context.rest_apis.by(references.CONTROLLER, str(key))) if controller else None
        url = self._url(api) if api else ""
        if controller is None or api is None or not url or controller.spec.jwt_key is None:
            await self.clusters.disconnect(key)
            return None
        ring = await self.context.referenced_data.jwt_key_ring(key.namespace, controller.spec.jwt_key)
        if problem := key_weakness(ring.current):
            self.context.recorder.record(CONTROLLERS.reference(controller), "WeakKey", problem, warning=True)
        await self.clusters.connect(key, url, ring.current, self._server(api))
        return None

    def _url(self, api: RestApi) -> str:
        return self._pod_url(api) if self.context.settings.pod_addresses else api.url

    def _server(self, api: RestApi) -> TlsServer | None:
        """Return how the server identifies itself; None without TLS. Raises `Later` until that is known."""
        if not api.spec.tls.enabled:
            return None
        config = self.context.children.find(CONFIG_MAPS, Key(api.metadata.namespace, api.ca_config_name))
        authorities = (config.data or {}).get(CA_CERTIFICATE, "") if config else ""
        if not authorities:
            raise Later(f"the certificate authority of RestApi {api.key} is not written yet", after=1)
        return TlsServer(api.host, authorities)

    def _pod_url(self, api: RestApi) -> str:
        labels = SLURMRESTD.selector(api.metadata.name).items()
        ready = [
            pod
            for pod in self.context.pods
            if pod.metadata.namespace == api.metadata.namespace and pod.ready and labels <= pod.metadata.labels.items()
        ]
        first = min(ready, key=lambda pod: pod.metadata.name, default=None)
        port = wellknown.SLURMRESTD_PORT
        return f"{api.scheme}://{first.status.pod_ip}:{port}" if first and first.status.pod_ip else ""

    def _controllers_of_config(self, config: Child) -> Iterable[Key]:
        owner = config.metadata.controller
        if owner is None or owner.kind != REST_APIS.kind:
            return ()
        api = self.context.rest_apis.get(Key(config.metadata.namespace, owner.name))
        return (api.controller_key,) if api else ()

    def _controllers_of_pod(self, pod: Pod) -> Iterable[Key]:
        name = pod.metadata.labels.get(metadata.APP_INSTANCE, "")
        api = self.context.rest_apis.get(Key(pod.metadata.namespace, name))
        return (api.controller_key,) if api else ()


def key_weakness(key: bytes) -> str:
    """Return what is wrong with a JWT key that works; empty if nothing is."""
    if len(key) >= SAFE_KEY_BYTES:
        return ""
    return (
        f"The JWT key has {len(key)} bytes; RFC 7518 requires at least {SAFE_KEY_BYTES} for signatures with HS256. "
        "Replace the key; see docs/operator/key-rotation.md."
    )


def preferred_rest_api(apis: Iterable[RestApi]) -> RestApi | None:
    """Return the oldest RestApi, with those that are being deleted last."""

    def order(api: RestApi) -> tuple[bool, str, str]:
        return api.metadata.deleting, api.metadata.creation_timestamp, api.metadata.name

    return min(apis, key=order, default=None)
