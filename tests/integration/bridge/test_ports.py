# SPDX-License-Identifier: Apache-2.0
"""Host ports on nodes that several jobs share."""

from typing import Any

from tests.integration.bridge.scene import Scene

from slinky.bridge import names
from slinky.bridge.state.views import OUR_PODS
from slinky.kube import Key

SHARED = {names.OPTION + "exclusive": "false"}


def serving(stage: Scene, name: str, port: int, **more: Any) -> dict[str, Any]:
    manifest = stage.manifest(name, annotations=SHARED, requests={"cpu": "1", "memory": "64Mi"}, **more)
    manifest["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]
    return manifest


async def test_two_pods_with_one_host_port_never_share_a_node(stage: Scene) -> None:
    await stage.node(2)
    for name in ("a", "b"):
        await stage.client.create(OUR_PODS, serving(stage, name, 8080))
    places = [(await stage.bound(name)).spec.node_name for name in ("a", "b")]
    assert set(places) == set(stage.nodes)
    await stage.client.create(OUR_PODS, serving(stage, "other", 8081))
    await stage.bound("other")  # another port fits beside them
    await stage.client.create(OUR_PODS, serving(stage, "c", 8080))
    await stage.says("c", "SlurmRefused")
    assert not (await stage.get("c")).spec.node_name
    await stage.phase("a", "Succeeded", 0)
    assert (await stage.bound("c")).spec.node_name == places[0]


async def test_a_waiting_job_is_told_of_a_port_that_is_free_again(stage: Scene) -> None:
    await stage.node(2)
    await stage.client.create(OUR_PODS, serving(stage, "a", 8080))
    home = (await stage.bound("a")).spec.node_name
    await stage.pod("blocker")  # a whole node: the other one
    await stage.bound("blocker")
    await stage.client.create(OUR_PODS, serving(stage, "b", 8080))
    job = await stage.job_of("b")
    assert job.state.pending
    await stage.phase("a", "Succeeded", 0)
    assert (await stage.bound("b")).spec.node_name == home
    assert (await stage.job_of("b")).job_id == job.job_id  # it has kept its place in line


async def test_a_port_of_somebody_elses_pod_keeps_ours_away(stage: Scene) -> None:
    free = await stage.node(2)
    taken = serving(stage, "daemon", 9100, nodeName=stage.nodes[0])
    taken["spec"]["schedulerName"] = "another"
    await stage.client.create(OUR_PODS, taken)
    await stage.client.create(OUR_PODS, serving(stage, "p", 9100))
    assert (await stage.bound()).spec.node_name == free
    await stage.client.delete(OUR_PODS, Key(stage.namespace, "daemon"), grace=0)
