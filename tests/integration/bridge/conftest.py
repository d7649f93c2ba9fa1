# SPDX-License-Identifier: Apache-2.0
"""One client for the API server and one for Slurm per session, a stage per test."""

import contextlib
from collections.abc import AsyncIterator

import pytest
from tests.integration.bridge.bridge_stage import BridgeStage, bridge_stage

from slinky.kube import NAMESPACES, AlreadyExists, Key, KubeClient, connect
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import MintedToken
from slinky.slurm import SlurmClient as Slurm


@pytest.fixture(scope="session")
async def kube(plane: BarePlane) -> AsyncIterator[KubeClient]:
    """A client of the bare control plane."""
    async with connect(plane.kubeconfig, manager="slurm-bridge") as client:
        with contextlib.suppress(AlreadyExists):
            await client.create(NAMESPACES, NAMESPACES.manifest(Key("", "kube-system")))
        yield client


@pytest.fixture(scope="session")
async def ctld(slurm: LabSlurm) -> AsyncIterator[Slurm]:
    """A client of the lab's Slurm."""
    async with Slurm(slurm.url, MintedToken(lambda: slurm.jwt_key, "slurm")) as client:
        yield client


@pytest.fixture
async def stage(kube: KubeClient, ctld: Slurm) -> AsyncIterator[BridgeStage]:
    """A running bridge with one node."""
    async with bridge_stage(kube, ctld) as stage:
        await stage.start()
        await stage.add_node()
        yield stage


@pytest.fixture
async def three_nodes(kube: KubeClient, ctld: Slurm) -> AsyncIterator[BridgeStage]:
    """A running bridge with three nodes."""
    async with bridge_stage(kube, ctld) as stage:
        await stage.start()
        for number in (1, 2, 3):
            await stage.add_node(number)
        yield stage
