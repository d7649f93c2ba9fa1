# SPDX-License-Identifier: Apache-2.0
"""`--watch` on a real Slurm: it prints what changes, survives an outage, and ends with the pipe or with Ctrl-C."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.job_requests import external_job
from tests.support.slurmrestd_proxy import SlurmrestdProxy, page
from tests.support.waiting import eventually

from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import SlurmClient


@asynccontextmanager
async def watching(slurm: LabSlurm, url: str, *argv: str) -> AsyncIterator[Process]:
    """A verb with `--watch` as a process of its own."""
    command = [sys.executable, "-m", "slinky.cli", *argv, "--watch", "--interval", "1", "--url", url]
    environment = {**os.environ, "SLURM_JWT": slurm.token()}
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=PIPE, stderr=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def line_with(process: Process, text: str) -> str:
    """The next line with this text."""
    assert process.stdout is not None
    async with asyncio.timeout(120):
        while line := (await process.stdout.readline()).decode():
            if text in line:
                return line
    raise AssertionError(f"the watch ended without {text!r}")


async def test_a_change_is_printed_and_ctrl_c_is_success(slurm: LabSlurm, client: SlurmClient) -> None:
    async with watching(slurm, slurm.url, "queue", "-o", "name") as process:
        for _ in range(2):
            job = (await client.submit(external_job(hold=True))).job_id
            await line_with(process, f"job/{job}\n")
        process.send_signal(signal.SIGINT)
        _, errors = await process.communicate()
        assert (process.returncode, errors) == (0, b"")


async def test_a_closed_pipe_ends_a_watch_even_if_nothing_changes(slurm: LabSlurm) -> None:
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "slinky.cli", "nodes", "-o", "name", "--watch", "--interval", "60"]
    environment = {**os.environ, "SLURM_JWT": slurm.token(), "SLINKY_SLURM_URL": slurm.url}
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=writing, stderr=PIPE)
    os.close(writing)
    assert (await asyncio.to_thread(os.read, reading, 5)).startswith(b"node/")
    os.close(reading)
    _, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")


async def test_an_outage_is_reported_once_and_the_watch_goes_on(
    slurm: LabSlurm, client: SlurmClient, proxy: SlurmrestdProxy
) -> None:
    job = (await client.submit(external_job(hold=True))).job_id
    async with watching(slurm, proxy.url, "explain", str(job)) as process:
        await line_with(process, "held")
        proxy.fault = page(503, "down")
        assert process.stderr is not None
        async with asyncio.timeout(120):
            report = (await process.stderr.readline()).decode()
        assert report.startswith("slinky: no answer for ")
        await eventually(lambda: proxy.faults > 3, "further reads during the outage")
        proxy.fault = None
        slurm.exec("scontrol", "release", str(job))
        await line_with(process, f"Job {job} ")
        process.send_signal(signal.SIGINT)
        _, errors = await process.communicate()
        assert (process.returncode, errors) == (0, b"")
