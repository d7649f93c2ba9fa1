# SPDX-License-Identifier: Apache-2.0
"""Nodes that run slurmd and a kubelet: pods and native jobs share a host, and Slurm counts both."""

import contextlib
from collections.abc import AsyncIterator

import pytest
from tests.integration.bridge.bridge_stage import SHARED, BridgeStage, bridge_stage
from tests.support.job_requests import sleep_on
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.kube import NODES, Key, KubeClient
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import SlurmClient as Slurm
from slinky.slurm import SlurmError

HOST = "c1"
SMALL = {"cpu": "1", "memory": "64Mi"}


@pytest.fixture
async def hybrid(kube: KubeClient, ctld: Slurm) -> AsyncIterator[BridgeStage]:
    """A running bridge with one node, whose host has a slurmd and another name."""
    async with bridge_stage(kube, ctld, partition="work") as stage:
        await stage.start()
        await stage.add_hybrid_node(1, HOST)
        yield stage


async def test_a_gang_and_native_jobs_take_turns_on_hybrid_nodes(hybrid: BridgeStage, slurm: LabSlurm) -> None:
    """The gang waits for the node of a native job, and a native job waits for the nodes of the gang."""
    await hybrid.add_hybrid_node(2, "c2")
    before = sleep_on(slurm, HOST)
    after = ""
    try:
        await hybrid.wait_state(await hybrid.slurm.job(before), "RUNNING")
        label = await hybrid.create_batch_job(2)
        for name in ("a", "b"):
            await hybrid.create_pod(name, labels=label)
        await hybrid.wait_reason("a", "Resources")
        await hybrid.slurm.cancel(before)
        assert {(await hybrid.wait_bound(name)).spec.node_name for name in ("a", "b")} == set(hybrid.nodes)
        for name in ("a", "b"):
            await hybrid.report_phase(name, "Running")
        after = sleep_on(slurm, HOST)
        await hybrid.wait_scheduling_cycles()
        assert (await hybrid.slurm.job(after)).state.pending
        await hybrid.report_phase("a", "Succeeded", 0)
        await hybrid.settle()
        assert (await hybrid.slurm.job(after)).state.pending  # the other pod still runs
        await hybrid.report_phase("b", "Succeeded", 0)
        await hybrid.wait_state(await hybrid.slurm.job(after), "RUNNING")
    finally:
        for native in filter(None, (before, after)):
            with contextlib.suppress(SlurmError):  # the test has cancelled it already
                await hybrid.slurm.cancel(native)


async def test_pods_and_native_jobs_share_a_node(hybrid: BridgeStage, slurm: LabSlurm) -> None:
    native = sleep_on(slurm, HOST)
    try:
        job = await hybrid.wait_state(await hybrid.slurm.job(native), "RUNNING")
        await hybrid.create_pod("beside", annotations=SHARED, requests=SMALL)
        assert (await hybrid.wait_bound("beside")).spec.node_name == hybrid.nodes[0]
        pod_job = await hybrid.wait_job("beside")
        assert (pod_job.nodes, job.nodes) == (HOST, HOST)
        # Both CPUs are in use now: one by the native job, one by the pod.
        await hybrid.create_pod("third", annotations=SHARED, requests=SMALL)
        await hybrid.create_pod("whole")
        assert (await hybrid.wait_job("third")).state.pending
        assert (await hybrid.wait_job("whole")).state.pending
        assert (await hybrid.slurm.job(native)).state.running
        await hybrid.slurm.cancel(native)
        await hybrid.wait_bound("third")
        assert not (await hybrid.get_pod("whole")).spec.node_name
        for name in ("beside", "third"):
            await hybrid.report_phase(name, "Succeeded", 0)
        await hybrid.wait_bound("whole")
    finally:
        with contextlib.suppress(SlurmError):  # the test has cancelled it already
            await hybrid.slurm.cancel(native)


async def test_a_host_with_a_slurmd_is_never_created_or_deleted(hybrid: BridgeStage) -> None:
    async def tainted() -> bool:
        taints = (await hybrid.get_node(hybrid.nodes[0])).spec.taints
        return any(taint.key == names.MANAGED_TAINT for taint in taints)

    await eventually(tainted, "the taint")
    before = await hybrid.slurm.node(HOST)
    assert "EXTERNAL" not in before.state
    await hybrid.cordon(hybrid.nodes[0])

    async def draining(expected: bool) -> bool:
        return (await hybrid.slurm.node(HOST)).state.draining is expected

    await eventually(lambda: draining(True), "the drain")
    await hybrid.cordon(hybrid.nodes[0], False)
    await eventually(lambda: draining(False), "the end of the drain")
    await hybrid.client.delete(NODES, Key("", hybrid.nodes[0]))
    await hybrid.create_pod("p")
    await hybrid.wait_reason("p", "SlurmRefused")  # no host of the partition is a node any more
    assert (await hybrid.slurm.node(HOST)).cpus == before.cpus


async def test_native_jobs_wait_until_the_pods_of_an_ended_job_have_stopped(
    hybrid: BridgeStage, slurm: LabSlurm
) -> None:
    await hybrid.run_pod("p")
    await hybrid.slurm.cancel((await hybrid.wait_job("p")).job_id)
    await hybrid.wait_evicted("p", "SlurmJobCancelled", final=True)

    async def draining() -> bool:
        host = await hybrid.slurm.node(HOST)
        return host.state.draining and host.reason.endswith(f"still stopping [{hybrid.settings.scheduler_name}]")

    await eventually(draining, "the drain while the pod stops")
    command = ["sbatch", "--parsable", "--output=/dev/null", "--nodelist", HOST, "--ntasks", "1", "--mem", "100"]
    native = slurm.exec(*command, user="alice", input="#!/bin/sh\nsleep 600\n").strip()
    try:
        job = await hybrid.slurm.job(native)
        await hybrid.settle()
        assert (await hybrid.slurm.job(native)).state.pending
        await hybrid.report_stopped("p")
        await hybrid.wait_state(job, "RUNNING")
        host = await hybrid.slurm.node(HOST)
        assert not host.state.draining
    finally:
        with contextlib.suppress(SlurmError):
            await hybrid.slurm.cancel(native)


async def test_the_drain_of_a_stopping_pod_gives_its_reason_to_a_stuck_one(kube: KubeClient, ctld: Slurm) -> None:
    async with bridge_stage(kube, ctld, partition="work", stuck_pod_seconds=1) as stage:
        await stage.start()
        name = f"{stage.name}-1"
        await kube.create(NODES, NODES.manifest(Key("", name), metadata={"labels": {names.HOST_LABEL: HOST}}))
        stage.nodes.append(name)
        await stage.report_node(name, amounts={"cpu": "2", "memory": "1000Mi"})
        await stage.run_pod("p", terminationGracePeriodSeconds=1)
        job = await stage.wait_job("p")
        await stage.slurm.cancel(job.job_id)

        async def is_stuck() -> bool:
            reason = (await stage.slurm.node(HOST)).reason
            return f"pod {stage.namespace}/p of job {job.job_id} has not stopped since" in reason

        await eventually(is_stuck, "the reason with the pod")
        await stage.report_stopped("p")

        async def undrained() -> bool:
            return not (await stage.slurm.node(HOST)).state.draining

        await eventually(undrained, "the end of the drain")
