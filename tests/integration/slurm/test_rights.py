# SPDX-License-Identifier: Apache-2.0
"""Which AdminLevel of Slurm each call needs: the table of docs/security.md, tried on a real slurmctld."""

import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.job_requests import external_job
from tests.support.waiting import eventually, until

from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import (
    JobRequest,
    MintedToken,
    NodeUpdate,
    ReservationRequest,
    SlurmClient,
    SlurmError,
    node_conf,
    number,
)
from slinky.slurm.model.accounting_jobs import AccountingJobComment, JobOutcome

PAGE = Path(__file__).parents[3] / "docs/security.md"
#: From the least to the most powerful.
LEVELS = ("None", "Operator", "Administrator")
#: The user whose level is changed, and the owner of the jobs that are none of his business.
USER, OWNER = "bob", "alice"


class Rights:
    """A user of some level, and what SlurmUser prepares for his calls."""

    def __init__(self, slurm: LabSlurm, admin: SlurmClient, client: SlurmClient) -> None:
        self.slurm, self.admin, self.client, self.number = slurm, admin, client, 0

    def set_level(self, level: str) -> None:
        """Change the level of the user, and wait until slurmctld knows it."""
        self.slurm.exec("sacctmgr", "-i", "modify", "user", USER, "set", f"AdminLevel={level}")
        show = ("scontrol", "show", "assoc_mgr", f"users={USER}", "flags=users")
        until(lambda: f"AdminLevel={level}" in self.slurm.exec(*show), f"level {level}")

    async def job(self, **fields: Any) -> int:
        """A job of another user."""
        return (await self.admin.submit(external_job(user_id=OWNER, **fields))).job_id

    async def running_job(self) -> int:
        job = await self.job(required_nodes=("k002",))

        async def runs() -> bool:
            return (await self.admin.job(job)).state.running

        await eventually(runs, "the start of the job")
        return job

    def name(self) -> str:
        self.number += 1
        return f"rights{self.number}"


Call = Callable[[Rights], Awaitable[Any]]


async def _resources(rights: Rights) -> None:
    job = await rights.running_job()
    try:
        await rights.client.resources(job)
    finally:
        await rights.admin.cancel(job)


async def _create_host(rights: Rights) -> None:
    name = rights.name()
    await rights.client.create_node(node_conf(name, NodeAddr="127.0.0.1", State="EXTERNAL", Feature="ext", CPUs=1))
    await rights.admin.delete_nodes(name)


async def _delete_host(rights: Rights) -> None:
    name = rights.name()
    await rights.admin.create_node(node_conf(name, NodeAddr="127.0.0.1", State="EXTERNAL", Feature="ext", CPUs=1))
    try:
        await rights.client.delete_nodes(name)
    except SlurmError:
        await rights.admin.delete_nodes(name)
        raise


def _reservation(name: str) -> ReservationRequest:
    return ReservationRequest(
        name=name, node_list=("k004",), start_time=number(2**31 - 10**6), duration=number(60), users=(OWNER,)
    )


async def _reserve(rights: Rights) -> None:
    name = rights.name()
    await rights.client.write_reservation(_reservation(name))
    await rights.admin.delete_reservation(name)


async def _unreserve(rights: Rights) -> None:
    name = rights.name()
    await rights.admin.write_reservation(_reservation(name))
    try:
        await rights.client.delete_reservation(name)
    except SlurmError:
        await rights.admin.delete_reservation(name)
        raise


async def _on_job(rights: Rights, call: Callable[[int], Awaitable[Any]]) -> None:
    job = await rights.job(hold=True)
    try:
        await call(job)
    finally:
        with contextlib.suppress(SlurmError):
            await rights.admin.cancel(job)


async def _submit(rights: Rights, **fields: Any) -> None:
    submitted = await rights.client.submit(external_job(hold=True, **fields))
    job = await rights.admin.job(submitted.job_id)
    text = rights.slurm.exec("scontrol", "show", "job", str(job.job_id))
    await rights.admin.cancel(job.job_id)
    assert job.user_name == fields.get("user_id", USER)
    if f" Nice={fields.get('nice', 0)} " not in text or job.admin_comment != fields.get("admin_comment", ""):
        raise SlurmError("Slurm has ignored the value")


async def _priority(rights: Rights) -> None:
    submitted = await rights.client.submit(external_job(priority=number(10**6), required_nodes=("k003",)))
    job = await rights.admin.job(submitted.job_id)
    await rights.admin.cancel(job.job_id)
    if job.priority.whole != 10**6:
        raise SlurmError("Slurm has ignored the value")


async def _outcome(rights: Rights) -> None:
    job = await rights.running_job()
    await rights.admin.cancel(job)

    async def is_recorded() -> bool:
        with contextlib.suppress(SlurmError):
            return (await rights.admin.accounting.job(str(job))).state.ended
        return False

    await eventually(is_recorded, "the record of the job")
    text = JobOutcome(comment=AccountingJobComment(administrator="x"))
    await rights.client.accounting.write_outcome(job, text)
    written = await rights.admin.accounting.job(str(job))
    if written.comment.administrator != "x":
        raise SlurmError("slurmdbd has ignored the value")


#: The rows of the page.
CALLS: dict[str, Call] = {
    "read hosts, partitions, reservations, statistics": lambda rights: rights.client.nodes(),
    "read jobs of others": lambda rights: _on_job(rights, rights.client.job),
    "read the cores and devices of others' jobs": _resources,
    "submit a job": _submit,
    "submit a job for another user": lambda rights: _submit(rights, user_id=OWNER),
    "submit a job with a priority": _priority,
    "submit a job with a negative nice": lambda rights: _submit(rights, nice=-100),
    "submit a job with the comment of the administrator": lambda rights: _submit(rights, admin_comment="x"),
    "cancel a job of another user": lambda rights: _on_job(rights, rights.client.cancel),
    "change a pending job of another user": lambda rights: _on_job(
        rights, lambda job: rights.client.update_job(job, JobRequest(time_limit=number(30)))
    ),
    "write the comment of the administrator on a job": lambda rights: _on_job(
        rights, lambda job: rights.client.update_job(job, JobRequest(admin_comment="x"))
    ),
    "write the outcome of a job to accounting": _outcome,
    "create a reservation": _reserve,
    "delete a reservation": _unreserve,
    "drain or change a host": lambda rights: rights.client.update_node("k004", NodeUpdate(comment="x")),
    "create a host": _create_host,
    "delete a host": _delete_host,
    "reconfigure": lambda rights: rights.client.reconfigure(),
}


@pytest.fixture
async def rights(slurm: LabSlurm, client: SlurmClient) -> AsyncIterator[Rights]:
    async with SlurmClient(slurm.url, MintedToken(lambda: slurm.jwt_key, USER)) as own:
        rights = Rights(slurm, client, own)
        yield rights
        rights.set_level("None")


async def least_levels(rights: Rights) -> dict[str, str]:
    """The least level with which each call succeeds; SlurmUser if none suffices."""
    least = dict.fromkeys(CALLS, "SlurmUser")
    for level in reversed(LEVELS):
        rights.set_level(level)
        for name, call in CALLS.items():
            try:
                await call(rights)
            except SlurmError as error:
                print(level, name, "->", repr(error)[:200])
            else:
                least[name] = level
    return least


async def test_each_call_needs_the_level_that_the_page_names(rights: Rights) -> None:
    rows = dict(re.findall(r"(?m)^\| ([^|]+) \| `(None|Operator|Administrator|SlurmUser)` \|", PAGE.read_text()))
    assert await least_levels(rights) == rows
