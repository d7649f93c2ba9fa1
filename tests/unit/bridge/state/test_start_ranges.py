# SPDX-License-Identifier: Apache-2.0
"""The forecast of the bridge's pending jobs: when all jobs are read, and which workloads hear of it."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.insight.queues import cluster, job, running

from slinky.bridge.state import start_ranges
from slinky.bridge.state.start_ranges import FRESH_SECONDS, JOBS_MAX, StartRanges, next_interval
from slinky.insight.forecast import StartRange, StartSource
from slinky.insight.forecast.start_range import has_moved
from slinky.observe import ManualClock
from slinky.observe.clock import settle
from slinky.slurm import Diag, JobRecord, SlurmError
from slinky.slurm.model.results import Listing


class Queue:
    """A Slurm with a running and a pending job, of which the bridge knows the second."""

    def __init__(self, *, pending: bool = True, jobs: int = 2) -> None:
        snapshot = cluster(running(9, "n1", cpus=16), job(1, cpus=16), hosts=1)
        self.listed = [entry for entry in snapshot.jobs if pending or not entry.state.pending]
        self.record = JobRecord("1", job(1).state, detail=job(1))
        self.reads = 0
        self.notified: list[str] = []
        self.clock = ManualClock()
        mirror: Any = SimpleNamespace(
            jobs={"1": self.record} if pending else {},
            nodes=snapshot.hosts_by_name,
            partitions=snapshot.partitions_by_name,
            reservations={},
            diag=Diag(jobs_pending=jobs),
        )
        client: Any = SimpleNamespace(
            jobs=self._jobs, licenses=self._nothing, accounting=SimpleNamespace(jobs=self._no_history)
        )
        self.ranges = StartRanges(client, mirror, self.notified.append, self.clock)

    async def _jobs(self) -> Listing[Any]:
        self.reads += 1
        return Listing(tuple(self.listed), 0)

    async def _nothing(self) -> tuple[()]:
        return ()

    async def _no_history(self, **_: Any) -> tuple[()]:
        raise SlurmError("no accounting")


async def test_the_workload_of_a_pending_job_hears_of_a_new_forecast_once() -> None:
    queue = Queue()
    await queue.ranges.refresh()
    await queue.ranges.refresh()
    start = queue.ranges.of(queue.record)
    assert start is not None and start.source is StartSource.SIMULATION
    assert queue.notified == ["1"]


@pytest.mark.parametrize("queue", [{"pending": False}, {"jobs": JOBS_MAX + 1}])
async def test_all_jobs_are_not_read_without_need_or_in_a_large_cluster(queue: dict[str, Any]) -> None:
    idle = Queue(**queue)
    await idle.ranges.refresh()
    assert idle.reads == 0


async def test_a_forecast_that_fails_does_not_end_the_bridge(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(start_ranges, "forecast", fail)
    queue = Queue()
    task = asyncio.create_task(queue.ranges.run())
    while not queue.reads:
        await settle()
    await settle()
    assert not task.done()
    task.cancel()


@pytest.mark.parametrize(("seconds", "pause"), [(0.2, 60), (3, 60), (30, 600)])
def test_an_expensive_forecast_is_renewed_rarely(seconds: float, pause: float) -> None:
    assert next_interval(seconds) == pytest.approx(pause)


async def test_an_old_forecast_does_not_count() -> None:
    queue = Queue()
    await queue.ranges.refresh()
    await queue.clock.advance(FRESH_SECONDS + 1)
    assert queue.ranges.of(queue.record) is None


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        (None, None, False),
        (None, StartRange(1, 0, 900, StartSource.SIMULATION), True),
        (StartRange(1, 600, 900, StartSource.SIMULATION), StartRange(1, 660, 960, StartSource.SIMULATION), False),
        (StartRange(1, 600, 900, StartSource.SIMULATION), StartRange(1, 600, 1200, StartSource.SIMULATION), True),
        (StartRange(1, 600, 900, StartSource.SIMULATION), StartRange(1, 600, 900, StartSource.SLURMCTLD), True),
    ],
)
def test_a_small_shift_is_no_news(before: StartRange | None, after: StartRange | None, moved: bool) -> None:
    assert has_moved(before, after, 0.0) is moved
