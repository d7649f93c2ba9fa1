# SPDX-License-Identifier: Apache-2.0
"""All objects of a cluster are deleted at once; those that others refer to are removed last."""

import json
from typing import Any

import pytest
from tests.integration.operator.stage import KEYS, REF, OperatorStage
from tests.support.waiting import eventually

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


async def create_cluster(stage: OperatorStage) -> None:
    """A cluster with a worker that runs, as far as the API server knows."""
    await stage.create_keys()
    await stage.secret("db", password="p")
    storage = {"host": "db", "passwordKeyRef": {"name": "db", "key": "password"}}
    names = {name: KEYS[name] for name in ("slurmKeyRef", "jwtKeyRef")}
    await stage.apply(ACCOUNTINGS, "slurm", spec={**names, "storageConfig": storage})
    await stage.apply_controller(accountingRef=REF)
    await stage.apply(REST_APIS, "slurm", spec={"controllerRef": REF})
    await stage.apply(NODE_SETS, "gpu", spec={"controllerRef": REF, "replicas": 1})
    await stage.get(PODS, "gpu-0")
    await stage.client.bind(Key(stage.namespace, "gpu-0"), "some-node")
    for resource, name in ORDER:

        async def has_finalizer(resource: Resource[Any] = resource, name: str = name) -> bool:
            item = await stage.get(resource, name)
            return bool({metadata.USE_FINALIZER, metadata.DRAIN_FINALIZER} & set(item.metadata.finalizers))

        await eventually(has_finalizer, f"the finalizer of {resource.kind}")


async def remaining_kinds(stage: OperatorStage) -> list[str]:
    return [resource.kind for resource, name in ORDER if await stage.find(resource, name)]


async def in_use_counts(stage: OperatorStage) -> dict[str, int]:
    """How often each object was reported as in use, by kind and message."""
    events = json.loads(await stage.client.send("GET", f"/api/v1/namespaces/{stage.namespace}/events"))["items"]
    return {
        f"{event['involvedObject']['kind']}: {event['message']}": event["count"]
        for event in events
        if event["reason"] == "InUse"
    }


async def test_a_deleted_cluster_waits_for_workers_whose_state_is_unknown(stage: OperatorStage) -> None:
    await create_cluster(stage)
    for resource, name in ORDER:
        await stage.client.delete(resource, Key(stage.namespace, name))

    async def is_reported() -> bool:
        item = await stage.client.send("GET", f"/api/v1/namespaces/{stage.namespace}/events")
        return b"Deletion waits for workers of NodeSet gpu" in item and b"Controller slurm" in item

    await eventually(is_reported, "the event about the wait")
    for resource, name in ORDER[:3]:
        await stage.wait_condition(resource, name, "Progressing", "True", "InUse")
    await stage.wait_condition(NODE_SETS, "gpu", "Progressing", "True", "WaitingForSlurm")
    # The condition is repeated with every look, the event is not.
    await stage.quiescent()
    assert set((await in_use_counts(stage)).values()) == {1}
    assert await remaining_kinds(stage) == ["Accounting", "Controller", "RestApi", "NodeSet"]
    assert await stage.find(PODS, "gpu-0")
    # The user forces the deletion. Without a kubelet the test removes the pod.
    force = {"metadata": {"annotations": {"nodeset.slinky.slurm.net/force-delete": "true"}}}
    await stage.client.patch(NODE_SETS, Key(stage.namespace, "gpu"), force)

    async def is_deleting() -> bool:
        item = await stage.find(PODS, "gpu-0")
        return item is None or item.metadata.deleting

    await eventually(is_deleting, "deletion of the worker")
    await stage.client.delete(PODS, Key(stage.namespace, "gpu-0"), grace=0)

    async def is_empty() -> bool:
        return await remaining_kinds(stage) == []

    await eventually(is_empty, "removal of all objects")


async def test_one_of_two_rest_apis_is_deleted_at_once(stage: OperatorStage) -> None:
    await create_cluster(stage)
    await stage.apply(REST_APIS, "other", spec={"controllerRef": REF})

    async def is_in_use() -> bool:
        return metadata.USE_FINALIZER in (await stage.get(REST_APIS, "other")).metadata.finalizers

    await eventually(is_in_use, "the finalizer of the other RestApi")
    await stage.client.delete(REST_APIS, Key(stage.namespace, "slurm"))

    await stage.wait_deleted(REST_APIS, "slurm")
