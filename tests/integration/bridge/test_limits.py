# SPDX-License-Identifier: Apache-2.0
"""What the bridge does not do at once, or not at all: records of jobs that never run, and mass evictions."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.integration.bridge.bridge_stage import BridgeStage, bridge_stage
from tests.support.job_requests import external_job
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.kube import KubeClient
from slinky.kube.conditions import find_condition
from slinky.slurm import Job, NodeUpdate
from slinky.slurm import SlurmClient as Slurm


@pytest.fixture
async def two_nodes(kube: KubeClient, ctld: Slurm) -> AsyncIterator[BridgeStage]:
    """A running bridge with two nodes that may evict the pods of one failed job."""
    async with bridge_stage(kube, ctld, failed_jobs_evicted=1) as stage:
        await stage.start()
        await stage.add_node(1)
        await stage.add_node(2)
        yield stage


async def records(stage: BridgeStage) -> list[Job]:
    """All jobs of the bridge that slurmctld remembers, also those that have ended."""
    listing = await stage.slurm.jobs()
    mark = f'"bridge":"{stage.settings.bridge_name}"'
    return [job for job in (listing.items if listing else ()) if mark in job.admin_comment]


async def test_a_pod_that_no_node_can_ever_run_leaves_no_record_in_slurm(stage: BridgeStage) -> None:
    bridge = stage.bridge
    assert bridge is not None
    await eventually(lambda: stage.nodes[0] in bridge.mirror.nodes, "the size of the host")
    await stage.create_pod(requests={"cpu": "1000"})
    assert "1000 CPUs" in await stage.wait_reason("p", "SlurmRefused")
    await stage.create_pod("choosy", nodeSelector={"colour": "red"})
    assert "No node" in await stage.wait_reason("choosy", "SlurmRefused")
    assert await records(stage) == []


async def test_pods_on_a_cluster_that_others_use_leave_at_most_one_failed_record(stage: BridgeStage) -> None:
    request = external_job(name="occupant", nodes="1", shared=("none",), required_nodes=(stage.nodes[0],))
    occupant = await stage.slurm.allocate(request)
    try:
        pods = ("a", "b", "c")
        for name in pods:
            await stage.create_pod(name)
        for name in pods:
            await stage.wait_job(name)
        failed = [job for job in await records(stage) if "FAILED" in job.job_state]
        assert len(failed) <= 1
    finally:
        await stage.slurm.cancel(occupant.job_id)


async def test_pods_of_many_failed_jobs_are_evicted_within_a_limit(two_nodes: BridgeStage) -> None:
    for name in ("a", "b"):
        await two_nodes.run_pod(name)
    down = NodeUpdate(state=("DOWN",), reason="test")
    await asyncio.gather(*(two_nodes.slurm.update_node(node, down) for node in two_nodes.nodes))

    async def one_is_left() -> bool:
        pods = [await two_nodes.get_pod(name) for name in ("a", "b")]
        conditions = [find_condition(pod.status.conditions, names.SCHEDULED) for pod in pods]
        limited = [condition is not None and condition.reason == "EvictionLimited" for condition in conditions]
        return sorted(limited) == [False, True] and [pod.metadata.deleting for pod in pods] != limited

    await eventually(one_is_left, "one eviction, and one pod that keeps running")
    deleting = [(await two_nodes.get_pod(name)).metadata.deleting for name in ("a", "b")]
    assert sorted(deleting) == [False, True]
    for node in two_nodes.nodes:
        await two_nodes.slurm.update_node(node, NodeUpdate(state=("RESUME",)))
