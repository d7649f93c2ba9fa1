# SPDX-License-Identifier: Apache-2.0
"""Pods of other schedulers take room on nodes, which Slurm does not know of."""

from typing import Any

import pytest
from tests.integration.bridge.bridge_stage import SHARED, BridgeStage

from slinky.bridge.views import OUR_PODS
from slinky.kube import Key

WHOLE_NODE = {"cpu": "4", "memory": "64Mi"}


async def add_foreign_pod(stage: BridgeStage, name: str, node: str, **requests: str) -> None:
    """A pod that another scheduler has bound, such as that of a DaemonSet."""
    manifest = stage.pod_manifest(name, requests=requests or {"cpu": "100m"}, nodeName=node)
    manifest["spec"]["schedulerName"] = "another"
    await stage.client.create(OUR_PODS, manifest)


async def remove_foreign_pod(stage: BridgeStage, name: str) -> None:
    await stage.client.delete(OUR_PODS, Key(stage.namespace, name), grace=0)


async def job_count(stage: BridgeStage) -> int:
    """All jobs of this stage in Slurm, ended ones included."""
    listing = await stage.slurm.jobs()
    return sum(f'"{stage.namespace}/' in job.admin_comment for job in (listing.items if listing else ()))


async def test_a_pod_goes_to_the_node_that_has_room_beside_foreign_pods(stage: BridgeStage) -> None:
    free = await stage.add_node(2)
    await add_foreign_pod(stage, "daemon", stage.nodes[0])
    await stage.settle()
    await stage.create_pod(requests=WHOLE_NODE)
    assert (await stage.wait_bound()).spec.node_name == free


async def test_a_pod_waits_until_the_foreign_pod_on_the_only_node_has_gone(stage: BridgeStage) -> None:
    await add_foreign_pod(stage, "daemon", stage.nodes[0])
    await stage.settle()
    await stage.create_pod(requests=WHOLE_NODE)
    message = await stage.wait_reason("p", "InsufficientNodeResources")
    holder = f"pod {stage.namespace}/daemon holds 100m"
    assert f"node {stage.nodes[0]}: cpu: 4 requested, 3900m of 4 free; {holder}" in message
    await stage.create_pod("small", annotations=SHARED, requests={"cpu": "3900m", "memory": "64Mi"})
    await stage.wait_bound("small")
    await stage.report_phase("small", "Succeeded", 0)
    await stage.wait_released("small")
    assert not (await stage.get_pod()).spec.node_name
    assert await job_count(stage) == 1  # Slurm was not asked in vain
    await remove_foreign_pod(stage, "daemon")
    assert (await stage.wait_bound()).spec.node_name == stage.nodes[0]


async def test_a_foreign_pod_that_has_ended_takes_no_room(stage: BridgeStage) -> None:
    await add_foreign_pod(stage, "daemon", stage.nodes[0])
    await stage.create_pod(requests=WHOLE_NODE)
    await stage.wait_reason("p", "InsufficientNodeResources")
    await stage.report_phase("daemon", "Succeeded", 0)
    await stage.wait_bound()


@pytest.mark.parametrize(
    ("foreign", "requests", "resource"),
    [
        ({"memory": "1Gi"}, {"memory": "7680Mi"}, "memory"),
        ({"cpu": "1m"}, {"cpu": "10m"}, "pods"),
        ({"cpu": "1m", "example.com/nic": "1"}, {"cpu": "10m", "example.com/nic": "2"}, "example.com/nic"),
    ],
    ids=["memory", "number of pods", "extended resource"],
)
async def test_every_resource_of_the_kubelet_counts(
    stage: BridgeStage, foreign: dict[str, str], requests: dict[str, str], resource: str
) -> None:
    sizes = {"pods": "1"} if resource == "pods" else {"example.com/nic": "2"}
    await stage.report_node(stage.nodes[0], amounts=sizes)
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    manifest = stage.pod_manifest("daemon", requests=foreign, nodeName=stage.nodes[0])
    manifest["spec"]["schedulerName"] = "another"
    manifest["spec"]["containers"][0]["resources"]["limits"] = {n: a for n, a in foreign.items() if "/" in n}
    await stage.client.create(OUR_PODS, manifest)
    await stage.settle()
    await stage.create_pod(requests=requests, limits=limits)
    assert f"{resource}: " in await stage.wait_reason("p", "InsufficientNodeResources")
    await remove_foreign_pod(stage, "daemon")
    await stage.wait_bound()


async def test_no_pod_of_a_gang_starts_while_a_foreign_pod_occupies_one_of_its_nodes(stage: BridgeStage) -> None:
    await stage.add_node(2)
    await add_foreign_pod(stage, "daemon", stage.nodes[1])
    await stage.settle()
    label = await stage.create_batch_job(2)
    for name in ("a", "b"):
        await stage.create_pod(name, labels=label, requests=WHOLE_NODE)
    for name in ("a", "b"):
        assert "1 of the 2 nodes" in await stage.wait_reason(name, "InsufficientNodeResources")
    await stage.quiet()
    assert not [name for name in ("a", "b") if (await stage.get_pod(name)).spec.node_name]
    await remove_foreign_pod(stage, "daemon")
    nodes = {(await stage.wait_bound(name)).spec.node_name for name in ("a", "b")}
    assert nodes == set(stage.nodes)


async def test_a_job_is_given_back_if_a_foreign_pod_comes_before_the_binding(stage: BridgeStage) -> None:
    """The first pod keeps its node until its containers have stopped, so that the second job waits with that node."""
    await stage.run_pod("first")
    first = await stage.wait_job("first")
    await stage.create_pod("second", requests=WHOLE_NODE)
    await stage.wait_reason("second", "Resources")
    second = await stage.wait_job("second")
    await stage.slurm.cancel(first.job_id)
    await stage.wait_state(second, "RUNNING")
    await stage.wait_reason("second", "NodeClearing")
    await add_foreign_pod(stage, "daemon", stage.nodes[0])
    await stage.report_stopped("first")
    message = await stage.wait_reason("second", "InsufficientNodeResources")
    assert "4 requested, 3900m of 4 free" in message
    await stage.wait_state(second, "CANCELLED", "COMPLETED", "FAILED")
    await stage.quiet()
    assert not (await stage.get_pod("second")).spec.node_name
    assert await job_count(stage) == 2  # it was not submitted again and again
    await remove_foreign_pod(stage, "daemon")
    await stage.wait_bound("second")


async def test_the_job_of_a_gang_is_given_back_whole(stage: BridgeStage) -> None:
    await stage.add_node(2)
    await stage.run_pod("first", nodeSelector={"kubernetes.io/hostname": stage.nodes[0]})
    first = await stage.wait_job("first")
    label = await stage.create_batch_job(2)
    for name in ("a", "b"):
        await stage.create_pod(name, labels=label, requests=WHOLE_NODE)
    await stage.wait_reason("a", "Resources")
    await stage.slurm.cancel(first.job_id)
    await stage.wait_reason("a", "NodeClearing")
    await add_foreign_pod(stage, "daemon", stage.nodes[1])
    await stage.report_stopped("first")
    await stage.wait_reason("a", "InsufficientNodeResources")
    await stage.quiet()
    assert not [name for name in ("a", "b") if (await stage.get_pod(name)).spec.node_name]


async def test_a_pending_job_may_use_a_host_whose_room_is_free_again(stage: BridgeStage) -> None:
    await stage.add_node(2)
    await add_foreign_pod(stage, "daemon", stage.nodes[0])
    await stage.create_pod("blocker", nodeSelector={"kubernetes.io/hostname": stage.nodes[1]})
    await stage.wait_bound("blocker")
    await stage.create_pod(requests=WHOLE_NODE)
    job = await stage.wait_job()
    assert job.state.pending
    await remove_foreign_pod(stage, "daemon")
    assert (await stage.wait_bound()).spec.node_name == stage.nodes[0]
    assert (await stage.wait_job()).job_id == job.job_id  # it has kept its position in the queue


async def test_pods_of_other_jobs_and_foreign_pods_together_fill_a_shared_node(stage: BridgeStage) -> None:
    await add_foreign_pod(stage, "daemon", stage.nodes[0], cpu="500m")
    await stage.settle()
    fields: dict[str, Any] = {"annotations": SHARED, "requests": {"cpu": "1", "memory": "64Mi"}}
    for name in ("a", "b", "c"):
        await stage.run_pod(name, **fields)
    await stage.create_pod("d", **fields)  # Slurm counts one CPU as free, the kubelet only half of one
    assert "1 requested, 500m of 4 free" in await stage.wait_reason("d", "InsufficientNodeResources")
    await stage.quiet()
    count = await job_count(stage)
    await stage.quiet()
    assert await job_count(stage) == count
    await stage.report_phase("a", "Succeeded", 0)
    await stage.wait_bound("d")


async def test_a_node_whose_kubelet_rejected_a_pod_is_not_used_again_at_once(stage: BridgeStage) -> None:
    free = await stage.add_node(2)
    fields: dict[str, Any] = {"requests": WHOLE_NODE, "annotations": SHARED}
    await stage.create_pod("a", nodeSelector={"kubernetes.io/hostname": stage.nodes[0]}, **fields)
    await stage.wait_bound("a")
    job = await stage.wait_job("a")
    message = "Node didn't have enough resource: cpu, requested: 4000, used: 100, capacity: 4000"
    status = {"phase": "Failed", "reason": "OutOfcpu", "message": message}
    await stage.client.patch(OUR_PODS, Key(stage.namespace, "a"), {"status": status}, subresource="status")
    text = await stage.wait_reason("a", "KubeletRejected")
    assert stage.nodes[0] in text
    assert str(job.job_id) in text
    assert "used: 100" in text
    await stage.wait_event("a", "KubeletRejected")
    await stage.wait_released("a")
    await stage.create_pod("b", **fields)
    assert (await stage.wait_bound("b")).spec.node_name == free
    await stage.wait_state(job, "CANCELLED", "FAILED")
