# SPDX-License-Identifier: Apache-2.0
"""One client for the API server and one for Slurm per session, a stage per test."""

import contextlib
from collections.abc import AsyncIterator

import pytest
from tests.integration.bridge.bridge_stage import BridgeStage, bridge_stage
from tests.support.waiting import eventually

from slinky.kube import CUSTOM_RESOURCES, NAMESPACES, AlreadyExists, Key, KubeClient, Unstructured, connect, discover
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import MintedToken
from slinky.slurm import SlurmClient as Slurm

_DEFINITIONS = CUSTOM_RESOURCES.viewed_as(Unstructured)
_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


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


@pytest.fixture(scope="module")
async def job_sets(kube: KubeClient) -> AsyncIterator[None]:
    """A server that has JobSets."""
    schema = {"type": "object", "properties": {"spec": _ANY, "status": _ANY}}
    version = {"name": "v1alpha2", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    naming = {"kind": "JobSet", "plural": "jobsets", "singular": "jobset", "listKind": "JobSetList"}
    spec = {"group": "jobset.x-k8s.io", "names": naming, "scope": "Namespaced", "versions": [version]}
    key = Key("", "jobsets.jobset.x-k8s.io")
    # The API server requires this of groups below k8s.io.
    approved = {"annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/jobset"}}
    await kube.create(_DEFINITIONS, _DEFINITIONS.manifest(key, metadata=approved, spec=spec))

    async def is_discovered() -> bool:
        return bool((await discover(kube)).versions("jobset.x-k8s.io", "JobSet"))

    async def is_served() -> bool:
        await kube.send("GET", "/apis/jobset.x-k8s.io/v1alpha2/jobsets")
        return await is_discovered()

    async def is_removed() -> bool:
        return not await is_discovered() and await kube.find(_DEFINITIONS, key) is None

    await eventually(is_served, "JobSets")
    yield
    await kube.delete(_DEFINITIONS, key)
    await eventually(is_removed, "a server without JobSets")
