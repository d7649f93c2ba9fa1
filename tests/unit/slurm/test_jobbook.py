# SPDX-License-Identifier: Apache-2.0
"""Answers that come late: they are about the job that was asked for, and waiting for them is not what they cost."""

import asyncio
import time
from typing import Any, cast

from slinky.slurm import Client, Job, JobStatus, NotFound, Presence, Problem
from slinky.slurm.jobbook import JobBook
from slinky.slurm.views import StepId


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
            raise NotFound(Problem(2017, "no such job"))
        return found


async def test_the_loss_of_a_job_is_not_the_loss_of_the_next_one_with_its_id() -> None:
    ctld = Ctld()
    book = JobBook(
        cast(Client, cast(Any, ctld)), everything=False, patience=0, clock=time.monotonic, tell=lambda _: None
    )
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
    book = JobBook(cast(Client, cast(Any, ctld)), everything=False, patience=0, clock=lambda: now, tell=lambda _: None)
    book.track("1", "")
    costs = []
    for took in (0.2, 1.5, 1.5, 0.2, 1.5, 1.5, 1.5, 1.5):  # noqa: B007 - used by the server
        await book.read()
        costs.append(round(book.cost, 3))
    assert costs == [0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 1.5]
