# SPDX-License-Identifier: Apache-2.0
"""`slinky explain` of pods and gangs, on a real API server, with a real bridge and a real Slurm."""

import asyncio

from tests.integration.bridge.bridge_stage import BridgeStage
from typer.testing import CliRunner

from slinky.bridge import names
from slinky.bridge.views import OUR_PODS
from slinky.cli.main import app
from slinky.kube import Key
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.slurm.cluster import LabSlurm


async def explain(stage: BridgeStage, plane: BarePlane, slurm: LabSlurm, *targets: str, code: int = 0) -> str:
    """What the command prints about objects of the stage's namespace."""
    where = ["--url", slurm.url, "--kubeconfig", str(plane.kubeconfig), "--pod-namespace", stage.namespace]
    arguments, environment = ["explain", *targets, *where], {"SLURM_JWT": slurm.token()}
    result = await asyncio.to_thread(CliRunner().invoke, app, arguments, env=environment)
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


async def test_the_missing_member_of_a_gang_is_named(stage: BridgeStage, plane: BarePlane, slurm: LabSlurm) -> None:
    label = await stage.create_batch_job(3)
    for name in ("a", "b"):
        await stage.create_pod(name, labels=label)
        await stage.wait_reason(name, "GangIncomplete")
    for target in ("gang/j", "pod/a"):
        text = await explain(stage, plane, slurm, target)
        assert text.startswith(f"Gang {stage.namespace}/j is waiting for a Slurm job. Pods a and b: 2 of 3 pods"), text
        assert "It has 2 pods, of which 0 have a node; it is not in Slurm yet." in text


async def test_a_gang_is_explained_with_its_job(stage: BridgeStage, plane: BarePlane, slurm: LabSlurm) -> None:
    job = await stage.run_gang_of_two()
    text = await explain(stage, plane, slurm, "gang/j")
    assert f"in Slurm as job {job.job_id}. It has 2 pods, of which 2 have a node" in text
    assert f"Job {job.job_id} " in text
    assert "is running" in text


async def test_a_refused_annotation_is_quoted(stage: BridgeStage, plane: BarePlane, slurm: LabSlurm) -> None:
    await stage.create_pod("a", annotations={names.OPTION + "timelimit": "soon"})
    message = await stage.wait_reason("a", "InvalidOption")
    text = await explain(stage, plane, slurm, "pod/a")
    assert "timelimit" in message
    assert " ".join(message.split()).rstrip(".") in text
    assert "(InvalidOption)." in text


async def test_a_container_that_cannot_start_is_named(stage: BridgeStage, plane: BarePlane, slurm: LabSlurm) -> None:
    await stage.create_pod("a")
    node = (await stage.wait_bound("a")).spec.node_name
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    containers = [{"name": "c", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": waiting}]
    status = {"phase": "Pending", "containerStatuses": containers}
    await stage.client.patch(OUR_PODS, Key(stage.namespace, "a"), {"status": status}, subresource="status")
    text = await explain(stage, plane, slurm, "pod/a")
    assert f"Pod a cannot start on node {node}: container c waits (ImagePullBackOff): no such image." in text
    assert "is running" in text


async def test_a_pod_of_another_scheduler_is_recognised(stage: BridgeStage, plane: BarePlane, slurm: LabSlurm) -> None:
    await stage.create_pod("a", schedulerName="other")
    assert "the scheduler name other is not its own" in await explain(stage, plane, slurm, "pod/a")


async def test_an_unknown_pod_suggests_a_near_one(stage: BridgeStage, plane: BarePlane, slurm: LabSlurm) -> None:
    await stage.create_pod("train-0", schedulerName="other")
    assert "train-0" in await explain(stage, plane, slurm, "pod/train-1", code=3)
