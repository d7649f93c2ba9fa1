# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' placement rules in the real Slurm: of three nodes, each pod may use one.

The tests share one stage, because its nodes take long to register. Each test has pods and objects of its own names.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.integration.bridge.bridge_stage import SHARED, BridgeStage, bridge_stage
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.bridge.config import PriorityRule
from slinky.bridge.views import OUR_PODS, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from slinky.kube import Forbidden, Key, KubeClient, Resource, Unstructured
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import SlurmClient as Slurm

PRIORITY_CLASSES: Resource[Unstructured] = Resource(
    "scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", Unstructured, namespaced=False
)


@pytest.fixture(scope="module")
async def stage(kube: KubeClient, ctld: Slurm) -> AsyncIterator[BridgeStage]:
    """Three nodes: a green one, a blue and younger one, and one with a taint."""
    async with bridge_stage(kube, ctld, priority_classes={"test-urgent": PriorityRule(nice=77)}) as stage:
        await stage.start()
        await stage.add_node(1, labels={"colour": "green", "generation": "9"})
        await stage.add_node(2, labels={"colour": "blue", "generation": "10"})
        await stage.add_node(3, labels={"generation": "8"}, taints=[{"key": "costly", "effect": "NoSchedule"}])
        yield stage


def node_affinity(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


CASES = {
    "selector": ({"nodeSelector": {"colour": "blue"}}, 2),
    "in": (node_affinity({"key": "colour", "operator": "In", "values": ["green", "red"]}), 1),
    "gt": (node_affinity({"key": "generation", "operator": "Gt", "values": ["9"]}), 2),
    "lt-and-exists": (
        node_affinity(
            {"key": "generation", "operator": "Lt", "values": ["10"]}, {"key": "colour", "operator": "Exists"}
        ),
        1,
    ),
    "toleration": (
        {
            "tolerations": [{"key": "costly", "operator": "Exists"}],
            **node_affinity({"key": "colour", "operator": "DoesNotExist"}),
        },
        3,
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_a_pod_gets_the_only_feasible_node(stage: BridgeStage, case: str) -> None:
    spec, number = CASES[case]
    await stage.create_pod(case, annotations=SHARED, requests={"cpu": "100m", "memory": "16Mi"}, **spec)
    assert (await stage.wait_bound(case)).spec.node_name == stage.nodes[number - 1]


async def test_a_pod_goes_where_its_volume_is(stage: BridgeStage) -> None:
    name = f"{stage.name}-v"
    match = {"key": "kubernetes.io/hostname", "operator": "In", "values": [stage.nodes[1]]}
    spec = {
        "capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "local": {"path": "/nowhere"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [match]}]}},
    }
    await stage.client.create(VOLUMES, VOLUMES.manifest(Key("", name), spec=spec))
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "volumeName": name,
        "resources": {"requests": {"storage": "1Mi"}},
    }
    await stage.client.create(VOLUME_CLAIMS, VOLUME_CLAIMS.manifest(Key(stage.namespace, "v"), spec=claim))
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "v"}}]
    await stage.create_pod("rooted", annotations=SHARED, requests={"cpu": "100m"}, volumes=volumes)
    assert (await stage.wait_bound("rooted")).spec.node_name == stage.nodes[1]
    await stage.client.delete(VOLUMES, Key("", name))


async def test_a_claim_that_waits_for_its_pod_gets_a_local_volume_of_the_pods_node(stage: BridgeStage) -> None:
    name, key = f"{stage.name}-local", Key(stage.namespace, "local")
    kind = STORAGE_CLASSES.manifest(
        Key("", name), provisioner="kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer"
    )
    await stage.client.create(STORAGE_CLASSES, kind)
    match = {"key": "kubernetes.io/hostname", "operator": "In", "values": [stage.nodes[1]]}
    spec = {
        "capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": name,
        "local": {"path": "/nowhere"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [match]}]}},
    }
    await stage.client.create(VOLUMES, VOLUMES.manifest(Key("", name), spec=spec))
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "local"}}]
    await stage.create_pod("local", annotations=SHARED, requests={"cpu": "100m"}, volumes=volumes)
    assert "local does not exist" in await stage.wait_reason("local", "VolumePending")
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": name,
        "resources": {"requests": {"storage": "1Mi"}},
    }
    await stage.client.create(VOLUME_CLAIMS, VOLUME_CLAIMS.manifest(key, spec=claim))

    async def reserved() -> bool:
        owner = (await stage.client.get(VOLUMES, Key("", name))).spec.claim_ref
        return owner is not None and (owner.namespace, owner.name) == key

    await eventually(reserved, "the volume to be reserved")
    assert not (await stage.get_pod("local")).spec.node_name
    await stage.client.patch(VOLUME_CLAIMS, key, {"spec": {"volumeName": name}})  # as the volume controller does then
    assert (await stage.wait_bound("local")).spec.node_name == stage.nodes[1]
    await stage.client.delete(VOLUMES, Key("", name))
    await stage.client.delete(STORAGE_CLASSES, Key("", name))


async def test_a_priority_class_sets_the_slurm_priority_of_the_settings(stage: BridgeStage, slurm: LabSlurm) -> None:
    await stage.client.create(PRIORITY_CLASSES, PRIORITY_CLASSES.manifest(Key("", "test-urgent"), value=1000))
    manifest = stage.pod_manifest(
        "urgent", annotations={names.OPTION + "hold": "true"}, priorityClassName="test-urgent"
    )

    async def admitted() -> bool:
        try:
            await stage.client.create(OUR_PODS, manifest)
        except Forbidden:  # the watch of admission has not delivered the class yet
            return False
        return True

    await eventually(admitted, "the class to be known")
    job = await stage.wait_job("urgent")
    assert "Nice=77" in slurm.exec("scontrol", "show", "job", str(job.job_id))
    await stage.client.delete(PRIORITY_CLASSES, Key("", "test-urgent"))
