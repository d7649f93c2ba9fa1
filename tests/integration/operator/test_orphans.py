# SPDX-License-Identifier: Apache-2.0
"""Objects that are deleted without their children and created again; the test does the garbage collector's work."""

from typing import Any

import pytest
from tests.integration.operator.stage import OperatorStage
from tests.integration.operator.test_revisions import apply_workers, revisions, status, used_hashes, wait_rolled_out
from tests.support.waiting import eventually

from slinky.api.controller import CONTROLLERS
from slinky.api.nodeset import NODE_SETS
from slinky.kube import CONFIG_MAPS, PODS, Key, Resource
from slinky.kube.client import STRATEGIC
from slinky.kube.views import STATEFUL_SETS
from slinky.operator.nodeset.revisions.revision import REVISIONS

pytestmark = pytest.mark.plane

OURS = "slinky.slurm.net"


async def wait_released(stage: OperatorStage, resource: Resource[Any], name: str) -> None:
    """Wait until the operator has removed its finalizers from an object that was deleted without its children."""

    async def is_released() -> bool:
        return not any(OURS in finalizer for finalizer in (await stage.get(resource, name)).metadata.finalizers)

    await eventually(is_released, f"{resource.kind} {name} without finalizers")


async def delete_without_children(
    stage: OperatorStage, resource: Resource[Any], name: str, *children: Resource[Any]
) -> None:
    """Delete an object, and do what the garbage collector does when its children are to stay."""
    key = Key(stage.namespace, name)
    uid = (await stage.get(resource, name)).metadata.uid
    await stage.client.delete(resource, key, propagation="Orphan")
    await wait_released(stage, resource, name)
    for kind in children:
        for child in await stage.client.list(kind, namespace=stage.namespace):
            if any(owner.uid == uid for owner in child.metadata.owner_references):
                without = {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": uid}]}}
                await stage.client.patch(kind, child.metadata.key, without, kind=STRATEGIC)
    await stage.client.patch(resource, key, {"metadata": {"finalizers": []}})


async def uids(stage: OperatorStage) -> dict[str, str]:
    return {pod.metadata.name: pod.metadata.uid for pod in await stage.worker_pods()}


async def test_workers_outlive_their_node_set_and_are_adopted_by_the_next(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.apply_controller()
    fields = {"slurmd": {"image": "x", "env": [{"value": "<a & b>", "name": "A"}]}, "revisionHistoryLimit": 3}
    await apply_workers(stage, **fields, extraConf="Weight=1")
    await wait_rolled_out(stage, 1)
    await apply_workers(stage, **fields, extraConf="Weight=2")
    newest = await wait_rolled_out(stage, 2)
    await stage.quiescent()
    before, config = await uids(stage), await stage.get(CONFIG_MAPS, "slurm-config")
    await delete_without_children(stage, NODE_SETS, "gpu", PODS, REVISIONS)

    await stage.wait_condition(CONTROLLERS, "slurm", "Degraded", "True", "WorkersOrphaned")
    assert (await stage.get(CONFIG_MAPS, "slurm-config")).metadata.resource_version == config.metadata.resource_version
    assert await uids(stage) == before
    await apply_workers(stage, **fields, extraConf="Weight=2")
    uid = (await stage.get(NODE_SETS, "gpu")).metadata.uid

    async def is_adopted() -> bool:
        pods = await stage.worker_pods()
        return all([owner.uid for owner in pod.metadata.owner_references] == [uid] for pod in pods)

    await eventually(is_adopted, "a new owner")
    await stage.quiescent()
    assert await uids(stage) == before
    assert await used_hashes(stage) == {newest.hash}
    assert set(await revisions(stage)) == {1, 2}
    assert (await status(stage))["currentRevision"] == newest.metadata.name
    assert (await stage.condition(CONTROLLERS, "slurm", "Degraded"))[1] != "WorkersOrphaned"
    assert (await stage.get(CONFIG_MAPS, "slurm-config")).metadata.resource_version == config.metadata.resource_version


async def test_a_controller_waits_until_orphaned_workers_are_deleted(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.apply_controller()
    await apply_workers(stage, replicas=1)
    await stage.get(PODS, "gpu-0")
    await stage.quiescent()
    await delete_without_children(stage, NODE_SETS, "gpu", PODS, REVISIONS)
    await stage.client.delete(PODS, Key(stage.namespace, "gpu-0"), grace=0)

    async def is_unblocked() -> bool:
        return (await stage.condition(CONTROLLERS, "slurm", "Degraded"))[1] not in ("", "WorkersOrphaned")

    await eventually(is_unblocked, "another reason of the condition")


async def test_a_controller_that_is_deleted_alone_is_created_again_around_its_daemons(
    stage: OperatorStage,
) -> None:
    await stage.create_keys()
    await stage.apply_controller()
    await apply_workers(stage)
    workload = await stage.get(STATEFUL_SETS, "slurm-controller")
    await stage.get(PODS, "gpu-1")
    await stage.quiescent()
    before = await uids(stage)
    await delete_without_children(stage, CONTROLLERS, "slurm", STATEFUL_SETS, CONFIG_MAPS)
    await stage.apply_controller()

    async def is_adopted() -> bool:
        uid = (await stage.get(CONTROLLERS, "slurm")).metadata.uid
        stateful_set = await stage.get(STATEFUL_SETS, "slurm-controller")
        return [owner.uid for owner in stateful_set.metadata.owner_references] == [uid]

    await eventually(is_adopted, "a new owner")
    assert (await stage.get(STATEFUL_SETS, "slurm-controller")).metadata.uid == workload.metadata.uid
    assert await uids(stage) == before
