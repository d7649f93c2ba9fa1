# SPDX-License-Identifier: Apache-2.0
"""Late responses belong to the job they were requested for, and waiting for them is not counted as their cost."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import pytest
from msgspec import structs

from slinky.slurm import Job, JobRecord, JobState, JobStatus, Listing, Presence, Problem, SlurmClient, SlurmNotFound
from slinky.slurm.mirror import job_record
from slinky.slurm.mirror.job_record import JobRead
from slinky.slurm.mirror.job_tracker import ENDED_READS_PER_PASS, JobTracker
from slinky.slurm.model.accounting_jobs import AccountingJob, AccountingJobState
from slinky.slurm.model.views import StepId


def job(sluid: str) -> Job:
    return Job(job_id=1, job_state=("RUNNING",), step_id=StepId(sluid=sluid))


class FakeSlurmctld:
    """A slurmctld with one job, and responses that can be delayed."""

    def __init__(self) -> None:
        self.current: Job | None = job("old")
        self.states: tuple[JobStatus, ...] = (JobStatus("1", ("RUNNING",)),)
        self.released = asyncio.Event()
        self.released.set()
        self.accounting: FakeSlurmctld | FakeAccounting = self

    async def job_states(self, ids: list[str] | None = None) -> list[JobStatus]:
        return list(self.states)

    async def resources(self, number: int) -> tuple[()]:
        return ()

    async def job_components(self, number: str) -> tuple[Job, ...]:
        job = self.current
        await self.released.wait()
        if job is None:
            raise SlurmNotFound(Problem(2017, "no such job"))
        return (job,)

    async def job(self, number: str) -> Job:
        """A job of the accounting, which knows what slurmctld knows."""
        return (await self.job_components(number))[0]


def tracker_for(ctld: FakeSlurmctld, clock: Callable[[], float] = time.monotonic) -> JobTracker:
    client = cast(SlurmClient, cast(Any, ctld))
    return JobTracker(client, all_jobs=False, pending_interval=0, clock=clock, notify=lambda _: None)


async def test_the_loss_of_a_job_is_not_the_loss_of_the_next_one_with_its_id() -> None:
    ctld = FakeSlurmctld()
    tracker = tracker_for(ctld)
    tracker.track("1", "")
    assert await tracker.read_job("1")
    # slurmctld has lost the job, and its response is slow ...
    ctld.current, ctld.states = None, ()
    tracker.verify_since(0)
    ctld.released.clear()
    reading = asyncio.create_task(tracker.read())
    await asyncio.sleep(0.01)
    # ... while another job is created, which gets the same id.
    ctld.current = job("new")
    tracker.forget("1")
    tracker.track("1", "")
    reading_new = asyncio.create_task(tracker.read_job("1"))
    await asyncio.sleep(0.01)
    ctld.released.set()
    assert await reading_new
    await reading
    presence, record = tracker.lookup("1")
    assert presence is Presence.PRESENT
    assert record is not None
    assert record.sluid == "new"


class FakeAccounting:
    """Accounting with one job that was cancelled."""

    async def job(self, _: str) -> AccountingJob:
        return AccountingJob(job_id=1, sluid="old", state_record=AccountingJobState(current=("CANCELLED",)))


@pytest.mark.parametrize(("sluid", "lost"), [("old", False), ("other", True), ("", True)])
async def test_the_end_of_a_purged_job_is_read_from_accounting_if_its_sluid_is_known(sluid: str, lost: bool) -> None:
    ctld = FakeSlurmctld()
    ctld.current, ctld.states, ctld.accounting = None, (), FakeAccounting()
    tracker = tracker_for(ctld)
    tracker.track("1", sluid)
    await tracker.read()
    presence, record = tracker.lookup("1")
    assert presence is Presence.ABSENT
    assert record is not None
    assert (record.lost, record.state.base) == (lost, "" if lost else "CANCELLED")


async def test_a_lost_job_is_lost_also_if_another_job_had_its_id_and_has_ended() -> None:
    ctld = FakeSlurmctld()
    ctld.current = structs.replace(job("new"), job_state=("CANCELLED",))
    ctld.states, ctld.accounting = (JobStatus("1", ("CANCELLED",)),), FakeAccounting()
    tracker = tracker_for(ctld)
    tracker.track("1", "lost")
    await tracker.read()
    presence, record = tracker.lookup("1")
    assert presence is Presence.ABSENT
    assert record is not None
    assert (record.lost, record.sluid, record.state.base) == (True, "lost", "")


async def test_the_cost_of_a_read_excludes_waiting_for_the_scheduler_unless_every_read_waits() -> None:
    now, duration = 0.0, 0.2

    class SlowSlurmctld(FakeSlurmctld):
        async def job_states(self, ids: list[str] | None = None) -> list[JobStatus]:
            nonlocal now
            now += duration
            return await super().job_states(ids)

    ctld = SlowSlurmctld()
    tracker = tracker_for(ctld, lambda: now)
    tracker.track("1", "")
    costs = []
    for duration in (0.2, 1.5, 1.5, 0.2, 1.5, 1.5, 1.5, 1.5):  # noqa: B007 - used by the server
        await tracker.read()
        costs.append(round(tracker.cost, 3))
    assert costs == [0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 1.5]


async def test_many_ends_are_reported_at_once_and_read_a_few_at_a_time() -> None:
    read: list[str] = []

    class ManyJobs(FakeSlurmctld):
        words = ("RUNNING",)

        async def job_states(self, ids: list[str] | None = None) -> list[JobStatus]:
            return [JobStatus(key, self.words) for key in ids or ()]

        async def job_components(self, number: str) -> tuple[Job, ...]:
            read.append(number)
            return (Job(job_id=int(number), job_state=self.words, step_id=StepId(sluid=f"s{number}")),)

    ctld = ManyJobs()
    tracker = tracker_for(ctld)
    keys = [str(number) for number in range(1, 61)]
    for key in keys:
        tracker.track(key, "")
    await tracker.read()
    read.clear()
    ctld.words = ("CANCELLED",)
    passes = []
    for _ in range(4):
        await tracker.read()
        assert all(tracker.table[key].over for key in keys)
        passes.append((len(read), tracker.has_unread_ends))
        read.clear()
    assert passes == [
        (0, True),
        (ENDED_READS_PER_PASS, True),
        (ENDED_READS_PER_PASS, True),
        (60 - 2 * ENDED_READS_PER_PASS, False),
    ]


async def test_without_exact_resources_one_request_gives_the_nodes() -> None:
    class RunningJob(FakeSlurmctld):
        requests = 0

        async def resources(self, number: int) -> tuple[()]:
            self.requests += 1
            return ()

    ctld = RunningJob()
    ctld.current = Job(job_id=1, job_state=("RUNNING",), step_id=StepId(sluid="one"), nodes="n[2-3],a1")
    tracker = tracker_for(ctld)
    tracker.track("1", "")
    assert await tracker.read_job("1", exact_resources=False)
    assert [granted.node for granted in tracker.table["1"].resources or ()] == ["n2", "n3", "a1"]
    assert await tracker.read()
    assert ctld.requests == 0
    assert await tracker.read_job("1")
    assert ctld.requests == 1


@pytest.mark.parametrize("key", ["12_3", "1_2", "²", "0", "9" * 30])
async def test_resources_are_read_for_plain_job_ids_only(key: str) -> None:
    """`int` reads "12_3", the id of a task of an array, as 123: another job."""

    class AnyJob(FakeSlurmctld):
        async def resources(self, number: int) -> tuple[()]:
            raise AssertionError(number)

    assert await tracker_for(AnyJob())._reader.read_resources(key) == ()


async def test_a_job_that_is_forgotten_while_it_is_read_stays_forgotten() -> None:
    ctld = FakeSlurmctld()
    tracker = tracker_for(ctld)
    tracker.track("1", "")
    ctld.released.clear()
    reading = asyncio.create_task(tracker.read())
    await asyncio.sleep(0.01)
    tracker.forget("1")
    ctld.released.set()
    await reading
    assert "1" not in tracker.table
    assert tracker.lookup("1").presence is Presence.UNKNOWN
    ctld.states = ()
    assert await tracker.read()
    assert "1" not in tracker.table


async def test_a_lost_job_is_absent_by_id_and_by_sluid_until_it_is_forgotten() -> None:
    ctld = FakeSlurmctld()
    tracker = tracker_for(ctld)
    tracker.track("1", "")
    assert await tracker.read_job("1")
    ctld.current, ctld.states = None, ()
    await tracker.read()
    for sluid in ("", "old"):
        presence, record = tracker.lookup("1", sluid)
        assert presence is Presence.ABSENT
        assert record is not None
        assert record.lost
    assert tracker.lookup("1", "another").presence is Presence.UNKNOWN
    tracker.forget("1")
    assert tracker.lookup("1", "old").presence is Presence.UNKNOWN


class LongQueue(FakeSlurmctld):
    """A slurmctld with many pending jobs; a list of all jobs can be delayed."""

    def __init__(self, jobs: int) -> None:
        super().__init__()
        self.jobs_by_id = {
            n: Job(job_id=n, job_state=("PENDING",), state_reason="Priority") for n in range(1, jobs + 1)
        }
        self.single_reads, self.lists = 0, 0

    async def job_states(self, ids: list[str] | None = None) -> list[JobStatus]:
        return [JobStatus(str(job.job_id), job.job_state) for job in self.jobs_by_id.values()]

    async def job_components(self, number: str) -> tuple[Job, ...]:
        self.single_reads += 1
        return (self.jobs_by_id[int(number)],)

    async def jobs(self, since: int | None = None) -> Listing[Job] | None:
        self.lists += 1
        listed = tuple(self.jobs_by_id.values())
        await self.released.wait()
        return None if since == self.lists - 1 else Listing(listed, self.lists)

    def change(self, number: int, **fields: Any) -> None:
        self.jobs_by_id[number] = structs.replace(self.jobs_by_id[number], **fields)


async def follow(ctld: LongQueue, now: list[float]) -> JobTracker:
    tracker = tracker_for(ctld, lambda: now[0])
    for number in ctld.jobs_by_id:
        tracker.track(str(number), "")
    while not await tracker.read():
        pass
    tracker.lists_pending = True
    ctld.single_reads = 0
    return tracker


async def test_the_reasons_of_many_pending_jobs_come_from_one_list() -> None:
    ctld, now = LongQueue(300), [0.0]
    tracker = await follow(ctld, now)
    for number in range(1, 301):
        ctld.change(number, state_reason="JobHeldUser")
    now[0] = 60.0
    await tracker.read()
    assert await tracker.read_pending(since=None) == 1
    assert (ctld.lists, ctld.single_reads, tracker.pending_count) == (1, 0, 300)
    details = [tracker.table[str(number)].detail for number in range(1, 301)]
    assert {detail.state_reason for detail in details if detail} == {"JobHeldUser"}
    assert await tracker.read_pending(since=1) == 1, "nothing has changed"


async def test_a_job_that_starts_while_the_list_is_read_keeps_its_newer_state() -> None:
    ctld, now = LongQueue(10), [0.0]
    tracker = await follow(ctld, now)
    ctld.released.clear()
    reading = asyncio.create_task(tracker.read_pending(since=None))
    await asyncio.sleep(0)
    ctld.change(1, job_state=("RUNNING",), state_reason="None")
    await tracker.read()
    ctld.released.set()
    await reading
    assert tracker.table["1"].state.running


async def test_a_job_without_a_reason_is_read_singly_beside_the_list() -> None:
    ctld, now = LongQueue(300), [0.0]
    ctld.change(7, state_reason="None")
    tracker = await follow(ctld, now)
    ctld.change(7, state_reason="Resources")
    now[0] = 60.0
    await tracker.read()
    assert ctld.single_reads == 1
    detail = tracker.table["7"].detail
    assert detail is not None
    assert detail.state_reason == "Resources"


async def test_a_pass_examines_only_jobs_whose_state_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    ctld, now = LongQueue(300), [0.0]
    tracker = await follow(ctld, now)
    await tracker.read()
    examined: list[JobState] = []

    def required_reads(record: JobRecord | None, state: JobState, *, verify: bool) -> JobRead:
        examined.append(state)
        return JobRead.NOTHING

    monkeypatch.setattr(job_record, "required_reads", required_reads)
    await tracker.read()
    assert examined == []
    ctld.change(7, job_state=("RUNNING",))
    await tracker.read()
    assert [state.base for state in examined] == ["RUNNING"]
    tracker.verify_since(0)
    await tracker.read()
    assert len(examined) == 1 + 300, "the identity of every job must be read again"


async def test_a_state_that_a_single_read_found_is_compared_with_the_next_list() -> None:
    """The detail is newer than the list before it; the next list may show another state again."""
    ctld, now = LongQueue(10), [0.0]
    tracker = await follow(ctld, now)
    await tracker.read()
    ctld.change(1, job_state=("RUNNING",))
    assert await tracker.read_job("1")
    assert tracker.pending_count == 9
    ctld.change(1, job_state=("PENDING",))
    await tracker.read()
    assert tracker.table["1"].state.pending
    assert tracker.pending_count == 10


async def test_a_job_that_is_in_the_table_before_it_is_tracked_counts_as_pending() -> None:
    ctld = LongQueue(3)
    tracker = tracker_for(ctld)
    tracker.follow_all_jobs(True)
    await tracker.read()
    assert tracker.pending_count == 0
    tracker.track("2", "")
    assert tracker.pending_count == 1
    tracker.forget("2")
    assert (tracker.pending_count, len(tracker.table)) == (0, 3)
