# SPDX-License-Identifier: Apache-2.0
"""The report of a replay: our forecasts beside slurmctld's planned starts, as a table, figures and a plot."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.workloads.accuracy import SIZES, Accuracy, accuracy, coverage
from bench.workloads.plot import error_plot
from bench.workloads.replay import Look, ReplayedJob
from slinky.insight.forecast.start_range import StartRange, StartSource
from slinky.insight.plain_text import duration


def expected(look: Look) -> float:
    """Our forecast as one point."""
    return StartRange(0, look.earliest, look.latest, StartSource.SIMULATION).expected or 0


def planned(look: Look) -> float:
    """Slurmctld's `start_time`."""
    return look.plan


FORECASTS = {"slinky": expected, "slurmctld's start_time": planned}


def write_report(jobs: Sequence[ReplayedJob], folder: Path, name: str, facts: Mapping[str, object]) -> bool:
    """Print the table and write all files; whether our forecast is at least as good in every figure."""
    results = {forecast: accuracy(jobs, point) for forecast, point in FORECASTS.items()}
    text = table(results, coverage(jobs))
    print(f"{len(jobs)} jobs that had to wait\n\n{text}")
    errors = {forecast: [abs(job.start - point(job.looks[0])) for job in jobs] for forecast, point in FORECASTS.items()}
    document = {"jobs": len(jobs), "coverage": coverage(jobs), **facts}
    document |= {forecast: asdict(result) for forecast, result in results.items()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n")
    (folder / f"{name}.md").write_text(text + "\n")
    (folder / f"{name}.svg").write_text(error_plot("Share of jobs whose forecast error is at most", errors))
    ours, theirs = results.values()
    return is_as_good(ours, theirs)


def is_as_good(ours: Accuracy, theirs: Accuracy) -> bool:
    """Whether the first is at least as good in every figure."""
    pairs = [
        (ours.median_error, theirs.median_error),
        (ours.p90_error, theirs.p90_error),
        (ours.instability, theirs.instability),
        *((abs(ours.bias[size]), abs(theirs.bias[size])) for size in ours.bias),
    ]
    return all(own <= other for own, other in pairs)


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
