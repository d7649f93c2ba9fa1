# SPDX-License-Identifier: Apache-2.0
"""One measurement in a process of its own: `python -m bench.kube_case CASE KUBECONFIG` prints JSON."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from bench.kube_pods import NAMESPACE
from slinky.kube import PODS, Cache, KubeClient, Pod, Runtime, by_owner, connect
from slinky.kube.metrics import REQUESTS, WATCH_EVENTS
from slinky.observe import LoopLag


def resident(which: str = "VmRSS") -> float:
    """Megabytes of memory in use (VmRSS) or once in use (VmHWM)."""
    text = Path("/proc/self/status").read_text()
    return int(text.split(f"{which}:")[1].split()[0]) / 1024


async def discard(client: KubeClient) -> dict[str, Any]:
    """The same request and transport, every byte received and thrown away."""
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": 600,
    }
    size = 0
    async with client.open_watch(PODS, query, namespace=NAMESPACE) as stream:
        began, cpu = time.perf_counter(), time.process_time()
        async for chunk in stream.chunks():
            size += len(chunk)
            if b"initial-events-end" in chunk:
                break
        cpu, wall = time.process_time() - cpu, time.perf_counter() - began
    return {"cpu": cpu, "wall": wall, "megabytes": size / 2**20}


@contextlib.asynccontextmanager
async def following(client: KubeClient, namespace: str) -> AsyncIterator[Cache[Pod]]:
    """A whole cache with two indexes, kept current while inside."""
    runtime = Runtime(client)
    cache = runtime.cache(
        PODS,
        namespace=namespace,
        indexes={"node": lambda pod: (pod.spec.node_name,), "owner": by_owner},
    )
    async with asyncio.TaskGroup() as family:
        task = family.create_task(runtime.run())
        await cache.wait_synced(120.0)
        yield cache
        task.cancel()


async def sync(client: KubeClient) -> dict[str, Any]:
    """From nothing to a whole cache with two indexes."""
    await client.list(PODS, namespace="none")  # the connection and its TLS are not what is measured
    before, cpu, began = resident(), time.process_time(), time.perf_counter()
    async with following(client, NAMESPACE) as cache:
        cpu, wall = time.process_time() - cpu, time.perf_counter() - began
        after = resident()
        return {
            "cpu": cpu,
            "wall": wall,
            "pods": len(cache),
            "resident": after,
            "peak": resident("VmHWM"),
            "kilobytes_per_pod": (after - before) * 1024 / max(1, len(cache)),
        }


async def follow(client: KubeClient) -> dict[str, Any]:
    """One watch whose objects keep changing."""
    async with following(client, NAMESPACE):
        await asyncio.sleep(1.0)
        counter = WATCH_EVENTS.labels(PODS.name)
        count, cpu, began = counter._value.get(), time.process_time(), time.perf_counter()
        await asyncio.sleep(8.0)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - began
        return {"cpu": cpu, "wall": wall, "events": counter._value.get() - count}


async def drain(client: KubeClient) -> dict[str, Any]:
    """The same events at the same rate, every byte received and thrown away."""
    async with client.open_watch(PODS, {"sendInitialEvents": "true"}, namespace=NAMESPACE) as stream:
        chunks, end = stream.chunks(), time.perf_counter() + 1.0
        while time.perf_counter() < end:
            await anext(chunks)
        cpu, began = time.process_time(), time.perf_counter()
        while time.perf_counter() < began + 6.0:
            await anext(chunks)
        return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - began}


async def steady(client: KubeClient) -> dict[str, Any]:
    """A whole cache, and nothing happens."""
    async with following(client, NAMESPACE) as cache:
        sent, cpu, began = requests(), time.process_time(), time.perf_counter()
        await asyncio.sleep(15.0)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - began
        return {"cpu": cpu, "wall": wall, "requests": requests() - sent, "objects": len(cache)}


def requests() -> float:
    return sum(sample.value for family in REQUESTS.collect() for sample in family.samples if "total" in sample.name)


CASES = {"discard": discard, "sync": sync, "follow": follow, "drain": drain, "steady": steady}


async def main(case: str, kubeconfig: str) -> None:
    # Closer than a process looks, to miss no stall; but where little happens the probe itself would be
    # measured.
    lag = LoopLag(interval=0.02) if case in ("discard", "sync") else LoopLag()
    async with connect(kubeconfig) as client, asyncio.TaskGroup() as family:
        probe = family.create_task(lag.run())
        result = await CASES[case](client)
        await asyncio.sleep(0.05)
        probe.cancel()
    print(msgspec.json.encode({**result, "stall": lag.worst, "own_stall": lag.worst_busy}).decode(), flush=True)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
