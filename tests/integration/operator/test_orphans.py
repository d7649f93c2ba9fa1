# SPDX-License-Identifier: Apache-2.0
"""Objects that are deleted without their children, and made again. The garbage collector is played by the test."""

from typing import Any

import pytest
from tests.integration.operator.conftest import Desk
from tests.integration.operator.test_history import carried, revisions, rolled_out, status, workers
from tests.integration.operator.test_objects import controller, secrets

from slinky.api.controller import CONTROLLERS
from slinky.api.nodeset import NODE_SETS
from slinky.kube import CONFIG_MAPS, PODS, Key, Resource
from slinky.kube.client import STRATEGIC
from slinky.kube.views import STATEFUL_SETS
from slinky.operator.nodeset.revisions.revision import REVISIONS

pytestmark = pytest.mark.plane

OURS = "slinky.slurm.net"


async def let_go(desk: Desk, resource: Resource[Any], name: str) -> None:
    """Wait until the operator does not hold an object that somebody deleted without its children."""

    async def free() -> bool:
        return not any(OURS in held for held in (await desk.get(resource, name)).metadata.finalizers)

    await desk.until(free, f"{resource.kind} {name} to be let go")


async def delete_alone(desk: Desk, resource: Resource[Any], name: str, *children: Resource[Any]) -> None:
    """Delete an object, and do what the garbage collector does for one whose children are to stay."""
    key = Key(desk.namespace, name)
    uid = (await desk.get(resource, name)).metadata.uid
    await desk.client.delete(resource, key, propagation="Orphan")
    await let_go(desk, resource, name)
    for kind in children:
        for child in await desk.client.list(kind, namespace=desk.namespace):
            if any(owner.uid == uid for owner in child.metadata.owner_references):
                without = {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": uid}]}}
                await desk.client.patch(kind, child.metadata.key, without, kind=STRATEGIC)
    await desk.client.patch(resource, key, {"metadata": {"finalizers": []}})


async def uids(desk: Desk) -> dict[str, str]:
    return {pod.metadata.name: pod.metadata.uid for pod in await desk.client.list(PODS, namespace=desk.namespace)}


async def test_workers_outlive_their_set_and_are_taken_over_by_the_next(desk: Desk) -> None:
    await secrets(desk)
    await controller(desk)
    wanted = {"slurmd": {"image": "x", "env": [{"value": "<a & b>", "name": "A"}]}, "revisionHistoryLimit": 3}
    await workers(desk, **wanted, extraConf="Weight=1")
    await rolled_out(desk, 1)
    await workers(desk, **wanted, extraConf="Weight=2")
    newest = await rolled_out(desk, 2)
    await desk.rest()
    before, config = await uids(desk), await desk.get(CONFIG_MAPS, "slurm-config")
    await delete_alone(desk, NODE_SETS, "gpu", PODS, REVISIONS)

    async def said() -> bool:
        return await desk.condition(CONTROLLERS, "slurm", "Degraded") == ("True", "WorkersOrphaned")

    await desk.until(said, "a word about lost workers")
    assert (await desk.get(CONFIG_MAPS, "slurm-config")).metadata.resource_version == config.metadata.resource_version
    assert await uids(desk) == before
    await workers(desk, **wanted, extraConf="Weight=2")
    uid = (await desk.get(NODE_SETS, "gpu")).metadata.uid

    async def taken_over() -> bool:
        pods = await desk.client.list(PODS, namespace=desk.namespace)
        return all([owner.uid for owner in pod.metadata.owner_references] == [uid] for pod in pods)

    await desk.until(taken_over, "a new owner")
    await desk.rest()
    assert await uids(desk) == before
    assert await carried(desk) == {newest.hash}
    assert set(await revisions(desk)) == {1, 2}
    assert (await status(desk))["currentRevision"] == newest.metadata.name
    assert (await desk.condition(CONTROLLERS, "slurm", "Degraded"))[1] != "WorkersOrphaned"
    assert (await desk.get(CONFIG_MAPS, "slurm-config")).metadata.resource_version == config.metadata.resource_version


async def test_a_controller_waits_until_lost_workers_are_gone(desk: Desk) -> None:
    await secrets(desk)
    await controller(desk)
    await workers(desk, replicas=1)
    await desk.get(PODS, "gpu-0")
    await desk.rest()
    await delete_alone(desk, NODE_SETS, "gpu", PODS, REVISIONS)
    await desk.client.delete(PODS, Key(desk.namespace, "gpu-0"), grace=0)

    async def relieved() -> bool:
        return (await desk.condition(CONTROLLERS, "slurm", "Degraded"))[1] not in ("", "WorkersOrphaned")

    await desk.until(relieved, "the end of the wait")


async def test_a_controller_that_is_deleted_alone_goes_at_once_and_is_made_again_around_its_daemons(desk: Desk) -> None:
    await secrets(desk)
    await controller(desk)
    await workers(desk)
    workload = await desk.get(STATEFUL_SETS, "slurm-controller")
    await desk.get(PODS, "gpu-1")
    await desk.rest()
    before = await uids(desk)
    await delete_alone(desk, CONTROLLERS, "slurm", STATEFUL_SETS, CONFIG_MAPS)
    await controller(desk)

    async def owned() -> bool:
        uid = (await desk.get(CONTROLLERS, "slurm")).metadata.uid
        found = await desk.get(STATEFUL_SETS, "slurm-controller")
        return [owner.uid for owner in found.metadata.owner_references] == [uid]

    await desk.until(owned, "a new owner")
    assert (await desk.get(STATEFUL_SETS, "slurm-controller")).metadata.uid == workload.metadata.uid
    assert await uids(desk) == before
