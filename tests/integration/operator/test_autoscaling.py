# SPDX-License-Identifier: Apache-2.0
"""The autoscaler on a real API server and a real slurmctld, with simulated workers that have devices."""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.integration.operator.elastic_stage import NAME, ElasticStage, elastic_stage
from tests.integration.operator.stage import BAD
from tests.support.slurm_settings import changed
from tests.support.waiting import eventually

from slinky.api.names import metadata
from slinky.api.nodeset import NODE_SETS
from slinky.kube import NODES, Key, NotFound, Resource, connect
from slinky.kube.views import Unstructured
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import JobRequest, ReservationRequest, SlurmNotFound, number

pytestmark = pytest.mark.lab

QUOTAS = Resource("v1", "ResourceQuota", "resourcequotas", Unstructured)
#: Tasks of large arrays, 100,000 in all.
TASKS = (30_000, 70_000)
#: Memory of a job that needs a whole worker.
WHOLE = number(900)


@pytest.fixture
async def stage(plane: BarePlane, crds: None, own_slurm: LabSlurm, tmp_path: Path) -> AsyncIterator[ElasticStage]:
    async with elastic_stage(plane, own_slurm, tmp_path) as stage:
        yield stage


async def test_workers_come_with_jobs_and_go_without(stage: ElasticStage) -> None:
    await stage.apply_policy()
    await stage.wait_pods(0)
    # A single job with devices.
    job = await stage.submit(tres_per_node="gres/gpu:h100:8")
    await stage.wait_running(job)
    assert len(await stage.pods()) == 1

    async def is_protected() -> bool:
        annotations = next(iter((await stage.pods()).values())).metadata.annotations
        return (annotations.get(metadata.DO_NOT_DISRUPT), annotations.get(metadata.SAFE_TO_EVICT)) == ("true", "false")

    await eventually(is_protected, "the annotations for node autoscalers")
    # A gang of two beside it, which needs whole workers: none of it starts on the first one.
    gang = await stage.submit(tasks=4, minimum_nodes=2, maximum_nodes=2, memory_per_node=WHOLE)
    await stage.wait_running(gang)
    assert len(await stage.pods()) == 3
    assert (await stage.node_set()).spec.replicas == 3
    for item in (job, gang):
        await stage.slurm.cancel(item)
    await stage.wait_pods(0)
    status = (await stage.node_set()).status.autoscaling
    assert status is not None
    assert {(item.after > item.before, item.reason) for item in status.decisions} == {
        (True, "PendingJobs"),
        (False, "IdleWorkers"),
    }
    assert stage.undrained_deletions == []


async def test_large_arrays_are_one_demand(stage: ElasticStage, own_slurm: LabSlurm) -> None:
    """Slurmrestd would need more than its deadline to list the state of each of 100,000 tasks."""
    await stage.apply_empty()
    arrays: list[str] = []
    with settings(own_slurm, MaxArraySize="100001", MaxJobCount="200000"):
        try:
            for tasks in TASKS:
                options = ("--parsable", "--partition=all", "--mem=900", "--output=/dev/null", f"--array=0-{tasks - 1}")
                arrays.append(own_slurm.exec("sbatch", *options, "--wrap=sleep 600", user="alice").strip())
                await stage.wait_pods(3)

            async def is_reported() -> bool:
                status = (await stage.node_set()).status.autoscaling
                assert status is not None
                latest = status.decisions[0]
                assert (latest.before, latest.after, latest.reason) == (0, 3, "PendingJobs")
                return latest.message == f"pending jobs need 3 more workers, first of all job {arrays[0]}"

            await eventually(is_reported, "the decision in the status")
        finally:
            own_slurm.exec("scancel", *arrays)
        await stage.wait_pods(0)


@contextmanager
def settings(slurm: LabSlurm, **values: str) -> Iterator[None]:
    """Other settings for a while."""
    file = slurm.machine.folder / "keys" / "slurm.conf"
    before = file.read_text()
    file.write_text(changed(before, values))
    slurm.exec("scontrol", "reconfigure")
    try:
        yield
    finally:
        file.write_text(before)
        slurm.exec("scontrol", "reconfigure")


async def test_a_job_that_slurmctld_has_not_evaluated_brings_its_worker(
    stage: ElasticStage, own_slurm: LabSlurm
) -> None:
    """As in a queue that is longer than slurmctld looks at: a released job has no reason for up to a minute."""
    await stage.apply_empty()
    job = await stage.submit(hold=True)
    own_slurm.exec("scontrol", "update", "nodename=c1", "state=drain", "reason=test")
    try:
        for _ in range(4):
            own_slurm.exec("sbatch", "--partition=work", "--priority=20000", "--wrap=true")
        parameters = "default_queue_depth=1,sched_interval=600,bf_interval=600"
        with settings(own_slurm, SchedulerParameters=parameters):
            await stage.slurm.update_job(job, JobRequest(hold=False))
            await stage.wait_pods(1)
            assert (await stage.slurm.job(job)).state_reason == "None"
    finally:
        own_slurm.exec("scancel", "--partition=work", "--state=pending")
        own_slurm.exec("scontrol", "update", "nodename=c1", "state=resume")
    await stage.wait_running(job)


async def test_a_job_that_can_never_run_is_told_why(stage: ElasticStage) -> None:
    await stage.apply_empty()
    job = await stage.submit(minimum_nodes=4, maximum_nodes=4, tasks=4)

    async def is_told() -> bool:
        status = (await stage.node_set()).status.autoscaling
        text = f"Job {job}: it needs 4 workers at the same time, more than the 3 that gpu may have"
        return status is not None and text in status.impossible_jobs

    await eventually(is_told, "the reason in the status")
    assert await stage.pods() == {}


async def test_a_quota_that_refuses_workers_is_named_in_its_own_words(stage: ElasticStage) -> None:
    await stage.apply_empty(scaleOut={"readyWithin": "3s"})
    await stage.apply(QUOTAS, "workers", spec={"hard": {"pods": "1"}})
    # The controller of quotas counts the pod of slurmrestd; here the test does.
    status = {"status": {"hard": {"pods": "1"}, "used": {"pods": "1"}}}
    await stage.client.patch(QUOTAS, Key(stage.namespace, "workers"), status, subresource="status")
    job = await stage.submit()
    live = await stage.wait_reason("RetryLater")
    assert live.status.autoscaling is not None
    failure = next(item for item in live.status.autoscaling.decisions if item.reason == "CapacityMissing")
    assert "exceeded quota: workers" in failure.message
    assert live.spec.replicas == 0
    await stage.client.delete(QUOTAS, Key(stage.namespace, "workers"))
    await stage.retry()
    await stage.wait_running(job)


async def test_an_unknown_slurm_changes_nothing(stage: ElasticStage) -> None:
    await stage.apply_policy(scaleIn={"idleFor": "0s"})
    job = await stage.submit()
    await stage.wait_running(job)
    stage.proxy.closed.add("/slurm")
    try:
        await stage.slurm.cancel(job)
        await stage.wait_reason("SlurmUnknown")
        assert len(await stage.pods()) == 1
        assert (await stage.condition(NODE_SETS, "gpu", "AutoscalingActive"))[0] == "Unknown"
    finally:
        stage.proxy.closed.clear()
    await stage.wait_pods(0)


async def test_a_dry_run_only_reports(stage: ElasticStage) -> None:
    await stage.apply_policy(mode="DryRun")
    await stage.client.set_scale(NODE_SETS, Key(stage.namespace, "gpu"), 0)
    await stage.wait_pods(0)
    await stage.submit()

    async def is_reported() -> bool:
        status = (await stage.node_set()).status.autoscaling
        return status is not None and (status.next_replicas, status.reason) == (1, "PendingJobs")

    await eventually(is_reported, "the next decision")
    await stage.wait_pods(0)
    assert (await stage.node_set()).spec.replicas == 0


async def test_slurm_that_is_silent_while_a_job_waits_only_delays_growth(stage: ElasticStage) -> None:
    await stage.apply_empty()
    stage.proxy.closed.add("/slurm")
    await stage.wait_reason("SlurmUnknown")
    job = await stage.submit()
    stage.proxy.closed.clear()
    await stage.wait_running(job)
    assert len(await stage.pods()) == 1


async def test_workers_that_never_register_are_given_back_and_the_job_says_why(stage: ElasticStage) -> None:
    """As with an image that cannot be pulled."""
    await stage.apply_empty(scaleOut={"readyWithin": "2s"})
    await stage.apply_policy(image=BAD, scaleOut={"readyWithin": "2s"})
    job = await stage.submit()
    await stage.wait_reason("RetryLater")
    await stage.wait_pods(0)

    async def has_comment() -> bool:
        return (await stage.slurm.job(job)).admin_comment.startswith("Waits for workers: NodeSet gpu: 1 worker did not")

    await eventually(has_comment, "the comment on the job")
    await stage.apply_policy(scaleOut={"readyWithin": "30s"})
    await stage.retry()
    await stage.wait_running(job)


async def test_workers_come_before_a_reservation_and_stay_until_it_ends(stage: ElasticStage) -> None:
    await stage.apply_empty()
    for ordinal in (0, 1):
        await stage.register(f"{stage.prefix}{ordinal}")
    begin = int(time.time()) + 300
    hosts = [f"{stage.prefix}0", f"{stage.prefix}1"]
    request = ReservationRequest(
        name=stage.namespace, node_list=hosts, start_time=number(begin), duration=number(60), users=["slurm"]
    )
    await stage.slurm.write_reservation(request)
    try:
        await stage.wait_pods(2)

        async def is_recorded() -> bool:
            status = (await stage.node_set()).status.autoscaling
            return status is not None and status.decisions[0].reason == "Reservation"

        await eventually(is_recorded, "the decision in the status")
    finally:
        with suppress(SlurmNotFound):  # slurmctld also deletes a reservation whose hosts are gone
            await stage.slurm.delete_reservation(stage.namespace)
    await stage.wait_pods(0)


async def test_an_account_brings_no_more_workers_than_it_may(stage: ElasticStage) -> None:
    limit = {"account": "lab", "maxWorkers": 1}
    await stage.apply_empty(accountLimits=[limit])
    first, second = [await stage.submit(memory_per_node=WHOLE) for _ in range(2)]
    await stage.wait_running(first)

    async def is_told() -> bool:
        text = "Waits for workers: NodeSet gpu: the account lab has as many workers as it may have"
        return (await stage.slurm.job(second)).admin_comment == text

    await eventually(is_told, "the reason on the job")
    assert len(await stage.pods()) == 1
    await stage.apply_policy(accountLimits=[{**limit, "maxWorkers": 2}])
    await stage.wait_running(second)


async def test_a_set_does_not_outgrow_the_nodes(stage: ElasticStage) -> None:
    labels, names = {"pool": stage.namespace}, [f"{stage.namespace}-{number}" for number in range(2)]

    async def add_node(name: str) -> None:
        """A node that is ready: the API server taints a new one."""
        await stage.client.create(NODES, {"metadata": {"name": name, "labels": labels}})
        await stage.client.patch(NODES, Key("", name), {"spec": {"taints": None}})

    stage.pod_spec = {"nodeSelector": labels}
    try:
        await add_node(names[0])
        await stage.apply_empty(existingNodesOnly=True)
        first, second = [await stage.submit(memory_per_node=WHOLE) for _ in range(2)]
        await stage.wait_running(first)
        assert (await stage.node_set()).spec.replicas == 1
        await add_node(names[1])
        await stage.wait_running(second)
    finally:
        for name in names:
            with suppress(NotFound):
                await stage.client.delete(NODES, Key("", name))


async def test_a_second_writer_is_named_and_the_operator_stops(stage: ElasticStage, plane: BarePlane) -> None:
    await stage.apply_empty()
    async with connect(str(plane.kubeconfig)) as other:
        path, body = NODE_SETS.path(Key(stage.namespace, NAME), subresource="scale"), b'{"spec":{"replicas":2}}'
        query = {"fieldManager": "kube-controller-manager"}
        await other.send("PATCH", path, query, body, content="application/merge-patch+json")
    await stage.wait_condition(NODE_SETS, NAME, "AutoscalingActive", "False", "TwoWriters")
    assert (await stage.node_set()).spec.replicas == 2
