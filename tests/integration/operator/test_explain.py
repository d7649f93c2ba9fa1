# SPDX-License-Identifier: Apache-2.0
"""`slinky explain` of a NodeSet, on a real API server, with a real operator and a real Slurm."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.integration.operator.stage import BAD, SlurmStage, slurm_stage
from tests.support.waiting import eventually
from typer.testing import CliRunner

from slinky.cli.main import app
from slinky.kube import PODS, Key
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import NodeUpdate


@pytest.fixture
async def stage(plane: BarePlane, slurm: LabSlurm, crds: None, tmp_path: Path) -> AsyncIterator[SlurmStage]:
    async with slurm_stage(plane, slurm, tmp_path) as stage:
        yield stage


async def explain(stage: SlurmStage, plane: BarePlane, slurm: LabSlurm, target: str, code: int = 0) -> str:
    """What the command prints about an object of the stage's namespace."""
    where = ["--url", slurm.url, "--kubeconfig", str(plane.kubeconfig), "--pod-namespace", stage.namespace]
    result = await asyncio.to_thread(
        CliRunner().invoke, app, ["explain", target, *where], env={"SLURM_JWT": slurm.token()}
    )
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


async def test_a_node_set_names_the_worker_that_cannot_start_and_the_drained_one(
    stage: SlurmStage, plane: BarePlane, slurm: LabSlurm
) -> None:
    await stage.apply_workers(2)
    await stage.wait_workers(2)
    assert f"NodeSet {stage.namespace}/gpu is ready." in await explain(stage, plane, slurm, "nodeset/gpu")
    await stage.slurm.update_node(f"{stage.prefix}0", NodeUpdate(state=["DRAIN"], reason="broken fan"))
    text = await explain(stage, plane, slurm, "nodeset/gpu")
    assert "1 worker starts no jobs." in text
    assert "broken fan" in text
    await stage.apply_workers(3, image=BAD)

    async def new_worker() -> bool:
        return "gpu-2" in await stage.pods()

    await eventually(new_worker, "a third worker")
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "bad is not an image"}}
    containers = [{"name": "slurmd", "image": BAD, "imageID": "", "ready": False, "restartCount": 0, "state": waiting}]
    status = {"phase": "Pending", "containerStatuses": containers}
    await stage.client.patch(PODS, Key(stage.namespace, "gpu-2"), {"status": status}, subresource="status")

    async def is_named() -> bool:
        text = await explain(stage, plane, slurm, "nodeset/gpu")
        assert "The worker gpu-2 cannot start: container slurmd waits (ErrImagePull): bad is not an image." in text
        assert "NodeSet" in text and "is degraded." in text
        return True

    await eventually(is_named, "the worker that cannot start")


async def test_an_unknown_node_set_suggests_a_near_one(stage: SlurmStage, plane: BarePlane, slurm: LabSlurm) -> None:
    await stage.apply_workers(0)
    assert "gpu" in await explain(stage, plane, slurm, "nodeset/gpo", code=3)
