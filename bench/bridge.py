# SPDX-License-Identifier: Apache-2.0
"""How quick the bridge is: `make bench-bridge`, or `python -m bench.bridge` with smaller numbers.

A real API server without kubelets, a real Slurm with external nodes, the bridge in a process of its own; this process
makes pods and watches them. Each line is one promise of docs/bridge/performance.md, with the limit it is held to; where
the limit is a ratio, the floor is the same calls in a bare loop in the same run. All share the machine.
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.bridge_process import BridgeProcess
from bench.bridge_stage import JOB, NAMESPACE, SCHEDULER, Stage, many, until
from slinky.bridge import names
from slinky.bridge.state.views import POD_GROUPS
from slinky.kube import NAMESPACES, NODES, Key, connect
from slinky.lab import bringup
from slinky.lab.kubernetes.bare_plane import PlainPlane
from slinky.lab.lab import Lab
from slinky.lab.progress import Progress
from slinky.slurm import JobRequest, JobSelection, MintedToken
from slinky.slurm import SlurmClient as Slurm

RESULTS = Path(__file__).parent / "results" / "bridge.json"
#: Gangs and their floors, in turns: what takes a third of a second on two cores takes half as long again the next time.
GANGS = 15
SPARE = {names.OPTION + "partition": "dyn"}


class Line(NamedTuple):
    """One measured promise."""

    what: str
    value: float
    unit: str
    limit: float | None = None
    floor: float | None = None

    @property
    def met(self) -> bool:
        """Whether it is kept."""
        return self.limit is None or self.value < self.limit


class Bench:
    """The lines, one after the other, on one stage."""

    def __init__(self, stage: Stage, bridge: BridgeProcess, given: argparse.Namespace) -> None:
        self.stage, self.bridge, self.given = stage, bridge, given
        self.lines: list[Line] = []
        self.calls: dict[str, int] = {}

    def note(self, what: str, value: float, unit: str, limit: float | None = None, floor: float | None = None) -> None:
        """Keep and show a line."""
        self.lines.append(Line(what, round(value, 3), unit, limit, floor if floor is None else round(floor, 3)))
        print(row(self.lines[-1]), flush=True)

    async def run(self) -> None:
        """Every line of the table, or those that were asked for."""
        await self.register()
        for what in self.given.only or ("single", "burst", "gang", "cordon", "waiting"):
            await getattr(self, what)()

    async def register(self) -> None:
        """The nodes become hosts."""
        began = time.monotonic()
        ext = await self.stage.add_nodes("n", self.given.nodes, "ext")
        spare = await self.stage.add_nodes("s", 2, "dyn")
        await self.stage.hosts(lambda host: host.state.idle and host.comment, [*ext, *spare])
        self.note(f"{len(ext)} nodes made and registered", time.monotonic() - began, "s")
        await asyncio.sleep(6)

    async def single(self) -> None:
        """One pod after the other on an idle cluster."""
        taken = [await self._one(f"one-{number}") for number in range(self.given.rounds)]
        await self.stage.ended([f"one-{number}" for number in range(self.given.rounds)])
        bare = [await self.stage.floor_pod(f"floor-{number}") for number in range(self.given.rounds)]
        await self._clear_floor(self.given.rounds)
        floor = statistics.median(bare) * 1000
        self.note("1 pod, create -> bound, p50", statistics.median(taken) * 1000, "ms", 150, floor)
        self.note("1 pod, create -> bound, p99", statistics.quantiles(taken, n=100)[98] * 1000, "ms", 1000)

    async def _clear_floor(self, count: int) -> None:
        """Remove what a floor left, and wait until the bridge knows that its hosts are free: while jobs move it reads a
        list of a thousand hosts seldom, and until then it would queue what could start at once.
        """
        await self.stage.clear_floor(count)
        await self.stage.hosts(lambda host: host.state.idle, (f"n-{number}" for number in range(self.given.nodes)))
        free = time.monotonic()

        def known() -> bool:
            return any(call.kind == "GET nodes/" and call.at - call.seconds > free for call in self.bridge.calls(free))

        await until(known, every=0.5)

    async def _one(self, name: str, **meta: dict[str, str]) -> float:
        began = time.monotonic()
        await self.stage.pod(name, **meta)
        await self.stage.seen(self.stage.bound, [name])
        return self.stage.bound[name] - began

    async def burst(self) -> None:
        """A node's worth of pods at once, then the end of half of them by Slurm."""
        count = self.given.nodes
        floor = await self.stage.floor_pods(count)
        bare = await self.stage.floor_deletes(f"floor-{number}" for number in range(count // 2))
        await self._clear_floor(count)
        wanted = [f"burst-{number}" for number in range(count)]
        began = time.monotonic()
        await many(wanted, self.stage.pod)
        await self.stage.seen(self.stage.bound, wanted)
        taken = max(self.stage.bound[name] for name in wanted) - began
        self.note(f"{count} pods, create -> bound", taken, "s", 1.5 * floor, floor)
        queued = sum("job/submit" in call.path for call in self.bridge.calls(began))
        self.note("... of them queued, since Slurm seemed to have no room", queued, "")
        await self.scancel(wanted[: count // 2], bare)
        await self.stage.ended(wanted)

    async def scancel(self, wanted: list[str], floor: float) -> None:
        """One scancel for many running jobs; the floor is what as many bare deletions took."""
        await asyncio.sleep(10)
        jobs = [
            pod.metadata.labels[names.JOB_LABEL]
            for name in wanted
            if (pod := self.stage.pods.get(Key(NAMESPACE, name)))
        ]
        began = time.monotonic()
        await self.stage.slurm.cancel_many(JobSelection(jobs=jobs))
        await self.stage.seen(self.stage.leaving, wanted)
        taken = [self.stage.leaving[name] - began for name in wanted]
        self.note(f"{len(jobs)} running, scancel -> deleted, p95", statistics.quantiles(taken, n=20)[18], "s", 2)
        self.note(f"{len(jobs)} running, scancel -> deleted, last", max(taken), "s", floor=floor)

    async def gang(self) -> None:
        """A gang, a node for each pod: from Slurm's answer to the last binding. Short, so the middle one of a few."""
        count = self.given.gang
        turns = [await self._gang(f"gang{turn}", count) for turn in range(GANGS)]
        floor, taken, since_made = (statistics.median(column) for column in zip(*turns, strict=True))
        self.note(f"gang of {count}, allocation -> all bound", taken, "s", 1.5 * floor, floor)
        self.note(f"gang of {count}, last created -> all bound", since_made, "s")

    async def _gang(self, name: str, count: int) -> tuple[float, float, float]:
        """Seconds of its floor, of the bindings after the allocation, and from the last pod to the last binding."""
        floor = await self.stage.floor_binds([f"n-{number}" for number in range(count)])
        await self.stage.clear_binds(count)
        await self.stage.kube.create(POD_GROUPS, POD_GROUPS.manifest(Key(NAMESPACE, name), spec={"minMember": count}))
        wanted = [f"{name}-{number}" for number in range(count)]
        label = {names.POD_GROUP_LABEL: name}
        began = time.monotonic()
        await many(wanted, lambda pod: self.stage.pod(pod, labels=label))
        made = time.monotonic()
        await self.stage.seen(self.stage.bound, wanted)
        last = max(self.stage.bound[pod] for pod in wanted)
        (allocated,) = [call for call in self.bridge.calls(began) if "job/allocate" in call.path]
        await self.stage.ended(wanted)
        return floor, last - allocated.at, last - made

    async def cordon(self) -> None:
        """Every node is cordoned: until the last host drains."""
        wanted = [f"n-{number}" for number in range(self.given.nodes)]
        closed = {"spec": {"unschedulable": True}}
        began = time.monotonic()
        await many(wanted, lambda name: self.stage.kube.patch(NODES, Key("", name), closed))
        floor = time.monotonic() - began
        await self.stage.hosts(lambda host: host.state.draining, wanted)
        drains = [call for call in self.bridge.calls(began) if call.method == "POST" and "node" in call.path]
        last = max(call.at for call in drains) - began
        self.note(f"{len(wanted)} nodes, last one cordoned -> all drained", last - floor, "s", 5)
        self.note(f"{len(wanted)} nodes, first one cordoned -> all drained", last, "s", floor=floor)
        self.note("... calls to Slurm for that", len(drains), "")
        opened = {"spec": {"unschedulable": False}}
        await many(wanted, lambda name: self.stage.kube.patch(NODES, Key("", name), opened))
        await self.stage.hosts(lambda host: host.state.idle and not host.state.draining, wanted)
        await asyncio.sleep(6)

    async def waiting(self) -> None:
        """What pods cost that wait for nodes, and how soon one starts that need not."""
        count, nodes = self.given.pods, self.given.nodes
        whole = {"nodes": str(nodes), "minimum_nodes": nodes, "maximum_nodes": nodes}
        await self.stage.slurm.allocate(msgspec.structs.replace(JOB, **whole))
        wanted = [f"wait-{number}" for number in range(count)]
        began = time.monotonic()
        await many(wanted, self.stage.pod)
        await self.stage.seen(self.stage.labelled, wanted)
        self.note(f"{count} pods made and queued", time.monotonic() - began, "s")
        await self._settled()
        began, used = time.monotonic(), self.bridge.cpu
        await asyncio.sleep(self.given.minute)
        seconds = time.monotonic() - began
        cpu, calls = self.bridge.cpu - used, self.bridge.calls(began)
        self.calls = dict(Counter(call.kind for call in calls).most_common())
        self.note(f"{count} pending, Slurm calls a minute", len(calls) * 60 / seconds, "", 120)
        self.note(f"{count} pending, of a core", 100 * cpu / seconds, "%", 10)
        self.note(f"{count} pending, memory", self.bridge.memory, "MB", 250)
        quick = [await self._spare(f"small-{number}") for number in range(10)]
        self.note(f"{count} pending, a new small pod starts, slowest of 10", max(quick), "s", 2)
        freed = [await self._freed(f"wait-{number}") for number in range(10)]
        slurm, ours = (max(column) for column in zip(*freed, strict=True))
        self.note(f"{count} pending, Slurm starts one of them -> bound, slowest of 10", ours, "s", 2)
        self.note(f"{count} pending, one of them may start -> Slurm starts it, slowest of 10", slurm, "s")

    async def _settled(self) -> None:
        """Wait until the bridge has nothing left to say about a wave of pods, and asks no more for it."""
        async with asyncio.timeout(600):
            while True:
                began, used = time.monotonic(), self.bridge.cpu
                await asyncio.sleep(10)
                if self.bridge.cpu - used < 0.5 and len(self.bridge.calls(began)) < 30:
                    return

    async def _spare(self, name: str) -> float:
        taken = await self._one(name, annotations=SPARE)
        await self.stage.succeed(name)
        await asyncio.sleep(3)
        return taken

    async def _freed(self, name: str) -> tuple[float, float]:
        """A waiting job gets a free node: seconds until slurmctld starts it, and from then until its pod is bound."""
        job, began = self.stage.job_of(name), time.monotonic()
        await self.stage.slurm.update_job(int(job), JobRequest(partition="dyn"))
        while not (await self.stage.slurm.job_states([job]))[0].state.running:  # noqa: ASYNC110 - nobody tells us
            await asyncio.sleep(0.05)
        started = time.monotonic()
        await self.stage.seen(self.stage.bound, [name], 60)
        taken = started - began, max(0.0, self.stage.bound[name] - started)
        await self.stage.succeed(name)
        await asyncio.sleep(3)
        return taken


def row(line: Line) -> str:
    """A line of the table."""
    limit = "" if line.limit is None else f"< {line.limit:.3g}"
    ratio = "" if not line.floor else f"{line.value / line.floor:.2f}x"
    mark = "" if line.limit is None else "met" if line.met else "MISSED"
    figures = f"{line.value:>9.3f} {line.unit:<2} | {limit:>7} | {line.floor or '':>8} | {ratio:>6} | {mark:<6}"
    return f"| {line.what:<58} | {figures} |"


@contextlib.asynccontextmanager
async def staged(lab: Lab, folder: Path) -> AsyncIterator[tuple[Stage, BridgeProcess]]:
    """An API server of our own, and the bridge between it and the lab's Slurm."""
    key = lab.slurm.jwt_key
    (folder / "key").write_bytes(key)
    settings = {
        "schedulerName": SCHEDULER,
        "slurmRestApi": lab.slurm.url,
        "jwtKeyFile": str(folder / "key"),
        "partition": "ext",
        "leaderElect": False,
    }
    (folder / "settings.yaml").write_text(json.dumps(settings))
    with PlainPlane.running() as plane:
        await _define(plane, plane.plane.binaries.parent / "manifests" / "podgroup-crds.yaml")
        async with (
            connect(plane.kubeconfig, manager="bench") as kube,
            Slurm(lab.slurm.url, MintedToken(lambda: key, "slurm")) as slurm,
        ):
            await kube.apply(NAMESPACES, NAMESPACES.manifest(Key("", "kube-system")), manager="bench")
            await kube.create(NAMESPACES, NAMESPACES.manifest(Key("", NAMESPACE)))
            stage = Stage(kube, slurm)
            watching = asyncio.create_task(stage.runtime.run())
            await stage.pods.wait_synced(60)
            try:
                with BridgeProcess(folder, folder / "settings.yaml", plane.kubeconfig) as bridge:
                    yield stage, bridge
            finally:
                watching.cancel()


async def _define(plane: PlainPlane, crd: Path) -> None:
    command = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), "apply", "--server-side", "-f", str(crd)]
    wait = [*command[:3], "wait", "--for=condition=Established", "crd/podgroups.scheduling.x-k8s.io"]
    for argv in (command, wait):
        done = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.DEVNULL)
        assert await done.wait() == 0


async def measure(lab: Lab, given: argparse.Namespace) -> Bench:
    """Every line, on a stage of its own."""
    with tempfile.TemporaryDirectory(prefix="slinky-bench-") as folder:
        async with staged(lab, Path(folder)) as (stage, bridge):
            bench = Bench(stage, bridge, given)
            try:
                await bench.run()
            except BaseException:
                print((Path(folder) / "bridge.log").read_text()[-3000:], file=sys.stderr)
                raise
            return bench


def main() -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", default="", help="a lab with Slurm beside that runs already")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--gang", type=int, default=256)
    parser.add_argument("--pods", type=int, default=10_000, help="waiting pods")
    parser.add_argument("--rounds", type=int, default=100, help="pods one after the other")
    parser.add_argument("--minute", type=float, default=60, help="seconds to watch waiting pods")
    parser.add_argument("--only", nargs="*", help="single, burst, gang, cordon, waiting; nothing is kept then")
    given = parser.parse_args()
    options = bringup.LabOptions(name="bench-bridge", nodes=0, slurm="beside", slurm_nodes=0, owner=os.getpid())
    lab = Lab.find(given.lab) if given.lab else bringup.up(options, Progress())
    try:
        bench = asyncio.run(measure(lab, given))
    finally:
        if not given.lab:
            bringup.down(lab.name)
    if not given.only:
        found = {"lines": [line._asdict() for line in bench.lines], "calls while waiting": bench.calls}
        RESULTS.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(bench.calls))
    return 0 if all(line.met for line in bench.lines) else 1


if __name__ == "__main__":
    sys.exit(main())
