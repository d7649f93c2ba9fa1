# SPDX-License-Identifier: Apache-2.0
"""One client for each side per session, a scene per test."""

import contextlib
from collections.abc import AsyncIterator

import pytest
from tests.integration.bridge.scene import Scene, scene

from slinky.kube import NAMESPACES, AlreadyExists, Key, KubeClient, connect
from slinky.lab.kubernetes.bare_plane import PlainPlane
from slinky.lab.slurm.cluster import Beside
from slinky.slurm import MintedToken
from slinky.slurm import SlurmClient as Slurm


@pytest.fixture(scope="session")
async def kube(plane: PlainPlane) -> AsyncIterator[KubeClient]:
    """A client of the plain control plane."""
    async with connect(plane.kubeconfig, manager="slurm-bridge") as client:
        with contextlib.suppress(AlreadyExists):
            await client.create(NAMESPACES, NAMESPACES.manifest(Key("", "kube-system")))
        yield client


@pytest.fixture(scope="session")
async def ctld(slurm: Beside) -> AsyncIterator[Slurm]:
    """A client of the lab's Slurm."""
    async with Slurm(slurm.url, MintedToken(lambda: slurm.jwt_key, "slurm")) as client:
        yield client


@pytest.fixture
async def stage(kube: KubeClient, ctld: Slurm) -> AsyncIterator[Scene]:
    """A running bridge with one node."""
    async with scene(kube, ctld) as made:
        await made.start()
        await made.node()
        yield made


@pytest.fixture
async def trio(kube: KubeClient, ctld: Slurm) -> AsyncIterator[Scene]:
    """A running bridge with three nodes."""
    async with scene(kube, ctld) as made:
        await made.start()
        for number in (1, 2, 3):
            await made.node(number)
        yield made
