# SPDX-License-Identifier: Apache-2.0
"""Answers that come late: they are about the job that was asked for, and waiting for them is not what they cost."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

from slinky.slurm import Job, JobStatus, Presence, Problem, SlurmClient, SlurmNotFound
from slinky.slurm.mirror.job_tracker import ENDS, JobTracker
from slinky.slurm.model.views import StepId


def job(sluid: str) -> Job:
    return Job(job_id=1, job_state=("RUNNING",), step_id=StepId(sluid=sluid))


class Ctld:
    """A slurmctld with one job, and answers that can be held back."""

    def __init__(self) -> None:
        self.has: Job | None = job("old")
        self.states: tuple[JobStatus, ...] = (JobStatus("1", ("RUNNING",)),)
        self.free = asyncio.Event()
        self.free.set()
        self.accounting = self

    async def job_states(self, ids: list[str] | None = None) -> list[JobStatus]:
        return list(self.states)

    async def resources(self, number: int) -> tuple[()]:
        return ()

    async def job(self, number: str) -> Job:
        found = self.has
        await self.free.wait()
        if found is None:
            raise SlurmNotFound(Problem(2017, "no such job"))
        return found


def book_of(ctld: Ctld, clock: Callable[[], float] = time.monotonic) -> JobTracker:
    client = cast(SlurmClient, cast(Any, ctld))
    return JobTracker(client, everything=False, patience=0, clock=clock, tell=lambda _: None)


async def test_the_loss_of_a_job_is_not_the_loss_of_the_next_one_with_its_id() -> None:
    ctld = Ctld()
    book = book_of(ctld)
    book.track("1", "")
    assert await book.look("1")
    # slurmctld has lost it, and is slow to say so ...
    ctld.has, ctld.states = None, ()
    book.suspect(0)
    ctld.free.clear()
    reading = asyncio.create_task(book.read())
    await asyncio.sleep(0.01)
    # ... while another is made, which gets its id.
    ctld.has = job("new")
    book.forget("1")
    book.track("1", "")
    looking = asyncio.create_task(book.look("1"))
    await asyncio.sleep(0.01)
    ctld.free.set()
    assert await looking
    await reading
    presence, record = book.whereabouts("1")
    assert presence is Presence.PRESENT
    assert record is not None
    assert record.sluid == "new"


async def test_waiting_for_slurms_scheduler_is_not_what_a_reading_costs_unless_all_of_them_do() -> None:
    now, took = 0.0, 0.2

    class Slow(Ctld):
        async def job_states(self, ids: list[str] | None = None) -> list[JobStatus]:
            nonlocal now
            now += took
            return await super().job_states(ids)

    ctld = Slow()
    book = book_of(ctld, lambda: now)
    book.track("1", "")
    costs = []
    for took in (0.2, 1.5, 1.5, 0.2, 1.5, 1.5, 1.5, 1.5):  # noqa: B007 - used by the server
        await book.read()
        costs.append(round(book.cost, 3))
    assert costs == [0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 1.5]


async def test_a_crowd_of_ends_is_told_at_once_and_read_a_few_at_a_time() -> None:
    read: list[str] = []

    class Many(Ctld):
        words = ("RUNNING",)

        async def job_states(self, ids: list[str] | None = None) -> list[JobStatus]:
            return [JobStatus(key, self.words) for key in ids or ()]

        async def job(self, number: str) -> Job:
            read.append(number)
            return Job(job_id=int(number), job_state=self.words, step_id=StepId(sluid=f"s{number}"))

    ctld = Many()
    book = book_of(ctld)
    crowd = [str(number) for number in range(1, 61)]
    for key in crowd:
        book.track(key, "")
    await book.read()
    read.clear()
    ctld.words = ("CANCELLED",)
    rounds = []
    for _ in range(4):
        await book.read()
        assert all(book.table[key].over for key in crowd)
        rounds.append((len(read), book.unread))
        read.clear()
    assert rounds == [(0, True), (ENDS, True), (ENDS, True), (60 - 2 * ENDS, False)]


async def test_whoever_needs_no_devices_is_told_the_nodes_by_one_question() -> None:
    class Placed(Ctld):
        asked = 0

        async def resources(self, number: int) -> tuple[()]:
            self.asked += 1
            return ()

    ctld = Placed()
    ctld.has = Job(job_id=1, job_state=("RUNNING",), step_id=StepId(sluid="one"), nodes="n[2-3],a1")
    book = book_of(ctld)
    book.track("1", "")
    assert await book.look("1", exact=False)
    assert [granted.node for granted in book.table["1"].resources or ()] == ["n2", "n3", "a1"]
    assert await book.read()
    assert ctld.asked == 0
    assert await book.look("1")
    assert ctld.asked == 1
