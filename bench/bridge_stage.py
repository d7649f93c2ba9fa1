# SPDX-License-Identifier: Apache-2.0
"""Where the bridge is measured: a real API server without kubelets, a real Slurm, and hands for what kubelets do."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import msgspec

from slinky.bridge import names
from slinky.bridge.state.views import OUR_PODS, WorkloadPod
from slinky.kube import NODES, Key, KubeClient, Runtime
from slinky.kube.client import STRATEGIC
from slinky.slurm import JobRequest, JobSelection
from slinky.slurm import SlurmClient as Slurm

T = TypeVar("T")

NAMESPACE, SCHEDULER = "bench", "slurm-bridge-bench"
#: Things done at once by hand, in floors and in preparations alike.
HANDS = 16
PATIENCE = 600.0
#: What the bridge asks for a plain pod: a node of its own.
JOB = JobRequest(
    name="floor",
    partition="ext",
    flags=("EXTERNAL_JOB",),
    current_working_directory="/",
    nodes="1",
    minimum_nodes=1,
    maximum_nodes=1,
    tasks_per_node=1,
    shared=("none",),
)


async def many(items: Iterable[T], work: Callable[[T], Awaitable[object]], hands: int = HANDS) -> None:
    """Do something for each, so many at once, as a bare loop would."""
    todo = iter(list(items))

    async def hand() -> None:
        for item in todo:
            await work(item)

    await asyncio.gather(*(hand() for _ in range(hands)))


async def until(check: Callable[[], bool], seconds: float = PATIENCE, every: float = 0.02) -> None:
    """Wait for a condition; `TimeoutError` when it does not come."""
    async with asyncio.timeout(seconds):
        while not check():  # noqa: ASYNC110
            await asyncio.sleep(every)


class Stage:
    """Nodes, pods and jobs, and the moments at which things were seen to happen."""

    def __init__(self, kube: KubeClient, slurm: Slurm) -> None:
        self.kube, self.slurm = kube, slurm
        self.bound: dict[str, float] = {}
        self.told: dict[str, float] = {}
        self.leaving: dict[str, float] = {}
        self.labelled: set[str] = set()
        self.runtime = Runtime(kube)
        # Those of the floor too: being watched costs the same for both.
        self.pods = self.runtime.cache(OUR_PODS, namespace=NAMESPACE)
        self.pods.listen(self._changed)

    def _changed(self, _old: WorkloadPod | None, new: WorkloadPod | None) -> None:
        if new is None:
            return
        name, now = new.metadata.name, time.monotonic()
        if names.JOB_LABEL in new.metadata.labels:
            self.labelled.add(name)
        if new.spec.node_name:
            self.bound.setdefault(name, now)
        if new.metadata.deleting:
            self.leaving.setdefault(name, now)

    async def seen(self, table: Iterable[str], wanted: Iterable[str], seconds: float = PATIENCE) -> None:
        """Wait until all of these are in one of our tables."""
        left = set(wanted)

        def complete() -> bool:
            left.difference_update(table)
            return not left

        await until(complete, seconds, 0.005 if len(left) < 5 else 0.05)

    # --- nodes

    async def add_nodes(self, prefix: str, count: int, partition: str) -> list[str]:
        """Ready nodes that should become hosts of Slurm."""
        made = [f"{prefix}-{number}" for number in range(count)]
        await many(made, lambda name: self._node(name, partition))
        return made

    async def _node(self, name: str, partition: str) -> None:
        notes = {names.PARTITIONS_ANNOTATION: partition, names.TOPOLOGY_ANNOTATION: "default:leaf1"}
        meta = {"labels": {names.EXTERNAL_LABEL: ""}, "annotations": notes}
        await self.kube.create(NODES, NODES.manifest(Key("", name), metadata=meta))
        size = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "x", "message": "x"}
        address = {"type": "InternalIP", "address": "127.0.0.1"}
        status = {"capacity": size, "allocatable": size, "conditions": [ready], "addresses": [address]}
        await self.kube.patch(NODES, Key("", name), {"status": status}, subresource="status", kind=STRATEGIC)
        # Nobody else takes the taint off that admission puts on every new node.
        clean = [{"op": "remove", "path": "/spec/taints"}]
        await self.kube.patch_json(NODES, Key("", name), clean)

    async def hosts(self, fits: Callable[[Any], bool], wanted: Iterable[str], seconds: float = PATIENCE) -> None:
        """Wait until Slurm's hosts of these names are as they should be."""
        left = set(wanted)
        async with asyncio.timeout(seconds):
            while left:
                found = await self.slurm.nodes()
                left -= {host.name for host in (found.items if found else ()) if fits(host)}
                await asyncio.sleep(1 if left else 0)

    # --- pods

    def manifest(self, name: str, scheduler: str = SCHEDULER, **meta: Any) -> dict[str, Any]:
        """A pod."""
        spec = {"schedulerName": scheduler, "containers": [{"name": "c", "image": "x"}]}
        return OUR_PODS.manifest(Key(NAMESPACE, name), metadata=meta, spec=spec)

    async def pod(self, name: str, **meta: Any) -> WorkloadPod:
        """Create a pod of the bridge."""
        return await self.kube.create(OUR_PODS, self.manifest(name, **meta))

    async def ended(self, wanted: Iterable[str]) -> None:
        """Say what kubelets say when pods are done, remove them, and wait until the bridge has let them go."""
        left = list(wanted)
        await many(left, self._end)
        await until(lambda: not any(Key(NAMESPACE, name) in self.pods for name in left))
        # The hosts are free at once; the mirror sees that within a few seconds.
        await asyncio.sleep(6)

    async def _end(self, name: str) -> None:
        await self.succeed(name)
        await self.kube.delete(OUR_PODS, Key(NAMESPACE, name), grace=0)

    async def succeed(self, name: str) -> None:
        """Say that its containers are done."""
        done = {"status": {"phase": "Succeeded"}}
        await self.kube.patch(OUR_PODS, Key(NAMESPACE, name), done, subresource="status")

    def job_of(self, name: str) -> str:
        """The job that a pod is labelled with."""
        pod = self.pods.get(Key(NAMESPACE, name))
        return pod.metadata.labels[names.JOB_LABEL] if pod else ""

    # --- the floor: the same calls in a bare loop

    async def floor_pod(self, name: str) -> float:
        """Create a pod, take a node of Slurm for it, note the job on it, bind it; the seconds that took."""
        began = time.monotonic()
        pod = await self.kube.create(OUR_PODS, self.manifest(name, "floor"))
        job = (await self.slurm.allocate(JOB)).job_id
        (granted,) = await self.slurm.resources(job)
        await self._label(pod, str(job))
        await self.kube.bind(pod.key, granted.node, uid=pod.metadata.uid)
        return time.monotonic() - began

    async def _label(self, pod: WorkloadPod, job: str) -> None:
        meta = {"labels": {names.JOB_LABEL: job}, "finalizers": [names.FINALIZER], "uid": pod.metadata.uid}
        toleration = {"key": names.MANAGED_TAINT, "operator": "Exists"}
        held = [msgspec.to_builtins(toleration) for toleration in pod.spec.tolerations]
        body = {"metadata": meta, "spec": {"tolerations": [*held, toleration]}}
        await self.kube.patch(OUR_PODS, pod.key, body, kind=STRATEGIC)

    async def floor_pods(self, count: int) -> float:
        """Many pods at once; seconds until all are bound."""
        began = time.monotonic()
        await many((f"floor-{number}" for number in range(count)), self.floor_pod)
        return time.monotonic() - began

    async def floor_binds(self, hosts: list[str]) -> float:
        """A pod for each host, all there already: seconds to bind them."""
        wanted = {f"floor-{number}": host for number, host in enumerate(hosts)}
        await many(wanted, lambda name: self.kube.create(OUR_PODS, self.manifest(name, "floor")))
        began = time.monotonic()
        await many(wanted, lambda name: self.kube.bind(Key(NAMESPACE, name), wanted[name]), hands=32)
        return time.monotonic() - began

    async def floor_deletes(self, names: Iterable[str]) -> float:
        """Seconds to delete these pods, as a bare loop would."""
        began = time.monotonic()
        await many(names, lambda name: self.kube.delete(OUR_PODS, Key(NAMESPACE, name)))
        return time.monotonic() - began

    async def clear_binds(self, count: int) -> None:
        """Remove the pods that a floor left."""

        async def remove(number: int) -> None:
            key = Key(NAMESPACE, f"floor-{number}")
            await self.kube.patch(OUR_PODS, key, {"metadata": {"finalizers": None}})
            await self.kube.delete(OUR_PODS, key, grace=0)

        await many(range(count), remove)

    async def clear_floor(self, count: int) -> None:
        """Remove the pods and jobs that a floor left."""
        await self.clear_binds(count)
        await self.slurm.cancel_many(JobSelection(job_name="floor"))
