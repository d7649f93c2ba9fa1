# SPDX-License-Identifier: Apache-2.0
"""Objects and definitions of other versions: objects stay readable and writable, differences are reported."""

import asyncio
import copy
from typing import Any

from tests.integration.api.conftest import established
from tests.integration.api.manifests import manifest
from tests.support.waiting import eventually

from slinky.api import CONTROLLERS, Controller, controller, crds
from slinky.kube import CUSTOM_RESOURCES, NAMESPACES, Key, KubeClient, Unreadable, Unstructured, connect
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.observe.metrics import REGISTRY
from slinky.operator.framework.definition_skew import read_skew, report_definition_skew


def loose() -> dict[str, Any]:
    """A definition of slurm-operator: nulls are stored, names may be empty, nothing has a bound."""
    definition = copy.deepcopy(controller.DEFINITION)
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["configFileRefs"]["nullable"] = True
    spec["properties"]["template"]["properties"]["metadata"]["properties"]["labels"]["nullable"] = True
    spec["properties"]["slurmKeyRef"].pop("x-kubernetes-validations")
    return definition


async def test_objects_with_nulls_and_invalid_fields_stay_readable_and_writable(own_plane: BarePlane) -> None:
    name = controller.DEFINITION["metadata"]["name"]
    async with connect(own_plane.kubeconfig) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "old"}})
        await client.create(CUSTOM_RESOURCES, loose())
        await established(client, name)
        stored = manifest("Controller", "old", slurmKeyRef={"key": "k", "name": ""})
        stored["spec"] |= {"configFileRefs": None, "template": {"metadata": {"labels": None}}}
        raw = await client.create(CONTROLLERS.viewed_as(Unstructured), stored)
        assert raw.spec["configFileRefs"] is None
        old = await client.get(CUSTOM_RESOURCES, Key("", name))
        ours = copy.deepcopy(controller.DEFINITION)
        ours["metadata"]["resourceVersion"] = old.metadata.resource_version
        await client.replace(CUSTOM_RESOURCES, ours)
        read = await readable(client, Key("old", "slurm"))
        assert read.spec.config_file_refs == ()
        assert read.spec.template.metadata.labels == {}
        wrote = await client.patch(CONTROLLERS, Key("old", "slurm"), {"spec": {"inplaceReconfigure": True}})
        assert wrote.spec.inplace_reconfigure


async def readable(client: KubeClient, key: Key) -> Controller:
    """A Controller, once the API server serves the changed definition."""

    async def find() -> Controller | None:
        try:
            return await client.get(CONTROLLERS, key)
        except Unreadable:
            return None

    return await eventually(find, "a readable Controller")


def differing_fields(kind: str) -> tuple[float | None, float | None]:
    """The published numbers of fields that are missing and additional."""
    name = "slinky_operator_definition_fields"
    missing, additional = (
        REGISTRY.get_sample_value(name, {"kind": kind, "difference": difference})
        for difference in ("missing", "additional")
    )
    return missing, additional


async def test_definitions_of_another_version_are_reported(own_plane: BarePlane) -> None:
    definitions = {item["spec"]["names"]["kind"]: copy.deepcopy(item) for item in crds.DEFINITIONS}
    for kind, change in (("Controller", None), ("NodeSet", {"type": "string"})):
        schema = definitions[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        fields = schema["properties"]["spec"]["properties"]
        if change is None:
            del fields["inplaceReconfigure"]
        else:
            fields["future"] = change
    async with connect(own_plane.kubeconfig) as client:
        for manifest_of_kind in definitions.values():
            await client.create(CUSTOM_RESOURCES, manifest_of_kind)

        async def published() -> bool:
            skews = await read_skew(client)
            return [(skew.kind, skew.missing, skew.additional) for skew in skews] == [
                ("Controller", ("spec.inplaceReconfigure",), ()),
                ("NodeSet", (), ("spec.future",)),
            ]

        await eventually(published, "the published definitions")
        report = asyncio.create_task(report_definition_skew(client))
        await eventually(lambda: differing_fields("NodeSet") == (0, 1), "the metric of the difference")
        assert (differing_fields("Controller"), differing_fields("Token")) == ((1, 0), (0, 0))
        report.cancel()
