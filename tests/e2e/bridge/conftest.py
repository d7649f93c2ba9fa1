# SPDX-License-Identifier: Apache-2.0
"""A bridge over the shared lab: real kubelets, real containers, real controllers, real Slurm."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from slinky.bridge import names
from slinky.bridge.app import assemble
from slinky.bridge.config import Settings
from slinky.kube import Client, connect
from slinky.lab.lab import Lab
from slinky.lab.prepare.images import reference
from slinky.slurm import Client as Slurm
from slinky.slurm import MintedToken

SCHEDULER = "e2e-bridge"
NODES = ("node1", "node2")


@pytest.fixture(scope="session")
async def kube(lab: Lab) -> AsyncIterator[Client]:
    """A client of the lab."""
    async with connect(lab.kubeconfig, manager="slurm-bridge") as client:
        yield client


@pytest.fixture(scope="session")
async def ctld(lab: Lab) -> AsyncIterator[Slurm]:
    """A client of the lab's Slurm."""
    async with Slurm(lab.slurm.url, MintedToken(lambda: lab.slurm.jwt_key, "slurm")) as client:
        yield client


@pytest.fixture(scope="module")
async def bridge(lab: Lab, kube: Client, ctld: Slurm) -> AsyncIterator[str]:
    """A running bridge, with both nodes in Slurm; its scheduler name. The lab is left as it was."""
    mark = [f"{names.EXTERNAL_LABEL}="]
    notes = [f"{names.PARTITIONS_ANNOTATION}=ext", f"{names.TOPOLOGY_ANNOTATION}=default:leaf1"]
    lab.kubectl("label", "node", *NODES, *mark)
    lab.kubectl("annotate", "node", *NODES, *notes)
    settings = Settings(scheduler_name=SCHEDULER, partition="ext", leader_elect=False, taint="NoSchedule")
    task = asyncio.create_task((await assemble(settings, kube, ctld)).run())
    try:
        await _hosts(ctld, set(NODES))
        yield SCHEDULER
        lab.kubectl("label", "node", *NODES, f"{names.EXTERNAL_LABEL}-")
        await _hosts(ctld, set())
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, BaseExceptionGroup):
            await task
        keys = (names.PARTITIONS_ANNOTATION, names.TOPOLOGY_ANNOTATION)
        lab.kubectl("annotate", "node", *NODES, *(f"{key}-" for key in keys))


async def _hosts(ctld: Slurm, wanted: set[str]) -> None:
    async with asyncio.timeout(60):
        while True:
            listing = await ctld.nodes()
            found = {host.name for host in (listing.items if listing else ()) if host.name in NODES}
            if found == wanted:
                return
            await asyncio.sleep(0.2)


def template(scheduler: str, command: str = "sleep 3", **more: Any) -> dict[str, Any]:
    """The spec of a pod that runs a shell command."""
    container = {
        "name": "c",
        "image": reference("busybox"),
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", command],
        **more.pop("container", {}),
    }
    return {
        "schedulerName": scheduler,
        "terminationGracePeriodSeconds": 1,
        "restartPolicy": "Never",
        "containers": [container],
        **more,
    }
