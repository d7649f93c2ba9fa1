# SPDX-License-Identifier: Apache-2.0
"""The built-in gang API in each version: as the API server serves it, and v1beta1 on each.

Custom resources with the fields of Kubernetes 1.37 serve v1beta1 where the API server does not. They are in another
API group, because a server refuses custom resources in a group of its own. `make compat` uses the server of 1.37.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.integration.bridge.bridge_stage import BridgeStage, bridge_stage
from tests.integration.bridge.native_version import NATIVE_VERSION, WORKLOAD_REFERENCE
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.bridge.views import native
from slinky.bridge.views.native import native_groups, native_workloads
from slinky.kube import Key, KubeClient, Resource, Unstructured, discover
from slinky.kube.conditions import is_condition_true
from slinky.slurm import SlurmClient as Slurm

DEFINITIONS: Resource[Unstructured] = Resource(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", Unstructured, namespaced=False
)
NEXT = "scheduling.next.slinky.test"
ANY: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(kind: str, plural: str, spec: dict[str, Any]) -> dict[str, Any]:
    """A kind of the next release."""
    condition = {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"], **ANY}
    conditions = {
        "type": "array",
        "items": condition,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }
    status = {"type": "object", "properties": {"conditions": conditions}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}, "status": status}}
    version = {
        "name": "v1beta1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names_ = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    return DEFINITIONS.manifest(
        Key("", f"{plural}.{NEXT}"),
        spec={"group": NEXT, "names": names_, "scope": "Namespaced", "versions": [version]},
    )


WORKLOAD_REF = {
    "type": "object",
    "properties": {"workloadName": {"type": "string"}, "templateName": {"type": "string"}},
}
GANG = {"type": "object", "properties": {"minCount": {"type": "integer"}}}
POLICY = {"type": "object", "properties": {"basic": ANY, "gang": GANG}}
TOPOLOGY = {"type": "array", "items": {"type": "object", "properties": {"key": {"type": "string"}}}}
GROUP_SPEC = {
    "parentCompositePodGroupName": {"type": "string"},
    "workloadRef": WORKLOAD_REF,
    "schedulingPolicy": POLICY,
    "schedulingConstraints": {"type": "object", "properties": {"topology": TOPOLOGY}},
}


async def run_gang(stage: BridgeStage, version: str, source: dict[str, Any], templates: list[dict[str, Any]]) -> None:
    """Run a group of two pods whose Workload has an option: both start together, and the job has the option."""
    groups = native_groups([version])
    assert groups is not None
    options = {"annotations": {names.OPTION + "comment": f"by {version}"}}
    workloads = native_workloads(version).viewed_as(Unstructured)
    key = Key(stage.namespace, "w")
    await stage.client.create(
        workloads, workloads.manifest(key, metadata=options, spec={"podGroupTemplates": templates})
    )
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, **source}
    await stage.client.create(groups, groups.manifest(Key(stage.namespace, "g"), spec=spec))
    await stage.create_pod("a", schedulingGroup={"podGroupName": "g"})
    assert "1 of 2" in await stage.wait_reason("a", "GangIncomplete")
    await stage.create_pod("b", schedulingGroup={"podGroupName": "g"})
    for pod in ("a", "b"):
        await stage.wait_bound(pod)
    (job,) = await stage.jobs()
    assert (job.name, job.node_count.whole, job.comment) == ("g", 2, f"by {version}")

    async def placed() -> bool:
        found = await stage.client.get(groups, Key(stage.namespace, "g"))
        return is_condition_true(found.status.conditions, "PodGroupScheduled")

    await eventually(placed, "the group to be marked as scheduled")


async def test_a_group_of_this_release(stage: BridgeStage) -> None:
    assert stage.bridge is not None
    assert stage.bridge.cluster.group_kinds["NativeGroup"].version == NATIVE_VERSION
    await stage.add_node(2)
    await run_gang(
        stage, NATIVE_VERSION, WORKLOAD_REFERENCE, [{"name": "t", "schedulingPolicy": {"gang": {"minCount": 2}}}]
    )


@pytest.fixture
async def next_release(kube: KubeClient, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """A server that has the kinds of the next release."""
    templates = {"podGroupTemplates": {"type": "array", "items": ANY}}
    made = [definition("PodGroup", "podgroups", GROUP_SPEC), definition("Workload", "workloads", templates)]
    for document in made:
        await kube.create(DEFINITIONS, document)

    async def served() -> bool:
        for path in ("podgroups", "workloads"):
            await kube.send("GET", f"/apis/{NEXT}/v1beta1/{path}")
        found = await discover(kube)
        return {"v1beta1"} == set(found.versions(NEXT, "PodGroup")) == set(found.versions(NEXT, "Workload"))

    await eventually(served, "the kinds of the next release")
    monkeypatch.setattr(native, "GROUP", NEXT)
    yield
    for document in made:
        await kube.delete(DEFINITIONS, Key("", document["metadata"]["name"]))


@pytest.mark.usefixtures("next_release")
async def test_a_group_of_the_next_release(kube: KubeClient, ctld: Slurm) -> None:
    async with bridge_stage(kube, ctld) as stage:
        bridge = await stage.start()
        assert bridge.cluster.group_kinds["NativeGroup"].version == "v1beta1"
        await stage.add_node(1)
        await stage.add_node(2)
        await run_gang(stage, "v1beta1", {"workloadRef": {"workloadName": "w", "templateName": "t"}}, [{"name": "t"}])
        groups = native_groups(["v1beta1"])
        assert groups is not None
        for name, spec in (
            ("child", {"parentCompositePodGroupName": "p"}),
            ("near", {"schedulingConstraints": {"topology": [{"key": "rack"}]}}),
        ):
            await kube.create(groups, groups.manifest(Key(stage.namespace, name), spec=spec))
            await stage.create_pod(f"in-{name}", schedulingGroup={"podGroupName": name})
            assert "not supported" in await stage.wait_reason(f"in-{name}", "NotSupported")


@pytest.mark.parametrize("version", ["v1alpha2", "v1beta1"])
def test_both_releases_have_an_adapter(version: str) -> None:
    assert native_groups([version]) is not None
