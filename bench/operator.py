# SPDX-License-Identifier: Apache-2.0
"""The operator's speed on large NodeSets, as ratios and limits within one run: `make bench-operator`.

A lab with hollow nodes (kwok), the real scheduler and a real Slurm; the operator is a process of its own. All of them
share the machine: read ratios, not seconds. Prints a table for each part, puts it in `bench/results/operator.json`, and
ends with 1 if a limit is missed.
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
from bench.operator_grow import grown
from bench.operator_rest import at_rest
from bench.operator_scene import laboratory
from bench.operator_slurm import reactions
from slinky.lab.lab import Lab

RESULTS = Path(__file__).parent / "results" / "operator.json"


async def growth(lab: Lab, given: argparse.Namespace) -> tuple[list[Figure], Any]:
    found = await grown(lab, given.workers, given.rounds)
    floor, operator = found["floor"], found["operator"]
    words = f"0 to {given.workers} pods on hollow nodes, against a loop of the same requests"
    figures = [
        Figure(f"{words}: all made", operator.made / floor.made, 1.3, "times"),
        Figure(f"{words}: all ready", operator.ran / floor.ran, 1.3, "times"),
    ]
    return figures, {who: one._asdict() for who, one in found.items()}


async def reaction(lab: Lab, given: argparse.Namespace) -> tuple[list[Figure], Any]:
    found = await reactions(lab, given.workers, given.samples)
    words = f"at {given.workers} workers, p95"
    beside = found["condition beside a dead Slurm"]
    return [
        Figure(f"Slurm state to pod condition {words}", found["condition"], 2.0, "s"),
        Figure(f"drained to pod deleted {words}", found["deleted"], 2.0, "s"),
        Figure(
            "Slurm state to pod condition beside a cluster whose Slurm is dead, against without",
            beside / found["condition"],
            1.3,
            "times",
        ),
    ], {**found, "samples": given.samples}


async def idleness(lab: Lab, given: argparse.Namespace) -> tuple[list[Figure], Any]:
    found = await at_rest(lab, given.many)
    words = f"converged with {given.many} workers:"
    return [
        Figure(f"{words} writes in a minute", found.writes, 0.0, ""),
        Figure(f"{words} CPU", found.cpu * 100, 5.0, "% of a core"),
        Figure(f"{words} memory", found.memory, 200.0, "MB"),
    ], found._asdict()


CASES = {"grow": growth, "react": reaction, "rest": idleness}


def kept() -> dict[str, Any]:
    """What earlier runs found, part by part."""
    found = msgspec.json.decode(RESULTS.read_bytes()) if RESULTS.exists() else {}
    return {name: part for name, part in found.items() if name in CASES}


def keep(name: str, figures: list[Figure], raw: Any) -> None:
    """Put one part in the results, beside those of others, with how busy the machine was."""
    rows = [{**asdict(figure), "met": figure.met} for figure in figures]
    part = {"figures": rows, "raw": raw, "load": os.getloadavg()[0]}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode({**kept(), name: part})) + b"\n")


def show(figures: list[Figure]) -> None:
    """A table of what was found."""
    table = Table("figure", "found", "limit", "met", title="slinky operator")
    for figure in figures:
        met = "yes" if figure.met else "NO"
        table.add_row(figure.what, f"{figure.found:.2f} {figure.unit}", f"{figure.limit:g}", met)
    Console(width=140).print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=1000, help="for growth and reactions")
    parser.add_argument("--many", type=int, default=5000, help="for rest")
    parser.add_argument("--rounds", type=int, default=2, help="how often growth is measured; the best counts")
    parser.add_argument("--samples", type=int, default=20, help="how many reactions of each kind are timed")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--lab", default="", help="the name of a lab with hollow nodes and a Slurm that is up already")
    given = parser.parse_args()
    met = True
    with laboratory(given.lab) as lab:
        for name in given.only:
            figures, raw = asyncio.run(CASES[name](lab, given))
            keep(name, figures, raw)
            show(figures)
            met = met and all(figure.met for figure in figures)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
