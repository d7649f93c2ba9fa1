# SPDX-License-Identifier: Apache-2.0
"""Pods and jobs as the incumbent leaves them: whoever runs runs on, whoever waits keeps its place."""

from typing import Any

from tests.integration.bridge.scene import Scene, eventually

from slinky.bridge import names
from slinky.bridge.state.views import OUR_PODS
from slinky.slurm import JobRequest


async def incumbent_job(stage: Scene, *pods: str, **more: Any) -> str:
    """A job as the incumbent submits it: names alone in its comment, required nodes, whole ones."""
    named = ",".join(f'"{stage.namespace}/{pod}"' for pod in pods)
    request = JobRequest(
        partition="ext",
        flags=("EXTERNAL_JOB",),
        current_working_directory="/tmp",
        admin_comment=f'{{"pods":[{named}]}}',
        nodes=str(len(pods)),
        minimum_nodes=1,
        tasks_per_node=1,
        required_nodes=tuple(stage.nodes),
        shared=("none",),
        **more,
    )
    return str((await stage.slurm.submit(request)).job_id)


async def incumbent_pod(stage: Scene, name: str, job: str, node: str = "") -> None:
    """A pod as the incumbent leaves it, on its node or waiting for one."""
    notes = {names.NODE_ANNOTATION: node} if node else {}
    place = {"nodeName": node} if node else {}
    manifest = stage.manifest(name, labels={names.JOB_LABEL: job}, annotations=notes, **place)
    manifest["metadata"]["finalizers"] = [names.FINALIZER]
    await stage.client.create(OUR_PODS, manifest)
    if node:
        await stage.phase(name, "Running")


async def test_a_running_incumbents_pods_are_adopted(stage: Scene) -> None:
    await stage.node(2)
    await stage.crash()
    names_of = ("a", "b")
    job = await incumbent_job(stage, *names_of)
    running = await stage.state(await stage.slurm.job(job), "RUNNING")
    for name, node in zip(names_of, stage.nodes, strict=True):
        await incumbent_pod(stage, name, job, node)
    await stage.start()
    for name, node in zip(names_of, stage.nodes, strict=True):
        assert f"job {job} has node {node}" in await stage.says(name, "Allocated")
        assert not (await stage.get(name)).metadata.deleting
    assert await stage.jobs() == []  # no second job
    await stage.phase("a", "Succeeded", 0)

    async def let_go() -> bool:
        return names.FINALIZER not in (await stage.get("a")).metadata.finalizers

    await eventually(let_go, "the farewell of a")
    assert (await stage.slurm.job(job)).state.running  # b still runs
    await stage.phase("b", "Succeeded", 0)
    await stage.state(running, "CANCELLED")


async def test_a_waiting_incumbents_pod_keeps_its_job(stage: Scene) -> None:
    await stage.pod("blocker")
    await stage.bound("blocker")
    await stage.crash()
    job = await incumbent_job(stage, "p")
    await incumbent_pod(stage, "p", job)
    await stage.start()
    assert f"job {job} is PENDING" in await stage.says("p", "Resources")
    await stage.phase("blocker", "Succeeded", 0)
    await stage.bound("p")
    assert str((await stage.job_of("p")).job_id) == job
    assert await stage.jobs() == []
