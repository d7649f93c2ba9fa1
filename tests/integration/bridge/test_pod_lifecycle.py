# SPDX-License-Identifier: Apache-2.0
"""The life of a single pod and its job, on a real API server and a real Slurm."""

import pytest
from tests.integration.bridge.bridge_stage import BridgeStage
from tests.support.job_requests import external_job
from tests.support.request_counts import count_writes
from tests.support.waiting import eventually, quiescent

from slinky.bridge import names
from slinky.bridge.views import OUR_PODS
from slinky.bridge.workload import identity
from slinky.kube import NODES, Key

OPTION = names.OPTION


async def test_a_pod_gets_a_job_and_its_node(stage: BridgeStage) -> None:
    await stage.create_pod(requests={"cpu": "2", "memory": "1Gi"})
    pod = await stage.wait_bound()
    job = await stage.wait_job()
    assert pod.spec.node_name == stage.nodes[0] == job.nodes
    assert pod.metadata.annotations[names.NODE_ANNOTATION] == stage.nodes[0]
    assert pod.metadata.finalizers == (names.FINALIZER,)
    assert any(toleration.key == names.MANAGED_TAINT for toleration in pod.spec.tolerations)
    assert "EXTERNAL_JOB" in job.flags
    assert job.state.running
    assert identity.parse_comment(job.admin_comment) is not None
    assert stage.nodes[0] in await stage.wait_reason("p", "Allocated")


async def test_a_job_that_starts_at_once_belongs_to_the_user_of_the_option(stage: BridgeStage) -> None:
    await stage.create_pod(annotations={OPTION + "user-id": "alice", OPTION + "group-id": "alice"})
    await stage.wait_bound()
    job = await stage.wait_job()
    assert (job.user_name, job.group_name) == ("alice", "alice")


async def test_a_pod_shows_the_rule_that_its_options_violate(stage: BridgeStage) -> None:
    await stage.create_pod(annotations={OPTION + "user-id": "root"})
    assert "rule tests allows: alice" in await stage.wait_reason("p", "InvalidOption")
    await stage.create_pod("greedy", annotations={OPTION + "nice": "-5"})
    assert "rule tests must allow it, such as by allow: {nice: ['-5']}" in await stage.wait_reason(
        "greedy", "InvalidOption"
    )
    assert not await stage.jobs()


async def test_the_end_of_a_pod_ends_its_job_and_records_the_outcome(stage: BridgeStage) -> None:
    await stage.create_pod()
    await stage.wait_bound()
    job = await stage.wait_job()
    await stage.report_phase("p", "Running")
    assert (await stage.slurm.job(job.job_id)).state.running
    await stage.report_phase("p", "Failed", 3)
    await stage.wait_state(job, "CANCELLED")

    async def recorded() -> bool:
        past = await stage.slurm.accounting.job(job.job_id)
        return "Failed, exit code 3" in past.comment.job and past.derived_exit_code.code == 3

    await eventually(recorded, "the outcome in accounting")
    await stage.wait_released()


async def test_a_deleted_pod_keeps_its_job_until_its_containers_are_gone(stage: BridgeStage) -> None:
    await stage.create_pod()
    await stage.wait_bound()
    job = await stage.wait_job()
    await stage.report_phase("p", "Running")
    await stage.delete_pod("p")
    await stage.settle()
    assert (await stage.slurm.job(job.job_id)).state.running
    await stage.report_stopped("p")
    await stage.wait_state(job, "CANCELLED")
    await stage.wait_gone("p")


async def test_a_waiting_pod_shows_the_reason_and_starts_later(stage: BridgeStage) -> None:
    await stage.create_pod("first")
    await stage.wait_bound("first")
    await stage.create_pod("second")
    assert "is PENDING" in await stage.wait_reason("second", "Resources")
    await stage.report_phase("first", "Succeeded", 0)
    await stage.wait_bound("second")


async def test_deleting_a_waiting_pod_cancels_its_job(stage: BridgeStage) -> None:
    await stage.create_pod("first")
    await stage.wait_bound("first")
    await stage.create_pod("second")
    job = await stage.wait_job("second")
    await stage.delete_pod("second")
    await stage.wait_gone("second")
    await stage.wait_state(job, "CANCELLED")


async def test_cancelling_a_job_evicts_its_pod_with_the_reason(stage: BridgeStage) -> None:
    await stage.create_pod()
    await stage.wait_bound()
    job = await stage.wait_job()
    await stage.report_phase("p", "Running")
    await stage.slurm.cancel(job.job_id)

    async def leaving() -> bool:
        pod = await stage.get_pod()
        by_type = {condition.type: condition.reason for condition in pod.status.conditions}
        reasons = {by_type.get(kind) for kind in ("DisruptionTarget", names.ENDED)}
        return pod.metadata.deleting and reasons == {"SlurmJobCancelled"}

    await eventually(leaving, "the eviction")
    await stage.report_stopped("p")
    await stage.wait_gone("p")
    await stage.wait_event("p", "SlurmJobCancelled")


async def test_a_users_cancel_of_a_waiting_job_sticks(stage: BridgeStage) -> None:
    await stage.create_pod("first")
    await stage.wait_bound("first")
    await stage.create_pod("second")
    job = await stage.wait_job("second")
    await stage.wait_reason("second", "Resources")
    await stage.slurm.cancel(job.job_id)
    await stage.wait_reason("second", "SlurmJobCancelled")
    await stage.report_phase("first", "Succeeded", 0)
    await stage.settle()
    assert not (await stage.get_pod("second")).spec.node_name
    assert await stage.jobs() == []
    # Without the label the pod gets a new job.
    await stage.client.patch(
        OUR_PODS, Key(stage.namespace, "second"), {"metadata": {"labels": {names.JOB_LABEL: None}}}
    )
    await stage.wait_bound("second")


async def test_options_reach_the_job_and_follow_changes_while_it_waits(stage: BridgeStage) -> None:
    await stage.create_pod("first")
    await stage.wait_bound("first")
    await stage.create_pod("second", annotations={OPTION + "timelimit": "2h", OPTION + "comment": "hello"})
    await stage.wait_reason("second", "Resources")
    job = await stage.wait_job("second")
    assert (job.time_limit.whole, job.comment) == (120, "hello")
    changed = {"metadata": {"annotations": {OPTION + "timelimit": "3h"}}}
    await stage.patch_pod("second", changed)

    async def longer() -> bool:
        return (await stage.slurm.job(job.job_id)).time_limit.whole == 180

    await eventually(longer, "the new limit")
    assert [found.job_id for found in await stage.jobs()].count(job.job_id) == 1


async def test_a_change_that_slurm_refuses_is_shown_and_leaves_the_job_unchanged(stage: BridgeStage) -> None:
    await stage.create_pod("first")
    await stage.wait_bound("first")
    await stage.create_pod("second")
    await stage.wait_reason("second", "Resources")
    job = await stage.wait_job("second")
    for value, reason in (("nowhere", "SlurmRefused"), ("ext", "Resources")):
        changed = {"metadata": {"annotations": {OPTION + "partition": value}}}
        await stage.patch_pod("second", changed)
        message = await stage.wait_reason("second", reason)
    assert f"job {job.job_id} is PENDING" in message
    assert (await stage.wait_job("second")).job_id == job.job_id


async def test_a_removed_option_is_removed_from_the_job(stage: BridgeStage) -> None:
    await stage.create_pod(annotations={OPTION + "begin": "2099-01-01T00:00:00Z"})
    held = await stage.wait_job()
    taken_back = {"metadata": {"annotations": {OPTION + "begin": None}}}
    await stage.patch_pod("p", taken_back)
    await stage.wait_bound()
    await stage.wait_state(held, "CANCELLED")
    assert (await stage.wait_job()).job_id != held.job_id


async def test_an_invalid_option_is_shown_and_can_be_corrected(stage: BridgeStage) -> None:
    await stage.create_pod(annotations={OPTION + "timelimit": "soon"})
    assert "timelimit" in await stage.wait_reason("p", "InvalidOption")
    await stage.client.patch(
        OUR_PODS, Key(stage.namespace, "p"), {"metadata": {"annotations": {OPTION + "timelimit": "5"}}}
    )
    await stage.wait_bound()


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("partition", "nowhere", "partition does not exist. The job has the partition nowhere."),
        ("partition", "extt", "The job has the partition extt; did you mean ext?"),
        ("account", "nobody", "The job has the account nobody."),
        ("reservation", "none", "reservation does not exist. The job has the reservation none."),
        ("licenses", "lac:2", "licence does not exist. The job has the licence lac."),
        ("gres", "gres/gpu:x:9", ""),
    ],
)
async def test_a_refused_job_shows_what_to_change(stage: BridgeStage, option: str, value: str, words: str) -> None:
    await stage.create_pod(annotations={OPTION + option: value})
    assert words in await stage.wait_reason("p", "SlurmRefused")


async def test_infeasible_nodes_are_excluded(stage: BridgeStage) -> None:
    blue = await stage.add_node(2, labels={"colour": "blue"})
    await stage.create_pod("picky", nodeSelector={"colour": "blue"})
    assert (await stage.wait_bound("picky")).spec.node_name == blue
    await stage.create_pod("choosy", nodeSelector={"colour": "red"})
    assert "No node" in await stage.wait_reason("choosy", "SlurmRefused")


async def test_a_waiting_job_may_use_a_node_that_became_feasible(stage: BridgeStage) -> None:
    await stage.add_node(2, labels={"colour": "blue"})
    await stage.add_node(3, labels={"colour": "red"})
    await stage.create_pod("first", nodeSelector={"colour": "blue"})
    await stage.wait_bound("first")
    await stage.create_pod("second", nodeSelector={"colour": "blue"})
    job = await stage.wait_job("second")
    assert job.state.pending
    changed = {"metadata": {"labels": {"colour": "blue"}}}
    await stage.client.patch(NODES, Key("", stage.nodes[0]), changed)
    assert (await stage.wait_bound("second")).spec.node_name == stage.nodes[0]
    assert (await stage.wait_job("second")).job_id == job.job_id  # it has kept its position in the queue


async def test_a_gated_pod_waits_without_a_job(stage: BridgeStage) -> None:
    await stage.create_pod(schedulingGates=[{"name": "example.com/wait"}])
    await stage.settle()
    assert await stage.jobs() == []
    await stage.patch_pod("p", {"spec": {"schedulingGates": []}})
    await stage.wait_bound()


async def test_an_exclusive_pod_waits_until_its_node_is_empty(stage: BridgeStage) -> None:
    await stage.create_pod("first")
    await stage.wait_bound("first")
    await stage.report_phase("first", "Running")
    await stage.create_pod("second")
    await stage.slurm.cancel((await stage.wait_job("first")).job_id)
    await stage.wait_reason("second", "NodeClearing")
    assert not (await stage.get_pod("second")).spec.node_name
    await stage.report_stopped("first")
    await stage.wait_bound("second")


async def test_a_crashed_bridge_adopts_its_jobs_and_never_submits_twice(stage: BridgeStage) -> None:
    await stage.create_pod("first")
    await stage.wait_bound("first")
    await stage.create_pod("second")
    waiting = await stage.wait_job("second")
    await stage.crash()
    # As after a crash between submission and label: Slurm has the job, the pod has no label.
    blank = {"metadata": {"labels": {names.JOB_LABEL: None}}}
    await stage.patch_pod("second", blank)
    await stage.start()
    assert (await stage.wait_job("second")).sluid == waiting.sluid
    assert len(await stage.jobs()) == 2
    await stage.report_phase("first", "Succeeded", 0)
    await stage.wait_bound("second")


async def test_a_job_whose_pod_vanished_while_the_bridge_was_down_is_cancelled(stage: BridgeStage) -> None:
    await stage.create_pod()
    await stage.wait_bound()
    job = await stage.wait_job()
    await stage.crash()
    await stage.patch_pod("p", {"metadata": {"finalizers": None}})
    await stage.delete_pod("p", grace=0)
    await stage.start()
    await stage.wait_state(job, "CANCELLED")


async def test_foreign_jobs_are_never_touched(stage: BridgeStage) -> None:
    other_bridge = '{"pods":["x/y"],"slinky":{"v":1,"cluster":"other","bridge":"other","unit":"x/Pod/y"}}'
    jobs = []
    for comment in ('{"a":1}', '{"pods":["x/y"]}', other_bridge):
        request = external_job(name="foreign", hold=True, admin_comment=comment)
        jobs.append((await stage.slurm.submit(request)).job_id)
    try:
        await stage.crash()
        await stage.start()
        await stage.settle()
        for job in jobs:
            assert (await stage.slurm.job(job)).state.pending
    finally:
        for job in jobs:
            await stage.slurm.cancel(job)


async def test_a_converged_bridge_writes_nothing(stage: BridgeStage) -> None:
    limit = {OPTION + "timelimit": "10"}
    await stage.create_pod("first", annotations=limit)
    await stage.wait_bound("first")
    await stage.create_pod("second", annotations=limit)

    async def is_explained() -> bool:
        """The position is evaluated every ten seconds: the first pod may have been pending for a moment."""
        message = await stage.wait_reason("second", "Resources")
        return "Expected to start" in message and "Position 1 " in message

    await eventually(is_explained, "the expected start and the position")
    await stage.settle()
    await quiescent(count_writes, "the writes of the bridge")  # events are written a moment later
    writes = count_writes()
    for _ in range(3):
        await stage.settle()
    assert count_writes() == writes
