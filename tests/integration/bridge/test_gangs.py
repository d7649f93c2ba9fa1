# SPDX-License-Identifier: Apache-2.0
"""Gangs on a real API server and a real Slurm, with pods made by hand."""

import asyncio
import contextlib
from typing import Any

import pytest
from msgspec.structs import replace
from tests.integration.bridge.scene import Scene

from slinky.bridge import names
from slinky.bridge.state.views import BATCH_JOBS, OUR_PODS, STORAGE_CLASSES, VOLUME_CLAIMS
from slinky.bridge.workload import grouping
from slinky.bridge.workload.grouping import Workload
from slinky.kube import AlreadyExists, Cache, Key, by_label
from slinky.slurm import Job

GANG = {names.OPTION + "gang": "true"}


async def batch_job(stage: Scene, size: int, name: str = "j", **options: str) -> dict[str, str]:
    """A batch job that is a gang; the label of its pods."""
    template = {"spec": {**stage.manifest("x")["spec"], "restartPolicy": "Never"}}
    spec = {"parallelism": size, "completions": size, "template": template}
    manifest = BATCH_JOBS.manifest(Key(stage.namespace, name), metadata={"annotations": GANG | options}, spec=spec)
    await stage.client.create(BATCH_JOBS, manifest)
    await asyncio.sleep(0.3)  # the root must be known, or the first pod counts as one of its own
    return {names.JOB_NAME: name}


async def running_pair(stage: Scene) -> Job:
    """The job of a gang whose two pods, `a` and `b`, run."""
    await stage.node(2)
    label = await batch_job(stage, 2)
    for name in ("a", "b"):
        await stage.pod(name, labels=label)
    for name in ("a", "b"):
        await stage.bound(name)
        await stage.phase(name, "Running")
    return await stage.job_of("a")


async def test_a_gang_waits_for_its_last_pod_and_then_has_one_job(stage: Scene) -> None:
    await stage.node(2)
    label = await batch_job(stage, 2)
    await stage.pod("a", labels=label)
    assert "1 of 2" in await stage.says("a", "GangIncomplete")
    assert await stage.jobs() == []
    await stage.pod("b", labels=label)
    places = {(await stage.bound(name)).spec.node_name for name in ("a", "b")}
    assert places == set(stage.nodes)
    (job,) = await stage.jobs()
    assert job.node_count.whole == 2


async def test_a_member_that_fails_costs_nobody_else_and_its_successor_gets_a_job_of_its_own(stage: Scene) -> None:
    job = await running_pair(stage)
    await stage.phase("a", "Failed", 3)
    await stage.pod("c", labels={names.JOB_NAME: "j"})
    await stage.says("c", "Resources")
    successor = await stage.job_of("c")
    assert (successor.node_count.whole, successor.sluid == job.sluid) == (1, False)
    assert (await stage.slurm.job(job.sluid)).state.running
    assert not (await stage.get("b")).metadata.deleting
    await stage.phase("b", "Succeeded", 0)
    await stage.state(job, "CANCELLED")
    await stage.bound("c")


async def test_every_pod_of_a_gang_is_bound_by_one_request(stage: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the unit is looked at again before the watch has told of the bindings."""
    sent, request = [], stage.client.transport.request

    async def noted(method: str, path: str, **more: Any) -> Any:
        sent.extend([path] if path.endswith("/binding") else [])
        return await request(method, path, **more)

    monkeypatch.setattr(stage.client.transport, "request", noted)
    await stage.node(2)
    label = await batch_job(stage, 2)
    for name in ("a", "b"):
        await stage.pod(name, labels=label)
    for name in ("a", "b"):
        await stage.bound(name)
        await stage.says(name, "Allocated")
    assert sorted(sent) == [f"/api/v1/namespaces/{stage.namespace}/pods/{name}/binding" for name in ("a", "b")]


async def test_a_pod_that_had_a_job_alone_joins_a_gang_that_is_known_later(stage: Scene) -> None:
    await stage.node(2)
    await stage.pod("blocker")
    await stage.bound("blocker")
    await stage.pod("other")
    await stage.bound("other")
    await stage.pod("a", labels={names.JOB_NAME: "j"})
    alone = await stage.job_of("a")
    label = await batch_job(stage, 2)
    await stage.pod("b", labels=label)
    for name in ("blocker", "other"):
        await stage.phase(name, "Succeeded", 0)
    for name in ("a", "b"):
        await stage.bound(name)
    together = [await stage.job_of(name) for name in ("a", "b")]
    assert together[0].job_id == together[1].job_id
    if together[0].job_id != alone.job_id:
        await stage.state(alone, "CANCELLED")


async def test_a_waiting_gang_that_loses_a_pod_is_withdrawn_and_comes_back_whole(stage: Scene) -> None:
    label = await batch_job(stage, 2)  # two nodes are needed, there is one: refused or waiting, but never half
    await stage.node(2)
    await stage.pod("blocker")
    await stage.bound("blocker")
    await stage.pod("a", labels=label)
    await stage.pod("b", labels=label)
    first = await stage.job_of("a")
    await stage.delete("b")
    await stage.gone("b")
    await stage.says("a", "GangIncomplete")
    await stage.state(first, "CANCELLED")
    await stage.pod("b", labels=label)
    await stage.phase("blocker", "Succeeded", 0)
    await stage.bound("a")
    await stage.bound("b")
    assert (await stage.job_of("a")).job_id == (await stage.job_of("b")).job_id != first.job_id


async def test_no_pod_of_a_gang_starts_before_all_have_their_volumes(stage: Scene) -> None:
    await stage.node(2)
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
    label = await batch_job(stage, 2)
    await stage.pod("a", labels=label)
    await stage.pod("b", labels=label, volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "v"}}])
    await stage.job_of("b")
    await asyncio.sleep(2)
    for name in ("a", "b"):
        assert not (await stage.get(name)).spec.node_name
    chosen = (await stage.client.get(VOLUME_CLAIMS, key)).metadata.annotations["volume.kubernetes.io/selected-node"]
    await stage.client.patch(VOLUME_CLAIMS, key, {"spec": {"volumeName": "made"}})
    await stage.bound("a")
    assert (await stage.bound("b")).spec.node_name == chosen


async def test_a_gang_keeps_its_job_when_its_root_goes_before_its_pods(stage: Scene) -> None:
    """A deleted batch job is gone at once, its pods have their time to stop: until then the nodes are theirs."""
    job = await running_pair(stage)
    await stage.client.delete(BATCH_JOBS, Key(stage.namespace, "j"), propagation="Background")
    await asyncio.sleep(2)
    assert (await stage.slurm.job(job.job_id)).state.running
    for name in ("a", "b"):
        assert not (await stage.get(name)).metadata.deleting
    # Another bridge, which has never seen the root, keeps it as well.
    await stage.crash()
    await stage.start()
    await stage.delete("a")
    await stage.stopped("a")
    await stage.gone("a")
    assert (await stage.slurm.job(job.job_id)).state.running
    await stage.phase("b", "Succeeded", 0)
    await stage.state(job, "CANCELLED", "COMPLETED")


async def test_a_gang_keeps_its_job_when_its_root_goes_before_its_binding_is_seen(stage: Scene) -> None:
    """The job's name comes with the binding; the end of the batch job may be told before that."""
    job = await running_pair(stage)
    assert stage.bridge is not None
    stock, gang = stage.bridge.cluster, Workload(stage.namespace, "Job", "j")
    seen, stock.pods = (
        stock.pods,
        Cache(OUR_PODS, indexes={"group": grouping.group_keys_of, "job": by_label(names.JOB_LABEL)}),
    )
    for name in ("a", "b"):
        pod = await stage.get(name)
        labels = {key: value for key, value in pod.metadata.labels.items() if key != names.JOB_LABEL}
        stock.pods.put(replace(pod, metadata=replace(pod.metadata, labels=labels)))
    watched, stock.groups["Job"] = stock.groups["Job"], Cache(BATCH_JOBS)
    assert stock.pods_of(gang) == []
    await stage.bridge.workload_reconciler.reconcile(gang)
    assert (await stage.slurm.job(job.job_id)).state.running
    stock.pods, stock.groups["Job"] = seen, watched


async def test_a_pod_waits_until_what_made_it_is_seen(stage: Scene) -> None:
    """Watches of different kinds do not keep step: one may break off just when a batch job and its pods are made."""
    await stage.node(2)
    assert stage.bridge is not None
    groups = stage.bridge.cluster.groups
    watched, groups["Job"] = groups["Job"], Cache(BATCH_JOBS)
    label = await batch_job(stage, 2)
    root = await stage.client.get(BATCH_JOBS, Key(stage.namespace, "j"))
    owners = [BATCH_JOBS.owner(root)]
    for name in ("a", "b"):
        await stage.pod(name, labels=label, ownerReferences=owners)
    assert "Job j" in await stage.says("a", "GroupMissing")
    assert await stage.jobs() == []
    groups["Job"] = watched
    await stage.client.patch(BATCH_JOBS, root.key, {"metadata": {"annotations": {"example.com/touched": "yes"}}})
    for name in ("a", "b"):
        await stage.bound(name)
    (job,) = await stage.jobs()
    assert job.node_count.whole == 2


async def test_a_job_stays_until_the_last_pod_of_it_wherever_that_belongs_now(stage: Scene) -> None:
    job = await running_pair(stage)
    await stage.client.patch(OUR_PODS, Key(stage.namespace, "a"), {"metadata": {"labels": {names.JOB_NAME: None}}})
    await stage.delete("b")
    await stage.stopped("b")
    await stage.gone("b")
    assert (await stage.slurm.job(job.job_id)).state.running
    await stage.phase("a", "Succeeded", 0)
    await stage.state(job, "CANCELLED", "COMPLETED")
