# SPDX-License-Identifier: Apache-2.0
"""Host ports on nodes that several jobs share."""

from typing import Any

from tests.integration.bridge.bridge_stage import SHARED, BridgeStage

from slinky.bridge.views import OUR_PODS
from slinky.kube import Key


def pod_with_port(stage: BridgeStage, name: str, port: int, **fields: Any) -> dict[str, Any]:
    manifest = stage.pod_manifest(name, annotations=SHARED, requests={"cpu": "1", "memory": "64Mi"}, **fields)
    manifest["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
    return manifest


async def test_two_pods_with_one_host_port_never_share_a_node(stage: BridgeStage) -> None:
    await stage.add_node(2)
    for name in ("a", "b"):
        await stage.client.create(OUR_PODS, pod_with_port(stage, name, 8080))
    nodes = [(await stage.wait_bound(name)).spec.node_name for name in ("a", "b")]
    assert set(nodes) == set(stage.nodes)
    await stage.client.create(OUR_PODS, pod_with_port(stage, "other", 8081))
    await stage.wait_bound("other")  # another port fits beside them
    await stage.client.create(OUR_PODS, pod_with_port(stage, "c", 8080))
    await stage.wait_reason("c", "SlurmRefused")
    assert not (await stage.get_pod("c")).spec.node_name
    await stage.report_phase("a", "Succeeded", 0)
    assert (await stage.wait_bound("c")).spec.node_name == nodes[0]


async def test_a_waiting_job_may_use_a_host_whose_port_is_free_again(stage: BridgeStage) -> None:
    await stage.add_node(2)
    await stage.client.create(OUR_PODS, pod_with_port(stage, "a", 8080))
    node = (await stage.wait_bound("a")).spec.node_name
    await stage.create_pod("blocker")  # a whole node: the other one
    await stage.wait_bound("blocker")
    await stage.client.create(OUR_PODS, pod_with_port(stage, "b", 8080))
    job = await stage.wait_job("b")
    assert job.state.pending
    await stage.report_phase("a", "Succeeded", 0)
    assert (await stage.wait_bound("b")).spec.node_name == node
    assert (await stage.wait_job("b")).job_id == job.job_id  # it has kept its position in the queue


async def test_a_host_port_of_a_foreign_pod_is_respected(stage: BridgeStage) -> None:
    free = await stage.add_node(2)
    taken = pod_with_port(stage, "daemon", 9100, nodeName=stage.nodes[0])
    taken["spec"]["schedulerName"] = "another"
    await stage.client.create(OUR_PODS, taken)
    await stage.client.create(OUR_PODS, pod_with_port(stage, "p", 9100))
    assert (await stage.wait_bound()).spec.node_name == free
    await stage.client.delete(OUR_PODS, Key(stage.namespace, "daemon"), grace=0)
