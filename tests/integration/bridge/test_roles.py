# SPDX-License-Identifier: Apache-2.0
"""Gangs whose pods need different things, as one heterogeneous job of the real Slurm."""

import asyncio

from tests.integration.bridge.scene import Scene, eventually
from tests.integration.bridge.test_gangs import batch_job

from slinky.bridge import names
from slinky.bridge.state.views import BATCH_JOBS, OUR_PODS
from slinky.kube import Key
from slinky.slurm import Job

SLOW = 60.0  # Slurm starts heterogeneous jobs by its backfill alone


async def mixed(stage: Scene, **annotations: str) -> list[Job]:
    """A leader and two workers of another size; the components of their job."""
    label = await batch_job(stage, 3)
    notes = {names.OPTION + key: value for key, value in annotations.items()}
    await stage.pod("w-0", labels=label, requests={"cpu": "4", "memory": "1Gi"}, annotations=notes)
    for number in (1, 2):
        await stage.pod(f"w-{number}", labels=label, requests={"cpu": "1"})
    leader = await stage.job_of("w-0")
    return list(await stage.slurm.job_components(leader.job_id))


async def test_roles_of_different_size_are_one_job_and_ranks_follow_its_nodes(trio: Scene) -> None:
    leader, rest = await mixed(trio)
    assert (leader.tres_req_str.split(",")[0], rest.tres_req_str.split(",")[0]) == ("cpu=4", "cpu=2")
    places = [(await trio.bound(f"w-{number}", SLOW)).spec.node_name for number in range(3)]
    granted = [node.node for job in (leader, rest) for node in await trio.slurm.resources(job.job_id)]
    assert places == granted
    labels = {(await trio.get(f"w-{number}")).metadata.labels[names.JOB_LABEL] for number in range(3)}
    assert labels == {str(leader.job_id)}
    for number in range(3):
        await trio.phase(f"w-{number}", "Succeeded", 0)
    await trio.state(leader, "CANCELLED")
    await trio.state(rest, "CANCELLED")
    assert await trio.jobs() == []


async def test_a_waiting_mixed_gang_follows_changes_survives_a_crash_and_is_withdrawn_whole(trio: Scene) -> None:
    await trio.pod("blocker")
    await trio.bound("blocker")
    leader, rest = await mixed(trio)
    await trio.says("w-1", "Resources")
    await trio.crash()
    blank = {"metadata": {"labels": {names.JOB_LABEL: None}}}
    for number in range(3):
        await trio.client.patch(OUR_PODS, Key(trio.namespace, f"w-{number}"), blank)
    await trio.start()
    assert (await trio.job_of("w-2")).sluid == leader.sluid  # adopted, and not submitted again
    assert len(await trio.jobs()) == 3
    longer = {"metadata": {"annotations": {names.OPTION + "timelimit": "45"}}}
    await trio.client.patch(BATCH_JOBS, Key(trio.namespace, "j"), longer)

    async def changed() -> bool:
        found = await trio.slurm.job_components(leader.job_id)
        return [job.time_limit.whole for job in found] == [45, 45]

    await eventually(changed, "the new limit on both components")
    await trio.delete("w-2")
    await trio.gone("w-2")
    await trio.says("w-0", "GangIncomplete")
    await trio.state(leader, "CANCELLED")
    await trio.state(rest, "CANCELLED")


async def test_a_component_that_somebody_cancels_takes_the_whole_gang_along(trio: Scene) -> None:
    leader, rest = await mixed(trio)
    for number in range(3):
        await trio.bound(f"w-{number}", SLOW)
        await trio.phase(f"w-{number}", "Running")
    await trio.slurm.cancel(rest.job_id)

    async def leaving() -> bool:
        return all([(await trio.get(f"w-{number}")).metadata.deleting for number in range(3)])

    await eventually(leaving, "the eviction of all three")
    assert (await trio.slurm.job(leader.sluid)).state.running  # its containers still run: their node stays taken
    for number in range(3):
        await trio.stopped(f"w-{number}")
    await trio.state(leader, "CANCELLED")
    await asyncio.gather(*(trio.gone(f"w-{number}") for number in range(3)))
