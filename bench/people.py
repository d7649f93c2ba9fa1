# SPDX-License-Identifier: Apache-2.0
"""The page and the command at 10,000 pending and 4,000 running jobs on 5,000 nodes; writes bench/results/people.json.

First bytes of each page, and the cost of 200 open pages: a client of its own process reads the pages over HTTP, so that
only the CPU time of the server counts. Explanations, and the start of the command: see `bench.people_command`.
"""

import asyncio
import dataclasses
import json
import multiprocessing
import sys
import time
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import aiohttp
from msgspec import structs

from bench.forecast import cluster
from bench.people_command import explain_seconds, first_request_seconds, start_seconds
from slinky.api.fields.autoscaling import Autoscaling, AutoscalingStatus, ScalingDecisionRecord
from slinky.api.fields.conditions import DEGRADED, PROGRESSING, READY
from slinky.api.fields.refs import LocalRef
from slinky.api.nodeset import NodeSet, NodeSetPartition, NodeSetSpec, NodeSetStatus
from slinky.insight.forecast import StartRange, forecast
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.kube import Condition, ObjectMeta
from slinky.observe import SystemClock
from slinky.slurm import Mirror, SlurmClient
from slinky.web.cluster_feed import SHARE, SHORTEST_SECONDS, ClusterFeed
from slinky.web.login import LoginRules
from slinky.web.page_data import KnownNodeSets, PageData
from slinky.web.server import PageServer, serve_page
from slinky.web.settings import WebSettings

ADDRESSES = ("/", "/queue", "/queue?state=pending&partition=gpu&page=20", "/queue?state=running", "/jobs/5000",
             "/jobs/1000001", "/nodes", "/nodes?group=partition&page=3", "/nodes/n00001", "/nodesets",
             "/accounts", "/whatif", "/whatif?drain=n00001")  # fmt: skip
FIRST_BYTE_LIMIT, START_LIMIT = 0.1, 0.15
RESULTS = Path(__file__).parent / "results" / "people.json"
PAGES, SECONDS, CHANGES_PER_SECOND, LIVE_LIMIT = 200, 30, 100, 0.1


class Figure(NamedTuple):
    """One CPU time in seconds, or a share of a core, and its limit; a figure without a limit is only reported."""

    name: str
    value: float
    limit: float | None = None

    def line(self) -> str:
        """The figure for people."""
        limit = "" if self.limit is None else f" (limit {self.limit * 1000:.0f})"
        return f"{self.name:55} {self.value * 1000:5.0f} ms of CPU{limit}"


def main() -> int:
    """Print the CPU times and store them; fail above the limits."""
    snapshot = cluster(seed=1)
    figures = [Figure(*entry, START_LIMIT) for entry in start_seconds()]
    figures += [Figure(*entry, START_LIMIT) for entry in first_request_seconds()]
    figures += [Figure(*entry) for entry in explain_seconds(snapshot)]
    figures += asyncio.run(_measure(snapshot))
    for figure in figures:
        print(figure.line())
    RESULTS.write_text(json.dumps([figure._asdict() for figure in figures], indent=1) + "\n")
    exceeded = [figure.name for figure in figures if figure.limit is not None and figure.value > figure.limit]
    print(f"above the limit: {', '.join(exceeded)}" if exceeded else "every limit is met")
    return int(bool(exceeded))


async def _measure(snapshot: QueueSnapshot) -> list[Figure]:
    ranges = forecast(snapshot)
    async with SlurmClient("http://127.0.0.1:9", "token") as client:
        feed = ClusterFeed(client, Mirror(client), SystemClock())
        server = PageServer(feed, LoginRules.of(WebSettings(insecure_loopback=True)))
        async with serve_page(server, "127.0.0.1", 0) as port:
            figures = []
            for address in ADDRESSES:
                seconds = await _first_byte(feed, snapshot, ranges, port, address)
                figures.append(Figure(f"first byte of {address}", seconds, FIRST_BYTE_LIMIT))
            share = await _live_share(feed, snapshot, ranges, port)
    name = f"a second of {PAGES} open pages, {CHANGES_PER_SECOND} jobs change"
    return [*figures, Figure(name, share, LIVE_LIMIT)]


def _data(snapshot: QueueSnapshot, ranges: Mapping[int, StartRange], serial: int) -> PageData:
    """New data without anything that was computed for the data before."""
    fresh = dataclasses.replace(snapshot)
    return PageData(snapshot=fresh, whole=fresh, ranges=ranges, node_sets=node_sets(), cluster="bench", serial=serial)


def node_sets(count: int = 60) -> KnownNodeSets:
    """NodeSets with everything that their page shows."""
    return KnownNodeSets(tuple(_node_set(f"set-{number:02}") for number in range(count)))


def _node_set(name: str) -> NodeSet:
    when, text = "2026-11-18T01:00:00Z", "pending jobs need 4 more workers, first of all job 5000"
    conditions = tuple(
        Condition(kind, value, "Starting", text, when)
        for kind, value in ((READY, "False"), (PROGRESSING, "True"), (DEGRADED, "True"))
    )
    scaling = AutoscalingStatus(
        replicas=80, next_replicas=84, reason="PendingJobs", message=text,
        impossible_jobs=("Job 5001: it requests 9 GPUs per node",) * 20,
        decisions=(ScalingDecisionRecord(when, 76, 80, "PendingJobs", text),) * 20,
    )  # fmt: skip
    spec = NodeSetSpec(
        LocalRef("bench"), replicas=80, autoscaling=Autoscaling(100), partition=NodeSetPartition(enabled=True)
    )
    status = NodeSetStatus(
        conditions=conditions, replicas=80, ready_replicas=79, desired=80, updated_replicas=70, slurm_idle=9,
        slurm_allocated=70, slurm_down=1, current_revision=f"{name}-1", update_revision=f"{name}-2",
        autoscaling=scaling,
    )  # fmt: skip
    return NodeSet(ObjectMeta(name, "bench"), spec, status)


async def _first_byte(
    feed: ClusterFeed, snapshot: QueueSnapshot, ranges: Mapping[int, StartRange], port: int, address: str
) -> float:
    """The smallest CPU time of three requests for a page whose data was never shown, in seconds."""
    times = []
    for serial in range(3):
        feed.data = _data(snapshot, ranges, (feed.data.serial if feed.data else 0) + serial + 1)
        receiver, sender = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("spawn").Process(target=_request, args=(port, address, sender))
        begin = time.process_time()
        process.start()
        await asyncio.to_thread(receiver.recv)
        times.append(time.process_time() - begin)
        await asyncio.to_thread(process.join)
    return min(times)


def _request(port: int, address: str, sender: Connection) -> None:
    async def read() -> int:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session, session.get(address) as response:
            response.raise_for_status()
            return len(await response.read())

    sender.send(asyncio.run(read()))


async def _live_share(feed: ClusterFeed, snapshot: QueueSnapshot, ranges: Mapping[int, StartRange], port: int) -> float:
    """The share of a core that the server takes while pages are open and jobs change."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=_watch, args=(port, sender), daemon=True)
    process.start()
    await asyncio.to_thread(receiver.recv)
    changing = _changes(snapshot)
    begin, cpu = time.monotonic(), time.process_time()
    while time.monotonic() - begin < SECONDS:
        round_begin = time.thread_time()
        assert feed.data is not None
        await feed.offer(_data(next(changing), ranges, feed.data.serial + 1))
        spent = time.thread_time() - round_begin
        # The pace of ClusterFeed itself.
        await asyncio.sleep(max(SHORTEST_SECONDS, spent / SHARE))
    share = (time.process_time() - cpu) / (time.monotonic() - begin)
    process.terminate()
    return share


def _changes(snapshot: QueueSnapshot) -> Iterator[QueueSnapshot]:
    """The snapshot with several hundred other jobs running each time."""
    jobs, count = list(snapshot.jobs), int(CHANGES_PER_SECOND * SHORTEST_SECONDS)
    start = 4000
    while True:
        for index in range(start, start + count):
            job = jobs[index % len(jobs)]
            state = ("RUNNING",) if job.state.pending else ("PENDING",)
            jobs[index % len(jobs)] = structs.replace(job, job_state=state)
        start += count
        yield dataclasses.replace(snapshot, jobs=tuple(jobs))


def _watch(port: int, sender: Connection) -> None:
    """Keep pages open, a fifth each of five addresses; send their number when each has its first bytes."""
    opened = 0

    async def watch(session: aiohttp.ClientSession, address: str) -> None:
        nonlocal opened
        async with session.get("/live", params={"address": address}) as response:
            await response.content.readany()
            opened += 1
            if opened == PAGES:
                sender.send(opened)
            async for _ in response.content.iter_any():
                pass

    async def all_pages() -> None:
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", connector=connector, timeout=timeout) as session:
            await asyncio.gather(*(watch(session, ADDRESSES[number % 5]) for number in range(PAGES)))

    asyncio.run(all_pages())


if __name__ == "__main__":
    sys.exit(main())
