# SPDX-License-Identifier: Apache-2.0
"""Speed and size of `slinky.kube` on a real API server, as ratios within one run.

`python -m bench.core_kube` starts a plain control plane, or takes `--kubeconfig`,
fills it with running pods, measures each case in a process of its own, prints a table and writes
`bench/results/core_kube.json`. The two cores are shared with the server: read ratios, not seconds.
"""

import argparse
import asyncio
import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from bench.kube_pods import NAMESPACE, fill
from bench.kube_replay import record
from slinky.kube import connect
from slinky.lab.kubernetes.bare_plane import BarePlane

RATE = 1000.0
RESULTS = Path(__file__).parent / "results" / "core_kube.json"


@dataclass(frozen=True)
class Figure:
    """One promise and what was found."""

    what: str
    found: float
    limit: float
    unit: str

    @property
    def met(self) -> bool:
        return self.found <= self.limit


def measure(case: str, kubeconfig: Path) -> dict[str, Any]:
    with case_process(case, kubeconfig) as process:
        return result_of(process)


@contextlib.contextmanager
def case_process(case: str, kubeconfig: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "bench.kube_case", case, str(kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def result_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout
    lines = process.stdout.read().splitlines()
    if process.wait() != 0 or not lines:
        raise SystemExit("a case failed")
    result: dict[str, Any] = msgspec.json.decode(lines[-1])
    return result


def measure_rate(recording: Path) -> dict[str, dict[str, Any]]:
    """One watch of events that come at exactly RATE a second, kept or thrown away."""
    with tempfile.TemporaryDirectory() as home:
        command = [sys.executable, "-m", "bench.kube_replay", str(recording), home, str(RATE)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as replay:
            try:
                assert replay.stdout
                replay.stdout.readline()
                return {case: best(case, Path(home) / "kubeconfig", 2) for case in ("drain", "follow")}
            finally:
                replay.kill()


def figures(results: dict[str, dict[str, Any]]) -> list[Figure]:
    discard, sync, follow, steady = (results[name] for name in ("discard", "sync", "follow", "steady"))
    stall = max(result["own_stall"] for name, result in results.items() if name not in ("discard", "drain"))
    return [
        Figure("sync CPU, against receiving and discarding", sync["cpu"] / discard["cpu"], 2.0, "times"),
        Figure("resident memory with all pods cached", sync["resident"], 100.0, "MB"),
        Figure("memory of one cached pod", sync["kilobytes_per_pod"], 6.0, "KB"),
        Figure("CPU for 1,000 watch events a second", follow["cpu"] / follow["events"] * 1e5, 10.0, "% of a core"),
        Figure("CPU when nothing happens", steady["cpu"] / steady["wall"] * 100, 1.0, "% of a core"),
        Figure("requests when nothing happens", steady["requests"], 0.0, ""),
        Figure("longest stall of the event loop by our own work", stall * 1000, 50.0, "ms"),
    ]


def best(case: str, kubeconfig: Path, times: int) -> dict[str, Any]:
    """The run with the least CPU: neighbours on the machine only ever add."""
    return min((measure(case, kubeconfig) for _ in range(times)), key=lambda result: result["cpu"])


async def run(kubeconfig: Path, pods: int) -> dict[str, dict[str, Any]]:
    with tempfile.NamedTemporaryFile() as recording:
        async with connect(kubeconfig) as client:
            await fill(client, pods)
            recording.write(await record(client, NAMESPACE, 300))
            recording.flush()
        results = {case: await asyncio.to_thread(best, case, kubeconfig, 3) for case in ("discard", "sync")}
        results |= await asyncio.to_thread(measure_rate, Path(recording.name))
    results["steady"] = await asyncio.to_thread(measure, "steady", kubeconfig)
    return results


def report(found: list[Figure], results: dict[str, dict[str, Any]]) -> None:
    events = results["follow"]["events"] / results["follow"]["wall"]
    size = f"{results['sync']['pods']} pods, {results['discard']['megabytes']:.0f} MB of JSON"
    floor = results["drain"]["cpu"] / results["drain"]["wall"] * 100
    table = Table(title=f"slinky.kube: {size}; {events:.0f} events/s, {floor:.1f} % of a core to receive them")
    for column in ("figure", "found", "limit", "met"):
        table.add_column(column, justify="left" if column == "figure" else "right")
    for figure in found:
        table.add_row(
            figure.what,
            f"{figure.found:.2f} {figure.unit}",
            f"{figure.limit:g}",
            "yes" if figure.met else "NO",
        )
    Console().print(table)
    RESULTS.parent.mkdir(exist_ok=True)
    rows = [{**asdict(figure), "met": figure.met} for figure in found]
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode({"figures": rows, "raw": results})))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, help="an API server to use instead of starting one")
    parser.add_argument("--pods", type=int, default=10_000)
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        kubeconfig = given.kubeconfig or stack.enter_context(started())
        results = asyncio.run(run(kubeconfig, given.pods))
    found = figures(results)
    report(found, results)
    return 0 if all(figure.met for figure in found) else 1


@contextlib.contextmanager
def started() -> Iterator[Path]:
    with BarePlane.running() as plane:
        yield plane.kubeconfig


if __name__ == "__main__":
    sys.exit(main())
