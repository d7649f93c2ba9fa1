# SPDX-License-Identifier: Apache-2.0
"""Speed of the operator on large NodeSets: deciding, making workers, and doing nothing.

`python -m bench.operator_sets` plans a settled and a shrinking set in memory, then lets the operator fill a NodeSet on
a real API server (etcd and kube-apiserver, no nodes, no Slurm), prints a table, and writes its figures to
`bench/results/operator.json`.
"""

import argparse
import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from tests.unit.operator.made import host, node, node_set, pod, seeing, snapshot

from slinky.api.controller import CONTROLLERS
from slinky.api.nodeset import NODE_SETS
from slinky.kube import NAMESPACES, PODS, SECRETS, SERVICE_ACCOUNTS, Client, Key, connect
from slinky.lab.plain import PlainPlane
from slinky.operator.app import main as operate
from slinky.operator.metrics import WRITES
from slinky.operator.nodeset.plan import plan
from slinky.operator.nodeset.sync import Comment
from slinky.operator.settings import Settings

RESULTS = Path(__file__).parent / "results" / "operator.json"
WHERE = "bench"


def seconds_to_plan(workers: int, wanted: int) -> float:
    """One decision about a set of this size, the best of five."""
    pods = [pod(f"gpu-{n}", node=f"node{n}") for n in range(workers)]
    comments = [Comment("ns", f"gpu-{n}", f"node{n}", "gpu", "uid-gpu").text() for n in range(workers)]
    seen = seeing(*(host(f"gpu-{n}", comment=comments[n]) for n in range(workers)))
    of, nodes = node_set(replicas=wanted), [node(f"node{n}") for n in range(workers)]
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        found = plan(snapshot(of, pods, seen, nodes))
        best = min(best, time.perf_counter() - began)
        assert len(found) == workers - wanted
    return best


def writes() -> float:
    """Requests that changed something, so far."""
    return sum(s.value for metric in WRITES.collect() for s in metric.samples if s.name.endswith("_total"))


async def fill(client: Client, workers: int) -> dict[str, float]:
    """Seconds until a set has all its pods, and writes per minute when it has."""
    key = Key(WHERE, "gpu")
    spec = {
        "controllerRef": {"name": "slurm"},
        "replicas": workers,
        "slurmd": {"image": "x"},
        "logfile": {"image": "x"},
    }
    began = time.perf_counter()
    await client.apply(NODE_SETS, NODE_SETS.manifest(key, spec=spec))
    while len(await client.list(PODS.metadata_only(), namespace=WHERE)) < workers:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.2)
    made = time.perf_counter() - began
    await asyncio.sleep(10)
    before = writes()
    await asyncio.sleep(20)
    return {"made": made, "idle_writes": (writes() - before) * 3}


async def on_a_server(plane: PlainPlane, workers: int) -> dict[str, float]:
    """Everything that needs an API server."""
    async with connect(str(plane.kubeconfig)) as client:
        await client.create(NAMESPACES, {"metadata": {"name": WHERE}})
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": WHERE}})
        refs: dict[str, Any] = {}
        for name, field in (("slurm.key", "slurmKeyRef"), ("jwt.key", "jwtKeyRef")):
            secret = name.replace(".", "-")
            await client.create(
                SECRETS, {"metadata": {"name": secret, "namespace": WHERE}, "stringData": {name: "k" * 64}}
            )
            refs[field] = {"name": secret, "key": name}
        running = asyncio.create_task(
            operate(Settings(kubeconfig=str(plane.kubeconfig), cluster_domain="cluster.local"))
        )
        await client.apply(CONTROLLERS, CONTROLLERS.manifest(Key(WHERE, "slurm"), spec=refs))
        try:
            return await fill(client, workers)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def install(plane: PlainPlane) -> None:
    """Put our kinds on the server."""
    text = subprocess.run([sys.executable, "-m", "slinky.api.crds"], capture_output=True, check=True).stdout
    argv = [str(plane.kubectl), f"--kubeconfig={plane.kubeconfig}"]
    subprocess.run([*argv, "apply", "--server-side", "-f", "-"], input=text, check=True, capture_output=True)
    subprocess.run([*argv, "wait", "--for=condition=Established", "crd", "--all"], check=True, capture_output=True)


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=1000)
    given = parser.parse_args()
    with PlainPlane.running() as plane:
        install(plane)
        found = asyncio.run(on_a_server(plane, given.workers))
    figures = {
        "plan of 5,000 settled workers, milliseconds": seconds_to_plan(5000, 5000) * 1000,
        "plan of 5,000 workers that become 4,000, milliseconds": seconds_to_plan(5000, 4000) * 1000,
        f"workers made per second ({given.workers}, on a real API server)": given.workers / found["made"],
        "writes per minute once settled": found["idle_writes"],
    }
    table = Table("figure", "found")
    for name, value in figures.items():
        table.add_row(name, f"{value:.1f}")
    Console().print(table)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(figures)))
    return 0 if figures["writes per minute once settled"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
