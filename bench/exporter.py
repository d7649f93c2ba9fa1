# SPDX-License-Identifier: Apache-2.0
"""The exporter at 10,000 jobs and 5,000 nodes, on a real Slurm: cost of a scrape, memory, calls to Slurm at rest.

    python -m bench.exporter [--url http://127.0.0.1:6820 --key /path/to/jwt_hs256.key] [--jobs N --nodes N]

The exporter is a process of its own, as in a cluster. Prints measured figures, what is allowed and their ratio (below 1
is good), and writes JSON. Processor time is measured, not the wall clock, so that other work on the machine matters
little.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from bench.core_slurm import empty, fill
from slinky.lab.kubernetes.bare_plane import free_port

#: What is promised in docs/observe.md.
ALLOWED = {
    "processor time of a scrape (s)": 0.3,
    "memory (MB)": 150.0,
    # None; a handful of polls that fall to one side of an edge of a window is all that may differ.
    "calls to Slurm for a scrape": 0.05,
    "calls to Slurm in a minute at rest": 40.0,
}
#: Scrapes of which the processor time is measured.
SCRAPES = 20
#: Seconds in which an exporter at rest sends no more requests than allowed.
REST_WINDOW = 6.0
RESULTS = Path(__file__).parent / "results" / "exporter.json"
TICKS = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def running(args: argparse.Namespace, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The exporter, with series of accounts."""
    argv: list[str | Path] = [Path(sys.executable).with_name("slinky"), "exporter", f"--slurm-rest-api={args.url}"]
    argv += [f"--jwt-key-file={args.key}", f"--metrics-addr=127.0.0.1:{port}", "--health-addr=0"]
    process = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def processor_seconds(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(pid: int, what: str) -> float:
    """A figure of the status of a process in MB."""
    (line,) = [text for text in Path(f"/proc/{pid}/status").read_text().splitlines() if text.startswith(what)]
    return int(line.split()[1]) / 1024


class Scraper:
    """Scrapes the exporter."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session, self._url = session, f"http://127.0.0.1:{port}/metrics"

    async def scrape(self) -> str:
        async with self._session.get(self._url) as response:
            return await response.text()

    async def total(self, name: str, **labels: str) -> float:
        """The sum of the series of a metric that have these labels."""
        return sum(
            sample.value
            for family in text_string_to_metric_families(await self.scrape())
            for sample in family.samples
            if sample.name == f"slinky_slurm_{name}" and labels.items() <= sample.labels.items()
        )

    async def wait_total(self, name: str, least: float, **labels: str) -> None:
        """Wait until a sum has reached a number."""
        async with asyncio.timeout(1800):
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    if await self.total(name, **labels) >= least:
                        return
                await asyncio.sleep(2)

    async def calls_during(self, seconds: float, *, scraped: bool) -> tuple[float, int]:
        """The requests of the exporter to Slurm in a window, and the scrapes in it, one after the other if `scraped`.

        Polls with a period of a minute may fall to either side of an edge: many scrapes make that error small.
        """
        before, end, scrapes = await self.total("exporter_requests_total"), time.monotonic() + seconds, 0
        while scraped and time.monotonic() < end:
            await self.scrape()
            scrapes += 1
        await asyncio.sleep(max(0.0, end - time.monotonic()))
        return await self.total("exporter_requests_total") - before, scrapes

    async def wait_rest(self) -> None:
        """Wait until the exporter only polls: the first reads have caused others."""
        allowed = ALLOWED["calls to Slurm in a minute at rest"] * REST_WINDOW / 60
        calls = await self.total("exporter_requests_total")
        async with asyncio.timeout(600):
            while True:
                await asyncio.sleep(REST_WINDOW)
                before, calls = calls, await self.total("exporter_requests_total")
                if calls - before <= allowed:
                    return


async def measure(args: argparse.Namespace) -> dict[str, float]:
    """Start the exporter, wait until it has read every job, and measure it at rest."""
    port = free_port()
    with running(args, port) as process:
        async with aiohttp.ClientSession() as session:
            scraper, started = Scraper(session, port), time.monotonic()
            await scraper.wait_total("account_jobs", args.jobs, state="running")
            ready, first_calls = time.monotonic() - started, await scraper.total("exporter_requests_total")
            await scraper.wait_rest()
            before = processor_seconds(process.pid)
            for _ in range(SCRAPES):
                size = len(await scraper.scrape())
            used = processor_seconds(process.pid) - before
            # Two windows of equal length: every period of the polling is in both, so only scrapes can differ.
            rest, _ = await scraper.calls_during(args.idle, scraped=False)
            scraped, scrapes = await scraper.calls_during(args.idle, scraped=True)
            return {
                "jobs": args.jobs,
                "nodes": args.nodes,
                "seconds until every job was read": ready,
                "calls until every job was read": first_calls,
                "size of a scrape (bytes)": size,
                "processor time of a scrape (s)": used / SCRAPES,
                "memory (MB)": memory(process.pid, "VmRSS"),
                "memory, peak (MB)": memory(process.pid, "VmHWM"),
                "calls to Slurm in a minute at rest": rest * 60 / args.idle,
                "calls to Slurm in a minute, scraped without a pause": scraped * 60 / args.idle,
                "scrapes without a pause": scrapes,
                "calls to Slurm for a scrape": max(0.0, scraped - rest) / max(1, scrapes),
            }


def show(result: dict[str, float]) -> None:
    width = max(map(len, result))
    print(f"{'':{width}}  {'measured':>14}  {'allowed':>10}  ratio")
    for name, value in result.items():
        allowed = ALLOWED.get(name)
        bound = "" if allowed is None else f"{allowed:>10,g}  {value / allowed:.2f}"
        print(f"{name:{width}}  {value:>14,.2f}  {bound}")


async def run(args: argparse.Namespace) -> dict[str, float]:
    await fill(args)
    try:
        return await measure(args)
    finally:
        await empty(args)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="slurmrestd; without it, a lab is made for the run")
    parser.add_argument("--key", type=Path, help="the jwt key of the cluster")
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--idle", type=float, default=120.0, help="seconds of rest to measure")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where to write")
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        if not args.url:
            from bench.slurm_lab import started  # noqa: PLC0415 - needs root and a prepared lab

            args.url, args.key = stack.enter_context(started())
        result = asyncio.run(run(args))
    show(result)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps({"measured": result, "allowed": ALLOWED}, indent=1))
    return 1 if any(result[name] > allowed for name, allowed in ALLOWED.items()) else 0


if __name__ == "__main__":
    sys.exit(main())
