# SPDX-License-Identifier: Apache-2.0
"""The states of all jobs from `jobs/state/` and from `jobs/`: real slurmrestd, the same entries."""

import asyncio

import pytest
from tests.support.waiting import eventually

from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import Mirror, SlurmClient
from slinky.slurm.job_states import expand_records

pytestmark = pytest.mark.lab

#: Arrays with holes, steps, a limit of concurrent tasks and tasks that run; a heterogeneous job; ended and held jobs.
JOBS = """
sbatch -p work --hold --array=0-9,20,30-40:5%2 --wrap=true
sbatch -p work --cpus-per-task=1 --array=1-6%2 --wrap='sleep 600'
sbatch -p work --hold -n1 : -n1 --wrap=true
sbatch -p work --hold --wrap=true
sbatch -p work --wrap=true
"""


async def test_records_expand_to_the_entries_that_slurmrestd_lists(slurm: LabSlurm, client: SlurmClient) -> None:
    slurm.exec("sh", "-ec", JOBS, user="alice")
    try:

        async def are_equal() -> bool:
            listing = await client.jobs()
            assert listing is not None
            records = {entry.job_id: entry.state for entry in expand_records(listing.items)}
            states = {entry.job_id: entry.state for entry in await client.job_states()}
            assert records == states
            return any("_" in name and state.running for name, state in states.items())

        await eventually(are_equal, "a running task and equal lists")
    finally:
        slurm.exec("scancel", "--user=alice")


async def test_the_mirror_knows_how_many_tasks_of_an_array_run(slurm: LabSlurm, client: SlurmClient) -> None:
    array = slurm.exec("sbatch", "--parsable", "-p", "work", "--array=1-6%2", "--wrap=sleep 600", user="alice").strip()
    mirror = Mirror(client)
    mirror.track(array)
    try:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(mirror.run())

            async def is_known() -> bool:
                record = mirror.jobs.get(array)
                assert record is not None
                assert record.detail is not None
                return record.state.pending and (record.running_tasks, record.detail.array_task_string) == (2, "3-6%2")

            await eventually(is_known, "two running tasks")
            running.cancel()
    finally:
        slurm.exec("scancel", array)
