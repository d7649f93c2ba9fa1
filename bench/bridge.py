# SPDX-License-Identifier: Apache-2.0
"""How quick the bridge is, on a real API server without kubelets and a real Slurm with external nodes.

    python -m bench.bridge --nodes 64        a lab of its own
    python -m bench.bridge --lab NAME        the Slurm of a lab that runs already

Each line is one question of docs/bridge: how long from a pod's creation to its node, what waiting costs, how long a
gang takes, how soon pods leave when Slurm ends their jobs. Client, bridge, API server and Slurm share the machine.
"""

import argparse
import asyncio
import contextlib
import json
import resource
import statistics
import time
from pathlib import Path
from typing import Any

from tests.integration.bridge.scene import Scene, eventually, scene

from slinky.bridge import names
from slinky.bridge.views import OUR_PODS, POD_GROUPS
from slinky.kube import NAMESPACES, Key, NotFound, connect
from slinky.lab import bringup
from slinky.lab.bringup import Options
from slinky.lab.lab import Lab
from slinky.lab.plain import PlainPlane
from slinky.lab.progress import Progress
from slinky.slurm import Client as Slurm
from slinky.slurm import Exchange, JobSelection, MintedToken

RESULTS = Path(__file__).parent / "results" / "bridge.json"


class Stopwatch:
    """Sees every pod of a scene the moment the bridge's own cache does."""

    def __init__(self, stage: Scene) -> None:
        assert stage.bridge is not None
        self.bound: dict[str, float] = {}
        self.leaving: dict[str, float] = {}
        stage.bridge.stock.pods.listen(self._changed)

    def _changed(self, _old: Any, new: Any) -> None:
        if new is None:
            return
        if new.spec.node_name:
            self.bound.setdefault(new.metadata.name, time.monotonic())
        if new.metadata.deleting:
            self.leaving.setdefault(new.metadata.name, time.monotonic())

    async def all_of(self, table: dict[str, float], wanted: list[str], seconds: float = 120) -> float:
        """The moment the last of them was seen."""

        async def there() -> bool:
            return all(name in table for name in wanted)

        await eventually(there, f"{len(wanted)} pods", seconds)
        return max(table[name] for name in wanted)


async def clear(stage: Scene) -> None:
    """End every pod and wait until Slurm is empty again."""
    for pod in await stage.client.list(OUR_PODS, namespace=stage.namespace):
        with contextlib.suppress(NotFound):
            await stage.client.delete(OUR_PODS, pod.key, grace=0)
            if pod.spec.node_name:
                await stage.stopped(pod.metadata.name)

    async def empty() -> bool:
        return not await stage.client.list(OUR_PODS, namespace=stage.namespace) and not await stage.jobs()

    await eventually(empty, "an empty stage", 120)
    await asyncio.sleep(6)


async def single(stage: Scene, watch: Stopwatch, rounds: int) -> dict[str, float]:
    """Creation to binding on an idle cluster, one pod after the other."""
    taken = []
    for number in range(rounds):
        name = f"one-{number}"
        began = time.monotonic()
        await stage.pod(name)
        taken.append(await watch.all_of(watch.bound, [name]) - began)
        await stage.phase(name, "Succeeded", 0)
        await asyncio.sleep(0.5)
    cuts = statistics.quantiles(taken, n=20)
    return {"p50_ms": round(statistics.median(taken) * 1000), "p95_ms": round(cuts[18] * 1000)}


async def burst(stage: Scene, watch: Stopwatch, count: int) -> dict[str, float]:
    """Many pods at once on an idle cluster, a node for each."""
    wanted = [f"burst-{number}" for number in range(count)]
    began = time.monotonic()
    await asyncio.gather(*(stage.pod(name) for name in wanted))
    seconds = await watch.all_of(watch.bound, wanted) - began
    return {"pods": count, "seconds": round(seconds, 2), "pods_per_second": round(count / seconds, 1)}


async def cancelled(stage: Scene, watch: Stopwatch) -> dict[str, float]:
    """One scancel for every running job: until the last pod was told to go."""
    wanted = [name for name in watch.bound if name.startswith("burst-")]
    jobs = [str(job.job_id) for job in await stage.jobs()]
    began = time.monotonic()
    await stage.slurm.cancel_many(JobSelection(jobs=jobs))
    seconds = await watch.all_of(watch.leaving, wanted) - began
    return {"pods": len(wanted), "seconds": round(seconds, 2)}


async def gang(stage: Scene, watch: Stopwatch, count: int) -> dict[str, float]:
    """A gang, a node for each pod: from its last pod's creation to the last binding."""
    group = POD_GROUPS.manifest(Key(stage.namespace, "gang"), spec={"minMember": count})
    await stage.client.create(POD_GROUPS, group)
    wanted = [f"gang-{number}" for number in range(count)]
    label = {names.POD_GROUP_LABEL: "gang"}
    await asyncio.gather(*(stage.pod(name, labels=label) for name in wanted))
    began = time.monotonic()
    seconds = await watch.all_of(watch.bound, wanted) - began
    return {"pods": count, "seconds": round(seconds, 2)}


async def waiting(stage: Scene, requests: list[Exchange], count: int, seconds: float) -> dict[str, float]:
    """What pods cost that cannot start: requests to Slurm and CPU of this process, which is bridge and client."""
    held = {names.OPTION + "hold": "true"}
    wanted = [f"wait-{number}" for number in range(count)]
    await asyncio.gather(*(stage.pod(name, annotations=held) for name in wanted))
    for name in wanted:
        await stage.job_of(name)
    await asyncio.sleep(10)
    requests.clear()
    used = resource.getrusage(resource.RUSAGE_SELF)
    await asyncio.sleep(seconds)
    now = resource.getrusage(resource.RUSAGE_SELF)
    cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    return {
        "pods": count,
        "requests_per_minute": round(len(requests) * 60 / seconds),
        "cpu_percent": round(100 * cpu / seconds, 1),
    }


async def measure(lab: Lab, nodes: int, pods: int) -> dict[str, Any]:
    """Every line of the table."""
    slurm = lab.slurm
    token = MintedToken(lambda: slurm.jwt_key, "slurm")
    found: dict[str, Any] = {"nodes": nodes}
    requests: list[Exchange] = []
    with PlainPlane.running() as plane:
        crd = plane.plane.binaries.parent / "manifests" / "podgroup-crds.yaml"
        async with (
            connect(plane.kubeconfig, manager="slurm-bridge") as kube,
            Slurm(slurm.url, token) as direct,
            Slurm(slurm.url, token, observe=requests.append) as watched,
        ):
            await _define(plane, crd)
            await kube.apply(NAMESPACES, NAMESPACES.manifest(Key("", "kube-system")), manager="bench")
            async with scene(kube, watched) as stage:
                await stage.start()
                stage.slurm = direct
                began = time.monotonic()
                await asyncio.gather(*(stage.node(number, host=False) for number in range(nodes)))
                await eventually(lambda: _registered(stage, nodes), "the hosts", 180)
                found["nodes_registered_seconds"] = round(time.monotonic() - began, 2)
                watch = Stopwatch(stage)
                found["single"] = await single(stage, watch, 20)
                await clear(stage)
                found["burst"] = await burst(stage, watch, nodes)
                found["cancelled"] = await cancelled(stage, watch)
                await clear(stage)
                found["gang"] = await gang(stage, watch, nodes)
                await clear(stage)
                found["waiting"] = await waiting(stage, requests, pods, 30)
                await clear(stage)
    return found


async def _define(plane: PlainPlane, crd: Path) -> None:
    command = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), "apply", "--server-side", "-f", str(crd)]
    done = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    assert await done.wait() == 0
    wait = [*command[:3], "wait", "--for=condition=Established", "crd/podgroups.scheduling.x-k8s.io"]
    done = await asyncio.create_subprocess_exec(*wait, stdout=asyncio.subprocess.DEVNULL)
    assert await done.wait() == 0


async def _registered(stage: Scene, count: int) -> bool:
    listing = await stage.slurm.nodes()
    ours = [host for host in (listing.items if listing else ()) if host.name.startswith(f"{stage.name}-")]
    return len([host for host in ours if host.state.idle and host.comment]) == count


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", default="", help="a lab with Slurm beside that runs already")
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--pods", type=int, default=200, help="waiting pods")
    given = parser.parse_args()
    name = given.lab or "bench-bridge"
    lab = Lab.find(name) if given.lab else bringup.up(Options(name=name, nodes=1, slurm="beside"), Progress())
    try:
        found = asyncio.run(measure(lab, given.nodes, given.pods))
    finally:
        if not given.lab:
            bringup.down(name)
    print(json.dumps(found, indent=2))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
