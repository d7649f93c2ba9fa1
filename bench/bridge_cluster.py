# SPDX-License-Identifier: Apache-2.0
"""The cluster of the benchmark: a real API server without kubelets, a real Slurm, and the writes of kubelets."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import msgspec

from slinky.bridge import names
from slinky.bridge.views import OUR_PODS, WorkloadPod
from slinky.kube import NODES, Key, KubeClient, Runtime
from slinky.kube.client import STRATEGIC
from slinky.slurm import JobRequest, JobSelection
from slinky.slurm import SlurmClient as Slurm

T = TypeVar("T")

NAMESPACE, SCHEDULER = "bench", "slurm-bridge-bench"
#: Concurrent requests of plain loops.
CONCURRENCY = 16
TIMEOUT = 600.0
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


async def for_each(items: Iterable[T], work: Callable[[T], Awaitable[object]], concurrency: int = CONCURRENCY) -> None:
    """Run `work` for each item in a plain loop with so many workers."""
    remaining = iter(list(items))

    async def worker() -> None:
        for item in remaining:
            await work(item)

    await asyncio.gather(*(worker() for _ in range(concurrency)))


async def wait_until(check: Callable[[], bool], seconds: float = TIMEOUT, every: float = 0.02) -> None:
    """Wait for a condition. Raises `TimeoutError`."""
    async with asyncio.timeout(seconds):
        while not check():  # noqa: ASYNC110
            await asyncio.sleep(every)


class BenchCluster:
    """Nodes, pods and jobs, with the times of observed changes."""

    def __init__(self, kube: KubeClient, slurm: Slurm) -> None:
        self.kube, self.slurm = kube, slurm
        self.bound: dict[str, float] = {}
        self.leaving: dict[str, float] = {}
        self.labelled: set[str] = set()
        self.runtime = Runtime(kube)
        # Also pods of the floor, so that watching costs the same for both.
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

    async def wait_for(self, observed: Iterable[str], expected: Iterable[str], seconds: float = TIMEOUT) -> None:
        """Wait until all of these pods have been observed."""
        left = set(expected)

        def complete() -> bool:
            left.difference_update(observed)
            return not left

        await wait_until(complete, seconds, 0.005 if len(left) < 5 else 0.05)

    # --- nodes

    async def add_nodes(self, prefix: str, count: int, partition: str) -> list[str]:
        """Create ready nodes that the bridge registers in Slurm."""
        node_names = [f"{prefix}-{number}" for number in range(count)]
        await for_each(node_names, lambda name: self.create_node(name, partition))
        return node_names

    async def create_node(self, name: str, partition: str) -> None:
        """Create a ready node that the bridge registers in Slurm."""
        annotations = {names.PARTITIONS_ANNOTATION: partition, names.TOPOLOGY_ANNOTATION: "default:leaf1"}
        meta = {"labels": {names.EXTERNAL_LABEL: ""}, "annotations": annotations}
        await self.kube.create(NODES, NODES.manifest(Key("", name), metadata=meta))
        size = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "x", "message": "x"}
        address = {"type": "InternalIP", "address": "127.0.0.1"}
        status = {"capacity": size, "allocatable": size, "conditions": [ready], "addresses": [address]}
        await self.kube.patch(NODES, Key("", name), {"status": status}, subresource="status", kind=STRATEGIC)
        # Admission adds a taint to every new node, which a node controller would remove.
        clean = [{"op": "remove", "path": "/spec/taints"}]
        await self.kube.patch_json(NODES, Key("", name), clean)

    async def remove_nodes(self, node_names: Iterable[str], seconds: float = TIMEOUT) -> None:
        """Delete nodes, and wait until the bridge has removed their hosts."""
        left = set(node_names)
        await for_each(left, lambda name: self.kube.delete(NODES, Key("", name)))
        async with asyncio.timeout(seconds):
            while left:
                listing = await self.slurm.nodes()
                left &= {host.name for host in (listing.items if listing else ())}
                await asyncio.sleep(1 if left else 0)

    async def hosts(self, predicate: Callable[[Any], bool], expected: Iterable[str], seconds: float = TIMEOUT) -> None:
        """Wait until all these hosts match the predicate."""
        left = set(expected)
        async with asyncio.timeout(seconds):
            while left:
                listing = await self.slurm.nodes()
                left -= {host.name for host in (listing.items if listing else ()) if predicate(host)}
                await asyncio.sleep(1 if left else 0)

    # --- pods

    def manifest(self, name: str, scheduler: str = SCHEDULER, **meta: Any) -> dict[str, Any]:
        """A pod."""
        spec = {"schedulerName": scheduler, "containers": [{"name": "c", "image": "x"}]}
        return OUR_PODS.manifest(Key(NAMESPACE, name), metadata=meta, spec=spec)

    async def pod(self, name: str, **meta: Any) -> WorkloadPod:
        """Create a pod of the bridge."""
        return await self.kube.create(OUR_PODS, self.manifest(name, **meta))

    async def end_pods(self, pods: Iterable[str]) -> None:
        """End and delete pods, and wait until the bridge has removed its finalizers."""
        left = list(pods)
        await for_each(left, self.end)
        await self.wait_gone(left)
        # The hosts are free at once; the mirror reads that within a few seconds.
        await asyncio.sleep(6)

    async def wait_gone(self, pods: Iterable[str]) -> None:
        """Wait until these pods are deleted, and so without the finalizer of the bridge."""
        left = [Key(NAMESPACE, name) for name in pods]
        await wait_until(lambda: not any(key in self.pods for key in left))

    async def end(self, name: str) -> None:
        """End and delete a pod."""
        await self.succeed(name)
        await self.kube.delete(OUR_PODS, Key(NAMESPACE, name), grace=0)

    async def succeed(self, name: str) -> None:
        """Write that the containers of a pod succeeded."""
        done = {"status": {"phase": "Succeeded"}}
        await self.kube.patch(OUR_PODS, Key(NAMESPACE, name), done, subresource="status")

    def job_of(self, name: str) -> str:
        """The job that a pod is labelled with."""
        pod = self.pods.get(Key(NAMESPACE, name))
        return pod.metadata.labels[names.JOB_LABEL] if pod else ""

    # --- the floor: the same calls in a plain loop

    async def floor_pod(self, name: str) -> float:
        """Create a pod, allocate a node, label and bind the pod; the seconds of all that."""
        began = time.monotonic()
        pod = await self.kube.create(OUR_PODS, self.manifest(name, "floor"))
        job = (await self.slurm.allocate(JOB)).job_id
        (allocated,) = await self.slurm.resources(job)
        await self._label(pod, str(job))
        await self.kube.bind(pod.key, allocated.node, uid=pod.metadata.uid)
        return time.monotonic() - began

    async def _label(self, pod: WorkloadPod, job: str) -> None:
        meta = {"labels": {names.JOB_LABEL: job}, "finalizers": [names.FINALIZER], "uid": pod.metadata.uid}
        toleration = {"key": names.MANAGED_TAINT, "operator": "Exists"}
        tolerations = [msgspec.to_builtins(toleration) for toleration in pod.spec.tolerations]
        body = {"metadata": meta, "spec": {"tolerations": [*tolerations, toleration]}}
        await self.kube.patch(OUR_PODS, pod.key, body, kind=STRATEGIC)

    async def floor_pods(self, count: int) -> float:
        """Many pods at once; seconds until all are bound."""
        began = time.monotonic()
        await for_each((f"floor-{number}" for number in range(count)), self.floor_pod)
        return time.monotonic() - began

    async def floor_binds(self, hosts: list[str]) -> float:
        """Create a pod for each host; the seconds to bind them all."""
        host_of_pod = {f"floor-{number}": host for number, host in enumerate(hosts)}
        await for_each(host_of_pod, lambda name: self.kube.create(OUR_PODS, self.manifest(name, "floor")))
        began = time.monotonic()
        await for_each(
            host_of_pod, lambda name: self.kube.bind(Key(NAMESPACE, name), host_of_pod[name]), concurrency=32
        )
        return time.monotonic() - began

    async def floor_patches(self, count: int) -> float:
        """Seconds to patch these pods once, as a plain loop would."""
        began = time.monotonic()
        note = {"metadata": {"annotations": {"bench": "x"}}}
        await for_each(
            range(count), lambda number: self.kube.patch(OUR_PODS, Key(NAMESPACE, f"floor-{number}"), note), 32
        )
        return time.monotonic() - began

    async def floor_deletes(self, names: Iterable[str]) -> float:
        """Seconds to delete these pods, as a plain loop would."""
        began = time.monotonic()
        await for_each(names, lambda name: self.kube.delete(OUR_PODS, Key(NAMESPACE, name)))
        return time.monotonic() - began

    async def clear_binds(self, count: int) -> None:
        """Remove the pods of a floor."""

        async def remove(number: int) -> None:
            key = Key(NAMESPACE, f"floor-{number}")
            await self.kube.patch(OUR_PODS, key, {"metadata": {"finalizers": None}})
            await self.kube.delete(OUR_PODS, key, grace=0)

        await for_each(range(count), remove)

    async def clear_floor(self, count: int) -> None:
        """Remove the pods and jobs of a floor."""
        await self.clear_binds(count)
        await self.slurm.cancel_many(JobSelection(job_name="floor"))
