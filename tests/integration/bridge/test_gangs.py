# SPDX-License-Identifier: Apache-2.0
"""Gangs on a real API server and a real Slurm; the test creates their pods."""

import contextlib
from typing import Any

import pytest
from msgspec.structs import replace
from tests.integration.bridge.bridge_stage import BridgeStage
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.bridge.views import BATCH_JOBS, OUR_PODS, STORAGE_CLASSES, VOLUME_CLAIMS
from slinky.bridge.workload import grouping
from slinky.bridge.workload.grouping import Workload
from slinky.kube import AlreadyExists, Cache, Key, by_label


async def test_a_gang_waits_for_its_last_pod_and_then_has_one_job(stage: BridgeStage) -> None:
    await stage.add_node(2)
    label = await stage.create_batch_job(2)
    await stage.create_pod("a", labels=label)
    assert "1 of 2" in await stage.wait_reason("a", "GangIncomplete")
    assert await stage.jobs() == []
    await stage.create_pod("b", labels=label)
    places = {(await stage.wait_bound(name)).spec.node_name for name in ("a", "b")}
    assert places == set(stage.nodes)
    (job,) = await stage.jobs()
    assert job.node_count.whole == 2


async def test_a_failed_gang_member_costs_no_other_and_its_successor_gets_its_own_job(
    stage: BridgeStage,
) -> None:
    job = await stage.run_gang_of_two()
    await stage.report_phase("a", "Failed", 3)
    await stage.create_pod("c", labels={names.JOB_NAME: "j"})
    await stage.wait_reason("c", "Resources")
    successor = await stage.wait_job("c")
    assert (successor.node_count.whole, successor.sluid == job.sluid) == (1, False)
    assert (await stage.slurm.job(job.sluid)).state.running
    assert not (await stage.get_pod("b")).metadata.deleting
    await stage.report_phase("b", "Succeeded", 0)
    await stage.wait_state(job, "CANCELLED")
    await stage.wait_bound("c")


async def test_every_pod_of_a_gang_is_bound_by_one_request(stage: BridgeStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the workload is reconciled again before the watch delivers the bindings."""
    bindings, request = [], stage.client.transport.request

    async def record(method: str, path: str, **more: Any) -> Any:
        bindings.extend([path] if path.endswith("/binding") else [])
        return await request(method, path, **more)

    monkeypatch.setattr(stage.client.transport, "request", record)
    await stage.add_node(2)
    label = await stage.create_batch_job(2)
    for name in ("a", "b"):
        await stage.create_pod(name, labels=label)
    for name in ("a", "b"):
        await stage.wait_bound(name)
        await stage.wait_reason(name, "Allocated")
    assert sorted(bindings) == [f"/api/v1/namespaces/{stage.namespace}/pods/{name}/binding" for name in ("a", "b")]


async def test_a_pod_with_its_own_job_joins_a_gang_that_is_created_later(stage: BridgeStage) -> None:
    await stage.add_node(2)
    await stage.create_pod("blocker")
    await stage.wait_bound("blocker")
    await stage.create_pod("other")
    await stage.wait_bound("other")
    await stage.create_pod("a", labels={names.JOB_NAME: "j"})
    alone = await stage.wait_job("a")
    label = await stage.create_batch_job(2)
    await stage.create_pod("b", labels=label)
    for name in ("blocker", "other"):
        await stage.report_phase(name, "Succeeded", 0)
    for name in ("a", "b"):
        await stage.wait_bound(name)
    together = [await stage.wait_job(name) for name in ("a", "b")]
    assert together[0].job_id == together[1].job_id
    if together[0].job_id != alone.job_id:
        await stage.wait_state(alone, "CANCELLED")


async def test_a_waiting_gang_that_loses_a_pod_is_withdrawn_until_it_is_complete(stage: BridgeStage) -> None:
    label = await stage.create_batch_job(2)
    await stage.add_node(2)
    await stage.create_pod("blocker")
    await stage.wait_bound("blocker")
    await stage.create_pod("a", labels=label)
    await stage.create_pod("b", labels=label)
    first = await stage.wait_job("a")
    await stage.delete_pod("b")
    await stage.wait_gone("b")
    await stage.wait_reason("a", "GangIncomplete")
    await stage.wait_state(first, "CANCELLED")
    await stage.create_pod("b", labels=label)
    await stage.report_phase("blocker", "Succeeded", 0)
    await stage.wait_bound("a")
    await stage.wait_bound("b")
    assert (await stage.wait_job("a")).job_id == (await stage.wait_job("b")).job_id != first.job_id


async def test_no_pod_of_a_gang_starts_before_all_have_their_volumes(stage: BridgeStage) -> None:
    await stage.add_node(2)
    late = STORAGE_CLASSES.manifest(
        Key("", "late"), provisioner="example.com/none", volumeBindingMode="WaitForFirstConsumer"
    )
    with contextlib.suppress(AlreadyExists):
        await stage.client.create(STORAGE_CLASSES, late)
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "late",
        "resources": {"requests": {"storage": "1Mi"}},
    }
    key = Key(stage.namespace, "v")
    await stage.client.create(VOLUME_CLAIMS, VOLUME_CLAIMS.manifest(key, spec=claim))
    label = await stage.create_batch_job(2)
    await stage.create_pod("a", labels=label)
    await stage.create_pod("b", labels=label, volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "v"}}])

    async def selected_node() -> str:
        annotations = (await stage.client.get(VOLUME_CLAIMS, key)).metadata.annotations
        return annotations.get("volume.kubernetes.io/selected-node", "")

    node = await eventually(selected_node, "a node for the volume")
    await stage.settle()
    for name in ("a", "b"):
        assert not (await stage.get_pod(name)).spec.node_name
    await stage.client.patch(VOLUME_CLAIMS, key, {"spec": {"volumeName": "made"}})
    await stage.wait_bound("a")
    assert (await stage.wait_bound("b")).spec.node_name == node


async def test_a_gang_keeps_its_job_when_its_batch_job_is_deleted_before_its_pods(stage: BridgeStage) -> None:
    """A deleted batch job is gone at once, but its pods keep their nodes until their containers have stopped."""
    job = await stage.run_gang_of_two()
    key = Key(stage.namespace, "j")
    await stage.client.delete(BATCH_JOBS, key, propagation="Background")
    await stage.wait_watched(key, absent=True)
    await stage.settle()
    assert (await stage.slurm.job(job.job_id)).state.running
    for name in ("a", "b"):
        assert not (await stage.get_pod(name)).metadata.deleting
    # A new bridge, whose watch never had the batch job, keeps the job as well.
    await stage.crash()
    await stage.start()
    await stage.delete_pod("a")
    await stage.report_stopped("a")
    await stage.wait_gone("a")
    assert (await stage.slurm.job(job.job_id)).state.running
    await stage.report_phase("b", "Succeeded", 0)
    await stage.wait_state(job, "CANCELLED", "COMPLETED")


async def test_a_gang_keeps_its_job_when_its_batch_job_is_deleted_before_its_binding_is_watched(
    stage: BridgeStage,
) -> None:
    """The watch may deliver the end of the batch job before the job label, which comes with the binding."""
    job = await stage.run_gang_of_two()
    assert stage.bridge is not None
    stock, gang = stage.bridge.cluster, Workload(stage.namespace, "Job", "j")
    unlabelled = Cache(OUR_PODS, indexes={"group": grouping.group_keys_of, "job": by_label(names.JOB_LABEL)})
    for name in ("a", "b"):
        pod = await stage.get_pod(name)
        labels = {key: value for key, value in pod.metadata.labels.items() if key != names.JOB_LABEL}
        unlabelled.put(replace(pod, metadata=replace(pod.metadata, labels=labels)))
    # The bridge runs meanwhile, so it must never see an empty cache.
    labelled, stock.pods = stock.pods, unlabelled
    watched, stock.groups["Job"] = stock.groups["Job"], Cache(BATCH_JOBS)
    assert stock.pods_of(gang) == []
    await stage.bridge.workload_reconciler.reconcile(gang)
    assert (await stage.slurm.job(job.job_id)).state.running
    stock.pods, stock.groups["Job"] = labelled, watched


async def test_a_pod_waits_until_the_watch_has_its_owner(stage: BridgeStage) -> None:
    """Watches of different kinds are independent: the pods of a batch job may arrive before the batch job."""
    await stage.add_node(2)
    assert stage.bridge is not None
    groups = stage.bridge.cluster.groups
    watched, groups["Job"] = groups["Job"], Cache(BATCH_JOBS)
    label = await stage.create_batch_job(2, watched=False)
    root = await stage.client.get(BATCH_JOBS, Key(stage.namespace, "j"))
    owners = [BATCH_JOBS.owner(root)]
    for name in ("a", "b"):
        await stage.create_pod(name, labels=label, ownerReferences=owners)
    assert "Job j" in await stage.wait_reason("a", "GroupMissing")
    assert await stage.jobs() == []
    groups["Job"] = watched
    await stage.client.patch(BATCH_JOBS, root.key, {"metadata": {"annotations": {"example.com/touched": "yes"}}})
    for name in ("a", "b"):
        await stage.wait_bound(name)
    (job,) = await stage.jobs()
    assert job.node_count.whole == 2


async def test_a_job_stays_until_its_last_pod_even_if_that_left_the_gang(stage: BridgeStage) -> None:
    job = await stage.run_gang_of_two()
    await stage.patch_pod("a", {"metadata": {"labels": {names.JOB_NAME: None}}})
    await stage.delete_pod("b")
    await stage.report_stopped("b")
    await stage.wait_gone("b")
    assert (await stage.slurm.job(job.job_id)).state.running
    await stage.report_phase("a", "Succeeded", 0)
    await stage.wait_state(job, "CANCELLED", "COMPLETED")
