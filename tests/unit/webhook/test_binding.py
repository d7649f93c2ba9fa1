# SPDX-License-Identifier: Apache-2.0
"""The webhook never makes a binding fail."""

from typing import Any, cast

import msgspec
import pytest

from slinky.api.names import metadata
from slinky.kube import AdmissionRequest, AdmissionResponse, Key, KubeClient, Object, ObjectMeta, Resource, Unreachable
from slinky.webhook.binding import BindingWebhook

WORKER = Object(ObjectMeta("gpu-0", "slurm", labels={metadata.APP_NAME: "slurmd"}))
OTHER = Object(ObjectMeta("web-0", "slurm", labels={metadata.APP_NAME: "nginx"}))
NODE = Object(ObjectMeta("n1", annotations={metadata.TOPOLOGY: "default:s1"}))
BARE = Object(ObjectMeta("n1"))


class Cluster:
    """A client with a table of objects; None instead of a table is an unreachable API server."""

    def __init__(self, objects: dict[str, Object] | None) -> None:
        self._objects = objects

    async def find(self, resource: Resource[Any], key: Key) -> Object | None:
        if self._objects is None:
            raise Unreachable("no route")
        return self._objects.get(resource.plural)


def request(**annotations: str) -> AdmissionRequest:
    binding = {"metadata": {"name": "gpu-0", "annotations": annotations}, "target": {"name": "n1"}}
    return AdmissionRequest("u", name="gpu-0", namespace="slurm", object=msgspec.Raw(msgspec.json.encode(binding)))


@pytest.mark.parametrize(
    "objects",
    [None, {}, {"pods": WORKER}, {"pods": WORKER, "nodes": BARE}, {"pods": OTHER, "nodes": NODE}],
    ids=["silent", "empty", "no node", "no topology", "not a worker"],
)
async def test_a_binding_without_topology_passes_unchanged(objects: dict[str, Object] | None) -> None:
    assert await BindingWebhook(cast("KubeClient", Cluster(objects)))(request()) == AdmissionResponse()


async def test_the_topology_is_added_to_the_annotations() -> None:
    reply = await BindingWebhook(cast("KubeClient", Cluster({"pods": WORKER, "nodes": NODE})))(request(a="b"))
    assert reply.patch == (
        {"op": "add", "path": "/metadata/annotations", "value": {"a": "b", metadata.TOPOLOGY: "default:s1"}},
    )
