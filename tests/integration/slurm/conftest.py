# SPDX-License-Identifier: Apache-2.0
"""The Slurm of the shared lab with a few external nodes, a client of it, and a way to it that can be broken."""

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.integration.slurm.faults import FaultProxy

from slinky.lab.lab import Lab
from slinky.lab.slurm.cluster import Beside
from slinky.slurm import MintedToken, SlurmClient


@pytest.fixture(scope="session")
def slurm(lab: Lab) -> Iterator[Beside]:
    """The shared Slurm; it has external nodes k001 to k004 while these tests run."""
    lab.slurm.add_external_nodes(4, gpus=8)
    yield lab.slurm
    lab.slurm.exec("scancel", "--user=slurm")
    lab.slurm.remove_nodes("k[001-004]")


@pytest.fixture
async def client(slurm: Beside) -> AsyncIterator[SlurmClient]:
    async with SlurmClient(slurm.url, MintedToken(lambda: slurm.jwt_key, "slurm")) as made:
        yield made


@pytest.fixture
async def proxy(slurm: Beside) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(slurm.url) as made:
        yield made
