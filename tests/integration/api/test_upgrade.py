# SPDX-License-Identifier: Apache-2.0
"""Objects that were stored under looser definitions stay readable and writable under ours."""

import copy
from typing import Any

from tests.integration.api.conftest import established
from tests.integration.api.manifests import manifest
from tests.support.waiting import eventually

from slinky.api import CONTROLLERS, Controller, controller
from slinky.kube import CUSTOM_RESOURCES, NAMESPACES, Key, KubeClient, Unreadable, Unstructured, connect
from slinky.lab.kubernetes.bare_plane import BarePlane


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
