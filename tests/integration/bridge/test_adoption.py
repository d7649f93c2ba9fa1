# SPDX-License-Identifier: Apache-2.0
"""Pods and jobs as the incumbent leaves them: running pods keep running, waiting pods keep their queue position."""

from typing import Any

from tests.integration.bridge.bridge_stage import BridgeStage
from tests.support.job_requests import external_job

from slinky.bridge import names
from slinky.bridge.views import OUR_PODS


async def incumbent_job(stage: BridgeStage, *pods: str, **more: Any) -> str:
    """A job as the incumbent submits it: its comment has pod names only, and it requires whole nodes."""
    pod_names = ",".join(f'"{stage.namespace}/{pod}"' for pod in pods)
    request = external_job(
        admin_comment=f'{{"pods":[{pod_names}]}}',
        nodes=str(len(pods)),
        minimum_nodes=1,
        tasks=len(pods),
        tasks_per_node=1,
        required_nodes=tuple(stage.nodes),
        shared=("none",),
        **more,
    )
    return str((await stage.slurm.submit(request)).job_id)


async def incumbent_pod(stage: BridgeStage, name: str, job: str, node: str = "") -> None:
    """A pod as the incumbent leaves it, on its node or waiting for one."""
    annotations = {names.NODE_ANNOTATION: node} if node else {}
    spec = {"nodeName": node} if node else {}
    manifest = stage.pod_manifest(name, labels={names.JOB_LABEL: job}, annotations=annotations, **spec)
    manifest["metadata"]["finalizers"] = [names.FINALIZER]
    await stage.client.create(OUR_PODS, manifest)
    if node:
        await stage.report_phase(name, "Running")


async def test_a_running_incumbents_pods_are_adopted(stage: BridgeStage) -> None:
    await stage.add_node(2)
    await stage.crash()
    pods = ("a", "b")
    job = await incumbent_job(stage, *pods)
    running = await stage.wait_state(await stage.slurm.job(job), "RUNNING")
    for name, node in zip(pods, stage.nodes, strict=True):
        await incumbent_pod(stage, name, job, node)
    await stage.start()
    for name, node in zip(pods, stage.nodes, strict=True):
        assert f"job {job} has node {node}" in await stage.wait_reason(name, "Allocated")
        assert not (await stage.get_pod(name)).metadata.deleting
    assert await stage.jobs() == []  # no second job
    await stage.report_phase("a", "Succeeded", 0)
    await stage.wait_released("a")
    assert (await stage.slurm.job(job)).state.running  # b still runs
    await stage.report_phase("b", "Succeeded", 0)
    await stage.wait_state(running, "CANCELLED")


async def test_a_waiting_incumbents_pod_keeps_its_job(stage: BridgeStage) -> None:
    await stage.create_pod("blocker")
    await stage.wait_bound("blocker")
    await stage.crash()
    job = await incumbent_job(stage, "p")
    await incumbent_pod(stage, "p", job)
    await stage.start()
    assert f"job {job} is PENDING" in await stage.wait_reason("p", "Resources")
    await stage.report_phase("blocker", "Succeeded", 0)
    await stage.wait_bound("p")
    assert str((await stage.wait_job("p")).job_id) == job
    assert await stage.jobs() == []
