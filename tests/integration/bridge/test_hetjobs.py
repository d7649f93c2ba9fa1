# SPDX-License-Identifier: Apache-2.0
"""Gangs whose pods differ in size, as one heterogeneous job. Slurm starts those by its backfill alone."""

import asyncio

from tests.integration.bridge.bridge_stage import BridgeStage
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.bridge.views import BATCH_JOBS
from slinky.kube import Key
from slinky.slurm import Job


async def create_mixed_gang(stage: BridgeStage, **annotations: str) -> list[Job]:
    """A leader and two workers of another size; returns the components of their job."""
    label = await stage.create_batch_job(3)
    options = {names.OPTION + key: value for key, value in annotations.items()}
    await stage.create_pod("w-0", labels=label, requests={"cpu": "4", "memory": "1Gi"}, annotations=options)
    for number in (1, 2):
        await stage.create_pod(f"w-{number}", labels=label, requests={"cpu": "1"})
    leader = await stage.wait_job("w-0")
    return list(await stage.slurm.job_components(leader.job_id))


async def test_roles_of_different_size_are_one_job_and_ranks_follow_its_nodes(three_nodes: BridgeStage) -> None:
    leader, rest = await create_mixed_gang(three_nodes)
    assert (leader.tres_req_str.split(",")[0], rest.tres_req_str.split(",")[0]) == ("cpu=4", "cpu=2")
    places = [(await three_nodes.wait_bound(f"w-{number}")).spec.node_name for number in range(3)]
    granted = [node.node for job in (leader, rest) for node in await three_nodes.slurm.resources(job.job_id)]
    assert places == granted
    labels = {(await three_nodes.get_pod(f"w-{number}")).metadata.labels[names.JOB_LABEL] for number in range(3)}
    assert labels == {str(leader.job_id)}
    for number in range(3):
        await three_nodes.report_phase(f"w-{number}", "Succeeded", 0)
    await three_nodes.wait_state(leader, "CANCELLED")
    await three_nodes.wait_state(rest, "CANCELLED")
    assert await three_nodes.jobs() == []


async def test_a_waiting_mixed_gang_follows_changes_survives_a_crash_and_is_withdrawn_whole(
    three_nodes: BridgeStage,
) -> None:
    await three_nodes.create_pod("blocker")
    await three_nodes.wait_bound("blocker")
    leader, rest = await create_mixed_gang(three_nodes)
    await three_nodes.wait_reason("w-1", "Resources")
    await three_nodes.crash()
    blank = {"metadata": {"labels": {names.JOB_LABEL: None}}}
    for number in range(3):
        await three_nodes.patch_pod(f"w-{number}", blank)
    await three_nodes.start()
    assert (await three_nodes.wait_job("w-2")).sluid == leader.sluid  # adopted, and not submitted again
    assert len(await three_nodes.jobs()) == 3
    longer = {"metadata": {"annotations": {names.OPTION + "timelimit": "45"}}}
    await three_nodes.client.patch(BATCH_JOBS, Key(three_nodes.namespace, "j"), longer)

    async def changed() -> bool:
        found = await three_nodes.slurm.job_components(leader.job_id)
        return [job.time_limit.whole for job in found] == [45, 45]

    await eventually(changed, "the new limit on both components")
    await three_nodes.delete_pod("w-2")
    await three_nodes.wait_gone("w-2")
    await three_nodes.wait_reason("w-0", "GangIncomplete")
    await three_nodes.wait_state(leader, "CANCELLED")
    await three_nodes.wait_state(rest, "CANCELLED")


async def test_a_cancelled_component_ends_the_whole_gang(three_nodes: BridgeStage) -> None:
    leader, rest = await create_mixed_gang(three_nodes)
    for number in range(3):
        await three_nodes.wait_bound(f"w-{number}")
        await three_nodes.report_phase(f"w-{number}", "Running")
    await three_nodes.slurm.cancel(rest.job_id)

    async def leaving() -> bool:
        return all([(await three_nodes.get_pod(f"w-{number}")).metadata.deleting for number in range(3)])

    await eventually(leaving, "the eviction of all three")
    assert (await three_nodes.slurm.job(leader.sluid)).state.running  # its containers still run, so it keeps their node
    for number in range(3):
        await three_nodes.report_stopped(f"w-{number}")
    await three_nodes.wait_state(leader, "CANCELLED")
    await asyncio.gather(*(three_nodes.wait_gone(f"w-{number}") for number in range(3)))
