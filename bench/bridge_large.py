# SPDX-License-Identifier: Apache-2.0
"""Figures of large workloads: waiting pods with devices, one batch job with many pods, a large gang, a slow slurmctld.

Pods start and end once a second meanwhile, because a change must reconcile only the workloads that it can help.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web
from tests.support.slurmrestd_proxy import SlurmrestdProxy

from bench.bridge_cluster import JOB, NAMESPACE, SCHEDULER, for_each
from slinky.bridge import names
from slinky.bridge.views import BATCH_JOBS, DEVICE_CLASSES, OUR_PODS, POD_GROUPS, RESOURCE_SLICES
from slinky.kube import Key
from slinky.slurm import JobSelection

if TYPE_CHECKING:
    from bench.bridge import Bench

GPU = "gpu.bench.example.com"
GPU_SELECTOR = {"cel": {"expression": f'device.driver == "{GPU}"'}}
SPARE = {names.OPTION + "partition": "dyn"}


async def devices(bench: "Bench") -> None:
    """Load of waiting pods that request a GPU, while one pod with a GPU starts and ends every second."""
    cluster, count = bench.cluster, bench.options.pods
    await cluster.kube.create(DEVICE_CLASSES, DEVICE_CLASSES.manifest(Key("", GPU), spec={"selectors": [GPU_SELECTOR]}))
    for node, partition in (("g-0", "ext"), ("g-1", "dyn")):
        await _publish_gpu(bench, node)
        await cluster.create_node(node, partition)
    await cluster.hosts(lambda host: host.state.idle and "gpu" in host.gres, ["g-0", "g-1"])
    await bench.wait_until_hosts_are_read()
    await cluster.slurm.allocate(msgspec.structs.replace(JOB, required_nodes=("g-0",)))
    await _queue_pods(bench, [f"gpu-{number}" for number in range(count)], _gpu_pod)
    share = await _load(bench, lambda number: _run_pod(bench, _gpu_pod(f"gpu-now-{number}", annotations=SPARE)))
    bench.report(f"{count} pending with a GPU, one starts every second, of a core", share, "%", 10)
    await _remove_waiting(bench, [f"gpu-{number}" for number in range(count)])
    await cluster.remove_nodes(["g-0", "g-1"])  # the other parts occupy all hosts but these


async def _publish_gpu(bench: "Bench", node: str) -> None:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": GPU, "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]}
    await bench.cluster.kube.create(RESOURCE_SLICES, RESOURCE_SLICES.manifest(Key("", node), spec=spec))


def _gpu_pod(name: str, **meta: Any) -> dict[str, Any]:
    amounts = {names.DEVICE_CLASS_PREFIX + GPU: "1"}
    container = {"name": "c", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
    return OUR_PODS.manifest(
        Key(NAMESPACE, name), metadata=meta, spec={"schedulerName": SCHEDULER, "containers": [container]}
    )


async def batch_job(bench: "Bench") -> None:
    """Load of one batch job with many waiting pods, whose status is written every second while other pods start."""
    cluster, count, nodes = bench.cluster, bench.options.pods, bench.options.nodes
    size = {"nodes": str(nodes), "minimum_nodes": nodes, "maximum_nodes": nodes}
    await cluster.slurm.allocate(msgspec.structs.replace(JOB, **size))
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    spec = {"parallelism": count, "completions": count, "template": template}
    job = await cluster.kube.create(BATCH_JOBS, BATCH_JOBS.manifest(Key(NAMESPACE, "large"), spec=spec))
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "large", "uid": job.metadata.uid, "controller": True}
    meta: dict[str, Any] = {"labels": {names.JOB_NAME: "large"}, "ownerReferences": [owner]}
    pods = [f"large-{number}" for number in range(count)]
    await _queue_pods(bench, pods, lambda name: cluster.manifest(name, SCHEDULER, **meta))

    async def tick(number: int) -> None:
        status = {"status": {"active": count, "ready": number, "succeeded": number}}
        await cluster.kube.patch(BATCH_JOBS, job.key, status, subresource="status")
        await _run_pod(bench, cluster.manifest(f"beside-{number}", annotations=SPARE))

    share = await _load(bench, tick)
    bench.report(f"one Job with {count} pending pods, one pod starts every second, of a core", share, "%", 10)
    await _remove_waiting(bench, pods)


async def _queue_pods(bench: "Bench", pods: list[str], manifest: Callable[[str], dict[str, Any]]) -> None:
    await for_each(pods, lambda name: bench.cluster.kube.create(OUR_PODS, manifest(name)))
    await bench.cluster.wait_for(bench.cluster.labelled, pods)
    await bench.wait_until_quiet()


async def _run_pod(bench: "Bench", manifest: dict[str, Any]) -> None:
    name = manifest["metadata"]["name"]
    await bench.cluster.kube.create(OUR_PODS, manifest)
    await bench.cluster.wait_for(bench.cluster.bound, [name], 60)
    await bench.cluster.end(name)


async def _load(bench: "Bench", tick: Callable[[int], Awaitable[None]]) -> float:
    """The processor share of the bridge, in percent, while `tick` runs once a second."""
    began, used = time.monotonic(), bench.bridge.cpu
    number = 0
    while time.monotonic() - began < bench.options.minute:
        await tick(number)
        number += 1
        await asyncio.sleep(max(0.0, began + number - time.monotonic()))
    return 100 * (bench.bridge.cpu - used) / (time.monotonic() - began)


async def _remove_waiting(bench: "Bench", pods: list[str]) -> None:
    await for_each(pods, bench.cluster.end)
    await bench.cluster.wait_gone(pods)
    await bench.cluster.slurm.cancel_many(JobSelection(job_name=JOB.name))


async def large_gang(bench: "Bench") -> None:
    """A gang with a pod for every node: its binding, the longest stall of the event loop, and its end."""
    count, cluster = bench.options.nodes, bench.cluster
    hosts = [f"n-{number}" for number in range(count)]
    floor = await cluster.floor_binds(hosts)
    floor_end = await cluster.floor_patches(count)
    await cluster.clear_binds(count)
    pods, label = [f"crowd-{number}" for number in range(count)], {names.POD_GROUP_LABEL: "crowd"}
    manifest = POD_GROUPS.manifest(Key(NAMESPACE, "crowd"), spec={"minMember": count})
    await cluster.kube.create(POD_GROUPS, manifest)
    bench.bridge.reset_stall()
    began = time.monotonic()
    await for_each(pods, lambda pod: cluster.pod(pod, labels=label))
    await cluster.wait_for(cluster.bound, pods)
    allocated = [call for call in bench.bridge.calls(began) if "job/allocate" in call.path or "job/submit" in call.path]
    seconds = max(cluster.bound[pod] for pod in pods) - allocated[-1].at
    bench.report(f"gang of {count}, allocation -> all bound", seconds, "s", 1.5 * floor, floor)
    began = time.monotonic()
    await for_each(pods, cluster.end)
    ended = time.monotonic()
    await cluster.wait_gone(pods)
    seconds = time.monotonic() - ended
    bench.report(f"gang of {count}, last one ended -> all released", seconds, "s", 1.5 * floor_end, floor_end)
    bench.report(f"gang of {count}, first one ended -> all released", time.monotonic() - began, "s")
    bench.report(f"gang of {count}, longest stall of the event loop", 1000 * bench.bridge.stall, "ms", 50)
    await cluster.hosts(lambda host: host.state.idle, hosts)
    await bench.wait_until_hosts_are_read()


class DelayProxy(SlurmrestdProxy):
    """Delays every request by `delay` seconds."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.delay = 0.0
        self.fault = self._wait

    async def _wait(self, _: web.BaseRequest) -> None:
        if self.delay:
            await asyncio.sleep(self.delay)


async def slow_slurm(bench: "Bench", proxy: DelayProxy) -> None:
    """Start many pods while each request to Slurm takes 0.3 s longer, also those of the floor."""
    count, cluster = min(500, bench.options.nodes), bench.cluster
    proxy.delay = 0.3
    try:
        floor = await cluster.floor_pods(count)
        await bench.clear_floor(count)
        pods = [f"slow-{number}" for number in range(count)]
        began = time.monotonic()
        await for_each(pods, cluster.pod)
        await cluster.wait_for(cluster.bound, pods)
        seconds = [cluster.bound[name] - began for name in pods]
    finally:
        proxy.delay = 0.0
    bench.report(f"{count} pods, slurmctld 0.3 s late, create -> bound, p50", statistics.median(seconds), "s")
    bench.report(f"{count} pods, slurmctld 0.3 s late, create -> all bound", max(seconds), "s", 3 * floor, floor)
    await cluster.end_pods(pods)
