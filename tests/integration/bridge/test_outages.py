# SPDX-License-Identifier: Apache-2.0
"""Outages and their end: slurmrestd, the API server, an expired token, a host that slurmctld gave up."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.integration.bridge.bridge_stage import BridgeStage, bridge_stage, create_namespace
from tests.support.kubernetes_minor import MINOR
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.bridge.views import OUR_PODS
from slinky.bridge.views.native import native_groups
from slinky.kube import NAMESPACES, NODES, AlreadyExists, Key, KubeClient, connect
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import FileToken
from slinky.slurm import SlurmClient as Slurm


async def test_a_restart_of_slurmrestd_costs_no_pod_and_waiting_pods_continue(
    stage: BridgeStage, slurm: LabSlurm
) -> None:
    await stage.run_pod()
    job = await stage.wait_job()
    await asyncio.to_thread(slurm.stop, "slurmrestd")
    try:
        await stage.create_pod("late")
        await stage.wait_reason("late", "SlurmUnreachable")
        await stage.report_phase("p", "Succeeded", 0)
        await stage.quiet()
        assert not (await stage.get_pod()).metadata.deleting
        assert names.FINALIZER in (await stage.get_pod()).metadata.finalizers  # its job could not be ended yet
    finally:
        await asyncio.to_thread(slurm.start, "slurmrestd")
    await stage.wait_state(job, "CANCELLED")
    await stage.wait_bound("late")


async def test_an_expired_token_stops_the_bridge_only_until_it_is_replaced(
    kube: KubeClient, ctld: Slurm, slurm: LabSlurm, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(slurm.token("slurm", 3600))
    async with Slurm(slurm.url, FileToken(file)) as client, bridge_stage(kube, client) as stage:
        await stage.start()
        await stage.add_node()
        stage.slurm = ctld
        await stage.run_pod()
        file.write_text(slurm.token("slurm", -60))
        await stage.create_pod("late")
        await stage.wait_reason("late", "SlurmUnreachable")
        assert not (await stage.get_pod()).metadata.deleting
        file.write_text(slurm.token("slurm", 3600))
        await stage.report_phase("p", "Succeeded", 0)
        await stage.wait_bound("late")


@pytest.fixture(scope="module")
def other_plane() -> Iterator[BarePlane]:
    """Another cluster, which tests may break."""
    with BarePlane.running(MINOR) as plane:
        yield plane


@pytest.fixture
async def other_kube(other_plane: BarePlane) -> AsyncIterator[KubeClient]:
    """A client of the other cluster."""
    async with connect(other_plane.kubeconfig, manager="slurm-bridge") as client:
        with contextlib.suppress(AlreadyExists):
            await client.create(NAMESPACES, NAMESPACES.manifest(Key("", "kube-system")))
        yield client


async def test_two_clusters_with_the_same_names_on_one_slurm_do_not_disturb_each_other(
    kube: KubeClient, other_kube: KubeClient, ctld: Slurm
) -> None:
    same = {"scheduler_name": "same-name"}
    async with bridge_stage(kube, ctld, **same) as here:
        # The same namespace, pod and scheduler name; only the clusters differ.
        there = BridgeStage(other_kube, ctld, await create_namespace(other_kube, here.namespace), **same)
        try:
            await here.start()
            await there.start()
            await here.add_node(1)
            await there.add_node(2)
            for stage in (here, there):
                await stage.run_pod()
            ours, theirs = await here.wait_job(), await there.wait_job()
            assert ours.sluid != theirs.sluid
            for stage in (here, there):
                await stage.crash()
                await stage.start()
                await stage.settle()
            for stage, job in ((here, ours), (there, theirs)):
                assert (await stage.slurm.job(job.sluid)).state.running
                assert not (await stage.get_pod()).metadata.deleting
                assert not (await stage.slurm.node(stage.nodes[0])).state.draining
            await here.report_phase("p", "Succeeded", 0)
            await here.wait_state(ours, "CANCELLED")
            assert (await ctld.job(theirs.sluid)).state.running
            # A node of the other cluster has the name of a host of ours, which is free now: it is another machine.
            await there.add_node(1, host=False)
            await there.wait_event(here.nodes[0], "HostTaken")
            await there.create_pod("next")
            await there.wait_reason("next", "Resources")
            assert not (await there.get_pod("next")).spec.node_name
        finally:
            await there.clean_up()


async def test_the_bridge_continues_after_a_restart_of_the_api_server(
    other_plane: BarePlane, other_kube: KubeClient, ctld: Slurm
) -> None:
    async with bridge_stage(other_kube, ctld) as stage:
        bridge = await stage.start()
        await stage.add_node()
        await stage.run_pod()
        await stage.create_pod("waiting")
        waiting = await stage.wait_job("waiting")
        job = await stage.wait_job()
        await asyncio.to_thread(other_plane.stop_apiserver)
        await ctld.cancel(job.job_id)  # a change that the bridge cannot write down yet
        await bridge.mirror.refresh(deadline=60)  # the bridge knows of it
        await asyncio.to_thread(other_plane.start_apiserver)

        async def leaving() -> bool:
            return (await stage.get_pod()).metadata.deleting

        await eventually(leaving, "the eviction of the pod")
        await stage.report_stopped("p")
        await stage.wait_bound("waiting")
        assert (await stage.wait_job("waiting")).sluid == waiting.sluid
        assert len(await stage.jobs()) == 1


async def test_groups_of_the_same_name_in_other_namespaces_are_separate(stage: BridgeStage) -> None:
    await stage.add_node(2)
    groups = native_groups(["v1alpha2"])
    assert groups is not None
    other = f"{stage.namespace}-x"
    await create_namespace(stage.client, other)
    for namespace in (stage.namespace, other):
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        await stage.client.create(groups, groups.manifest(Key(namespace, "g"), spec=spec))
    await stage.create_pod("a", schedulingGroup={"podGroupName": "g"})
    stranger = stage.pod_manifest("b", schedulingGroup={"podGroupName": "g"})
    stranger["metadata"]["namespace"] = other
    await stage.client.create(OUR_PODS, stranger)
    assert "1 of 2" in await stage.wait_reason("a", "GangIncomplete")
    await stage.create_pod("c", schedulingGroup={"podGroupName": "g"})
    for name in ("a", "c"):
        await stage.wait_bound(name)
    (job,) = await stage.jobs()
    assert job.node_count.whole == 2
    alone = await stage.client.get(OUR_PODS, Key(other, "b"))
    assert not alone.spec.node_name
    await stage.client.delete(OUR_PODS, alone.key, grace=0)


async def test_a_node_deleted_below_a_running_gang_costs_only_its_own_pod(stage: BridgeStage) -> None:
    await stage.add_node(2)
    label = await stage.create_batch_job(2)
    for name in ("a", "b"):
        await stage.create_pod(name, labels=label, terminationGracePeriodSeconds=1)
    places = {name: (await stage.wait_bound(name)).spec.node_name for name in ("a", "b")}
    for name in places:
        await stage.report_phase(name, "Running")
    job = await stage.wait_job("a")
    await stage.client.delete(NODES, Key("", places["a"]))

    async def drained() -> bool:
        return (await stage.slurm.node(places["a"])).state.draining

    await eventually(drained, "the drain of the host without a node")
    await stage.delete_pod("a")  # as Kubernetes does with pods of nodes that are gone
    await stage.wait_released("a")
    assert not (await stage.get_pod("b")).metadata.deleting
    assert (await stage.slurm.job(job.sluid)).state.running
    await stage.report_phase("b", "Succeeded", 0)
    await stage.wait_state(job, "CANCELLED")

    async def removed() -> bool:
        listing = await stage.slurm.nodes()
        return listing is not None and places["a"] not in {host.name for host in listing.items}

    await eventually(removed, "the host to leave with its node")


async def test_a_pod_whose_label_names_a_purged_job_gets_a_new_job(stage: BridgeStage) -> None:
    await stage.crash()
    # As after MinJobAge: slurmctld has purged the job, and accounting does not have it either.
    await stage.create_pod(labels={names.JOB_LABEL: "3999999"})
    await stage.start()
    await stage.wait_bound("p")
    assert (await stage.wait_job()).job_id != 3999999


async def test_a_host_that_does_not_respond_is_registered_again_once_it_is_empty(stage: BridgeStage) -> None:
    await stage.run_pod()
    job = await stage.wait_job()
    before = (await stage.slurm.node(stage.nodes[0])).comment
    # A signal makes slurmctld contact a slurmd that does not exist; it marks the host NOT_RESPONDING for good.
    await stage.slurm.cancel(job.job_id, signal="TERM")

    async def not_responding() -> bool:
        return "NOT_RESPONDING" in (await stage.slurm.node(stage.nodes[0])).state

    await eventually(not_responding, "the host to be NOT_RESPONDING")

    async def draining() -> bool:
        found = await stage.slurm.node(stage.nodes[0])
        return found.state.draining and found.reason.startswith(names.DRAIN_PREFIX)

    await eventually(draining, "the drain of the host")
    assert (await stage.slurm.job(job.sluid)).state.running  # its pod keeps running
    assert not (await stage.get_pod()).metadata.deleting
    await stage.report_phase("p", "Succeeded", 0)

    async def anew() -> bool:
        found = await stage.slurm.node(stage.nodes[0])
        return found.comment == before and not found.state.draining and "NOT_RESPONDING" not in found.state

    await eventually(anew, "the host to be registered anew")
