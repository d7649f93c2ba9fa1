# SPDX-License-Identifier: Apache-2.0
"""Which jobs a search of Slurm finds, when it repeats, and what it costs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import cast

import pytest
from prometheus_client import Gauge
from tests.unit.bridge.build import pod

from slinky.bridge import metrics
from slinky.bridge.state import job_discovery
from slinky.bridge.state.job_discovery import BATCH, CONCURRENCY, SEARCH_INTERVAL, JobDiscovery
from slinky.bridge.state.job_registry import JobEntry, JobRegistry
from slinky.bridge.workload import identity
from slinky.bridge.workload.grouping import Workload
from slinky.bridge.workload.identity import BridgeIdentity
from slinky.kube import Later
from slinky.kube.timestamps import unix_seconds
from slinky.observe import ManualClock
from slinky.observe.clock import settle
from slinky.slurm import (
    Change,
    Job,
    JobLookup,
    JobRecord,
    JobRequest,
    JobStatus,
    Mirror,
    ObjectKind,
    Presence,
    SlurmClient,
    SlurmError,
    SlurmNotFound,
    number,
)
from slinky.slurm.errors import Problem, SlurmctldUnreachable
from slinky.slurm.model.views import StepId

BRIDGE = BridgeIdentity("c", "b")
WORKLOAD = Workload("ns", "Pod", "p")
RESTART = Change(ObjectKind.MIRROR, "", 1, None)


class FakeSlurm:
    """Jobs by id, a mirror of those that are tracked, and counts of the requests. It cannot list jobs in full."""

    def __init__(self) -> None:
        self.live: dict[str, Job] = {}
        self.mirrored: dict[str, JobRecord] = {}
        self.lists, self.reads = 0, list[str]()
        self.reading, self.most_reading = 0, 0
        self.on_list: Callable[[], None] = lambda: None
        self.fault: Callable[[str], SlurmError | None] = lambda _: None
        self.answers = asyncio.Event()
        self.answers.set()

    def add(self, job: str, sluid: str = "", *, bridge: BridgeIdentity | None = BRIDGE, leader: int = 0) -> None:
        """A running job: signed by a bridge, or of another user."""
        (signed,) = identity.sign([JobRequest()], [[pod()]], bridge, str(WORKLOAD)) if bridge else (JobRequest(),)
        self.live[job] = Job(
            int(job),
            StepId(sluid or f"s{job}"),
            job_state=("RUNNING",),
            admin_comment=signed.admin_comment or "",
            het_job_id=number(leader),
        )

    # --- SlurmClient

    async def job_states(self) -> tuple[JobStatus, ...]:
        self.lists += 1
        if error := self.fault("list"):
            raise error
        await self.answers.wait()
        listed = tuple(JobStatus(job, ("RUNNING",)) for job in self.live)
        self.on_list()
        return listed

    async def job(self, job: str) -> Job:
        self.reads.append(job)
        self.reading += 1
        self.most_reading = max(self.most_reading, self.reading)
        await asyncio.sleep(0)
        self.reading -= 1
        if error := self.fault(job):
            raise error
        if job not in self.live:
            raise SlurmNotFound(Problem(2017))
        return self.live[job]

    # --- Mirror

    async def synced(self) -> None:
        """It is."""

    def lookup_job(self, job: str) -> JobLookup:
        record = self.mirrored.get(job)
        return JobLookup(Presence.PRESENT if record else Presence.UNKNOWN, record)

    @property
    def jobs(self) -> dict[str, JobRecord]:
        return self.mirrored

    def track(self, job: str, sluid: str = "") -> None:
        if job in self.live:
            detail = self.live[job]
            self.mirrored[job] = JobRecord(job, detail.state, detail.sluid, detail)

    def forget(self, job: str) -> None:
        self.mirrored.pop(job, None)


def read(gauge: Gauge) -> float:
    """The value of a metric."""
    return next(sample.value for metric in gauge.collect() for sample in metric.samples)


class Bench:
    """A discovery with its registry, a Slurm and a clock."""

    def __init__(self, labelled: frozenset[str] = frozenset()) -> None:
        self.slurm, self.clock = FakeSlurm(), ManualClock()
        self.registry = JobRegistry(cast("Mirror", self.slurm), BRIDGE)
        self.discovery = JobDiscovery(
            cast("SlurmClient", self.slurm),
            cast("Mirror", self.slurm),
            self.registry,
            labelled.__contains__,
            self.clock,
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The discovery runs, and its first search is complete."""
        task = asyncio.create_task(self.discovery.run())
        try:
            await asyncio.wait(
                {task, asyncio.ensure_future(self.registry.searched.wait())}, return_when="FIRST_COMPLETED"
            )
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @property
    def registered(self) -> list[str]:
        return [entry.job for entry in self.registry]


async def test_unknown_jobs_of_this_bridge_are_registered_and_each_other_job_is_read_once() -> None:
    bench = Bench(labelled=frozenset({"4"}))
    bench.slurm.add("1")
    bench.slurm.add("2", bridge=None)
    bench.slurm.add("3", bridge=BridgeIdentity("c", "another"))
    bench.slurm.add("4")  # a pod has its label, so the reconcile of the pod registers it
    async with bench.running():
        assert bench.registered == ["1"]
        assert bench.slurm.reads == ["3", "2", "1"]
        await bench.clock.advance(10 * SEARCH_INTERVAL)
        assert bench.slurm.reads == ["3", "2", "1"]


async def test_a_search_repeats_after_one_submit_deadline_and_costs_two_calls_a_minute() -> None:
    bench = Bench()
    async with bench.running():
        bench.slurm.add("7")  # slurmrestd carries out a request that was given up, or that a former leader sent
        await bench.clock.advance(SEARCH_INTERVAL + 1)
        assert bench.registered == ["7"]
        lists = bench.slurm.lists
        await bench.clock.advance(600)
        assert bench.slurm.lists - lists <= 20
        assert bench.slurm.reads == ["7"]


async def test_a_job_whose_end_slurmctld_has_lost_is_registered_again() -> None:
    bench = Bench()
    for job in ("1", "2"):
        bench.slurm.add(job)
    async with bench.running():
        bench.registry.record_ended("1")  # its pod still exists
        bench.registry.record_ended("2")
        bench.registry.forget("2")
        back, bench.slurm.live = bench.slurm.live, {}
        await bench.clock.advance(SEARCH_INTERVAL + 1)
        assert not bench.registry.is_live("1")
        bench.slurm.live = back
        bench.discovery.handle_change(RESTART)
        await bench.clock.advance(1)
        assert sorted(bench.registered) == ["1", "2"]
        assert all(bench.registry.is_live(job) and bench.registry.is_ours(job) for job in ("1", "2"))


async def test_a_job_that_ends_during_the_search_is_not_taken_for_one_that_came_back() -> None:
    bench = Bench()
    bench.slurm.add("1")
    async with bench.running():

        def end() -> None:
            bench.slurm.live.clear()
            bench.registry.record_ended("1")

        bench.slurm.on_list = end
        await bench.clock.advance(SEARCH_INTERVAL + 1)
        assert not bench.registry.is_live("1")


async def test_an_id_that_slurmctld_gave_to_another_job_does_not_revive_the_old_one() -> None:
    bench = Bench()
    bench.slurm.add("1")
    bench.slurm.add("2")
    async with bench.running():
        for job in ("1", "2"):
            bench.registry.record_ended(job)
        bench.slurm.add("1", "another", bridge=None)
        bench.slurm.add("2", "another")
        await bench.clock.advance(2 * SEARCH_INTERVAL + 2)
        assert not bench.registry.is_live("1")
        assert bench.registry.is_live("2")
        assert bench.registry.sluid("2") == "another"


async def test_ids_of_other_jobs_are_read_again_when_slurmctld_may_have_given_them_away() -> None:
    bench = Bench()
    bench.slurm.add("1", bridge=None)
    async with bench.running():
        await bench.clock.advance(600)
        bench.slurm.add("2", bridge=None)
        await bench.clock.advance(SEARCH_INTERVAL + 1)
        assert bench.slurm.reads == ["1", "2"]
        bench.slurm.add("2", "another")  # slurmctld forgot the last seconds
        bench.discovery.handle_change(RESTART)
        await bench.clock.advance(1)
        assert bench.registered == ["2"]
        assert bench.slurm.reads == ["1", "2", "2"]
        del bench.slurm.live["2"]
        bench.slurm.add("1", "another")  # a backup was restored, in which the next id is lower
        bench.discovery.handle_change(RESTART)
        await bench.clock.advance(1)
        assert "1" in bench.registered


async def test_a_large_slurm_is_read_in_batches_that_survive_a_failure() -> None:
    bench = Bench()
    count = 20_000
    for job in range(1, count + 1):
        bench.slurm.live[str(job)] = Job(job, job_state=("RUNNING",))
    bench.slurm.add("1")  # the oldest of all
    failed = asyncio.Event()

    def fail_once(job: str) -> SlurmError | None:
        if job != "5000" or failed.is_set():
            return None
        failed.set()
        return SlurmctldUnreachable("no")

    bench.slurm.fault = fail_once
    task = asyncio.create_task(bench.discovery.run())
    try:
        await failed.wait()
        await settle(1000)
        assert not bench.registry.searched.is_set()
        await bench.clock.advance(1)
        await asyncio.wait_for(bench.registry.searched.wait(), 60)
    finally:
        task.cancel()
    assert bench.registered == ["1"]
    assert len(bench.slurm.reads) <= count + BATCH  # no job is read twice, except those of the batch that failed
    assert bench.slurm.most_reading <= CONCURRENCY


async def test_concurrent_callers_share_one_search_that_begins_after_their_call() -> None:
    bench = Bench()
    async with bench.running():
        await bench.clock.advance(5)
        bench.slurm.answers.clear()
        first = asyncio.create_task(bench.discovery.search())
        await settle()
        lists = bench.slurm.lists
        others = [asyncio.create_task(bench.discovery.search()) for _ in range(32)]
        await settle()
        assert bench.slurm.lists == lists
        others[0].cancel()  # as by the deadline of a reconcile
        bench.slurm.answers.set()
        await first
        assert not any(task.done() for task in others[1:])
        await bench.clock.advance(1)
        await asyncio.gather(*others[1:])
        assert bench.slurm.lists == lists + 1


async def test_a_search_that_takes_long_goes_on_while_its_callers_come_back_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_discovery, "WAIT_SECONDS", 0.01)
    bench = Bench()
    async with bench.running():
        await bench.clock.advance(5)
        bench.slurm.answers.clear()
        since = bench.clock.monotonic()
        with pytest.raises(Later):
            await bench.discovery.search(since)
        bench.slurm.answers.set()
        await settle()
        lists = bench.slurm.lists
        await bench.discovery.search(since)
        assert bench.slurm.lists == lists


async def test_a_failed_search_is_reported_to_its_callers_and_repeated() -> None:
    bench = Bench()
    async with bench.running():
        await bench.clock.advance(5)
        bench.slurm.fault = lambda _: SlurmctldUnreachable("no")
        with pytest.raises(SlurmctldUnreachable):
            await bench.discovery.search()
        bench.slurm.fault = lambda _: None
        bench.slurm.add("7")
        await bench.clock.advance(2)
        assert bench.registered == ["7"]


async def test_a_later_component_is_registered_only_without_its_leader() -> None:
    bench = Bench()
    bench.slurm.add("7", leader=7)
    bench.slurm.add("8", leader=7)
    async with bench.running():
        await bench.clock.advance(5 * SEARCH_INTERVAL)
        assert bench.registered == ["7"]
        assert bench.slurm.reads == ["8", "7"]
        del bench.slurm.live["7"]
        await bench.clock.advance(SEARCH_INTERVAL + 1)
        assert bench.registered == ["7", "8"]


async def test_a_job_that_is_registered_while_it_is_read_keeps_its_entry() -> None:
    bench = Bench()
    bench.slurm.add("7")
    newer = JobEntry("7", WORKLOAD, identity.JobSignature(identity.SIGNATURE_VERSION, members="newer"))
    bench.slurm.on_list = lambda: bench.registry.track(newer)
    async with bench.running():
        assert bench.registry.entries_of(WORKLOAD) == [newer]


async def test_jobs_of_another_bridge_of_the_cluster_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.slurm.add("1", bridge=BridgeIdentity("c", "renamed"))
    bench.slurm.add("2", bridge=BridgeIdentity("another cluster", "b"))
    async with bench.running():
        assert bench.registered == []
        assert [entry.message for entry in caplog.records if "formerBridgeIds" in entry.message]
        gauge = metrics.OTHER_BRIDGE_JOBS.labels("renamed")
        assert read(gauge) == 1
        del bench.slurm.live["1"]
        await bench.clock.advance(2 * SEARCH_INTERVAL)
        assert read(gauge) == 0


async def test_young_pods_do_not_wait_until_old_jobs_are_read() -> None:
    """A job for a pod is younger than the pod."""
    bench = Bench()
    submitted = int(unix_seconds("2026-01-01T12:00:00Z"))
    for job in range(1, 10 * BATCH + 1):
        bench.slurm.live[str(job)] = Job(job, job_state=("RUNNING",), submit_time=number(submitted + 60 * job))
    young = pod(made="2026-01-02T00:00:00Z")
    old = pod(made="2026-01-01T00:00:00Z")
    bench.slurm.fault = lambda job: SlurmctldUnreachable("no") if job == str(5 * BATCH) else None
    task = asyncio.create_task(bench.discovery.run())
    await settle(1000)
    assert not bench.registry.searched.is_set()
    assert bench.registry.is_searched_for([young])
    assert not bench.registry.is_searched_for([young, old])
    bench.slurm.fault = lambda _: None
    await bench.clock.advance(1)
    await asyncio.wait_for(bench.registry.searched.wait(), 60)
    assert bench.registry.is_searched_for([young, old])
    task.cancel()
