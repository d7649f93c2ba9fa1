# SPDX-License-Identifier: Apache-2.0
"""Measures the performance of the bridge: `make bench-bridge`.

    make bench-bridge BENCH="--only waiting slow_slurm --nodes 50 --pods 200 --minute 20"

measures single parts at other sizes; without `--only` all parts are measured and the results are stored.

A real API server without kubelets, a real Slurm with external nodes, and the bridge in a process of its own; this
process creates pods and watches them. Each figure belongs to docs/bridge/performance.md and is printed with its limit;
if the limit is a ratio, the floor is the same calls in a plain loop in the same run. All processes share the machine.
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

from bench import bridge_large
from bench.bridge_cluster import JOB, NAMESPACE, SCHEDULER, BenchCluster, for_each, wait_until
from bench.bridge_large import DelayProxy
from bench.bridge_process import BridgeProcess
from slinky.bridge import names
from slinky.bridge.views import POD_GROUPS
from slinky.kube import NAMESPACES, NODES, Key, connect
from slinky.lab import bringup
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.lab import Lab
from slinky.lab.progress import Progress
from slinky.slurm import Busy, JobRequest, JobSelection, MintedToken
from slinky.slurm import SlurmClient as Slurm

RESULTS = Path(__file__).parent / "results" / "bridge.json"
#: Number of gangs, each with its floor: on two cores, equal runs of a third of a second differ by half.
GANGS = 15
#: Pods that come and go while the standby is measured, as a multiple of those that stay.
STANDBY_CHURN = 20
#: How the names of the hosts begin.
PREFIXES = ("n-", "s-", "g-")
#: Requests that take none of slurmctld's locks.
LOCK_FREE = frozenset({"GET diag/", "GET ping/"})
SPARE = {names.OPTION + "partition": "dyn"}


#: The standby is measured without a cluster, before the others; the slow Slurm on a cluster of its own, after them.
STANDBY, SLOW = "standby", "slow_slurm"
#: What is measured, in this order: methods of `Bench` and functions of `bridge_large`.
PARTS = {
    STANDBY: "a replica without the lease, with 20 times --pods pods that come and go",
    "single": "--rounds pods, one after the other",
    "burst": "a pod for each of --nodes nodes at once; then half of their jobs are cancelled",
    "gang": "gangs of --gang pods",
    "large_gang": "a gang with a pod for each of --nodes nodes",
    "cordon": "--nodes nodes are cordoned",
    "devices": "--pods waiting pods with a GPU, while others start for --minute seconds",
    "batch_job": "one batch job with --pods waiting pods, while others start for --minute seconds",
    "waiting": "--pods waiting pods, for --minute seconds: calls to Slurm of two replicas, CPU, memory",
    SLOW: "a pod for each of at most 500 nodes at once, while each call to Slurm takes 0.3 s longer",
}


class Stage(NamedTuple):
    """The cluster, the leader and the standby."""

    cluster: BenchCluster
    leader: BridgeProcess
    standby: BridgeProcess


class Figure(NamedTuple):
    """One measured figure with its limit."""

    what: str
    value: float
    unit: str
    limit: float | None = None
    floor: float | None = None

    @property
    def met(self) -> bool:
        """Whether the limit is kept."""
        return self.limit is None or self.value < self.limit


class Bench:
    """Measures the figures one after the other on one cluster."""

    def __init__(self, stage: Stage, options: argparse.Namespace) -> None:
        self.cluster, self.bridge, self.standby, self.options = *stage, options
        self.figures: list[Figure] = []
        self.calls: dict[str, int] = {}

    def report(
        self, name: str, value: float, unit: str, limit: float | None = None, floor: float | None = None
    ) -> None:
        """Store and print a figure."""
        self.figures.append(Figure(name, round(value, 3), unit, limit, floor if floor is None else round(floor, 3)))
        print(format_row(self.figures[-1]), flush=True)

    async def run(self) -> None:
        """Measure all figures, or those of `--only`."""
        await self.register()
        await self.rest()
        for part in self.options.only or PARTS:
            if part not in (STANDBY, SLOW):
                own = getattr(self, part, None)
                await (own() if own else getattr(bridge_large, part)(self))

    async def register(self) -> None:
        """Create nodes and wait until their hosts are registered."""
        began = time.monotonic()
        ext = await self.cluster.add_nodes("n", self.options.nodes, "ext")
        spare = await self.cluster.add_nodes("s", 2, "dyn")
        await self.cluster.hosts(lambda host: host.state.idle and host.comment, [*ext, *spare])
        self.report(f"{len(ext)} nodes made and registered", time.monotonic() - began, "s")
        await self.wait_until_hosts_are_read()

    async def rest(self) -> None:
        """Count the calls to Slurm while nothing happens."""
        await self.wait_until_quiet()
        began = time.monotonic()
        await asyncio.sleep(self.options.minute)
        self._report_calls(f"{self.options.nodes} nodes at rest", began)

    def _report_calls(self, state: str, began: float) -> None:
        """The calls of both replicas a minute, those that lock slurmctld apart."""
        minutes = (time.monotonic() - began) / 60
        calls = [*self.bridge.calls(began), *self.standby.calls(began)]
        self.calls = dict(Counter(call.kind for call in calls).most_common())
        locking = sum(call.kind not in LOCK_FREE for call in calls)
        self.report(f"{state}, two replicas, locking calls a minute", locking / minutes, "", 30)
        self.report(f"{state}, two replicas, all calls a minute", len(calls) / minutes, "", 120)
        self.report(f"{state}, calls of the standby", len(self.standby.calls(began)), "", 1)

    async def single(self) -> None:
        """Create one pod after the other on an idle cluster."""
        seconds = [await self._create_and_bind(f"one-{number}") for number in range(self.options.rounds)]
        await self.cluster.end_pods([f"one-{number}" for number in range(self.options.rounds)])
        floor_seconds = [await self.cluster.floor_pod(f"floor-{number}") for number in range(self.options.rounds)]
        await self.clear_floor(self.options.rounds)
        floor = statistics.median(floor_seconds) * 1000
        self.report("1 pod, create -> bound, p50", statistics.median(seconds) * 1000, "ms", 150, floor)
        self.report("1 pod, create -> bound, p99", statistics.quantiles(seconds, n=100)[98] * 1000, "ms", 1000)

    async def clear_floor(self, count: int) -> None:
        """Remove pods and jobs of a floor, and wait until the bridge has read that the hosts are idle.

        While jobs change, the bridge rarely reads a list of a thousand hosts; until then it would queue jobs that could
        start at once.
        """
        await self.cluster.clear_floor(count)
        await self.cluster.hosts(lambda host: host.state.idle, (f"n-{number}" for number in range(self.options.nodes)))
        await self.wait_until_hosts_are_read()

    async def wait_until_hosts_are_read(self) -> None:
        """Wait until the bridge has read a list of hosts that it requested from now on."""
        now = time.monotonic()

        def is_read() -> bool:
            return any(call.kind == "GET nodes/" and call.at - call.seconds > now for call in self.bridge.calls(now))

        await wait_until(is_read, every=0.5)

    async def _create_and_bind(self, name: str, **meta: dict[str, str]) -> float:
        began = time.monotonic()
        await self.cluster.pod(name, **meta)
        await self.cluster.wait_for(self.cluster.bound, [name])
        return self.cluster.bound[name] - began

    async def burst(self) -> None:
        """Create a pod for every node at once, then cancel half of the jobs."""
        count = self.options.nodes
        floor = await self.cluster.floor_pods(count)
        floor_seconds = await self.cluster.floor_deletes(f"floor-{number}" for number in range(count // 2))
        await self.clear_floor(count)
        pods = [f"burst-{number}" for number in range(count)]
        began = time.monotonic()
        await for_each(pods, self.cluster.pod)
        await self.cluster.wait_for(self.cluster.bound, pods)
        seconds = max(self.cluster.bound[name] for name in pods) - began
        self.report(f"{count} pods, create -> bound", seconds, "s", 1.5 * floor, floor)
        queued = sum("job/submit" in call.path for call in self.bridge.calls(began))
        self.report("... of them queued, since Slurm seemed to have no room", queued, "")
        await self.scancel(pods[: count // 2], floor_seconds)
        await self.cluster.end_pods(pods)

    async def scancel(self, pods: list[str], floor: float) -> None:
        """Cancel many running jobs with one request; the floor is the time of as many deletions in a plain loop."""
        await asyncio.sleep(10)
        jobs = [
            pod.metadata.labels[names.JOB_LABEL]
            for name in pods
            if (pod := self.cluster.pods.get(Key(NAMESPACE, name)))
        ]
        began = time.monotonic()
        await self.cluster.slurm.cancel_many(JobSelection(jobs=jobs))
        await self.cluster.wait_for(self.cluster.leaving, pods)
        seconds = [self.cluster.leaving[name] - began for name in pods]
        self.report(f"{len(jobs)} running, scancel -> deleted, p95", statistics.quantiles(seconds, n=20)[18], "s", 2)
        self.report(f"{len(jobs)} running, scancel -> deleted, last", max(seconds), "s", floor=floor)

    async def gang(self) -> None:
        """Create gangs with a node for each pod: median time from Slurm's response to the last binding."""
        count = self.options.gang
        rounds = [await self._gang(f"gang{round_}", count) for round_ in range(GANGS)]
        floor, seconds, since_creation = (statistics.median(column) for column in zip(*rounds, strict=True))
        self.report(f"gang of {count}, allocation -> all bound", seconds, "s", 1.5 * floor, floor)
        self.report(f"gang of {count}, last created -> all bound", since_creation, "s")

    async def _gang(self, name: str, count: int) -> tuple[float, float, float]:
        """Seconds of the floor, from allocation to last binding, and from last creation to last binding."""
        floor = await self.cluster.floor_binds([f"n-{number}" for number in range(count)])
        await self.cluster.clear_binds(count)
        await self.cluster.kube.create(POD_GROUPS, POD_GROUPS.manifest(Key(NAMESPACE, name), spec={"minMember": count}))
        pods = [f"{name}-{number}" for number in range(count)]
        label = {names.POD_GROUP_LABEL: name}
        began = time.monotonic()
        await for_each(pods, lambda pod: self.cluster.pod(pod, labels=label))
        created = time.monotonic()
        await self.cluster.wait_for(self.cluster.bound, pods)
        last = max(self.cluster.bound[pod] for pod in pods)
        (allocated,) = [call for call in self.bridge.calls(began) if "job/allocate" in call.path]
        await self.cluster.end_pods(pods)
        return floor, last - allocated.at, last - created

    async def cordon(self) -> None:
        """Cordon every node, until the last host is drained."""
        nodes = [f"n-{number}" for number in range(self.options.nodes)]
        closed = {"spec": {"unschedulable": True}}
        began = time.monotonic()
        await for_each(nodes, lambda name: self.cluster.kube.patch(NODES, Key("", name), closed))
        floor = time.monotonic() - began
        await self.cluster.hosts(lambda host: host.state.draining, nodes)
        drains = [call for call in self.bridge.calls(began) if call.method == "POST" and "node" in call.path]
        last = max(call.at for call in drains) - began
        self.report(f"{len(nodes)} nodes, last one cordoned -> all drained", last - floor, "s", 5)
        self.report(f"{len(nodes)} nodes, first one cordoned -> all drained", last, "s", floor=floor)
        self.report("... calls to Slurm for that", len(drains), "")
        opened = {"spec": {"unschedulable": False}}
        await for_each(nodes, lambda name: self.cluster.kube.patch(NODES, Key("", name), opened))
        await self.cluster.hosts(lambda host: host.state.idle and not host.state.draining, nodes)
        await self.wait_until_hosts_are_read()

    async def waiting(self) -> None:
        """Load of waiting pods, and how soon a pod starts that need not wait."""
        count, nodes = self.options.pods, self.options.nodes
        size = {"nodes": str(nodes), "minimum_nodes": nodes, "maximum_nodes": nodes}
        await self.cluster.slurm.allocate(msgspec.structs.replace(JOB, **size))
        pods = [f"wait-{number}" for number in range(count)]
        began = time.monotonic()
        await for_each(pods, self.cluster.pod)
        await self.cluster.wait_for(self.cluster.labelled, pods)
        self.report(f"{count} pods made and queued", time.monotonic() - began, "s")
        await self.wait_until_quiet()
        began, used = time.monotonic(), self.bridge.cpu
        await asyncio.sleep(self.options.minute)
        cpu, seconds = self.bridge.cpu - used, time.monotonic() - began
        self._report_calls(f"{count} pending", began)
        self.report(f"{count} pending, of a core", 100 * cpu / seconds, "%", 10)
        self.report(f"{count} pending, memory", self.bridge.memory, "MB", 250)
        starts = [await self._start_small_pod(f"small-{number}") for number in range(10)]
        self.report(f"{count} pending, a new small pod starts, slowest of 10", max(starts), "s", 2)
        releases = [await self._start_pending_pod(f"wait-{number}") for number in range(10)]
        slurm, bridge = (max(column) for column in zip(*releases, strict=True))
        self.report(f"{count} pending, Slurm starts one of them -> bound, slowest of 10", bridge, "s", 2)
        self.report(f"{count} pending, one of them may start -> Slurm starts it, slowest of 10", slurm, "s")

    async def wait_until_quiet(self) -> None:
        """Wait until the bridge has written all conditions of new pods and sends few requests."""
        async with asyncio.timeout(600):
            while True:
                began, used = time.monotonic(), self.bridge.cpu
                await asyncio.sleep(10)
                if self.bridge.cpu - used < 0.5 and len(self.bridge.calls(began)) < 30:
                    return

    async def _start_small_pod(self, name: str) -> float:
        seconds = await self._create_and_bind(name, annotations=SPARE)
        await self.cluster.succeed(name)
        await asyncio.sleep(3)
        return seconds

    async def _start_pending_pod(self, name: str) -> tuple[float, float]:
        """Give a pending job an idle node: seconds until slurmctld starts it, and from then until its pod is bound."""
        job, began = self.cluster.job_of(name), time.monotonic()
        await self.cluster.slurm.update_job(int(job), JobRequest(partition="dyn"))
        while not (await self.cluster.slurm.job_states([job]))[0].state.running:  # noqa: ASYNC110 - Slurm sends no event
            await asyncio.sleep(0.05)
        started = time.monotonic()
        await self.cluster.wait_for(self.cluster.bound, [name], 60)
        seconds = started - began, max(0.0, self.cluster.bound[name] - started)
        await self.cluster.succeed(name)
        await asyncio.sleep(3)
        return seconds


def format_row(figure: Figure) -> str:
    """A row of the printed table."""
    limit = "" if figure.limit is None else f"< {figure.limit:.3g}"
    ratio = "" if not figure.floor else f"{figure.value / figure.floor:.2f}x"
    verdict = "" if figure.limit is None else "met" if figure.met else "MISSED"
    figures = (
        f"{figure.value:>9.3f} {figure.unit:<2} | {limit:>7} | {figure.floor or '':>8} | {ratio:>6} | {verdict:<6}"
    )
    return f"| {figure.what:<58} | {figures} |"


@contextlib.asynccontextmanager
async def start_bridges(lab: Lab, folder: Path, slurm_url: str) -> AsyncIterator[Stage]:
    """Start an API server, and two replicas of the bridge between it and Slurm; the first one leads."""
    key = lab.slurm.jwt_key
    (folder / "key").write_bytes(key)
    settings = {
        "schedulerName": SCHEDULER,
        "slurmRestApi": slurm_url,
        "jwtKeyFile": str(folder / "key"),
        "partition": "ext",
        "leaseNamespace": NAMESPACE,
    }
    path = folder / "settings.yaml"
    path.write_text(json.dumps(settings))
    async with contextlib.AsyncExitStack() as stack:
        plane = stack.enter_context(BarePlane.running())
        await _apply_crd(plane, plane.plane.binaries.parent / "manifests" / "podgroup-crds.yaml")
        kube = await stack.enter_async_context(connect(plane.kubeconfig, manager="bench"))
        slurm = await stack.enter_async_context(Slurm(slurm_url, MintedToken(lambda: key, "slurm")))
        await kube.apply(NAMESPACES, NAMESPACES.manifest(Key("", "kube-system")), manager="bench")
        await kube.create(NAMESPACES, NAMESPACES.manifest(Key("", NAMESPACE)))
        cluster = BenchCluster(kube, slurm)
        watching = asyncio.create_task(cluster.runtime.run())
        stack.callback(watching.cancel)
        await cluster.pods.wait_synced(60)
        leader = stack.enter_context(BridgeProcess(folder / "leader", path, plane.kubeconfig))
        await wait_until(lambda: bool(leader.calls()), every=0.5)
        yield Stage(cluster, leader, stack.enter_context(BridgeProcess(folder / "standby", path, plane.kubeconfig)))


async def _apply_crd(plane: BarePlane, crd: Path) -> None:
    command = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), "apply", "--server-side", "-f", str(crd)]
    wait = [*command[:3], "wait", "--for=condition=Established", "crd/podgroups.scheduling.x-k8s.io"]
    for argv in (command, wait):
        done = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.DEVNULL)
        assert await done.wait() == 0


async def measure(lab: Lab, options: argparse.Namespace) -> Bench:
    """Measure all figures on a new cluster, and those of a slow Slurm on another."""
    with tempfile.TemporaryDirectory(prefix="slinky-bench-") as folder:
        async with _bench(lab, Path(folder), lab.slurm.url, options) as bench:
            if STANDBY in (options.only or PARTS):
                await measure_standby(bench)
            if set(options.only or PARTS) - {STANDBY, SLOW}:
                await bench.run()
    await remove_hosts(lab)
    if SLOW in (options.only or PARTS):
        async with DelayProxy(lab.slurm.url) as proxy:
            with tempfile.TemporaryDirectory(prefix="slinky-bench-") as folder:
                async with _bench(lab, Path(folder), proxy.url, options) as slow:
                    await slow.register()
                    await bridge_large.slow_slurm(slow, proxy)
                    bench.figures += slow.figures
    return bench


async def measure_standby(bench: Bench) -> None:
    """Measure a replica without the lease, in a process of its own."""
    pods = bench.options.pods
    sizes = ("--pods", str(STANDBY_CHURN * pods), "--kept", str(pods))
    argv = (sys.executable, "-m", "bench.bridge_standby", "--json", *sizes)
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"bench.bridge_standby ended with {process.returncode}")
    for what, value, unit, limit in json.loads(output):
        bench.report(what, value, unit, limit)


async def remove_hosts(lab: Lab) -> None:
    """Remove the jobs and hosts of a cluster: those of another cluster would have the same names."""
    async with Slurm(lab.slurm.url, MintedToken(lambda: lab.slurm.jwt_key, "slurm")) as slurm, asyncio.timeout(120):
        await slurm.cancel_many(JobSelection(user_name="slurm"))
        listing = await slurm.nodes()
        hosts = [host.name for host in (listing.items if listing else ()) if host.name.startswith(PREFIXES)]
        while True:
            with contextlib.suppress(Busy):
                return await slurm.delete_nodes(*hosts)
            await asyncio.sleep(1)


@contextlib.asynccontextmanager
async def _bench(lab: Lab, folder: Path, url: str, options: argparse.Namespace) -> AsyncIterator[Bench]:
    async with start_bridges(lab, folder, url) as stage:
        try:
            yield Bench(stage, options)
        except BaseException:
            print((folder / "leader" / "bridge.log").read_text()[-3000:], file=sys.stderr)
            raise


def main() -> int:
    """Measure and print the figures, and store the results."""
    parts = "\n".join(f"  {part:<12} {text}" for part, text in PARTS.items())
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=f"parts:\n{parts}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--lab", default="", help="name of a running lab with Slurm")
    parser.add_argument("--nodes", type=int, default=1000, help="nodes (default: 1000)")
    parser.add_argument("--gang", type=int, default=256, help="pods of a gang, at most --nodes (default: 256)")
    parser.add_argument("--pods", type=int, default=10_000, help="waiting pods (default: 10000)")
    parser.add_argument("--rounds", type=int, default=100, help="pods one after the other (default: 100)")
    parser.add_argument("--minute", type=float, default=60, help="seconds to watch waiting pods (default: 60)")
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, metavar="PART", help="measure only these parts; the results are not stored"
    )
    options = parser.parse_args()
    if min(options.nodes, options.gang, options.pods - 9, options.rounds - 1, options.minute) <= 0:
        parser.error("at least 1 node and pod of a gang, 2 rounds, 10 waiting pods and a part of a second are needed")
    if options.gang > options.nodes and "gang" in (options.only or PARTS):
        parser.error(f"a gang of {options.gang} pods needs as many nodes; there are {options.nodes}")
    lab_options = bringup.LabOptions(name="bench-bridge", nodes=0, slurm="beside", slurm_nodes=0, owner=os.getpid())
    lab = Lab.find(options.lab) if options.lab else bringup.up(lab_options, Progress())
    try:
        bench = asyncio.run(measure(lab, options))
    finally:
        if not options.lab:
            bringup.down(lab.name)
    if not options.only:
        results = {"lines": [figure._asdict() for figure in bench.figures], "calls while waiting": bench.calls}
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps(bench.calls))
    return 0 if all(figure.met for figure in bench.figures) else 1


if __name__ == "__main__":
    sys.exit(main())
