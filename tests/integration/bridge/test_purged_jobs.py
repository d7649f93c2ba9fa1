# SPDX-License-Identifier: Apache-2.0
"""Jobs that ended while the bridge was down and that slurmctld has purged since: accounting knows how they ended."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.integration.bridge.bridge_stage import BridgeStage, bridge_stage
from tests.support.slurm_settings import slurm_settings
from tests.support.waiting import eventually

from slinky.kube import KubeClient
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import Job, NodeUpdate, SlurmNotFound
from slinky.slurm import SlurmClient as Slurm


@pytest.fixture(scope="module")
def purging(slurm: LabSlurm) -> Iterator[LabSlurm]:
    """A slurmctld that purges jobs soon after their end."""
    with slurm_settings(slurm, {"MinJobAge": "2"}):
        yield slurm


@pytest.fixture
async def stage(kube: KubeClient, ctld: Slurm, purging: LabSlurm) -> AsyncIterator[BridgeStage]:
    """A running bridge with three nodes."""
    async with bridge_stage(kube, ctld) as stage:
        await stage.start()
        for number in (1, 2, 3):
            await stage.add_node(number)
        yield stage


async def wait_purged(stage: BridgeStage, *jobs: Job) -> None:
    """Wait until slurmctld has forgotten these jobs."""

    async def purged() -> bool:
        for job in jobs:
            try:
                await stage.slurm.job(job.job_id)
            except SlurmNotFound:
                continue
            return False
        return True

    await eventually(purged, f"slurmctld to purge {[job.job_id for job in jobs]}")


async def test_the_end_of_a_purged_job_is_read_from_accounting(stage: BridgeStage) -> None:
    """A pod of a cancelled job is evicted for good, one whose node failed may be replaced, one that runs stays."""
    for name in ("cancelled", "failed", "running"):
        await stage.run_pod(name)
    jobs = {name: await stage.wait_job(name) for name in ("cancelled", "failed", "running")}
    host = (await stage.get_pod("failed")).spec.node_name
    await stage.crash()
    await stage.slurm.cancel(jobs["cancelled"].job_id)
    await stage.slurm.update_node(host, NodeUpdate(state=("DOWN",), reason="test"))
    await wait_purged(stage, *(jobs[name] for name in ("cancelled", "failed")))
    await stage.slurm.update_node(host, NodeUpdate(state=("RESUME",)))
    await stage.start()
    await asyncio.gather(
        stage.wait_evicted("cancelled", "SlurmJobCancelled", final=True),
        stage.wait_evicted("failed", "SlurmNodeFailed"),
    )
    await stage.settle()
    assert [job.sluid for job in await stage.jobs()] == [jobs["running"].sluid]
    assert not (await stage.get_pod("running")).metadata.deleting
