# SPDX-License-Identifier: Apache-2.0
"""Revisions of workers on a real API server: kept, found again, pruned, gone back to, taken over."""

from typing import Any

import pytest
from tests.integration.operator.conftest import Desk, writes
from tests.integration.operator.test_objects import REF, controller, secrets

from slinky.api.names import metadata
from slinky.api.nodeset import NODE_SETS, NodeSet
from slinky.kube import PODS, Key
from slinky.operator.nodeset.revisions.revision import REVISIONS, Revision

pytestmark = pytest.mark.plane

ANOTHER = {"slurmd": {"image": "example.test/slurmd:2", "env": [{"name": "A", "value": "b"}]}}


async def workers(desk: Desk, **spec: Any) -> None:
    await desk.apply(NODE_SETS, "gpu", spec={"controllerRef": REF, "replicas": 2, **spec})


async def revisions(desk: Desk) -> dict[int, Revision]:
    found = await desk.client.list(REVISIONS, namespace=desk.namespace)
    return {one.revision: one for one in found}


async def carried(desk: Desk) -> set[str]:
    found = await desk.client.list(PODS, namespace=desk.namespace)
    return {pod.metadata.labels[metadata.REVISION] for pod in found if not pod.metadata.deleting}


async def status(desk: Desk) -> dict[str, Any]:
    return dict((await desk.get(NODE_SETS, "gpu")).status or {})


async def rolled_out(desk: Desk, number: int) -> Revision:
    """Wait until every worker has this revision. Workers that were never placed need no drain."""

    async def done() -> Revision | None:
        found, said = (await revisions(desk)).get(number), await status(desk)
        if found is None or await carried(desk) != {found.hash}:
            return None
        return found if said.get("currentRevision") == said.get("updateRevision") == found.metadata.name else None

    wanted: Revision = await desk.until(done, f"revision {number} everywhere", 20)
    return wanted


async def test_revisions_are_kept_gone_back_to_and_pruned(desk: Desk) -> None:
    await secrets(desk)
    await controller(desk)
    await workers(desk, revisionHistoryLimit=1, extraConf="Weight=1")
    first = await rolled_out(desk, 1)
    uid = (await desk.get(NODE_SETS, "gpu")).metadata.uid
    assert [owner.uid for owner in first.metadata.owner_references if owner.controller] == [uid]
    assert first.metadata.labels.items() >= {metadata.APP_NAME: "slurmd", metadata.APP_INSTANCE: "gpu"}.items()
    assert first.data == {"spec": {"extraConf": "Weight=1"}}

    await workers(desk, revisionHistoryLimit=1, **ANOTHER)
    second = await rolled_out(desk, 2)
    assert set(await revisions(desk)) == {1, 2}

    # Back, by an annotation: the spec is the old one again, and so is the very revision, with a new number.
    wish = {"metadata": {"annotations": {metadata.ROLLBACK_TO: "previous"}}}
    await desk.client.patch(NODE_SETS, Key(desk.namespace, "gpu"), wish)
    third = await rolled_out(desk, 3)
    assert (third.metadata.uid, third.hash) == (first.metadata.uid, first.hash)
    live = await desk.get(NODE_SETS, "gpu")
    assert metadata.ROLLBACK_TO not in live.metadata.annotations
    assert (live.spec["extraConf"], live.spec.get("slurmd")) == ("Weight=1", None)
    assert live.spec["revisionHistoryLimit"] == 1

    # A third one: the limit keeps the newest of the old ones.
    await workers(desk, revisionHistoryLimit=1, extraConf="Weight=9")
    await rolled_out(desk, 4)

    async def pruned() -> bool:
        return set(await revisions(desk)) == {3, 4}

    await desk.until(pruned, "the oldest one's end")
    assert second.metadata.name not in await desk.names(REVISIONS)
    await desk.rest()
    before = writes()
    await desk.client.patch(NODE_SETS, live.key, {"metadata": {"annotations": {"kubectl.kubernetes.io/x": "y"}}})
    await desk.rest()
    assert writes() == before


async def test_a_wish_for_a_revision_that_is_not_there_changes_nothing_and_says_so(desk: Desk) -> None:
    await secrets(desk)
    await controller(desk)
    await workers(desk)
    first = await rolled_out(desk, 1)
    generation = (await desk.get(NODE_SETS, "gpu")).metadata.generation
    wish = {"metadata": {"annotations": {metadata.ROLLBACK_TO: "17"}}}
    await desk.client.patch(NODE_SETS, Key(desk.namespace, "gpu"), wish)

    async def answered() -> bool:
        return metadata.ROLLBACK_TO not in (await desk.get(NODE_SETS, "gpu")).metadata.annotations

    await desk.until(answered, "the end of the wish")
    assert (await desk.get(NODE_SETS, "gpu")).metadata.generation == generation
    assert await carried(desk) == {first.hash}


async def test_a_revision_in_use_is_never_pruned(desk: Desk) -> None:
    await secrets(desk)
    await controller(desk)
    paused = {"rollingUpdate": {"paused": True}}
    await workers(desk, updateStrategy=paused)
    first = await rolled_out(desk, 1)
    for number in range(2, 5):
        await workers(desk, updateStrategy=paused, extraConf=f"Weight={number}")

        async def kept(wanted: int = number) -> bool:
            return set(await revisions(desk)) == {1, wanted}

        await desk.until(kept, "the one in use and the newest")
    said = await status(desk)
    assert said["currentRevision"] == first.metadata.name
    assert said["updateRevision"] != first.metadata.name
    assert await carried(desk) == {first.hash}


async def test_workers_that_another_operator_made_of_the_same_template_are_left_alone(desk: Desk) -> None:
    """Its revisions carry other labels and are written otherwise; its workers carry a hash of its own making."""
    await secrets(desk)
    await workers(desk, slurmd={"image": "example.test/slurmd:1", "resources": {"limits": {"cpu": "1000m"}}})
    made: NodeSet = await desk.client.get(NODE_SETS, Key(desk.namespace, "gpu"))
    owner = NODE_SETS.owner(made)
    data = {
        "spec": {
            "template": {"metadata": {"creationTimestamp": None}, "spec": {"containers": None}, "$patch": "replace"},
            "slurmd": {"image": "example.test/slurmd:1", "name": "", "resources": {"limits": {"cpu": "1"}}},
            "ssh": {"enabled": False},
        }
    }
    marks = {"labels": {metadata.REVISION: "7f9c4"}, "ownerReferences": [owner]}
    await desk.client.create(
        REVISIONS,
        REVISIONS.manifest(Key(desk.namespace, "gpu-7f9c4"), metadata=marks, revision=1, data=data),
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
        await desk.client.create(PODS, PODS.manifest(Key(desk.namespace, name), metadata=meta, **body))
    before = {pod.metadata.uid for pod in await desk.client.list(PODS, namespace=desk.namespace)}
    await controller(desk)

    async def taken() -> bool:
        said = await status(desk)
        return (said.get("nodeSetHash"), said.get("updatedReplicas")) == ("7f9c4", 2)

    await desk.until(taken, "the workers as our own", 20)
    await desk.rest()
    assert {pod.metadata.uid for pod in await desk.client.list(PODS, namespace=desk.namespace)} == before
    found = (await revisions(desk))[1]
    assert set(await revisions(desk)) == {1}
    assert found.metadata.labels[metadata.APP_INSTANCE] == "gpu"

    # From here on it is ours. Another slurm key reaches workers without replacing them, another image does not.
    await desk.secret("slurm-key", **{"slurm.key": "z" * 64})
    await desk.rest()
    assert set(await revisions(desk)) == {1}
    await workers(desk, slurmd={"image": "example.test/slurmd:2"})
    second = await rolled_out(desk, 2)
    assert second.hash != "7f9c4"


async def test_a_name_that_something_else_has_taken_is_counted_and_avoided(desk: Desk) -> None:
    await secrets(desk)
    await controller(desk)
    await workers(desk)
    first = await rolled_out(desk, 1)
    await desk.client.delete(NODE_SETS, Key(desk.namespace, "gpu"))

    async def gone() -> bool:
        return await desk.find(NODE_SETS, "gpu") is None

    await desk.until(gone, "the set's end", 20)
    # Without a garbage collector the revision of the old set stays, and with it the name.
    await workers(desk)

    async def another() -> Revision | None:
        found = await desk.client.list(REVISIONS, namespace=desk.namespace)
        return next((one for one in found if one.metadata.uid != first.metadata.uid), None)

    second: Revision = await desk.until(another, "a revision of the new set")
    assert second.metadata.name != first.metadata.name

    async def counted() -> bool:
        return (await status(desk)).get("collisionCount") == 1

    await desk.until(counted, "the count")
