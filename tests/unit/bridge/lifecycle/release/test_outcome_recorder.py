# SPDX-License-Identifier: Apache-2.0
"""When outcomes are written to accounting, to which record, and when pods no longer wait for that."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import cast

import pytest

from slinky.bridge import metrics
from slinky.bridge.lifecycle.release import outcome_recorder
from slinky.bridge.lifecycle.release.outcome import PodOutcome
from slinky.bridge.lifecycle.release.outcome_recorder import DELAYS, SETTLE_SECONDS, UNREACHABLE_DELAY, OutcomeRecorder
from slinky.observe import ManualClock
from slinky.observe.clock import settle
from slinky.slurm import DataParserVersion, SlurmClient, SlurmNotFound
from slinky.slurm.errors import DatabaseUnreachable, Problem
from slinky.slurm.model.accounting_jobs import AccountingJob, JobOutcome

FAILED = PodOutcome("Failed", 3, "p: Error")


class FakeAccounting:
    """The newest record by job id, and what was written to each."""

    def __init__(self) -> None:
        self.records: dict[str, str] = {"7": "s7"}  # SLUIDs
        self.down = False
        self.reads, self.written = 0, dict[str, str]()

    async def job(self, job: str) -> AccountingJob:
        self.reads += 1
        if self.down:
            raise DatabaseUnreachable("no")
        if job not in self.records:
            raise SlurmNotFound(Problem())
        return AccountingJob(int(job), self.records[job])

    async def write_outcome(self, job: str, outcome: JobOutcome) -> None:
        assert outcome.comment is not None
        self.written[job] = outcome.comment.job


class Bench:
    """A recorder with a Slurm of one data parser."""

    def __init__(self, parser: DataParserVersion = DataParserVersion.V45) -> None:
        self.parser = parser
        self.accounting, self.clock, self.settled = FakeAccounting(), ManualClock(), list[str]()
        client = cast("SlurmClient", self)
        self.recorder = OutcomeRecorder(client, self.clock, self.settled.append)

    async def version(self) -> DataParserVersion:
        return self.parser

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.recorder.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def count(result: str) -> float:
    samples = (sample for metric in metrics.OUTCOMES.labels(result).collect() for sample in metric.samples)
    return next(sample.value for sample in samples if sample.name.endswith("_total"))


@pytest.mark.parametrize(
    ("parser", "key"), [(DataParserVersion.V45, "s7"), (DataParserVersion.V44, "7")], ids=["SLUID", "id"]
)
async def test_an_outcome_is_written_once_to_the_record_of_its_job(parser: DataParserVersion, key: str) -> None:
    bench = Bench(parser)
    async with bench.running():
        for _ in range(3):
            bench.recorder.record("7", "s7", FAILED)
        await bench.clock.advance(1)
    assert bench.accounting.written == {key: "pods Failed, exit code 3 (p: Error)"}
    assert (bench.settled, bench.accounting.reads) == (["7"], 1)


async def test_an_outcome_is_never_written_to_the_record_of_another_job_with_the_id() -> None:
    bench, dropped = Bench(), count("dropped")
    bench.accounting.records["7"] = "another"
    async with bench.running():
        bench.recorder.record("7", "s7", FAILED)
        await bench.clock.advance(sum(DELAYS) + 1)
    assert bench.accounting.written == {}
    assert count("dropped") == dropped + 1
    assert set(bench.settled) == {"7"}


async def test_an_outcome_is_written_when_slurmdbd_learns_of_the_job() -> None:
    bench = Bench()
    async with bench.running():
        bench.recorder.record("8", "s8", FAILED)
        await bench.clock.advance(1)
        assert bench.settled == []
        bench.accounting.records["8"] = "s8"
        await bench.clock.advance(2)
    assert bench.accounting.written == {"s8": str(FAILED)}
    assert bench.settled == ["8"]


async def test_pods_wait_a_limited_time_for_accounting_that_is_down_and_the_outcome_is_written_later() -> None:
    bench, late = Bench(), count("late")
    bench.accounting.down = True
    bench.accounting.records |= {str(job): f"s{job}" for job in range(100, 200)}
    async with bench.running():
        bench.recorder.record("7", "s7", FAILED)
        await bench.clock.advance(SETTLE_SECONDS - 1)
        assert bench.settled == []
        await bench.clock.advance(2)
        assert bench.settled == ["7"]
        reads = bench.accounting.reads
        for job in range(100, 200):
            bench.recorder.record(str(job), f"s{job}", FAILED)
        assert len(bench.settled) == 101  # accounting has been down for long
        await bench.clock.advance(10 * UNREACHABLE_DELAY)
        assert bench.accounting.reads - reads <= 10 * outcome_recorder.CONCURRENCY + outcome_recorder.CONCURRENCY
        assert count("late") == late + 101
        bench.accounting.down = False
        await bench.clock.advance(2 * UNREACHABLE_DELAY)
        await settle(1000)
    assert len(bench.accounting.written) == 101


@pytest.mark.parametrize(("sluid", "most"), [("", 10), ("s7", 0)], ids=["no SLUID", "no memory"])
async def test_an_outcome_that_cannot_be_kept_is_counted(
    monkeypatch: pytest.MonkeyPatch, sluid: str, most: int
) -> None:
    monkeypatch.setattr(outcome_recorder, "MAX_PENDING", most)
    bench, dropped = Bench(), count("dropped")
    bench.recorder.record("7", sluid, FAILED)
    assert (bench.settled, count("dropped")) == (["7"], dropped + 1)
