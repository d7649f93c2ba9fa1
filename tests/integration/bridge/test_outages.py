# SPDX-License-Identifier: Apache-2.0
"""Daemons that go away and come back: slurmrestd, the API server, a token that ends, a node that is poisoned."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.integration.bridge.scene import Scene, eventually, scene
from tests.integration.bridge.test_failures import runs, settled
from tests.integration.bridge.test_gangs import batch_job

from slinky.bridge import names
from slinky.bridge.state.views import OUR_PODS
from slinky.bridge.state.views.native import native_groups
from slinky.kube import EVENTS, NAMESPACES, NODES, SERVICE_ACCOUNTS, AlreadyExists, Key, KubeClient, connect
from slinky.lab.kubernetes.bare_plane import PlainPlane
from slinky.lab.slurm.cluster import Beside
from slinky.slurm import FileToken
from slinky.slurm import SlurmClient as Slurm


async def test_a_slurmrestd_that_dies_costs_no_pod_and_what_waited_goes_on(stage: Scene, slurm: Beside) -> None:
    await runs(stage)
    job = await stage.job_of()
    await asyncio.to_thread(slurm.stop, "slurmrestd")
    try:
        await stage.pod("late")
        await stage.says("late", "SlurmUnreachable")
        await stage.phase("p", "Succeeded", 0)
        await settled(1)
        assert not (await stage.get()).metadata.deleting
        assert names.FINALIZER in (await stage.get()).metadata.finalizers  # nobody could end its job yet
    finally:
        await asyncio.to_thread(slurm.start, "slurmrestd")
    await stage.state(job, "CANCELLED")
    await stage.bound("late", 60)


async def test_a_token_that_ends_stops_the_bridge_only_until_there_is_another(
    kube: KubeClient, ctld: Slurm, slurm: Beside, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(slurm.token("slurm", 3600))
    async with Slurm(slurm.url, FileToken(file)) as through, scene(kube, through) as stage:
        await stage.start()
        await stage.node()
        stage.slurm = ctld
        await runs(stage)
        file.write_text(slurm.token("slurm", -60))
        await stage.pod("late")
        await stage.says("late", "SlurmUnreachable")
        assert not (await stage.get()).metadata.deleting
        file.write_text(slurm.token("slurm", 3600))
        await stage.phase("p", "Succeeded", 0)
        await stage.bound("late", 60)


@pytest.fixture(scope="module")
def elsewhere() -> object:
    """Another cluster, which may be broken."""
    with PlainPlane.running() as running:
        yield running


@pytest.fixture
async def abroad(elsewhere: PlainPlane) -> AsyncIterator[KubeClient]:
    """A client of the other cluster."""
    async with connect(elsewhere.kubeconfig, manager="slurm-bridge") as client:
        with contextlib.suppress(AlreadyExists):
            await client.create(NAMESPACES, NAMESPACES.manifest(Key("", "kube-system")))
        yield client


async def test_two_clusters_with_the_same_names_on_one_slurm_leave_each_other_alone(
    kube: KubeClient, abroad: KubeClient, ctld: Slurm
) -> None:
    same = {"scheduler_name": "same-name"}
    async with scene(kube, ctld, **same) as here:
        # The very same namespace, pod and scheduler; only the clusters differ.
        there = Scene(abroad, ctld, here.namespace, **same)
        await abroad.create(NAMESPACES, NAMESPACES.manifest(Key("", there.namespace)))
        await abroad.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(Key(there.namespace, "default")))
        try:
            await here.start()
            await there.start()
            await here.node(1)
            await there.node(2)
            for stage in (here, there):
                await runs(stage)
            ours, theirs = await here.job_of(), await there.job_of()
            assert ours.sluid != theirs.sluid
            for stage in (here, there):
                await stage.crash()
                await stage.start()
            await settled()
            for stage, job in ((here, ours), (there, theirs)):
                assert (await stage.slurm.job(job.sluid)).state.running
                assert not (await stage.get()).metadata.deleting
                assert not (await stage.slurm.node(stage.nodes[0])).state.draining
            await here.phase("p", "Succeeded", 0)
            await here.state(ours, "CANCELLED")
            assert (await ctld.job(theirs.sluid)).state.running
            # A node of theirs has the name of a host of ours, which is free now: it is not the same machine.
            await there.node(1, host=False)
            field = f"involvedObject.name={here.nodes[0]},reason=HostTaken"
            await eventually(lambda: abroad.list(EVENTS, fields=field), "an event on the node")
            await there.pod("next")
            await there.says("next", "Resources")
            assert not (await there.get("next")).spec.node_name
        finally:
            await there.clear()


async def test_an_api_server_that_restarts_is_met_again(elsewhere: PlainPlane, abroad: KubeClient, ctld: Slurm) -> None:
    async with scene(abroad, ctld) as stage:
        await stage.start()
        await stage.node()
        await runs(stage)
        await stage.pod("waiting")
        waiting = await stage.job_of("waiting")
        job = await stage.job_of()
        await asyncio.to_thread(elsewhere.stop_apiserver)
        await ctld.cancel(job.job_id)  # something happens while nobody can be told
        await settled(2)
        await asyncio.to_thread(elsewhere.start_apiserver)

        async def leaving() -> bool:
            return (await stage.get()).metadata.deleting

        await eventually(leaving, "the pod to hear of the end of its job", 60)
        await stage.stopped("p")
        await stage.bound("waiting", 60)
        assert (await stage.job_of("waiting")).sluid == waiting.sluid
        assert len(await stage.jobs()) == 1


async def test_groups_of_the_same_name_elsewhere_are_strangers(stage: Scene) -> None:
    await stage.node(2)
    groups = native_groups(["v1alpha2"])
    assert groups is not None
    other = f"{stage.namespace}-x"
    await stage.client.create(NAMESPACES, NAMESPACES.manifest(Key("", other)))
    await stage.client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(Key(other, "default")))
    for namespace in (stage.namespace, other):
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        await stage.client.create(groups, groups.manifest(Key(namespace, "g"), spec=spec))
    await stage.pod("a", schedulingGroup={"podGroupName": "g"})
    stranger = stage.manifest("b", schedulingGroup={"podGroupName": "g"})
    stranger["metadata"]["namespace"] = other
    await stage.client.create(OUR_PODS, stranger)
    assert "1 of 2" in await stage.says("a", "GangIncomplete")
    await stage.pod("c", schedulingGroup={"podGroupName": "g"})
    for name in ("a", "c"):
        await stage.bound(name)
    (job,) = await stage.jobs()
    assert job.node_count.whole == 2
    alone = await stage.client.get(OUR_PODS, Key(other, "b"))
    assert not alone.spec.node_name
    await stage.client.delete(OUR_PODS, alone.key, grace=0)


async def test_a_node_deleted_under_a_running_gang_costs_only_its_own_pod(stage: Scene) -> None:
    await stage.node(2)
    label = await batch_job(stage, 2)
    for name in ("a", "b"):
        await stage.pod(name, labels=label, terminationGracePeriodSeconds=1)
    places = {name: (await stage.bound(name)).spec.node_name for name in ("a", "b")}
    for name in places:
        await stage.phase(name, "Running")
    job = await stage.job_of("a")
    await stage.client.delete(NODES, Key("", places["a"]))

    async def drained() -> bool:
        return (await stage.slurm.node(places["a"])).state.draining

    await eventually(drained, "the drain of the host without a node")
    await stage.delete("a")  # as Kubernetes does with pods of nodes that are gone

    async def let_go() -> bool:
        found = await stage.find("a")
        return found is None or names.FINALIZER not in found.metadata.finalizers

    await eventually(let_go, "the pod to be let go")
    assert not (await stage.get("b")).metadata.deleting
    assert (await stage.slurm.job(job.sluid)).state.running
    await stage.phase("b", "Succeeded", 0)
    await stage.state(job, "CANCELLED")

    async def removed() -> bool:
        listing = await stage.slurm.nodes()
        return listing is not None and places["a"] not in {host.name for host in listing.items}

    await eventually(removed, "the host to leave with its node")


async def test_a_label_that_names_a_forgotten_job_is_no_dead_end(stage: Scene) -> None:
    await stage.crash()
    # As after MinJobAge: the job was purged, and neither slurmctld nor accounting has ever heard of it.
    await stage.pod(labels={names.JOB_LABEL: "3999999"})
    await stage.start()
    await stage.bound("p", 60)
    assert (await stage.job_of()).job_id != 3999999


async def test_a_poisoned_host_is_registered_anew_once_it_is_empty(stage: Scene) -> None:
    await runs(stage)
    job = await stage.job_of()
    before = (await stage.slurm.node(stage.nodes[0])).comment
    # A signal makes slurmctld look for a slurmd that is not there; it never trusts the host again.
    await stage.slurm.cancel(job.job_id, signal="TERM")

    async def poisoned() -> bool:
        return "NOT_RESPONDING" in (await stage.slurm.node(stage.nodes[0])).state

    await eventually(poisoned, "the host to be poisoned", 60)

    async def draining() -> bool:
        found = await stage.slurm.node(stage.nodes[0])
        return found.state.draining and found.reason.startswith(names.DRAIN_PREFIX)

    await eventually(draining, "the drain of the poisoned host")
    assert (await stage.slurm.job(job.sluid)).state.running  # its pod works on undisturbed
    assert not (await stage.get()).metadata.deleting
    await stage.phase("p", "Succeeded", 0)

    async def anew() -> bool:
        found = await stage.slurm.node(stage.nodes[0])
        return found.comment == before and not found.state.draining and "NOT_RESPONDING" not in found.state

    await eventually(anew, "the host to be registered anew", 60)
