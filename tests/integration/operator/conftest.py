# SPDX-License-Identifier: Apache-2.0
"""The operator in a namespace of its own for each test, on a real API server without nodes."""

import asyncio
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.conftest import MakeLab
from tests.integration.operator import chart_credentials
from tests.integration.operator.stage import OperatorStage

from slinky.kube import connect
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.slurm.cluster import LabSlurm
from slinky.operator.app import main
from slinky.operator.settings import OperatorSettings


@pytest.fixture(scope="session")
def crds(plane: BarePlane) -> None:
    """Our custom resource definitions, established."""
    text = subprocess.run([sys.executable, "-m", "slinky.api.crds"], capture_output=True, check=True).stdout
    argv = [str(plane.kubectl), f"--kubeconfig={plane.kubeconfig}"]
    subprocess.run([*argv, "apply", "--server-side", "-f", "-"], input=text, check=True, capture_output=True)
    subprocess.run([*argv, "wait", "--for=condition=Established", "crd", "--all"], check=True, capture_output=True)


@pytest.fixture(scope="session")
def own_slurm(make_lab: MakeLab) -> LabSlurm:
    """A Slurm that may lose its state."""
    return make_lab(nodes=0, slurm="alone", slurm_nodes=1).slurm


@asynccontextmanager
async def operator_stages(plane: BarePlane, number: int) -> AsyncIterator[list[OperatorStage]]:
    """New namespaces in which one operator works."""
    names = tuple(f"op-{secrets.token_hex(3)}" for _ in range(number))
    settings = OperatorSettings(
        kubeconfig=str(chart_credentials.kubeconfig(plane)),
        namespaces=names,
        cluster_domain="cluster.local",
        trial_seconds=0,
        key_settle=1,
    )
    async with connect(str(plane.kubeconfig)) as client:
        stages = [OperatorStage(client, name) for name in names]
        for stage in stages:
            await stage.create_namespace()
        operator = asyncio.create_task(main(settings))
        yield stages
        operator.cancel()
        await asyncio.gather(operator, return_exceptions=True)


@pytest.fixture
async def stage(plane: BarePlane, crds: None) -> AsyncIterator[OperatorStage]:
    async with operator_stages(plane, 1) as (stage,):
        yield stage


@pytest.fixture
async def two_stages(plane: BarePlane, crds: None) -> AsyncIterator[list[OperatorStage]]:
    """Two namespaces of one operator."""
    async with operator_stages(plane, 2) as stages:
        yield stages
