# SPDX-License-Identifier: Apache-2.0
"""`slinky explain` of a job with segments on a real Slurm with blocks: it names the blocks that lack nodes."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.golden import GoldenFile, normalise
from tests.support.job_requests import external_job
from tests.support.labs import SessionLabs
from tests.support.slurm_settings import FOLDER
from tests.support.waiting import eventually
from typer.testing import CliRunner

from slinky.cli.main import app
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import MintedToken, SlurmClient, number

GOLDEN = GoldenFile(Path(__file__).parent / "golden" / "topology.txt")
BLOCKS = """\
- topology: nvl
  cluster_default: true
  block:
    block_sizes: [4]
    blocks:
      - block: b1
      - block: b2
"""
HOSTS_PER_BLOCK = 4


@pytest.fixture(scope="module")
def blocks(session_labs: SessionLabs) -> LabSlurm:
    """A Slurm of its own with two blocks of nodes."""
    slurm = session_labs.make(nodes=0, slurm="alone").slurm
    slurm.exec("sh", "-ec", f"cat > {FOLDER}/topology.yaml; scontrol reconfigure", input=BLOCKS)
    for block in ("b1", "b2"):
        shape = (
            f"NodeName={block}-[1-{HOSTS_PER_BLOCK}] NodeAddr=127.0.0.1 CPUs=16 RealMemory=64000 State=EXTERNAL "
            f"Feature=ext Topology=nvl:{block}"
        )
        slurm.exec("scontrol", "create", *shape.split())
    return slurm


@pytest.fixture
async def client(blocks: LabSlurm) -> AsyncIterator[SlurmClient]:
    async with SlurmClient(blocks.url, MintedToken(lambda: blocks.jwt_key, "alice")) as client:
        yield client


async def test_blocks_that_lack_nodes_for_a_segment_are_named(blocks: LabSlurm, client: SlurmClient) -> None:
    names: dict[int, str] = {}
    for host in ("b1-1", "b2-1", "b2-2"):
        taken = await client.submit(external_job(name=f"on-{host}", required_nodes=[host], tasks=16))
        names[taken.job_id] = f"on-{host}"

    async def running() -> bool:
        listing = await client.jobs()
        return all(job.state.running for job in (listing.items if listing else ()) if job.job_id in names)

    await eventually(running, "the jobs that take nodes of the blocks")
    gang = await client.submit(external_job(name="gang", nodes="4", tasks=4, segment_size=number(4)))
    names[gang.job_id] = "gang"

    async def waits() -> bool:
        return bool((await client.job(gang.job_id)).state_description)

    await eventually(waits, "slurmctld's text about the job with a segment")
    arguments, env = ["explain", str(gang.job_id), "--url", blocks.url], {"SLURM_JWT": blocks.token()}
    # In a thread: the command has an event loop of its own.
    result = await asyncio.to_thread(CliRunner().invoke, app, arguments, env=env)
    assert result.exit_code == 0, result.output
    GOLDEN.check("segment", normalise(result.output, names).replace(". ", ".\n"))
