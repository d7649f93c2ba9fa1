# SPDX-License-Identifier: Apache-2.0
"""Decides which slurmrestd the operator asks about which cluster, and with which key.

A Controller without a RestApi or without a key has no connection, and then nothing is known of its Slurm.
"""

from collections.abc import Iterable

from slinky.api.controller import Controller
from slinky.api.names import wellknown
from slinky.api.names.child_names import SLURMRESTD
from slinky.api.restapi import RestApi
from slinky.kube.controller import ControlLoop as Loop
from slinky.kube.controller import RequeueAfter
from slinky.kube.types import Key
from slinky.kube.views import Pod
from slinky.operator.framework import references
from slinky.operator.framework.context import Context
from slinky.operator.framework.reconciler import WORKERS, judge
from slinky.operator.framework.references import users
from slinky.operator.slurm.clusters import Clusters


class Connections:
    """Keeps one connection per Controller."""

    def __init__(self, world: Context, clusters: Clusters) -> None:
        self.world = world
        self.clusters = clusters
        world.rest_apis.add_indexes({references.CONTROLLER: lambda of: (str(of.controller_key),)})
        workers = world.settings.workers.get("slurmclient", WORKERS)
        self.controller: Loop[Key] = Loop(
            "slurmclient-controller", self.reconcile, workers=workers, error_classifiers=(judge,)
        )
        watch = self.controller.watch
        watch(world.controllers)
        watch(world.rest_apis, lambda of: (of.controller_key,))
        watch(world.contents.secrets, users(world.controllers, references.SECRETS))
        if world.settings.pod_addresses:
            watch(world.pods, self._of_pod)
        world.runtime.add_controller(self.controller)

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        """Connect, connect elsewhere, or drop."""
        found = self.world.controllers.get(key)
        # A cluster that goes is asked to the last: its workers have to be seen drained.
        url = self._url(found) if found else ""
        if found is None or not url or found.spec.jwt_key is None:
            await self.clusters.drop(key)
            return None
        secret = (await self.world.contents.jwt(key.namespace, found.spec.jwt_key)).current
        await self.clusters.want(key, url, secret)
        return None

    def _url(self, of: Controller) -> str:
        spoken = oldest(self.world.rest_apis.by(references.CONTROLLER, str(of.key)))
        if spoken is None:
            return ""
        return self._pod_url(spoken) if self.world.settings.pod_addresses else spoken.url

    def _pod_url(self, of: RestApi) -> str:
        wanted = SLURMRESTD.selector(of.metadata.name).items()
        ready = [
            pod
            for pod in self.world.pods
            if pod.metadata.namespace == of.metadata.namespace and pod.ready and wanted <= pod.metadata.labels.items()
        ]
        first = min(ready, key=lambda pod: pod.metadata.name, default=None)
        return f"http://{first.status.pod_ip}:{wellknown.SLURMRESTD_PORT}" if first and first.status.pod_ip else ""

    def _of_pod(self, pod: Pod) -> Iterable[Key]:
        name = pod.metadata.labels.get("app.kubernetes.io/instance", "")
        found = self.world.rest_apis.get(Key(pod.metadata.namespace, name))
        return (found.controller_key,) if found else ()


def oldest(apis: Iterable[RestApi]) -> RestApi | None:
    """Of several RestApis the one that stays, and of those the one that has been there longest."""

    def order(found: RestApi) -> tuple[bool, str, str]:
        return found.metadata.deleting, found.metadata.creation_timestamp, found.metadata.name

    return min(apis, key=order, default=None)
