# SPDX-License-Identifier: Apache-2.0
"""The accuracy of forecasts on generated days, or on a workload in SWF, beside that of slurmctld's planned starts.

`python -m bench.forecast_days` replays days of the Lublin-Feitelson model; `--swf FILE --nodes N` replays a file.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from bench.workloads.accuracy import SIZES, Accuracy, accuracy, coverage
from bench.workloads.lublin import generate_workload
from bench.workloads.plot import error_plot
from bench.workloads.replay import Look, Replay, ReplayedJob
from bench.workloads.swf import read_swf
from slinky.insight.forecast.start_range import StartRange, StartSource
from slinky.insight.plain_text import duration

RESULTS = Path(__file__).parent / "results"
#: Each seed gives the jobs of `DAYS` days on `NODES` nodes; the load is the share of the nodes that they need.
SEEDS, NODES, DAYS, LOAD = range(101, 109), 128, 2, 0.9


def expected(look: Look) -> float:
    """Our forecast as one point."""
    return StartRange(0, look.earliest, look.latest, StartSource.SIMULATION).expected or 0


def planned(look: Look) -> float:
    """Slurmctld's `start_time`."""
    return look.plan


FORECASTS = {"slinky": expected, "slurmctld's start_time": planned}


def replay_generated(seeds: Iterable[int]) -> list[ReplayedJob]:
    """The jobs of generated days that had to wait."""
    return [job for seed in seeds for job in Replay(generate_workload(seed, NODES, DAYS, LOAD), NODES).run()]


def replay_file(path: Path, nodes: int, processors: int) -> list[ReplayedJob]:
    """The jobs of a file that had to wait."""
    with path.open(errors="replace") as lines:
        return Replay(list(read_swf(lines, processors)), nodes).run()


def table(results: dict[str, Accuracy], covered: float) -> str:
    """The results as Markdown."""
    sizes = [name for name, _, _ in SIZES]
    head = ["forecast", "median error", "90th percentile", *(f"bias, {name}" for name in sizes), "change between looks"]
    rows = ["| " + " | ".join(head) + " |", "| " + " | ".join(["---"] * len(head)) + " |"]
    for name, result in results.items():
        bias = [signed(result.bias[size]) if size in result.bias else "" for size in sizes]
        cells = [name, duration(result.median_error), duration(result.p90_error), *bias, duration(result.instability)]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join([*rows, "", f"{covered:.0%} of the jobs start within the range of slinky."])


def signed(seconds: float) -> str:
    """A bias for people: `5 min early` if jobs start earlier than forecast."""
    return f"{duration(abs(seconds))} {'late' if seconds > 0 else 'early'}"


def main() -> int:
    """Write table, figures and plot; fail if slurmctld's own plan is better in any figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--swf", type=Path, help="workload file in SWF instead of generated days")
    parser.add_argument("--nodes", type=int, default=NODES, help="nodes of the cluster of the file")
    parser.add_argument("--processors", type=int, default=1, help="processors per node of the file")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args()
    is_file = options.swf is not None
    jobs = replay_file(options.swf, options.nodes, options.processors) if is_file else replay_generated(SEEDS)
    if not jobs:
        print("no job of the workload had to wait")
        return 1
    results = {name: accuracy(jobs, point) for name, point in FORECASTS.items()}
    text = table(results, coverage(jobs))
    print(f"{len(jobs)} jobs that had to wait\n\n{text}")
    errors = {name: [abs(job.start - point(job.looks[0])) for job in jobs] for name, point in FORECASTS.items()}
    options.output.mkdir(parents=True, exist_ok=True)
    document = {"jobs": len(jobs), "coverage": coverage(jobs)} | {n: asdict(result) for n, result in results.items()}
    (options.output / "forecast.json").write_text(json.dumps(document, indent=2) + "\n")
    (options.output / "forecast.md").write_text(text + "\n")
    (options.output / "forecast.svg").write_text(error_plot("Share of jobs whose forecast error is at most", errors))
    ours, theirs = results.values()
    is_better = ours.median_error <= theirs.median_error and ours.p90_error <= theirs.p90_error
    return 0 if is_better else 1


if __name__ == "__main__":
    sys.exit(main())
