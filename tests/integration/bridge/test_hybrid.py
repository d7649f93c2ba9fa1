# SPDX-License-Identifier: Apache-2.0
"""Nodes that run slurmd and a kubelet: pods and ordinary jobs side by side, by Slurm's count of what is free."""

from collections.abc import AsyncIterator

import pytest
from tests.integration.bridge.scene import Scene, eventually, scene

from slinky.bridge import names
from slinky.kube import NODES, Key, KubeClient
from slinky.lab.slurm.cluster import Beside
from slinky.slurm import SlurmClient as Slurm
from slinky.slurm import SlurmError

HOST = "c1"
SHARED = {names.OPTION + "exclusive": "false"}
SMALL = {"cpu": "1", "memory": "64Mi"}


@pytest.fixture
async def hybrid(kube: KubeClient, ctld: Slurm) -> AsyncIterator[Scene]:
    """A bridge over one node, which is a host with a slurmd and another name in Slurm."""
    async with scene(kube, ctld, partition="work") as stage:
        await stage.start()
        name = f"{stage.name}-1"
        meta = {"labels": {names.HOST_LABEL: HOST}}
        await kube.create(NODES, NODES.manifest(Key("", name), metadata=meta))
        stage.nodes.append(name)
        await stage.ready(name, amounts={"cpu": "2", "memory": "1000Mi"})
        yield stage


async def test_pods_and_native_jobs_share_a_node(hybrid: Scene, slurm: Beside) -> None:
    command = ["sbatch", "--parsable", "--output=/dev/null", "--nodelist", HOST, "--ntasks", "1", "--mem", "100"]
    native = slurm.exec(*command, user="alice", input="#!/bin/sh\nsleep 600\n").strip()
    try:
        job = await hybrid.state(await hybrid.slurm.job(native), "RUNNING")
        await hybrid.pod("beside", annotations=SHARED, requests=SMALL)
        assert (await hybrid.bound("beside")).spec.node_name == hybrid.nodes[0]
        ours = await hybrid.job_of("beside")
        assert (ours.nodes, job.nodes) == (HOST, HOST)
        # Both CPUs are taken now: one by each side.
        await hybrid.pod("third", annotations=SHARED, requests=SMALL)
        await hybrid.pod("whole")
        assert (await hybrid.job_of("third")).state.pending
        assert (await hybrid.job_of("whole")).state.pending
        assert (await hybrid.slurm.job(native)).state.running
        await hybrid.slurm.cancel(native)
        await hybrid.bound("third", 60)
        assert not (await hybrid.get("whole")).spec.node_name
        for name in ("beside", "third"):
            await hybrid.phase(name, "Succeeded", 0)
        await hybrid.bound("whole", 60)
    finally:
        await _cancelled(hybrid, native)


async def test_a_host_with_a_slurmd_is_never_made_or_removed(hybrid: Scene) -> None:
    async def tainted() -> bool:
        taints = (await hybrid.get_node(hybrid.nodes[0])).spec.taints
        return any(taint.key == names.MANAGED_TAINT for taint in taints)

    await eventually(tainted, "the taint")
    before = await hybrid.slurm.node(HOST)
    assert "EXTERNAL" not in before.state
    await hybrid.client.patch(NODES, Key("", hybrid.nodes[0]), {"spec": {"unschedulable": True}})

    async def drained(wanted: bool) -> bool:
        return ("DRAIN" in (await hybrid.slurm.node(HOST)).state) is wanted

    await eventually(lambda: drained(True), "the drain")
    await hybrid.client.patch(NODES, Key("", hybrid.nodes[0]), {"spec": {"unschedulable": False}})
    await eventually(lambda: drained(False), "the end of the drain")
    await hybrid.client.delete(NODES, Key("", hybrid.nodes[0]))
    await hybrid.pod("p")
    await hybrid.says("p", "SlurmRefused")  # no host of the partition is a node any more
    assert (await hybrid.slurm.node(HOST)).cpus == before.cpus


async def _cancelled(stage: Scene, job: str) -> None:
    try:
        await stage.slurm.cancel(job)
    except SlurmError:
        return
