# SPDX-License-Identifier: Apache-2.0
"""The real API server with our definitions installed, and a namespace per test."""

import secrets
import subprocess
from collections.abc import AsyncIterator, Callable

import pytest
from tests.support.waiting import eventually

from slinky.api import crds
from slinky.kube import CUSTOM_RESOURCES, NAMESPACES, Key, KubeClient, Unstructured, connect
from slinky.lab.kubernetes.bare_plane import BarePlane

Kubectl = Callable[..., "subprocess.CompletedProcess[str]"]

WHOLE_DEFINITIONS = CUSTOM_RESOURCES.viewed_as(Unstructured)


@pytest.fixture(scope="session")
async def client(plane: BarePlane) -> AsyncIterator[KubeClient]:
    async with connect(plane.kubeconfig) as connected:
        yield connected


@pytest.fixture(scope="session")
async def installed(client: KubeClient) -> list[Unstructured]:
    """Our definitions, each of them established."""
    for manifest in crds.DEFINITIONS:
        await client.apply(CUSTOM_RESOURCES, manifest, manager="test")
    return [await established(client, manifest["metadata"]["name"]) for manifest in crds.DEFINITIONS]


async def established(client: KubeClient, name: str) -> Unstructured:
    """A definition, once the API server serves it."""

    async def find() -> Unstructured | None:
        definition = await client.get(WHOLE_DEFINITIONS, Key("", name))
        conditions = (definition.status or {}).get("conditions") or ()
        statuses = {condition["type"]: condition["status"] for condition in conditions}
        return definition if statuses.get("Established") == "True" else None

    return await eventually(find, f"definition {name}")


@pytest.fixture
async def space(client: KubeClient, installed: list[Unstructured]) -> str:
    """A namespace for each test; it is not deleted, because the API server ends with the session."""
    name = f"t-{secrets.token_hex(4)}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    return name


@pytest.fixture(scope="session")
def kubectl(plane: BarePlane) -> Kubectl:
    def call(*words: str, input: str | None = None) -> "subprocess.CompletedProcess[str]":
        argv = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), *words]
        return subprocess.run(argv, input=input, text=True, capture_output=True, timeout=60, check=False)

    return call
