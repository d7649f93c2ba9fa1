# SPDX-License-Identifier: Apache-2.0
"""How soon the operator acts on what Slurm says, with many workers, and whether a dead Slurm elsewhere matters.

Hosts are external nodes of a real slurmctld, named like the workers; pods run on hollow nodes. A change is made by
slurmrestd and timed until the API server tells of its effect.
"""

import asyncio
import contextlib
import random
import statistics
import time
from collections.abc import AsyncIterator
from functools import partial

from bench.operator_grow import filled, watching
from bench.operator_scene import Operator, Scene, scene, until
from slinky.api.names import metadata
from slinky.api.names.wellknown import SLURMRESTD_PORT
from slinky.kube import PODS, Cache, Key, Pod
from slinky.lab.lab import Lab
from slinky.slurm import JobRequest, MintedToken, NodeUpdate, node_conf, number
from slinky.slurm import SlurmClient as Slurm

DEAD = "127.66.6.6"


async def reactions(lab: Lab, count: int, samples: int) -> dict[str, float]:
    """The 95th percentiles, in seconds."""
    tokens = MintedToken(lambda: lab.slurm.jwt_key, "slurm")
    async with (
        Slurm(lab.slurm.url, tokens) as slurm,
        scene(lab, "react") as stage,
        scene(lab, "dead") as dead,
        silent_server(),
    ):
        await clear(slurm)
        await stage.cluster(lab.slurm.address)
        await dead.cluster()
        async with Operator(lab, "react", "dead") as operator, watching(stage) as pods:
            await stage.workers(count)
            await filled(pods, count)
            await register(slurm, pods, count)
            await operator.quiet()
            found = {"condition": p95(await conditions(slurm, pods, count, samples))}
            await dead.stand_in(DEAD)
            for each in range(10):
                await dead.workers(2, f"dead-{each}")
            await asyncio.sleep(10)
            found["condition beside a dead Slurm"] = p95(await conditions(slurm, pods, count, samples))
            found["deleted"] = p95(await deletions(slurm, stage, pods, count, samples))
    return found


async def conditions(slurm: Slurm, pods: Cache[Pod], count: int, samples: int) -> list[float]:
    """From a drain in Slurm to the pod's condition, one after the other."""
    taken = []
    for host in random.Random(7).sample(range(count), samples):
        await slurm.update_node(f"gpu-{host}", NodeUpdate(state=["DRAIN"], reason="bench"))
        began, key = time.monotonic(), pods_key(pods, host)
        await until(partial(has, pods, key, "SlurmNodeStateDrain"), f"the condition of {key}", 60, 0.005)
        taken.append(time.monotonic() - began)
        await slurm.update_node(f"gpu-{host}", NodeUpdate(state=["UNDRAIN"]))
        await asyncio.sleep(random.uniform(0.2, 1.5))
    return taken


async def deletions(slurm: Slurm, stage: Scene, pods: Cache[Pod], count: int, samples: int) -> list[float]:
    """From the end of the last job on a draining host to the deletion of its pod, one after the other."""
    chosen = random.Random(8).sample(range(count), samples)
    jobs = {host: await slurm.allocate(job(f"gpu-{host}")) for host in chosen}
    cost = {"metadata": {"annotations": {metadata.POD_DELETION_COST: "-100"}}}
    for host in chosen:
        await stage.client.patch(PODS, pods_key(pods, host), cost)
    await asyncio.sleep(3)
    await stage.workers(count - samples)

    async def draining() -> bool:
        listed = await slurm.nodes()
        return listed is not None and sum(host.state.draining for host in listed.items) >= samples

    await until(draining, "drains", 120, 1.0)
    taken = []
    for host in chosen:
        await slurm.cancel(jobs[host].job_id)
        began, key = time.monotonic(), pods_key(pods, host)
        await until(partial(leaving, pods, key), f"the deletion of {key}", 60, 0.005)
        taken.append(time.monotonic() - began)
        await asyncio.sleep(random.uniform(0.2, 1.5))
    return taken


async def clear(slurm: Slurm) -> None:
    """Remove hosts that an earlier run has left."""
    listed = await slurm.nodes()
    if names := [host.name for host in listed.items if host.name.startswith("gpu-")] if listed else []:
        await slurm.delete_nodes(*names)


async def register(slurm: Slurm, pods: Cache[Pod], count: int) -> None:
    """What slurmd would do: hosts appear in Slurm. Here they are external ones, named like the workers."""
    names = f"gpu-[0-{count - 1}]"
    shape = {"CPUs": 8, "RealMemory": 16000, "State": "EXTERNAL", "Feature": "ext"}
    await slurm.create_node(node_conf(names, NodeAddr="127.0.0.1", **shape))  # type: ignore[arg-type]
    await until(lambda: shown(pods, "SlurmNodeStateIdle", count), "the conditions of all pods", 900, every=1.0)


def job(host: str) -> JobRequest:
    """Work on one host."""
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
    """A slurmrestd that takes every request and answers none."""

    async def hold(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)

    server = await asyncio.start_server(hold, DEAD, SLURMRESTD_PORT)
    try:
        yield
    finally:
        server.close()


async def shown(pods: Cache[Pod], kind: str, count: int) -> bool:
    """So many pods show this condition."""
    return sum(any(c.type == kind for c in pod.status.conditions) for pod in pods) >= count


async def has(pods: Cache[Pod], key: Key, kind: str) -> bool:
    """Whether a pod shows this condition."""
    found = pods.get(key)
    return found is not None and any(c.type == kind for c in found.status.conditions)


async def leaving(pods: Cache[Pod], key: Key) -> bool:
    """Whether a pod is deleted, or gone."""
    found = pods.get(key)
    return found is None or found.metadata.deleting


def pods_key(pods: Cache[Pod], host: int) -> Key:
    """The pod of a host."""
    return Key(next(iter(pods)).metadata.namespace, f"gpu-{host}")


def p95(taken: list[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(taken, n=20)[18]
