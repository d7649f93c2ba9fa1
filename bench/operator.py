# SPDX-License-Identifier: Apache-2.0
"""The operator's speed on large NodeSets, as ratios and limits within one run: `make bench-operator`.

Uses a lab with hollow nodes (kwok), the real scheduler and a real Slurm; the operator is a separate process. All share
the machine, so ratios are more meaningful than seconds. Prints a table for each part, stores it in
`bench/results/operator.json`, and exits with 1 if a limit is exceeded.
"""

import argparse
import asyncio
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from bench.core_kube import Figure
from bench.operator_cluster import running_lab
from bench.operator_idle import measure_idle
from bench.operator_reaction import measure_reactions
from bench.operator_scale_out import measure_scale_out
from slinky.lab.lab import Lab

RESULTS = Path(__file__).parent / "results" / "operator.json"


async def run_scale_out(lab: Lab, options: argparse.Namespace) -> tuple[list[Figure], Any]:
    results = await measure_scale_out(lab, options.workers, options.rounds)
    floor, operator = results["floor"], results["operator"]
    prefix = f"0 to {options.workers} pods on hollow nodes, relative to a loop that sends the same requests"
    figures = [
        Figure(f"{prefix}: all created", operator.created / floor.created, 1.3, "times"),
        Figure(f"{prefix}: all ready", operator.ready / floor.ready, 1.3, "times"),
    ]
    return figures, {name: times._asdict() for name, times in results.items()}


async def run_reaction(lab: Lab, options: argparse.Namespace) -> tuple[list[Figure], Any]:
    results = await measure_reactions(lab, options.workers, options.samples)
    prefix = f"at {options.workers} workers, p95"
    beside = results["condition beside a dead Slurm"]
    return [
        Figure(f"Slurm state to pod condition {prefix}", results["condition"], 2.0, "s"),
        Figure(f"drained to pod deleted {prefix}", results["deleted"], 2.0, "s"),
        Figure(
            "Slurm state to pod condition beside a cluster whose Slurm does not respond, relative to without it",
            beside / results["condition"],
            1.3,
            "times",
        ),
    ], {**results, "samples": options.samples}


async def run_idle(lab: Lab, options: argparse.Namespace) -> tuple[list[Figure], Any]:
    results = await measure_idle(lab, options.many)
    prefix = f"converged with {options.many} workers:"
    return [
        Figure(f"{prefix} writes in a minute", results.writes, 0.0, ""),
        Figure(f"{prefix} CPU", results.cpu * 100, 5.0, "% of a core"),
        Figure(f"{prefix} memory", results.memory, 200.0, "MB"),
    ], results._asdict()


CASES = {"grow": run_scale_out, "react": run_reaction, "rest": run_idle}


def load_results() -> dict[str, Any]:
    """Read the results of earlier runs, by part."""
    results = msgspec.json.decode(RESULTS.read_bytes()) if RESULTS.exists() else {}
    return {name: part for name, part in results.items() if name in CASES}


def save_results(name: str, figures: list[Figure], raw: Any) -> None:
    """Store the results of one part, with the load of the machine; other parts are kept."""
    rows = [{**asdict(figure), "met": figure.met} for figure in figures]
    part = {"figures": rows, "raw": raw, "load": os.getloadavg()[0]}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode({**load_results(), name: part})) + b"\n")


def print_table(figures: list[Figure]) -> None:
    """Print a table of the figures."""
    table = Table("figure", "measured", "limit", "met", title="slinky operator")
    for figure in figures:
        met = "yes" if figure.met else "NO"
        table.add_row(figure.what, f"{figure.found:.2f} {figure.unit}", f"{figure.limit:g}", met)
    Console(width=140).print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=1000, help="workers for scale-out and reactions")
    parser.add_argument("--many", type=int, default=5000, help="workers for the idle part")
    parser.add_argument("--rounds", type=int, default=2, help="how often scale-out is measured; the best counts")
    parser.add_argument("--samples", type=int, default=20, help="number of measured reactions of each kind")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--lab", default="", help="name of a running lab with hollow nodes and a Slurm")
    options = parser.parse_args()
    met = True
    with running_lab(options.lab) as lab:
        for name in options.only:
            figures, raw = asyncio.run(CASES[name](lab, options))
            save_results(name, figures, raw)
            print_table(figures)
            met = met and all(figure.met for figure in figures)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
