# SPDX-License-Identifier: Apache-2.0
"""The life of a single pod, on a real API server and a real Slurm."""

import asyncio

import pytest
from tests.integration.bridge.scene import Scene, eventually

from slinky.bridge import names
from slinky.bridge.state.views import OUR_PODS
from slinky.bridge.workload import identity
from slinky.kube import NODES, Key
from slinky.slurm import JobRequest

OPTION = names.OPTION


async def test_a_pod_gets_a_job_and_its_node(stage: Scene) -> None:
    await stage.pod(requests={"cpu": "2", "memory": "1Gi"})
    pod = await stage.bound()
    job = await stage.job_of()
    assert pod.spec.node_name == stage.nodes[0] == job.nodes
    assert pod.metadata.annotations[names.NODE_ANNOTATION] == stage.nodes[0]
    assert pod.metadata.finalizers == (names.FINALIZER,)
    assert any(toleration.key == names.MANAGED_TAINT for toleration in pod.spec.tolerations)
    assert "EXTERNAL_JOB" in job.flags
    assert job.state.running
    assert identity.parse_comment(job.admin_comment) is not None
    assert stage.nodes[0] in await stage.says("p", "Allocated")


async def test_the_end_of_a_pod_ends_its_job_with_the_truth_in_accounting(stage: Scene) -> None:
    await stage.pod()
    await stage.bound()
    job = await stage.job_of()
    await stage.phase("p", "Running")
    assert (await stage.slurm.job(job.job_id)).state.running
    await stage.phase("p", "Failed", 3)
    await stage.state(job, "CANCELLED")

    async def recorded() -> bool:
        past = await stage.slurm.accounting.job(job.job_id)
        return "Failed, exit code 3" in past.comment.job and past.derived_exit_code.code == 3

    await eventually(recorded, "the outcome in accounting")
    assert names.FINALIZER not in (await stage.get()).metadata.finalizers


async def test_a_deleted_pod_keeps_its_job_until_its_containers_are_gone(stage: Scene) -> None:
    await stage.pod()
    await stage.bound()
    job = await stage.job_of()
    await stage.phase("p", "Running")
    await stage.delete("p")
    await asyncio.sleep(1)
    assert (await stage.slurm.job(job.job_id)).state.running
    await stage.stopped("p")
    await stage.state(job, "CANCELLED")
    await stage.gone("p")


async def test_a_pod_that_waits_says_why_and_starts_when_it_can(stage: Scene) -> None:
    await stage.pod("first")
    await stage.bound("first")
    await stage.pod("second")
    assert "is PENDING" in await stage.says("second", "Resources")
    await stage.phase("first", "Succeeded", 0)
    await stage.bound("second")


async def test_a_pod_deleted_while_it_waits_takes_its_job_along(stage: Scene) -> None:
    await stage.pod("first")
    await stage.bound("first")
    await stage.pod("second")
    job = await stage.job_of("second")
    await stage.delete("second")
    await stage.gone("second")
    await stage.state(job, "CANCELLED")


async def test_a_cancelled_job_takes_its_pod_along_with_the_reason(stage: Scene) -> None:
    await stage.pod()
    await stage.bound()
    job = await stage.job_of()
    await stage.phase("p", "Running")
    await stage.slurm.cancel(job.job_id)

    async def leaving() -> bool:
        pod = await stage.get()
        told = {condition.type: condition.reason for condition in pod.status.conditions}
        reasons = {told.get(kind) for kind in ("DisruptionTarget", names.ENDED)}
        return pod.metadata.deleting and reasons == {"SlurmJobCancelled"}

    await eventually(leaving, "the eviction")
    await stage.stopped("p")
    await stage.gone("p")
    assert await eventually(lambda: _has(stage, "p", "SlurmJobCancelled"), "an event")


async def _has(stage: Scene, name: str, reason: str) -> bool:
    return reason in await stage.events(name)


async def test_a_users_cancel_of_a_waiting_job_sticks(stage: Scene) -> None:
    await stage.pod("first")
    await stage.bound("first")
    await stage.pod("second")
    job = await stage.job_of("second")
    await stage.says("second", "Resources")
    await stage.slurm.cancel(job.job_id)
    await stage.says("second", "SlurmJobCancelled")
    await stage.phase("first", "Succeeded", 0)
    await asyncio.sleep(2)
    assert not (await stage.get("second")).spec.node_name
    assert await stage.jobs() == []
    # Taking the label off is the way back.
    await stage.client.patch(
        OUR_PODS, Key(stage.namespace, "second"), {"metadata": {"labels": {names.JOB_LABEL: None}}}
    )
    await stage.bound("second")


async def test_options_reach_the_job_and_follow_changes_while_it_waits(stage: Scene) -> None:
    await stage.pod("first")
    await stage.bound("first")
    await stage.pod("second", annotations={OPTION + "timelimit": "2h", OPTION + "comment": "hello"})
    await stage.says("second", "Resources")
    job = await stage.job_of("second")
    assert (job.time_limit.whole, job.comment) == (120, "hello")
    changed = {"metadata": {"annotations": {OPTION + "timelimit": "3h"}}}
    await stage.client.patch(OUR_PODS, Key(stage.namespace, "second"), changed)

    async def longer() -> bool:
        return (await stage.slurm.job(job.job_id)).time_limit.whole == 180

    await eventually(longer, "the new limit")
    assert [found.job_id for found in await stage.jobs()].count(job.job_id) == 1


async def test_a_change_that_slurm_refuses_is_told_and_the_job_waits_as_it_was(stage: Scene) -> None:
    await stage.pod("first")
    await stage.bound("first")
    await stage.pod("second")
    await stage.says("second", "Resources")
    job = await stage.job_of("second")
    for value, reason in (("nowhere", "SlurmRefused"), ("ext", "Resources")):
        changed = {"metadata": {"annotations": {OPTION + "partition": value}}}
        await stage.client.patch(OUR_PODS, Key(stage.namespace, "second"), changed)
        told = await stage.says("second", reason)
    assert f"job {job.job_id} is PENDING" in told
    assert (await stage.job_of("second")).job_id == job.job_id


async def test_an_option_that_is_taken_back_is_gone_from_the_job_as_well(stage: Scene) -> None:
    await stage.pod(annotations={OPTION + "begin": "2099-01-01T00:00:00Z"})
    held = await stage.job_of()
    taken_back = {"metadata": {"annotations": {OPTION + "begin": None}}}
    await stage.client.patch(OUR_PODS, Key(stage.namespace, "p"), taken_back)
    await stage.bound()
    await stage.state(held, "CANCELLED")
    assert (await stage.job_of()).job_id != held.job_id


async def test_an_option_that_cannot_be_used_is_told_and_mended(stage: Scene) -> None:
    await stage.pod(annotations={OPTION + "timelimit": "soon"})
    assert "timelimit" in await stage.says("p", "InvalidOption")
    await stage.client.patch(
        OUR_PODS, Key(stage.namespace, "p"), {"metadata": {"annotations": {OPTION + "timelimit": "5"}}}
    )
    await stage.bound()


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("partition", "nowhere", "partition does not exist"),
        ("account", "nobody", "account does not exist"),
        ("gres", "gres/gpu:x:9", ""),
    ],
)
async def test_a_refused_job_says_what_to_change(stage: Scene, option: str, value: str, words: str) -> None:
    await stage.pod(annotations={OPTION + option: value})
    assert words in await stage.says("p", "SlurmRefused")


async def test_nodes_that_do_not_suit_are_left_out(stage: Scene) -> None:
    blue = await stage.node(2, labels={"colour": "blue"})
    await stage.pod("picky", nodeSelector={"colour": "blue"})
    assert (await stage.bound("picky")).spec.node_name == blue
    await stage.pod("choosy", nodeSelector={"colour": "red"})
    assert "No node" in await stage.says("choosy", "SlurmRefused")


async def test_a_waiting_job_is_told_of_a_node_that_suits_now(stage: Scene) -> None:
    await stage.node(2, labels={"colour": "blue"})
    await stage.node(3, labels={"colour": "red"})
    for name in ("first", "second"):
        await stage.pod(name, nodeSelector={"colour": "blue"})
    await stage.bound("first")
    job = await stage.job_of("second")
    assert job.state.pending
    changed = {"metadata": {"labels": {"colour": "blue"}}}
    await stage.client.patch(NODES, Key("", stage.nodes[0]), changed)
    assert (await stage.bound("second")).spec.node_name == stage.nodes[0]
    assert (await stage.job_of("second")).job_id == job.job_id  # it has kept its place in line


async def test_a_gated_pod_waits_without_a_job(stage: Scene) -> None:
    await stage.pod(schedulingGates=[{"name": "example.com/wait"}])
    await asyncio.sleep(0.5)
    assert await stage.jobs() == []
    await stage.client.patch(OUR_PODS, Key(stage.namespace, "p"), {"spec": {"schedulingGates": []}})
    await stage.bound()


async def test_the_next_owner_of_a_whole_node_waits_until_it_is_empty(stage: Scene) -> None:
    await stage.pod("first")
    await stage.bound("first")
    await stage.phase("first", "Running")
    await stage.pod("second")
    await stage.slurm.cancel((await stage.job_of("first")).job_id)
    await stage.says("second", "NodeClearing")
    assert not (await stage.get("second")).spec.node_name
    await stage.stopped("first")
    await stage.bound("second")


async def test_a_crashed_bridge_adopts_its_jobs_and_never_submits_twice(stage: Scene) -> None:
    await stage.pod("first")
    await stage.bound("first")
    await stage.pod("second")
    waiting = await stage.job_of("second")
    await stage.crash()
    # A crash between submission and label: Slurm has the job, the pod does not know.
    blank = {"metadata": {"labels": {names.JOB_LABEL: None}}}
    await stage.client.patch(OUR_PODS, Key(stage.namespace, "second"), blank)
    await stage.start()
    assert (await stage.job_of("second")).sluid == waiting.sluid
    assert len(await stage.jobs()) == 2
    await stage.phase("first", "Succeeded", 0)
    await stage.bound("second")


async def test_a_job_whose_pod_vanished_while_nobody_looked_is_cancelled(stage: Scene) -> None:
    await stage.pod()
    await stage.bound()
    job = await stage.job_of()
    await stage.crash()
    await stage.client.patch(OUR_PODS, Key(stage.namespace, "p"), {"metadata": {"finalizers": None}})
    await stage.delete("p", grace=0)
    await stage.start()
    await stage.state(job, "CANCELLED")


async def test_foreign_jobs_are_never_touched(stage: Scene) -> None:
    mine = '{"pods":["x/y"],"slinky":{"v":1,"cluster":"other","bridge":"other","unit":"x/Pod/y"}}'
    made = []
    for comment in ('{"a":1}', '{"pods":["x/y"]}', mine):
        request = JobRequest(
            name="foreign", partition="ext", flags=["EXTERNAL_JOB"], nodes="1", hold=True, admin_comment=comment
        )
        made.append((await stage.slurm.submit(request)).job_id)
    await stage.crash()
    await stage.start()
    await asyncio.sleep(1)
    try:
        for job in made:
            assert (await stage.slurm.job(job)).state.pending
    finally:
        for job in made:
            await stage.slurm.cancel(job)


async def _expects(stage: Scene) -> bool:
    return "Expected to start" in await stage.says("second", "Resources")


async def test_a_converged_bridge_writes_nothing(stage: Scene) -> None:
    limit = {OPTION + "timelimit": "10"}
    await stage.pod("first", annotations=limit)
    await stage.bound("first")
    await stage.pod("second", annotations=limit)
    await eventually(lambda: _expects(stage), "all that there is to say", 60)
    before = [(await stage.get(name)).metadata.resource_version for name in ("first", "second")]
    await asyncio.sleep(3)
    assert [(await stage.get(name)).metadata.resource_version for name in ("first", "second")] == before
