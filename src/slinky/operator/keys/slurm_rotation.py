# SPDX-License-Identifier: Apache-2.0
"""Glue: keeps a ring beside every slurm key, and carries a change of the key through its stages.

Where a rotation stands is in the ring's own Secret, so that another operator goes on with it. Control daemons are
replaced by the hash of what they mount; workers are told to read their files again and are not restarted.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from slinky.api.controller import Controller as Cluster
from slinky.api.fields.refs import KeyRef
from slinky.api.names import metadata
from slinky.api.names.child_names import SLURMD
from slinky.kube.controller import ControlLoop, RequeueAfter
from slinky.kube.resource import Resource
from slinky.kube.types import Key
from slinky.kube.views import DEPLOYMENTS, STATEFUL_SETS, Pod, Secret
from slinky.operator.build.pod_parts import hashed
from slinky.operator.framework import references
from slinky.operator.framework.context import Context
from slinky.operator.framework.kubelet_refresh import refresh
from slinky.operator.framework.reconciler import WORKERS, judge
from slinky.operator.keys import slurm_keyring
from slinky.operator.keys.slurm_keyring import MEANING, Reach, Ring, Stage, Step, describe, mounted, read, secret
from slinky.operator.keys.users import Holder, holders, owner, ring_of, source, sources, strange, tell, write
from slinky.operator.metrics import SLURM_WRITES
from slinky.operator.slurm.clusters import Clusters
from slinky.slurm import Host, SlurmError

#: Seconds between looks at a rotation; it has no event of its own.
LOOK = 3.0
WORKERS_OF = "workers-of"


class SlurmKeyRotation:
    """Keeps the rings."""

    def __init__(self, world: Context, clusters: Clusters) -> None:
        self.world = world
        self.clusters = clusters
        self.controller: ControlLoop[Key] = ControlLoop(
            "keyring-controller", self.reconcile, workers=WORKERS, error_classifiers=(judge,), clock=world.clock
        )
        watch = self.controller.watch
        watch(world.contents.secrets, sources(world, lambda spec: spec.slurm_key_ref))
        watch(world.controllers, source(lambda spec: spec.slurm_key_ref))
        watch(world.accountings, source(lambda spec: spec.slurm_key_ref))
        world.pods.add_indexes({WORKERS_OF: _cluster_of})
        world.runtime.add_controller(self.controller)

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        """Look at one Secret that may hold a slurm key."""
        found = holders(self.world, key, lambda spec: spec.slurm_key_ref)
        turns = [await self._turn(key.namespace, ref, users) for ref, users in found.items()]
        return next((again for again in turns if again), None)

    async def _turn(self, namespace: str, ref: KeyRef, users: Sequence[Holder]) -> RequeueAfter | None:
        wanted = await self.world.contents.secret_value(namespace, ref)
        held = await ring_of(self.world, Key(namespace, slurm_keyring.name(ref)))
        if held is None:
            await self._write(namespace, ref, Ring(wanted, origin=hashed(wanted)), "", users)
            return None
        before = read(held)
        settled = before.stage is Stage.SETTLED and before.current == wanted
        found = Step(before) if settled else await self._step(before, wanted, users, held)
        said = describe(found)
        if (found.ring, said) != (before, held.metadata.annotations.get(metadata.KEY_ROTATION, "")) or strange(
            held, users
        ):
            await self._write(namespace, ref, found.ring, said, users)
            self._tell(users, before, found)
        return None if found.ring.stage is Stage.SETTLED else RequeueAfter(LOOK)

    async def _step(self, ring: Ring, wanted: bytes, users: Sequence[Holder], held: Secret) -> Step:
        settings = self.world.settings
        await self._spread(users, mounted(held))
        reach, now = self._reach(ring, users, held), self.world.clock.now().timestamp()
        found = slurm_keyring.step(ring, wanted, reach, now, settle=settings.key_settle, retire=settings.key_retire)
        if not found.tell:
            return found
        for of in users:
            if isinstance(of, Cluster) and self._hosts(of):
                client = self.clusters.client(of.key)
                if client is None:
                    return Step(ring, waits=f"a RestApi for Controller {of.key.name}, to tell its workers")
                try:
                    SLURM_WRITES.labels("reconfigure").inc()
                    await client.reconfigure()
                except (SlurmError, TimeoutError) as error:
                    return Step(ring, waits=f"Controller {of.key.name} to reconfigure: {error}")
        return found

    async def _spread(self, users: Sequence[Holder], wanted: str) -> None:
        """Have kubelets bring the files of this stage to the workers."""
        for of in users:
            for pod in self.world.pods.by(WORKERS_OF, str(of.key)) if isinstance(of, Cluster) else ():
                await refresh(self.world, pod, metadata.KEY_MOUNTED, wanted)

    def _reach(self, ring: Ring, users: Sequence[Holder], held: Secret) -> Reach:
        wanted = mounted(held)
        marks, rolled = {metadata.SLURM_KEY_HASH: wanted}, self.world.children.rolled
        behind = [str(key) for kind, key in self._workloads(users) if not rolled(kind, key, marks)]
        behind += [f"pod {pod.key.name}, made without a keyring; delete it" for pod in self._ringless(users)]
        late: list[str] = []
        hosts = {of.key: self._hosts(of) for of in users if isinstance(of, Cluster)}
        for key, names in hosts.items():
            sight = self.clusters.sight(key)
            late += [name for name in names if not _has_read(sight.host(name), ring.told)]
        return Reach(tuple(behind), tuple(sorted(late)), any(hosts.values()))

    def _ringless(self, users: Iterable[Holder]) -> Iterable[Pod]:
        """Workers that another operator made: they mount the key itself and would be left behind."""
        for of in users:
            for pod in self.world.pods.by(WORKERS_OF, str(of.key)) if isinstance(of, Cluster) else ():
                if metadata.SLURM_KEY_HASH not in pod.metadata.annotations and not pod.metadata.deleting:
                    yield pod

    def _workloads(self, users: Iterable[Holder]) -> Iterable[tuple[Resource[Any], Key]]:
        """Every StatefulSet and Deployment that mounts the ring."""
        for of in users:
            if not of.spec.external:
                yield STATEFUL_SETS, Key(of.metadata.namespace, of.workload_name)
            if isinstance(of, Cluster):
                for api in self.world.rest_apis.by(references.CONTROLLER, str(of.key)):
                    yield DEPLOYMENTS, Key(api.metadata.namespace, api.workload_name)
                for login in self.world.login_sets.by(references.CONTROLLER, str(of.key)):
                    yield DEPLOYMENTS, Key(login.metadata.namespace, login.workload_name)

    def _hosts(self, of: Cluster) -> list[str]:
        pods = self.world.pods.by(WORKERS_OF, str(of.key))
        return [pod.metadata.labels.get(metadata.POD_HOSTNAME, "") for pod in pods if not pod.metadata.deleting]

    async def _write(self, namespace: str, ref: KeyRef, ring: Ring, said: str, users: Sequence[Holder]) -> None:
        await write(self.world, secret(namespace, ref, ring, said, [owner(of) for of in users]))

    def _tell(self, users: Sequence[Holder], before: Ring, found: Step) -> None:
        if before.stage is found.ring.stage:
            return
        words = MEANING.get(found.ring.stage, "done, only the new slurm key is left")
        tell(self.world, users, f"Rotation of the slurm key: {words}")


def _has_read(host: Host | None, told: float) -> bool:
    """Slurmd starts anew when it is told to read its files, and says since when it runs."""
    return host is not None and host.state.responding and (host.slurmd_start_time.value or 0) >= told - 1


def _cluster_of(pod: Any) -> tuple[str, ...]:
    labels = pod.metadata.labels
    if labels.get(metadata.APP_NAME) != SLURMD.app or not labels.get(metadata.CLUSTER):
        return ()
    return (str(Key(pod.metadata.namespace, labels[metadata.CLUSTER])),)
