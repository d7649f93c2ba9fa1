# SPDX-License-Identifier: Apache-2.0
"""Namespaces are separate, and one that is created again gets the same objects again."""

from typing import Any

import msgspec
import pytest
from tests.integration.operator.stage import KEYS, REF, OperatorStage
from tests.support.waiting import eventually

from slinky.api.controller import CONTROLLERS
from slinky.api.nodeset import NODE_SETS
from slinky.api.token import TOKENS
from slinky.kube import (
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    Key,
    Resource,
)
from slinky.kube.views import DISRUPTION_BUDGETS

pytestmark = pytest.mark.plane

EVERYTHING: tuple[Resource[Any], ...] = (
    CONTROLLERS, NODE_SETS, STATEFUL_SETS, PODS, SERVICES, SECRETS, CONFIG_MAPS, SERVICE_ACCOUNTS, DISRUPTION_BUDGETS,
)  # fmt: skip


async def test_a_namespace_that_is_created_again_gets_its_cluster_again(stage: OperatorStage) -> None:
    uids: set[str] = set()
    for _ in range(2):
        await stage.create_keys()
        await stage.apply_controller()
        await stage.apply(NODE_SETS, "gpu", spec={"controllerRef": REF, "replicas": 2})
        for name in ("gpu-0", "gpu-1"):
            pod = await stage.get(PODS, name)
            assert pod.metadata.uid not in uids
            uids.add(pod.metadata.uid)
        await stage.get(STATEFUL_SETS, "slurm-controller")
        await stage.quiescent()
        await delete_namespace(stage)
        await stage.client.create(NAMESPACES, {"metadata": {"name": stage.namespace}})
        await stage.client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(Key(stage.namespace, "default")))


async def test_references_and_tokens_stay_in_their_namespace(two_stages: list[OperatorStage]) -> None:
    first, second = two_stages
    await first.create_keys()
    await first.apply_controller()
    await first.get(STATEFUL_SETS, "slurm-controller")
    token = {"username": "root", "jwtKeyRef": KEYS["jwtKeyRef"]}
    await second.apply(NODE_SETS, "gpu", spec={"controllerRef": REF, "replicas": 1})
    await second.apply(TOKENS, "mine", spec=token)

    await second.wait_condition(NODE_SETS, "gpu", "Degraded", "True", "ControllerMissing")
    await second.wait_condition(TOKENS, "mine", "Degraded", "True", "ReferenceMissing")
    assert await second.names(PODS) == await second.names(SECRETS) == []
    await first.apply(TOKENS, "mine", spec=token)
    await first.get(SECRETS, "mine-jwt-root")


async def delete_namespace(stage: OperatorStage) -> None:
    """Do the work of the namespace controller: empty the namespace, then remove its finalizer."""
    await stage.client.delete(NAMESPACES, Key("", stage.namespace))

    async def is_empty() -> bool:
        for resource in EVERYTHING:
            await stage.client.delete_all(resource, namespace=stage.namespace, grace=0)
        return not any([await stage.names(resource) for resource in EVERYTHING])

    await eventually(is_empty, "an empty namespace")
    path = NAMESPACES.path(Key("", stage.namespace), subresource="finalize")
    manifest = NAMESPACES.manifest(Key("", stage.namespace), spec={"finalizers": []})
    await stage.client.send("PUT", path, body=msgspec.json.encode(manifest))

    async def is_deleted() -> bool:
        return await stage.client.find(NAMESPACES, Key("", stage.namespace)) is None

    await eventually(is_deleted, "deletion of the namespace")
