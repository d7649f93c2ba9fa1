# SPDX-License-Identifier: Apache-2.0
"""The mirror at 10,000 running jobs and 5,000 nodes, on a real Slurm: bytes, detection, memory, stalls.

    python bench/core_slurm.py [--url http://127.0.0.1:6820 --key /path/to/jwt_hs256.key] [--jobs N --nodes N]

A first process fills the cluster, a fresh one mirrors it, so that the memory is the mirror's own. Prints a
table of ratios (measured / allowed: below 1 is good) and writes JSON. It removes what it made. A stall is
counted in processor time, since on a shared machine others' work would show as ours; the wall clock's
figure is printed beside it.
"""

import argparse
import asyncio
import contextlib
import gc
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from slinky.slurm import (
    Feed,
    JobRequest,
    JobSelection,
    MintedToken,
    Mirror,
    ObjectKind,
    Rejected,
    RequestRecord,
    SlurmClient,
    SlurmNotFound,
    expand,
    node_conf,
    number,
)

#: What was promised.
ALLOWED = {
    "idle bytes per minute / one full job list": 0.01,
    "detection while moving, slowest (s)": 1.5,
    "memory (MB)": 60.0,
    "longest stall of the event loop (ms)": 50.0,
}
JOB = JobRequest(
    name="bench",
    partition="ext",
    account="lab",
    flags=["EXTERNAL_JOB"],
    current_working_directory="/",
    tasks=1,
    cpus_per_task=8,
    memory_per_node=number(1000),
    tres_per_node="gres/gpu:1",
)
CHANGES = 20
RESULTS = Path(__file__).parent / "results" / "core_slurm.json"


def client(args: argparse.Namespace, seen: list[RequestRecord] | None = None) -> SlurmClient:
    key = args.key.read_bytes()
    observe = None if seen is None else seen.append
    return SlurmClient(args.url, MintedToken(lambda: key, "slurm"), observe=observe)


async def fill(args: argparse.Namespace) -> None:
    """Make the nodes and start the jobs that are missing."""
    async with client(args) as slurm:
        names = f"e[00001-{args.nodes:05d}]"
        try:
            await slurm.node(expand(names)[-1])
        except SlurmNotFound:
            await slurm.create_node(
                node_conf(
                    names, NodeAddr="127.0.0.1", CPUs=64, Boards=1, SocketsPerBoard=2, CoresPerSocket=32,
                    ThreadsPerCore=1, RealMemory=256000, State="EXTERNAL", Feature="ext", Gres="gpu:h100:8",
                )
            )  # fmt: skip
        missing = args.jobs - sum(status.state.running for status in await slurm.job_states())
        todo = iter(range(missing))

        async def start() -> None:
            for _ in todo:
                await slurm.allocate(JOB)

        await asyncio.gather(*(start() for _ in range(6)))


async def empty(args: argparse.Namespace) -> None:
    """Remove what `fill` made."""
    async with client(args) as slurm:
        await slurm.cancel_many(JobSelection(job_name="bench"))
        for _ in range(20):
            with contextlib.suppress(Rejected):
                await slurm.delete_nodes(*expand(f"e[00001-{args.nodes:05d}]"))
                return
            await asyncio.sleep(1)


def memory(what: str) -> float:
    """A figure of /proc/self/status in MB."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(what)]
    return int(line.split()[1]) / 1024


class Stalls:
    """The longest stretch of work between two turns of a task that wants to run every few milliseconds."""

    def __init__(self) -> None:
        self.busy = 0.0
        self.late = 0.0

    async def watch(self) -> None:
        while True:
            wall, busy = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0.002)
            self.late = max(self.late, time.perf_counter() - wall - 0.002)
            self.busy = max(self.busy, time.thread_time() - busy)


async def full_list_bytes(slurm: SlurmClient, seen: list[RequestRecord], count: int) -> int:
    """What one full list of jobs would weigh, from a sample: reading it takes slurmrestd 11 GB."""
    ids = [status.job_id for status in await slurm.job_states() if status.state.running]
    start = len(seen)
    for job in ids[:: max(1, len(ids) // 50)]:
        await slurm.job(job)
    sizes = [exchange.received for exchange in seen[start:]]
    return int(statistics.mean(sizes)) * count


async def measure(args: argparse.Namespace) -> dict[str, float]:
    seen: list[RequestRecord] = []
    stalls = Stalls()
    watching = asyncio.create_task(stalls.watch())
    async with client(args, seen) as slurm, client(args) as other, Mirror(slurm) as mirror:
        started = time.perf_counter()
        await mirror.synced(deadline=120)
        first = time.perf_counter() - started
        gc.freeze()
        await asyncio.sleep(10)
        calm, requests = sum(exchange.received for exchange in seen), len(seen)
        await asyncio.sleep(args.idle)
        idle = (sum(exchange.received for exchange in seen) - calm) * 60 / args.idle
        asked = (len(seen) - requests) * 60 / args.idle
        delays = await detections(other, mirror)
        result = {
            "jobs": len(mirror.jobs),
            "nodes": len(mirror.nodes),
            "first sync (s)": first,
            "requests per idle minute": asked,
            "bytes per idle minute": idle,
            "detection from idleness (s)": delays[0],
            "detection while moving, median (s)": statistics.median(delays[1:]),
            "detection while moving, slowest (s)": max(delays[1:]),
            "memory (MB)": memory("VmRSS"),
            "memory, peak (MB)": memory("VmHWM"),
            "longest stall of the event loop (ms)": stalls.busy * 1000,
            "the same by the wall clock (ms)": stalls.late * 1000,
        }
        weight = await full_list_bytes(slurm, seen, args.jobs)
    watching.cancel()
    return result | {
        "one full job list (bytes, estimated)": weight,
        "idle bytes per minute / one full job list": idle / weight,
    }


async def detections(slurm: SlurmClient, mirror: Mirror) -> list[float]:
    """Seconds from slurmctld's answer to a change until the mirror tells of it, untracked, without a poke."""
    delays = []
    with mirror.subscribe(ObjectKind.JOB) as feed:
        for _ in range(CHANGES // 2):
            job = (await slurm.allocate(JOB)).job_id
            delays.append(await told(feed, job))
            await slurm.cancel(job)
            delays.append(await told(feed, job))
    return delays


async def told(feed: Feed, job: int) -> float:
    """Seconds until a feed tells of this job."""
    done = time.perf_counter()
    async with asyncio.timeout(60):
        while (await feed.next()).key != str(job):
            pass
    return time.perf_counter() - done


def show(result: dict[str, float]) -> None:
    width = max(map(len, result))
    print(f"{'':{width}}  {'measured':>14}  {'allowed':>10}  ratio")
    for name, value in result.items():
        allowed = ALLOWED.get(name)
        text = f"{value:,.4f}" if value < 10 else f"{value:,.0f}"
        bound = "" if allowed is None else f"{allowed:>10,g}  {value / allowed:.2f}"
        print(f"{name:{width}}  {text:>14}  {bound}")


def run(args: argparse.Namespace) -> dict[str, float]:
    """Fill, measure, empty, each in a process of its own."""
    size = ["--jobs", str(args.jobs), "--nodes", str(args.nodes), "--idle", str(args.idle)]
    again = [sys.executable, __file__, "--url", args.url, "--key", str(args.key), *size, "--phase"]
    try:
        subprocess.run([*again, "fill"], check=True)
        measured = subprocess.run([*again, "measure"], check=True, stdout=subprocess.PIPE, text=True).stdout
        result: dict[str, float] = json.loads(measured)
        return result
    finally:
        if not args.keep:
            subprocess.run([*again, "empty"], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="slurmrestd; without it, a lab is made for the run")
    parser.add_argument("--key", type=Path, help="the jwt key of the cluster")
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--idle", type=float, default=60.0, help="seconds of idleness to measure")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where to write")
    parser.add_argument("--keep", action="store_true", help="leave nodes and jobs where they are")
    parser.add_argument("--phase", choices=["fill", "measure", "empty"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.phase == "measure":
        print(json.dumps(asyncio.run(measure(args))))
        return 0
    if args.phase:
        asyncio.run({"fill": fill, "empty": empty}[args.phase](args))
        return 0
    with contextlib.ExitStack() as stack:
        if not args.url:
            from bench.slurm_lab import started  # noqa: PLC0415 - its imports would count as the mirror's memory

            args.url, args.key = stack.enter_context(started())
        result = run(args)
    show(result)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps({"measured": result, "allowed": ALLOWED}, indent=1))
    return 1 if any(result[name] > allowed for name, allowed in ALLOWED.items()) else 0


if __name__ == "__main__":
    sys.exit(main())
