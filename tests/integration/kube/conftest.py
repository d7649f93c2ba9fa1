# SPDX-License-Identifier: Apache-2.0
"""A client of the shared control plane, and a namespace per test."""

import secrets
from collections.abc import AsyncIterator

import pytest

from slinky.kube import NAMESPACES, KubeClient, connect
from slinky.lab.kubernetes.bare_plane import BarePlane


@pytest.fixture(scope="session")
async def client(plane: BarePlane) -> AsyncIterator[KubeClient]:
    async with connect(plane.kubeconfig) as connected:
        yield connected


@pytest.fixture
async def namespace(client: KubeClient) -> str:
    """A namespace per test; it ends with the control plane."""
    name = f"t-{secrets.token_hex(4)}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    return name
