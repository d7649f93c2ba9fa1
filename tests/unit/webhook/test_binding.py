# SPDX-License-Identifier: Apache-2.0
"""Binding a pod never fails because of us."""

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
    """Answers as a client would, from a table; a missing table is a cluster that does not answer."""

    def __init__(self, found: dict[str, Object] | None) -> None:
        self._found = found

    async def find(self, resource: Resource[Any], key: Key) -> Object | None:
        if self._found is None:
            raise Unreachable("no route")
        return self._found.get(resource.plural)


def ask(**annotations: str) -> AdmissionRequest:
    binding = {"metadata": {"name": "gpu-0", "annotations": annotations}, "target": {"name": "n1"}}
    return AdmissionRequest("u", name="gpu-0", namespace="slurm", object=msgspec.Raw(msgspec.json.encode(binding)))


@pytest.mark.parametrize(
    "found",
    [None, {}, {"pods": WORKER}, {"pods": WORKER, "nodes": BARE}, {"pods": OTHER, "nodes": NODE}],
    ids=["silent", "empty", "no node", "no topology", "not a worker"],
)
async def test_without_a_topology_to_give_the_binding_passes_as_it_is(found: dict[str, Object] | None) -> None:
    assert await BindingWebhook(cast("KubeClient", Cluster(found)))(ask()) == AdmissionResponse()


async def test_the_topology_joins_what_is_there() -> None:
    reply = await BindingWebhook(cast("KubeClient", Cluster({"pods": WORKER, "nodes": NODE})))(ask(a="b"))
    assert reply.patch == (
        {"op": "add", "path": "/metadata/annotations", "value": {"a": "b", metadata.TOPOLOGY: "default:s1"}},
    )
