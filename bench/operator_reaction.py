# SPDX-License-Identifier: Apache-2.0
"""How fast the operator reacts to changes in Slurm with many workers, also beside a cluster that does not respond.

Hosts are external nodes of a real slurmctld with the names of the workers; pods run on hollow nodes. The time is
measured from a request to slurmrestd until a watch of the API server shows the effect.
"""

import asyncio
import contextlib
import random
import statistics
import time
from collections.abc import AsyncIterator
from functools import partial

from bench.operator_cluster import BenchNamespace, OperatorProcess, bench_namespace, wait_until
from bench.operator_scale_out import wait_until_ready, watch_workers
from slinky.api.names import metadata
from slinky.api.names.wellknown import SLURMRESTD_PORT
from slinky.kube import PODS, Cache, Key, Pod
from slinky.lab.lab import Lab
from slinky.slurm import JobRequest, MintedToken, NodeUpdate, node_conf, number
from slinky.slurm import SlurmClient as Slurm

SILENT_ADDRESS = "127.66.6.6"


async def measure_reactions(lab: Lab, count: int, samples: int) -> dict[str, float]:
    """Measure the 95th percentiles, in seconds."""
    tokens = MintedToken(lambda: lab.slurm.jwt_key, "slurm")
    async with (
        Slurm(lab.slurm.url, tokens) as slurm,
        bench_namespace(lab, "react") as namespace,
        bench_namespace(lab, "dead") as dead,
        silent_server(),
    ):
        await delete_old_hosts(slurm)
        await namespace.cluster(lab.slurm.address)
        await dead.cluster()
        async with OperatorProcess(lab, "react", "dead") as operator, watch_workers(namespace) as pods:
            await namespace.workers(count)
            await wait_until_ready(pods, count)
            await register_hosts(slurm, pods, count)
            await operator.quiet()
            results = {"condition": p95(await time_conditions(slurm, pods, count, samples))}
            await dead.use_slurmrestd(SILENT_ADDRESS)
            for each in range(10):
                await dead.workers(2, f"dead-{each}")
            await asyncio.sleep(10)
            results["condition beside a dead Slurm"] = p95(await time_conditions(slurm, pods, count, samples))
            results["deleted"] = p95(await time_deletions(slurm, namespace, pods, count, samples))
    return results


async def time_conditions(slurm: Slurm, pods: Cache[Pod], count: int, samples: int) -> list[float]:
    """Times from a drain in Slurm to the condition of the pod, one after the other."""
    times = []
    for host in random.Random(7).sample(range(count), samples):
        await slurm.update_node(f"gpu-{host}", NodeUpdate(state=["DRAIN"], reason="bench"))
        began, key = time.monotonic(), pod_key(pods, host)
        await wait_until(partial(has_condition, pods, key, "SlurmNodeStateDrain"), f"the condition of {key}", 60, 0.005)
        times.append(time.monotonic() - began)
        await slurm.update_node(f"gpu-{host}", NodeUpdate(state=["UNDRAIN"]))
        await asyncio.sleep(random.uniform(0.2, 1.5))
    return times


async def time_deletions(
    slurm: Slurm, namespace: BenchNamespace, pods: Cache[Pod], count: int, samples: int
) -> list[float]:
    """Times from the end of the last job on a draining host to the deletion of its pod, one after the other."""
    chosen = random.Random(8).sample(range(count), samples)
    jobs = {host: await slurm.allocate(job(f"gpu-{host}")) for host in chosen}
    cost = {"metadata": {"annotations": {metadata.POD_DELETION_COST: "-100"}}}
    for host in chosen:
        await namespace.client.patch(PODS, pod_key(pods, host), cost)
    await asyncio.sleep(3)
    await namespace.workers(count - samples)

    async def draining() -> bool:
        listed = await slurm.nodes()
        return listed is not None and sum(host.state.draining for host in listed.items) >= samples

    await wait_until(draining, "drains", 120, 1.0)
    times = []
    for host in chosen:
        await slurm.cancel(jobs[host].job_id)
        began, key = time.monotonic(), pod_key(pods, host)
        await wait_until(partial(is_deleted, pods, key), f"the deletion of {key}", 60, 0.005)
        times.append(time.monotonic() - began)
        await asyncio.sleep(random.uniform(0.2, 1.5))
    return times


async def delete_old_hosts(slurm: Slurm) -> None:
    """Delete hosts of an earlier run."""
    listed = await slurm.nodes()
    if names := [host.name for host in listed.items if host.name.startswith("gpu-")] if listed else []:
        await slurm.delete_nodes(*names)


async def register_hosts(slurm: Slurm, pods: Cache[Pod], count: int) -> None:
    """Create the hosts in Slurm instead of slurmd, as external nodes with the names of the workers."""
    names = f"gpu-[0-{count - 1}]"
    shape = {"CPUs": 8, "RealMemory": 16000, "State": "EXTERNAL", "Feature": "ext"}
    await slurm.create_node(node_conf(names, NodeAddr="127.0.0.1", **shape))  # type: ignore[arg-type]
    await wait_until(
        lambda: all_have_condition(pods, "SlurmNodeStateIdle", count), "the conditions of all pods", 900, every=1.0
    )


def job(host: str) -> JobRequest:
    """A job on one host."""
    return JobRequest(
        name="bench",
        partition="ext",
        account="lab",
        flags=["EXTERNAL_JOB"],
        current_working_directory="/",
        required_nodes=[host],
        tasks=1,
        memory_per_node=number(100),
    )


@contextlib.asynccontextmanager
async def silent_server() -> AsyncIterator[None]:
    """A slurmrestd that accepts every connection and never responds."""

    async def hold(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)

    server = await asyncio.start_server(hold, SILENT_ADDRESS, SLURMRESTD_PORT)
    try:
        yield
    finally:
        server.close()


async def all_have_condition(pods: Cache[Pod], kind: str, count: int) -> bool:
    """Whether at least `count` pods have this condition."""
    return sum(any(c.type == kind for c in pod.status.conditions) for pod in pods) >= count


async def has_condition(pods: Cache[Pod], key: Key, kind: str) -> bool:
    """Whether a pod has this condition."""
    pod = pods.get(key)
    return pod is not None and any(c.type == kind for c in pod.status.conditions)


async def is_deleted(pods: Cache[Pod], key: Key) -> bool:
    """Whether a pod is being deleted or is gone."""
    pod = pods.get(key)
    return pod is None or pod.metadata.deleting


def pod_key(pods: Cache[Pod], host: int) -> Key:
    """The pod of a host."""
    return Key(next(iter(pods)).metadata.namespace, f"gpu-{host}")


def p95(times: list[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(times, n=20)[18]
