# SPDX-License-Identifier: Apache-2.0
"""Revisions of a NodeSet on a real API server: history, rollback, pruning and adoption."""

from typing import Any

import pytest
from tests.integration.operator.stage import REF, OperatorStage
from tests.support.waiting import eventually

from slinky.api.names import metadata
from slinky.api.nodeset import NODE_SETS, NodeSet
from slinky.kube import PODS, Key
from slinky.operator.nodeset.revisions.revision import REVISIONS, Revision

pytestmark = pytest.mark.plane

ANOTHER = {"slurmd": {"image": "example.test/slurmd:2", "env": [{"name": "A", "value": "b"}]}}


async def apply_workers(stage: OperatorStage, **spec: Any) -> None:
    await stage.apply(NODE_SETS, "gpu", spec={"controllerRef": REF, "replicas": 2, **spec})


async def revisions(stage: OperatorStage) -> dict[int, Revision]:
    items = await stage.client.list(REVISIONS, namespace=stage.namespace)
    return {item.revision: item for item in items}


async def used_hashes(stage: OperatorStage) -> set[str]:
    pods = await stage.worker_pods()
    return {pod.metadata.labels[metadata.REVISION] for pod in pods if not pod.metadata.deleting}


async def status(stage: OperatorStage) -> dict[str, Any]:
    return dict((await stage.get(NODE_SETS, "gpu")).status or {})


async def wait_rolled_out(stage: OperatorStage, number: int) -> Revision:
    """Wait until every worker has this revision. Workers that were never scheduled to a node need no drain."""

    async def is_rolled_out() -> Revision | None:
        revision = (await revisions(stage)).get(number)
        if revision is None or await used_hashes(stage) != {revision.hash}:
            return None
        names = {(await status(stage)).get(name) for name in ("currentRevision", "updateRevision")}
        return revision if names == {revision.metadata.name} else None

    return await eventually(is_rolled_out, f"revision {number} everywhere")


async def test_revisions_are_kept_rolled_back_to_and_pruned(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.apply_controller()
    await apply_workers(stage, revisionHistoryLimit=1, extraConf="Weight=1")
    first = await wait_rolled_out(stage, 1)
    uid = (await stage.get(NODE_SETS, "gpu")).metadata.uid
    assert [owner.uid for owner in first.metadata.owner_references if owner.controller] == [uid]
    assert first.metadata.labels.items() >= {metadata.APP_NAME: "slurmd", metadata.APP_INSTANCE: "gpu"}.items()
    assert first.data == {"spec": {"extraConf": "Weight=1"}}

    await apply_workers(stage, revisionHistoryLimit=1, **ANOTHER)
    second = await wait_rolled_out(stage, 2)
    assert set(await revisions(stage)) == {1, 2}

    # An annotation rolls back: the spec and the revision are the old ones, and the revision has a new number.
    rollback = {"metadata": {"annotations": {metadata.ROLLBACK_TO: "previous"}}}
    await stage.client.patch(NODE_SETS, Key(stage.namespace, "gpu"), rollback)
    third = await wait_rolled_out(stage, 3)
    assert (third.metadata.uid, third.hash) == (first.metadata.uid, first.hash)
    live = await stage.get(NODE_SETS, "gpu")
    assert metadata.ROLLBACK_TO not in live.metadata.annotations
    assert (live.spec["extraConf"], live.spec.get("slurmd")) == ("Weight=1", None)
    assert live.spec["revisionHistoryLimit"] == 1

    # The limit keeps the newest of the old revisions.
    await apply_workers(stage, revisionHistoryLimit=1, extraConf="Weight=9")
    await wait_rolled_out(stage, 4)

    async def is_pruned() -> bool:
        return set(await revisions(stage)) == {3, 4}

    await eventually(is_pruned, "deletion of the oldest revision")
    assert second.metadata.name not in await stage.names(REVISIONS)
    await stage.quiescent()
    before = stage.writes()
    await stage.client.patch(NODE_SETS, live.key, {"metadata": {"annotations": {"kubectl.kubernetes.io/x": "y"}}})
    await stage.quiescent()
    assert stage.writes() == before


async def test_a_rollback_to_a_revision_that_does_not_exist_changes_nothing(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.apply_controller()
    await apply_workers(stage)
    first = await wait_rolled_out(stage, 1)
    generation = (await stage.get(NODE_SETS, "gpu")).metadata.generation
    rollback = {"metadata": {"annotations": {metadata.ROLLBACK_TO: "17"}}}
    await stage.client.patch(NODE_SETS, Key(stage.namespace, "gpu"), rollback)

    async def is_answered() -> bool:
        return metadata.ROLLBACK_TO not in (await stage.get(NODE_SETS, "gpu")).metadata.annotations

    await eventually(is_answered, "removal of the annotation")
    assert (await stage.get(NODE_SETS, "gpu")).metadata.generation == generation
    assert await used_hashes(stage) == {first.hash}


async def test_a_revision_in_use_is_never_pruned(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.apply_controller()
    paused = {"rollingUpdate": {"paused": True}}
    await apply_workers(stage, updateStrategy=paused)
    first = await wait_rolled_out(stage, 1)
    for number in range(2, 5):
        await apply_workers(stage, updateStrategy=paused, extraConf=f"Weight={number}")

        async def are_kept(newest: int = number) -> bool:
            return set(await revisions(stage)) == {1, newest}

        await eventually(are_kept, "the revision in use and the newest")
    node_set_status = await status(stage)
    assert node_set_status["currentRevision"] == first.metadata.name
    assert node_set_status["updateRevision"] != first.metadata.name
    assert await used_hashes(stage) == {first.hash}


async def test_workers_that_another_operator_made_of_the_same_template_are_left_alone(stage: OperatorStage) -> None:
    """The other operator's revisions have other labels and another form; its workers have its own hash."""
    await stage.create_keys()
    await apply_workers(stage, slurmd={"image": "example.test/slurmd:1", "resources": {"limits": {"cpu": "1000m"}}})
    node_set: NodeSet = await stage.client.get(NODE_SETS, Key(stage.namespace, "gpu"))
    owner = NODE_SETS.owner(node_set)
    data = {
        "spec": {
            "template": {"metadata": {"creationTimestamp": None}, "spec": {"containers": None}, "$patch": "replace"},
            "slurmd": {"image": "example.test/slurmd:1", "name": "", "resources": {"limits": {"cpu": "1"}}},
            "ssh": {"enabled": False},
        }
    }
    marks = {"labels": {metadata.REVISION: "7f9c4"}, "ownerReferences": [owner]}
    await stage.client.create(
        REVISIONS,
        REVISIONS.manifest(Key(stage.namespace, "gpu-7f9c4"), metadata=marks, revision=1, data=data),
    )
    for ordinal in range(2):
        name = f"gpu-{ordinal}"
        labels = {
            metadata.APP_NAME: "slurmd",
            metadata.APP_INSTANCE: "gpu",
            metadata.APP_COMPONENT: "worker",
            metadata.CLUSTER: "slurm",
            metadata.POD_NAME: name,
            metadata.POD_INDEX: str(ordinal),
            metadata.SCALING_MODE: "StatefulSet",
            metadata.REVISION: "7f9c4",
        }
        body = {"spec": {"hostname": name, "containers": [{"name": "slurmd", "image": "example.test/slurmd:1"}]}}
        meta = {"labels": labels, "ownerReferences": [owner]}
        await stage.client.create(PODS, PODS.manifest(Key(stage.namespace, name), metadata=meta, **body))
    before = {pod.metadata.uid for pod in await stage.worker_pods()}
    await stage.apply_controller()

    async def are_adopted() -> bool:
        node_set_status = await status(stage)
        return (node_set_status.get("nodeSetHash"), node_set_status.get("updatedReplicas")) == ("7f9c4", 2)

    await eventually(are_adopted, "adoption of the workers")
    await stage.quiescent()
    assert {pod.metadata.uid for pod in await stage.worker_pods()} == before
    revision = (await revisions(stage))[1]
    assert set(await revisions(stage)) == {1}
    assert revision.metadata.labels[metadata.APP_INSTANCE] == "gpu"

    # Another Slurm key reaches the adopted workers without replacing them; another image replaces them.
    await stage.secret("slurm-key", **{"slurm.key": "z" * 64})
    await stage.quiescent()
    assert set(await revisions(stage)) == {1}
    await apply_workers(stage, slurmd={"image": "example.test/slurmd:2"})
    second = await wait_rolled_out(stage, 2)
    assert second.hash != "7f9c4"


async def test_a_revision_name_that_is_in_use_is_counted_and_avoided(stage: OperatorStage) -> None:
    await stage.create_keys()
    await stage.apply_controller()
    await apply_workers(stage)
    first = await wait_rolled_out(stage, 1)
    await stage.client.delete(NODE_SETS, Key(stage.namespace, "gpu"))

    await stage.wait_deleted(NODE_SETS, "gpu")
    # Without a garbage collector the revision of the old NodeSet stays and keeps its name.
    await apply_workers(stage)

    async def new_revision() -> Revision | None:
        items = await stage.client.list(REVISIONS, namespace=stage.namespace)
        return next((item for item in items if item.metadata.uid != first.metadata.uid), None)

    second: Revision = await eventually(new_revision, "a revision of the new set")
    assert second.metadata.name != first.metadata.name

    async def is_counted() -> bool:
        return (await status(stage)).get("collisionCount") == 1

    await eventually(is_counted, "the count")
