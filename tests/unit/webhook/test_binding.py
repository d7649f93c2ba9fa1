# SPDX-License-Identifier: Apache-2.0
"""Binding a pod never fails because of us."""

from typing import Any, cast

import msgspec
import pytest

from slinky.api.names import metadata
from slinky.kube import Ask, Client, Key, Meta, Object, Reply, Resource, Unreachable
from slinky.webhook.binding import BindingWebhook

WORKER = Object(Meta("gpu-0", "slurm", labels={metadata.APP_NAME: "slurmd"}))
OTHER = Object(Meta("web-0", "slurm", labels={metadata.APP_NAME: "nginx"}))
NODE = Object(Meta("n1", annotations={metadata.TOPOLOGY: "default:s1"}))
BARE = Object(Meta("n1"))


class Cluster:
    """Answers as a client would, from a table; a missing table is a cluster that does not answer."""

    def __init__(self, found: dict[str, Object] | None) -> None:
        self._found = found

    async def find(self, resource: Resource[Any], key: Key) -> Object | None:
        if self._found is None:
            raise Unreachable("no route")
        return self._found.get(resource.plural)


def ask(**annotations: str) -> Ask:
    binding = {"metadata": {"name": "gpu-0", "annotations": annotations}, "target": {"name": "n1"}}
    return Ask("u", name="gpu-0", namespace="slurm", object=msgspec.Raw(msgspec.json.encode(binding)))


@pytest.mark.parametrize(
    "found",
    [None, {}, {"pods": WORKER}, {"pods": WORKER, "nodes": BARE}, {"pods": OTHER, "nodes": NODE}],
    ids=["silent", "empty", "no node", "no topology", "not a worker"],
)
async def test_without_a_topology_to_give_the_binding_passes_as_it_is(found: dict[str, Object] | None) -> None:
    assert await BindingWebhook(cast("Client", Cluster(found)))(ask()) == Reply()


async def test_the_topology_joins_what_is_there() -> None:
    reply = await BindingWebhook(cast("Client", Cluster({"pods": WORKER, "nodes": NODE})))(ask(a="b"))
    assert reply.patch == (
        {"op": "add", "path": "/metadata/annotations", "value": {"a": "b", metadata.TOPOLOGY: "default:s1"}},
    )
