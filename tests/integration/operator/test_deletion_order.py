# SPDX-License-Identifier: Apache-2.0
"""Everything is asked to go at once; what others stand on goes last."""

from typing import Any

import pytest
from tests.integration.operator.conftest import Desk
from tests.integration.operator.test_objects import KEYS, REF, controller, secrets

from slinky.api.accounting import ACCOUNTINGS
from slinky.api.controller import CONTROLLERS
from slinky.api.names import metadata
from slinky.api.nodeset import NODE_SETS
from slinky.api.restapi import REST_APIS
from slinky.kube import PODS, Key, Resource

pytestmark = pytest.mark.plane

ORDER: tuple[tuple[Resource[Any], str], ...] = (
    (ACCOUNTINGS, "slurm"),
    (CONTROLLERS, "slurm"),
    (REST_APIS, "slurm"),
    (NODE_SETS, "gpu"),
)


async def site(desk: Desk) -> None:
    """A cluster with a worker that runs, as far as the API server knows."""
    await secrets(desk)
    await desk.secret("db", password="p")
    storage = {"host": "db", "passwordKeyRef": {"name": "db", "key": "password"}}
    names = {name: KEYS[name] for name in ("slurmKeyRef", "jwtKeyRef")}
    await desk.apply(ACCOUNTINGS, "slurm", spec={**names, "storageConfig": storage})
    await controller(desk, accountingRef=REF)
    await desk.apply(REST_APIS, "slurm", spec={"controllerRef": REF})
    await desk.apply(NODE_SETS, "gpu", spec={"controllerRef": REF, "replicas": 1})
    await desk.get(PODS, "gpu-0")
    await desk.client.bind(Key(desk.namespace, "gpu-0"), "some-node")
    for resource, name in ORDER:

        async def held(resource: Resource[Any] = resource, name: str = name) -> bool:
            found = await desk.get(resource, name)
            return bool({metadata.USE_FINALIZER, metadata.DRAIN_FINALIZER} & set(found.metadata.finalizers))

        await desk.until(held, f"the finalizer of {resource.kind}")


async def left(desk: Desk) -> list[str]:
    return [resource.kind for resource, name in ORDER if await desk.find(resource, name)]


async def test_a_cluster_waits_for_workers_of_which_nothing_is_known(desk: Desk) -> None:
    await site(desk)
    for resource, name in ORDER:
        await desk.client.delete(resource, Key(desk.namespace, name))

    async def said() -> bool:
        found = await desk.client.send("GET", f"/api/v1/namespaces/{desk.namespace}/events")
        return b"goes when these are gone: workers of NodeSet gpu" in found and b"Controller slurm" in found

    await desk.until(said, "a word about the wait")
    assert await left(desk) == ["Accounting", "Controller", "RestApi", "NodeSet"]
    assert await desk.find(PODS, "gpu-0")
    # A person says that it may go; there is no kubelet to end it, so it is taken away for good.
    force = {"metadata": {"annotations": {"nodeset.slinky.slurm.net/force-delete": "true"}}}
    await desk.client.patch(NODE_SETS, Key(desk.namespace, "gpu"), force)

    async def condemned() -> bool:
        found = await desk.find(PODS, "gpu-0")
        return found is None or found.metadata.deleting

    await desk.until(condemned, "the worker's end")
    await desk.client.delete(PODS, Key(desk.namespace, "gpu-0"), grace=0)

    async def gone() -> bool:
        return await left(desk) == []

    await desk.until(gone, "the end of everything", 30)


async def test_one_of_two_rest_apis_goes_at_once(desk: Desk) -> None:
    await site(desk)
    await desk.apply(REST_APIS, "other", spec={"controllerRef": REF})

    async def known() -> bool:
        return metadata.USE_FINALIZER in (await desk.get(REST_APIS, "other")).metadata.finalizers

    await desk.until(known, "the other one")
    await desk.client.delete(REST_APIS, Key(desk.namespace, "slurm"))

    async def gone() -> bool:
        return await desk.find(REST_APIS, "slurm") is None

    await desk.until(gone, "its end")
