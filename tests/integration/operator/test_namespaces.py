# SPDX-License-Identifier: Apache-2.0
"""A namespace that goes with everything in it, and comes back with everything in it."""

from typing import Any

import msgspec
import pytest
from tests.integration.operator.conftest import Desk
from tests.integration.operator.test_objects import REF, controller, secrets

from slinky.api.controller import CONTROLLERS
from slinky.api.nodeset import NODE_SETS
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


async def test_a_namespace_made_again_gets_its_cluster_again(desk: Desk) -> None:
    seen: set[str] = set()
    for _ in range(2):
        await secrets(desk)
        await controller(desk)
        await desk.apply(NODE_SETS, "gpu", spec={"controllerRef": REF, "replicas": 2})
        for name in ("gpu-0", "gpu-1"):
            pod = await desk.get(PODS, name)
            assert pod.metadata.uid not in seen
            seen.add(pod.metadata.uid)
        await desk.get(STATEFUL_SETS, "slurm-controller")
        await desk.rest()
        await remove(desk)
        await desk.client.create(NAMESPACES, {"metadata": {"name": desk.namespace}})
        await desk.client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(Key(desk.namespace, "default")))


async def remove(desk: Desk) -> None:
    """What the namespace controller does, which is not here: empty the namespace, then let it go."""
    await desk.client.delete(NAMESPACES, Key("", desk.namespace))

    async def empty() -> bool:
        for resource in EVERYTHING:
            await desk.client.delete_all(resource, namespace=desk.namespace, grace=0)
        return not any([await desk.names(resource) for resource in EVERYTHING])

    await desk.until(empty, "an empty namespace", 30)
    path = NAMESPACES.path(Key("", desk.namespace), subresource="finalize")
    manifest = NAMESPACES.manifest(Key("", desk.namespace), spec={"finalizers": []})
    await desk.client.send("PUT", path, body=msgspec.json.encode(manifest))

    async def gone() -> bool:
        return await desk.client.find(NAMESPACES, Key("", desk.namespace)) is None

    await desk.until(gone, "the end of the namespace")
