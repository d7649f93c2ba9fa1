# SPDX-License-Identifier: Apache-2.0
"""Rotates slurm keys.

StatefulSets and Deployments are rolled by the digest of the keys that they mount. Workers read the keys again when
slurmctld is reconfigured, and are not restarted.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from slinky.api.controller import Controller
from slinky.api.fields.refs import DaemonKeyRefs, KeyRef
from slinky.api.names import metadata
from slinky.api.names.child_names import SLURMD
from slinky.kube.resource import Resource
from slinky.kube.types import Key
from slinky.kube.views import DEPLOYMENTS, STATEFUL_SETS, Pod, Secret
from slinky.operator.framework import references
from slinky.operator.framework.context import Context
from slinky.operator.framework.pods import refresh_volumes
from slinky.operator.keyrings import slurm_keyring
from slinky.operator.keyrings.slurm_keyring import (
    SLURM_KEYRING,
    SlurmKeyReach,
    SlurmKeyRing,
    SlurmKeyStep,
    mounted_digest,
)
from slinky.operator.keys.rotation import KeyRotation
from slinky.operator.keys.users import KeyUser
from slinky.operator.metrics import SLURM_WRITES
from slinky.operator.slurm.clusters import Clusters
from slinky.slurm import Host, SlurmError

#: Index of worker pods by the Controller of their cluster.
BY_CONTROLLER = "workers-of"


class SlurmKeyRotation(KeyRotation[SlurmKeyRing]):
    """Keeps the key rings of slurm keys."""

    policy = SLURM_KEYRING
    controller_name = "keyring-controller"

    def __init__(self, context: Context, clusters: Clusters) -> None:
        super().__init__(context)
        self.clusters = clusters
        context.pods.add_indexes({BY_CONTROLLER: _controller_of})

    @staticmethod
    def key_ref(spec: DaemonKeyRefs) -> KeyRef | None:
        """Return the reference to the slurm key."""
        return spec.slurm_key_ref

    async def next_step(
        self, ref: KeyRef, secret: Secret, ring: SlurmKeyRing, wanted: bytes, users: Sequence[KeyUser]
    ) -> SlurmKeyStep:
        """Compute the next step, and reconfigure the clusters if workers have to read the keys now."""
        controllers = [user for user in users if isinstance(user, Controller)]
        await self._refresh_workers(controllers, mounted_digest(secret))
        step = slurm_keyring.next_step(
            ring,
            wanted,
            self._reach(ring, secret, users, controllers),
            self.context.clock.now().timestamp(),
            settle=self.context.settings.key_settle,
            retire=self.context.settings.key_retire,
        )
        obstacle = await self._reconfigure(controllers) if step.reconfigure else ""
        return SlurmKeyStep(ring, obstacle) if obstacle else step

    async def _refresh_workers(self, controllers: Iterable[Controller], digest: str) -> None:
        """Have kubelets bring the keys of this stage to the workers."""
        for controller in controllers:
            for pod in self._workers(controller):
                await refresh_volumes(self.context, pod, metadata.KEY_MOUNTED, digest)

    async def _reconfigure(self, controllers: Iterable[Controller]) -> str:
        """Make the workers of these clusters read their keys; return what prevents it, if anything does."""
        for controller in controllers:
            if not self._hosts(controller):
                continue
            name, client = controller.key.name, self.clusters.client(controller.key)
            if client is None:
                return f"a RestApi for Controller {name}, through which its workers are reconfigured"
            try:
                SLURM_WRITES.labels("reconfigure").inc()
                await client.reconfigure()
            except (SlurmError, TimeoutError) as error:
                return f"Controller {name} to reconfigure: {error}"
        return ""

    def _reach(
        self, ring: SlurmKeyRing, secret: Secret, users: Sequence[KeyUser], controllers: Sequence[Controller]
    ) -> SlurmKeyReach:
        """Return which workloads and workers have not read the keys of this stage."""
        annotations = {metadata.SLURM_KEY_HASH: mounted_digest(secret)}
        is_rolled_out = self.context.children.is_rolled_out
        workloads = [str(key) for kind, key in self._workloads(users) if not is_rolled_out(kind, key, annotations)]
        for controller in controllers:
            pods = self._workers_without_ring(controller)
            workloads += [f"pod {pod.key.name}, which does not mount the key ring; delete it" for pod in pods]
        hosts = {controller.key: self._hosts(controller) for controller in controllers}
        workers: list[str] = []
        for key, names in hosts.items():
            snapshot = self.clusters.snapshot(key)
            workers += [name for name in names if not _has_restarted(snapshot.host(name), ring.reconfigured_at)]
        return SlurmKeyReach(tuple(workloads), tuple(sorted(workers)), any(hosts.values()))

    def _workloads(self, users: Iterable[KeyUser]) -> Iterable[tuple[Resource[Any], Key]]:
        """Return every StatefulSet and Deployment that mounts the key ring."""
        for user in users:
            if not user.spec.external:
                yield STATEFUL_SETS, Key(user.metadata.namespace, user.workload_name)
            if isinstance(user, Controller):
                for api in self.context.rest_apis.by(references.CONTROLLER, str(user.key)):
                    yield DEPLOYMENTS, Key(api.metadata.namespace, api.workload_name)
                for login_set in self.context.login_sets.by(references.CONTROLLER, str(user.key)):
                    yield DEPLOYMENTS, Key(login_set.metadata.namespace, login_set.workload_name)

    def _workers(self, controller: Controller) -> Iterable[Pod]:
        return self.context.pods.by(BY_CONTROLLER, str(controller.key))

    def _workers_without_ring(self, controller: Controller) -> Iterable[Pod]:
        """Return workers that slurm-operator created: they mount the person's Secret and would keep the old key."""
        for pod in self._workers(controller):
            if metadata.SLURM_KEY_HASH not in pod.metadata.annotations and not pod.metadata.deleting:
                yield pod

    def _hosts(self, controller: Controller) -> list[str]:
        pods = (pod for pod in self._workers(controller) if not pod.metadata.deleting)
        return [pod.metadata.labels.get(metadata.POD_HOSTNAME, "") for pod in pods]


def _has_restarted(host: Host | None, reconfigured_at: float) -> bool:
    """Return whether slurmd has read its files; it starts anew when it is reconfigured, and reports when it started."""
    if host is None or not host.state.responding:
        return False
    return (host.slurmd_start_time.value or 0) >= reconfigured_at - 1


def _controller_of(pod: Any) -> tuple[str, ...]:
    labels = pod.metadata.labels
    if labels.get(metadata.APP_NAME) != SLURMD.app or not labels.get(metadata.CLUSTER):
        return ()
    return (str(Key(pod.metadata.namespace, labels[metadata.CLUSTER])),)
