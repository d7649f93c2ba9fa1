# SPDX-License-Identifier: Apache-2.0
"""The page on a real slurmctld: it follows jobs and nodes, explains and forecasts, and says when Slurm is away."""

import asyncio

import aiohttp
from tests.support.job_requests import external_job
from tests.support.slurmrestd_proxy import SlurmrestdProxy
from tests.support.slurmrestd_proxy import page as fault_page
from tests.support.waiting import eventually
from tests.unit.web.sample_pages import StrictReader

from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import JobSelection, SlurmClient
from slinky.web.visibility import private_kinds


async def read(session: aiohttp.ClientSession, address: str) -> str:
    """The text of a page, which is well-formed."""
    async with session.get(address) as response:
        return " ".join(StrictReader(await response.text()).text)


async def shows(session: aiohttp.ClientSession, address: str, *texts: str) -> str:
    """The text of a page that contains these texts."""

    async def check() -> str | None:
        text = await read(session, address)
        return text if all(part in text for part in texts) else None

    return await eventually(check, f"{texts} on {address}")


async def test_the_page_follows_the_queue(page: aiohttp.ClientSession, client: SlurmClient) -> None:
    hostile = "<script>alert(1)</script>"
    running = await client.submit(external_job(nodes="4", tasks=4, tres_per_node="gres/gpu:8"))
    pending = await client.submit(external_job(nodes="2", tasks=2, tres_per_node="gres/gpu:8", name=hostile))
    try:
        await shows(page, "/queue?state=running", str(running.job_id), "k[001-004]")
        await shows(page, f"/queue?state=pending&name={hostile}", str(pending.job_id), hostile, "Resources")
        text = await shows(page, f"/jobs/{pending.job_id}", "Expected start: ", "position 1 of 1")
        assert f"Job {pending.job_id} ({hostile}) of slurm is pending." in text
        assert "Submitted: " in text
        await shows(page, f"/jobs/{running.job_id}", "k001", "Ends by its time limit")
        await shows(page, "/nodes", "k001, mixed", str(running.job_id))
        await shows(page, "/nodes/k001", f"It runs job {running.job_id} of slurm")
        await shows(page, "/", "32/32")
        async with page.get("/live", params={"address": "/queue?state=all"}) as events:
            await client.cancel(running.job_id)
            await read_until(events, f"/jobs/{running.job_id}", "cancelled")
        await shows(page, "/queue?state=running", str(pending.job_id))
    finally:
        await client.cancel_many(JobSelection(user_name="slurm"))


async def read_until(events: aiohttp.ClientResponse, *texts: str) -> None:
    """Read live updates until one contains every text."""
    async with asyncio.timeout(120):
        async for line in events.content:
            if all(text in line.decode() for text in texts):
                return


async def test_tasks_of_an_array_that_wait_are_one_job(page: aiohttp.ClientSession, slurm: LabSlurm) -> None:
    command = ["sbatch", "--parsable", "--hold", "--array=0-5%2", "--job-name=sweep", "--output=/dev/null"]
    number = slurm.exec(*command, user="alice", input="#!/bin/sh\ntrue\n").strip()
    try:
        await shows(page, "/queue?state=pending&name=sweep", number, "(6 tasks)", "JobHeldUser")
        await shows(page, f"/jobs/{number}", "6 tasks wait")
    finally:
        slurm.exec("scancel", number)


async def test_a_drained_node_has_its_owner_and_reason(page: aiohttp.ClientSession, slurm: LabSlurm) -> None:
    slurm.exec("scontrol", "update", "NodeName=k002", "State=DRAIN", "Reason=bad <b>fan</b>")
    try:
        owner = slurm.exec("sinfo", "-h", "-n", "k002", "-o", "%u").strip()
        await shows(page, "/nodes?state=drained", "k002", "bad <b>fan</b>", owner)
        await shows(page, "/nodes/k002", "It starts no jobs")
        await shows(page, "/", "Drained nodes with their reasons")
    finally:
        slurm.exec("scontrol", "update", "NodeName=k002", "State=RESUME")


async def test_limits_are_shown_with_their_use(
    page: aiohttp.ClientSession, client: SlurmClient, slurm: LabSlurm
) -> None:
    slurm.exec("sacctmgr", "-i", "modify", "qos", "normal", "set", "GrpTRES=gres/gpu=16")
    try:
        await client.submit(external_job(tres_per_node="gres/gpu:8"))
        await shows(page, "/accounts", "Fair shares")
    finally:
        slurm.exec("sacctmgr", "-i", "modify", "qos", "normal", "set", "GrpTRES=gres/gpu=-1")
        await client.cancel_many(JobSelection(user_name="slurm"))


async def test_a_slurm_that_is_away_is_named_and_its_last_state_stays(
    page: aiohttp.ClientSession, proxy: SlurmrestdProxy
) -> None:
    await shows(page, "/nodes", "k001, idle")
    proxy.fault = fault_page(502, "no slurmrestd")
    await shows(page, "/nodes", "Slurm cannot be reached", "k001, idle")
    proxy.fault = None
    await eventually(lambda: recovered(page), "the return of Slurm")


async def recovered(session: aiohttp.ClientSession) -> bool:
    return "Slurm cannot be reached" not in await read(session, "/nodes")


async def test_the_configuration_says_what_is_private(client: SlurmClient) -> None:
    assert private_kinds((await client.conf()).settings) == frozenset()
