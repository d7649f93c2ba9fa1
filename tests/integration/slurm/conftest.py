# SPDX-License-Identifier: Apache-2.0
"""The shared Slurm with four external hosts, a client of it, and a proxy to it that injects faults."""

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.support.slurmrestd_proxy import SlurmrestdProxy
from tests.support.waiting import until

from slinky.lab.lab import Lab
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import MintedToken, SlurmClient


@pytest.fixture(scope="module")
def slurm(slurm_lab: Lab) -> Iterator[LabSlurm]:
    """The shared Slurm; it has the external hosts k001 to k004 while the tests of one file run."""
    slurm = slurm_lab.slurm
    slurm.add_external_nodes(4, gpus=8)
    yield slurm
    slurm.exec("scancel", "--user=slurm")
    until(lambda: remove_hosts(slurm), "no job on the external hosts")


def remove_hosts(slurm: LabSlurm) -> bool:
    """Remove the external hosts; slurmctld refuses that while a job completes on one of them."""
    hosts = [name for name in slurm.exec("sinfo", "-h", "-N", "-o", "%N").split() if name.startswith("k00")]
    if hosts:
        slurm.remove_nodes(",".join(dict.fromkeys(hosts)))
    return True


@pytest.fixture
async def client(slurm: LabSlurm) -> AsyncIterator[SlurmClient]:
    async with SlurmClient(slurm.url, MintedToken(lambda: slurm.jwt_key, "slurm")) as client:
        yield client


@pytest.fixture
async def proxy(slurm: LabSlurm) -> AsyncIterator[SlurmrestdProxy]:
    async with SlurmrestdProxy(slurm.url) as proxy:
        yield proxy
