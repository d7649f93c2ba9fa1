# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, and what must not follow from it. docs/bridge/failures.md lists these laws by event."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
from tests.integration.bridge.proxy import Proxy, proxy
from tests.integration.bridge.scene import Scene, eventually, scene

from slinky.bridge import names
from slinky.bridge.state.views import OUR_PODS
from slinky.kube import NODES, Key, KubeClient
from slinky.lab.slurm.cluster import Beside
from slinky.slurm import JobRequest, MintedToken, NodeUpdate, SlurmError
from slinky.slurm import SlurmClient as Slurm

OPTION = names.OPTION


class Broken(NamedTuple):
    """A scene whose bridge reaches Slurm through a proxy; the test itself does not."""

    stage: Scene
    way: Proxy


@pytest.fixture
async def broken(kube: KubeClient, ctld: Slurm, slurm: Beside) -> AsyncIterator[Broken]:
    """A running bridge behind a proxy, with one node."""
    async with (
        proxy(slurm.url) as way,
        Slurm(way.url, MintedToken(lambda: slurm.jwt_key, "slurm")) as through,
        scene(kube, through) as stage,
    ):
        await stage.start()
        await stage.node()
        stage.slurm = ctld
        yield Broken(stage, way)


async def runs(stage: Scene, name: str = "p") -> None:
    await stage.pod(name)
    await stage.bound(name)
    await stage.phase(name, "Running")


async def settled(seconds: float = 3) -> None:
    await asyncio.sleep(seconds)


async def leaves(stage: Scene, name: str, reason: str, *, final: bool = False) -> None:
    """A pod is deleted and says why; `final` if whoever made it should not try again."""

    async def leaving() -> bool:
        pod = await stage.get(name)
        told = {condition.type: condition.reason for condition in pod.status.conditions if condition.status == "True"}
        assert told.get(names.ENDED) == (reason if final else None)
        return pod.metadata.deleting and told.get("DisruptionTarget") == reason

    await eventually(leaving, f"{name} to leave because of {reason}", 60)


@pytest.mark.parametrize("fault", ["404", "401", "hang"])
async def test_a_slurm_out_of_sight_costs_no_pod(broken: Broken, fault: str) -> None:
    stage, way = broken
    await runs(stage)
    way.fault = lambda _: fault
    await stage.pod("late")
    await settled(5)
    assert not (await stage.get("p")).metadata.deleting
    await stage.phase("p", "Succeeded", 0)
    await settled(1)
    assert names.FINALIZER in (await stage.get("p")).metadata.finalizers  # nobody could end its job yet
    way.fault = lambda _: ""
    await stage.bound("late", 60)
    assert names.FINALIZER not in (await stage.get("p")).metadata.finalizers


async def test_without_accounting_pods_come_and_go_and_their_outcome_is_told_later(stage: Scene, slurm: Beside) -> None:
    slurm.stop("slurmdbd")
    try:
        await runs(stage)
        job = await stage.job_of()
        await stage.phase("p", "Failed", 3)
        await stage.state(job, "CANCELLED")
        await settled()
        assert names.FINALIZER not in (await stage.get()).metadata.finalizers
    finally:
        slurm.start("slurmdbd")

    async def recorded() -> bool:
        with contextlib.suppress(SlurmError):
            return "Failed, exit code 3" in (await stage.slurm.accounting.job(job.job_id)).comment.job
        return False

    await eventually(recorded, "the outcome in accounting", 120)


async def test_a_submission_nobody_heard_of_is_adopted_and_not_repeated(broken: Broken) -> None:
    stage, way = broken
    cut = iter([True])
    way.fault = lambda request: (
        "cut" if "/job/" in request.path and request.method == "POST" and next(cut, False) else ""
    )
    await stage.pod()
    await stage.bound("p", 60)
    submissions = [path for method, path in way.requests if method == "POST" and path.endswith(("submit", "allocate"))]
    assert len(submissions) == 1
    assert len(await stage.jobs()) == 1


async def test_waiting_costs_next_to_nothing(broken: Broken) -> None:
    stage, way = broken
    await runs(stage)
    for number in range(20):
        await stage.pod(f"w{number}")
    for number in range(20):
        await stage.job_of(f"w{number}")
    await settled(8)
    way.requests.clear()
    started = time.monotonic()
    await settled(10)
    rate = len(way.requests) * 60 / (time.monotonic() - started)
    assert rate < 240, way.requests
    assert not [path for _, path in way.requests if path.endswith("/jobs/")]


async def test_a_slurmctld_restart_costs_no_pod(stage: Scene, slurm: Beside) -> None:
    await runs(stage)
    await stage.pod("waiting")
    job = await stage.job_of("waiting")
    await asyncio.to_thread(slurm.stop, "slurmctld", 15)
    await asyncio.to_thread(slurm.start, "slurmctld")
    await settled()
    assert not (await stage.get("p")).metadata.deleting
    assert (await stage.job_of("waiting")).sluid == job.sluid
    await stage.phase("p", "Succeeded", 0)
    await stage.bound("waiting", 60)


async def test_after_a_crash_of_slurmctld_every_pod_has_a_live_job_again(stage: Scene, slurm: Beside) -> None:
    await asyncio.to_thread(slurm.stop, "slurmctld", 15)  # a first orderly end writes what a crash needs later
    await asyncio.to_thread(slurm.start, "slurmctld")
    await stage.pod()
    await stage.job_of()
    await asyncio.to_thread(slurm.stop, "slurmctld")
    await asyncio.to_thread(slurm.start, "slurmctld")

    async def healthy() -> bool:
        pod = await stage.find()
        if pod is None or pod.metadata.deleting:
            return True  # its job was lost under it: it left with the reason, which is a lawful end too
        job = await stage.slurm.job(pod.metadata.labels[names.JOB_LABEL])
        return bool(pod.spec.node_name) and job.state.running and stage.settings.bridge_name in job.admin_comment

    await eventually(healthy, "a live job or a lawful end", 90)


@pytest.mark.parametrize("written", [False, True], ids=["id", "name"])
async def test_an_id_that_means_somebody_elses_job_is_dropped(stage: Scene, written: bool) -> None:
    """Nor is the name believed that is never used again, as long as nobody has given the pod a node with it."""
    request = JobRequest(name="foreign", partition="ext", flags=["EXTERNAL_JOB"], nodes="1", hold=True)
    foreign = (await stage.slurm.submit(request)).job_id
    notes = {names.SLUID_ANNOTATION: (await stage.slurm.job(foreign)).sluid} if written else {}
    try:
        await stage.pod(labels={names.JOB_LABEL: str(foreign)}, annotations=notes)
        await stage.bound()
        assert (await stage.job_of()).job_id != foreign
        await stage.phase("p", "Succeeded", 0)
        await stage.state(await stage.job_of(), "CANCELLED")
        assert (await stage.slurm.job(foreign)).state.pending
    finally:
        await stage.slurm.cancel(foreign)


async def test_a_job_that_failed_before_its_pod_was_bound_is_not_followed_there(stage: Scene) -> None:
    await runs(stage, "first")
    job = await stage.overtaken("first", "second")
    await stage.slurm.update_node(stage.nodes[0], NodeUpdate(state=("DOWN",), reason="test"))
    assert (await stage.state(job, "NODE_FAIL")).nodes == stage.nodes[0]  # over, and yet it names its node
    await stage.start()

    async def submitted_again() -> bool:
        return (await stage.job_of("second")).sluid != job.sluid

    await eventually(submitted_again, "another job")
    assert not (await stage.get("second")).spec.node_name
    await stage.slurm.update_node(stage.nodes[0], NodeUpdate(state=("RESUME",)))
    await stage.stopped("first")
    await stage.bound("second", 60)


async def test_a_rewritten_comment_costs_no_pod(stage: Scene) -> None:
    await runs(stage)
    job = await stage.job_of()
    await stage.slurm.update_job(job.job_id, JobRequest(admin_comment="mine now"))
    await stage.crash()
    await stage.start()
    await settled()
    assert not (await stage.get()).metadata.deleting
    await stage.phase("p", "Succeeded", 0)
    await stage.state(job, "CANCELLED")


async def test_a_new_pod_under_an_old_name_gets_a_job_of_its_own(stage: Scene) -> None:
    await runs(stage)
    old = await stage.job_of()
    await stage.client.patch(OUR_PODS, Key(stage.namespace, "p"), {"metadata": {"finalizers": None}})
    await stage.delete("p", grace=0)
    await stage.pod()
    await stage.bound()
    assert (await stage.job_of()).sluid != old.sluid
    await stage.state(old, "CANCELLED")


async def test_a_dead_kubelet_does_not_hold_its_job_for_ever(kube: KubeClient, ctld: Slurm) -> None:
    async with scene(kube, ctld, dead_kubelet_seconds=1) as stage:
        await stage.start()
        node = await stage.node()
        await stage.pod(terminationGracePeriodSeconds=1)
        await stage.bound()
        await stage.phase("p", "Running")
        job = await stage.job_of()
        await stage.delete("p")
        await settled(3)
        assert (await stage.slurm.job(job.job_id)).state.running  # the kubelet answers: it may just be slow
        await stage.ready(node, ready=False)
        await stage.state(job, "CANCELLED")
        assert await eventually(lambda: _told(stage, "PodGivenUp"), "an event")
        assert names.FINALIZER not in (await stage.get()).metadata.finalizers


async def _told(stage: Scene, reason: str) -> bool:
    return reason in await stage.events("p")


async def test_a_pod_of_a_removed_node_is_given_up(stage: Scene) -> None:
    await stage.pod(terminationGracePeriodSeconds=1)
    await stage.bound()
    await stage.phase("p", "Running")
    job = await stage.job_of()
    await stage.client.delete(NODES, Key("", stage.nodes[0]))
    await stage.delete("p")
    await stage.state(job, "CANCELLED")


async def test_a_node_that_fails_in_slurm_sends_its_pods_away(stage: Scene) -> None:
    await runs(stage)
    await stage.slurm.update_node(stage.nodes[0], NodeUpdate(state=("DOWN",), reason="test"))
    await leaves(stage, "p", "SlurmNodeFailed")
    await stage.slurm.update_node(stage.nodes[0], NodeUpdate(state=("RESUME",)))


async def test_the_time_limit_sends_a_pod_away_with_its_reason(stage: Scene) -> None:
    await runs(stage)
    job = await stage.job_of()
    await stage.slurm.update_job(job.job_id, JobRequest(end_time=int(time.time()) + 1))
    await leaves(stage, "p", "SlurmJobTimeout", final=True)


async def test_a_preempted_pod_leaves_and_the_other_waits_for_the_empty_node(stage: Scene) -> None:
    as_alice = {OPTION + "user-id": "alice", OPTION + "account": "lab"}
    await stage.pod("low", annotations={**as_alice, OPTION + "qos": "normal"})
    await stage.bound("low")
    await stage.phase("low", "Running")
    await stage.pod("high", annotations={**as_alice, OPTION + "qos": "high"})
    await leaves(stage, "low", "SlurmJobPreempted")
    await stage.says("high", "NodeClearing")
    assert not (await stage.get("high")).spec.node_name
    await stage.stopped("low")
    await stage.bound("high")


async def test_two_bridges_on_one_slurm_leave_each_other_alone(kube: KubeClient, ctld: Slurm) -> None:
    async with scene(kube, ctld) as one, scene(kube, ctld) as two:
        await one.start()
        await one.node()
        await two.start()
        await two.node()
        for stage in (one, two):
            await runs(stage)
        await two.pod("waiting")
        await two.says("waiting", "Resources")
        await one.crash()
        await one.start()
        await settled()
        assert (len(await one.jobs()), len(await two.jobs())) == (1, 2)
        for stage in (one, two):
            assert not (await stage.get()).metadata.deleting
            assert not (await stage.slurm.node(stage.nodes[0])).state.draining


async def test_a_node_that_does_not_suit_any_more_is_given_back(stage: Scene) -> None:
    await runs(stage, "first")
    await stage.pod("second")
    await stage.says("second", "Resources")
    await stage.crash()
    taint = {"spec": {"taints": [{"key": "broken", "effect": "NoSchedule"}]}}
    await stage.client.patch(NODES, Key("", stage.nodes[0]), taint)
    await stage.slurm.cancel((await stage.job_of("first")).job_id)
    await stage.state(await stage.job_of("second"), "RUNNING")
    await stage.start()
    with contextlib.suppress(AssertionError):
        await stage.stopped("first")
    await stage.says("second", "SlurmRefused")
    assert not (await stage.get("second")).spec.node_name
    await stage.client.patch(NODES, Key("", stage.nodes[0]), {"spec": {"taints": []}})


async def test_a_host_deleted_behind_a_waiting_job_kills_nothing(stage: Scene, slurm: Beside) -> None:
    first, other = stage.nodes[0], await stage.node(2)
    for name, node in (("p", first), ("q", other)):
        await stage.pod(name, nodeSelector={"kubernetes.io/hostname": node})
        await stage.bound(name)
        await stage.phase(name, "Running")
    await stage.pod("waiting", nodeSelector={"kubernetes.io/hostname": first})  # leaves the other out by its name
    await stage.says("waiting", "Resources")
    job = await stage.job_of("waiting")
    assert job.excluded_nodes == other
    await stage.phase("q", "Succeeded", 0)
    await stage.client.delete(NODES, Key("", other))

    async def deleted() -> bool:
        listing = await stage.slurm.nodes()
        return listing is not None and other not in {host.name for host in listing.items}

    await eventually(deleted, "the end of the host")
    await asyncio.to_thread(slurm.stop, "slurmctld", 15)
    await asyncio.to_thread(slurm.start, "slurmctld")
    await settled()
    assert not (await stage.get("p")).metadata.deleting
    assert (await stage.slurm.job(job.sluid)).state.pending
    await stage.phase("p", "Succeeded", 0)
    await stage.bound("waiting", 60)
