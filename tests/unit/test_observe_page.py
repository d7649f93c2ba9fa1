# SPDX-License-Identifier: Apache-2.0
"""The calls to slurmctld that docs/observe.md promises are those that the intervals in the code cause."""

from pathlib import Path

import pytest

from slinky.bridge import app as bridge_app
from slinky.exporter import cluster_reader
from slinky.slurm import PollingIntervals

PAGE = (Path(__file__).parents[2] / "docs/observe.md").read_text()


def calls_at_rest(intervals: PollingIntervals) -> tuple[int, int, int]:
    """Reads of the statistics, other calls, and reads of the statistics while changes are expected, in a minute."""
    other = 60 / intervals.nodes + 2 * 60 / intervals.partitions + 60 / intervals.idle_jobs
    idle = max(intervals.statistics, intervals.idle_statistics)
    return round(60 / idle), round(other), round(60 / intervals.statistics)


@pytest.mark.parametrize(
    ("process", "intervals", "further"),
    [
        ("operator", PollingIntervals(), 0),
        ("bridge, only the leader", bridge_app.INTERVALS, 0),
        (
            "exporter",
            cluster_reader.INTERVALS,
            60 / cluster_reader.LICENSES_SECONDS + 60 / cluster_reader.SHARES_SECONDS,
        ),
    ],
)
def test_the_page_tells_how_often_slurm_is_asked(process: str, intervals: PollingIntervals, further: float) -> None:
    statistics, other, awaiting = calls_at_rest(intervals)
    assert f"| {process} | {statistics} | {round(other + further)} | {awaiting}" in PAGE
