# SPDX-License-Identifier: Apache-2.0
"""How good the forecasts of a replay were: error, bias by size, coverage of the range, stability. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from bench.workloads.replay import Look, ReplayedJob

#: slurmctld rounds starts up to a minute, and so do ranges.
ROUNDING = 60
#: Groups of jobs by their nodes, for the bias: name, smallest and largest size.
SIZES = (("1 node", 1, 1), ("2 to 8 nodes", 2, 8), ("9 and more", 9, 2**31))

Point = Callable[[Look], float]


@dataclass(frozen=True)
class Accuracy:
    """All in seconds. A positive bias means that jobs start later than forecast."""

    median_error: float
    p90_error: float
    bias: dict[str, float]
    #: The mean change of the forecast of a job between two looks at it.
    instability: float


def accuracy(jobs: Sequence[ReplayedJob], point: Point) -> Accuracy:
    """The accuracy of a forecast at the time of submission."""
    errors = [(job.start - point(job.looks[0]), job.job.nodes) for job in jobs]
    absolute = [abs(error) for error, _ in errors]
    changes = [
        abs(point(second) - point(first))
        for job in jobs
        for first, second in zip(job.looks, job.looks[1:], strict=False)
    ]
    bias = {
        name: fmean(values)
        for name, low, high in SIZES
        if (values := [error for error, nodes in errors if low <= nodes <= high])
    }
    return Accuracy(median(absolute), percentile(absolute, 0.9), bias, fmean(changes) if changes else 0.0)


def coverage(jobs: Sequence[ReplayedJob]) -> float:
    """The share of jobs that start within the range that was forecast at their submission."""
    hits = sum(1 for job in jobs if job.looks[0].earliest - ROUNDING <= job.start <= job.looks[0].latest + ROUNDING)
    return hits / len(jobs)


def percentile(values: Iterable[float], share: float) -> float:
    """A percentile; `share` is between 0 and 1."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
