# SPDX-License-Identifier: Apache-2.0
"""Every verb, on a real API server."""

import pytest
from tests.integration.kube.objects import config_map, deployment, pod

from slinky.kube import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    PODS,
    AlreadyExists,
    Conflict,
    Invalid,
    Key,
    KubeClient,
    NotFound,
)

pytestmark = pytest.mark.plane


async def test_what_was_created_can_be_read(client: KubeClient, namespace: str) -> None:
    created = await client.create(CONFIG_MAPS, config_map(namespace, "a", {"x": "1"}))
    read = await client.get(CONFIG_MAPS, Key(namespace, "a"))
    assert read == created
    assert read.data == {"x": "1"}


async def test_a_taken_name_is_a_conflict_of_its_own_kind(client: KubeClient, namespace: str) -> None:
    await client.create(CONFIG_MAPS, config_map(namespace, "a"))
    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAPS, config_map(namespace, "a"))


async def test_absence_is_an_error_for_get_and_none_for_find(client: KubeClient, namespace: str) -> None:
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, Key(namespace, "none"))
    assert await client.find(CONFIG_MAPS, Key(namespace, "none")) is None


async def test_a_list_in_pages_is_the_whole_list(client: KubeClient, namespace: str) -> None:
    for number in range(7):
        await client.create(CONFIG_MAPS, config_map(namespace, f"c-{number}"))
    pages = [page async for page in client.pages(CONFIG_MAPS, namespace=namespace, size=3)]
    assert [len(page.items or ()) for page in pages] == [3, 3, 1]
    whole = await client.list(CONFIG_MAPS, namespace=namespace)
    assert [found.metadata.name for found in whole] == [f"c-{number}" for number in range(7)]


async def test_applying_the_same_manifest_twice_changes_nothing(client: KubeClient, namespace: str) -> None:
    first = await client.apply(CONFIG_MAPS, config_map(namespace, "a", {"x": "1"}))
    second = await client.apply(CONFIG_MAPS, config_map(namespace, "a", {"x": "1"}))
    assert second.metadata.resource_version == first.metadata.resource_version


async def test_two_managers_conflict_unless_one_forces(client: KubeClient, namespace: str) -> None:
    await client.apply(CONFIG_MAPS, config_map(namespace, "a", {"x": "1"}), manager="one")
    other = config_map(namespace, "a", {"x": "2"})
    with pytest.raises(Conflict) as refused:
        await client.apply(CONFIG_MAPS, other, manager="two", force=False)
    assert refused.value.causes[0].field == ".data.x"
    assert (await client.apply(CONFIG_MAPS, other, manager="two")).data == {"x": "2"}


async def test_an_invalid_object_names_its_fields(client: KubeClient, namespace: str) -> None:
    with pytest.raises(Invalid) as refused:
        await client.create(PODS, pod(namespace, "a", containers=[]))
    assert refused.value.causes[0].field == "spec.containers"


async def test_patches_change_only_what_they_name(client: KubeClient, namespace: str) -> None:
    key = Key(namespace, "a")
    await client.create(CONFIG_MAPS, config_map(namespace, "a", {"x": "1", "y": "1"}))
    merged = await client.patch(CONFIG_MAPS, key, {"data": {"x": "2", "y": None}})
    assert merged.data == {"x": "2"}
    swap = [{"op": "test", "path": "/data/x", "value": "2"}, {"op": "add", "path": "/data/z", "value": "3"}]
    assert (await client.patch_json(CONFIG_MAPS, key, swap)).data == {"x": "2", "z": "3"}
    with pytest.raises(Invalid):
        await client.patch_json(CONFIG_MAPS, key, [{"op": "test", "path": "/data/x", "value": "9"}])


async def test_replacing_an_old_version_is_a_conflict(client: KubeClient, namespace: str) -> None:
    old = await client.create(CONFIG_MAPS, config_map(namespace, "a", {"x": "1"}))
    await client.patch(CONFIG_MAPS, old.key, {"data": {"x": "2"}})
    stale = config_map(namespace, "a", {"x": "3"})
    stale["metadata"]["resourceVersion"] = old.metadata.resource_version
    with pytest.raises(Conflict):
        await client.replace(CONFIG_MAPS, stale)


async def test_status_is_written_apart_from_spec(client: KubeClient, namespace: str) -> None:
    created = await client.create(DEPLOYMENTS, deployment(namespace, "a", replicas=3))
    written = await client.apply_status(DEPLOYMENTS, created.key, {"replicas": 2, "readyReplicas": 1})
    assert (written.status.ready_replicas, written.spec.replicas) == (1, 3)


async def test_scale_is_read_and_set(client: KubeClient, namespace: str) -> None:
    created = await client.create(DEPLOYMENTS, deployment(namespace, "a", replicas=3))
    assert (await client.scale(DEPLOYMENTS, created.key)).spec.replicas == 3
    assert (await client.set_scale(DEPLOYMENTS, created.key, 5)).spec.replicas == 5
    assert (await client.get(DEPLOYMENTS, created.key)).spec.replicas == 5


async def test_deletion_honours_its_preconditions(client: KubeClient, namespace: str) -> None:
    created = await client.create(CONFIG_MAPS, config_map(namespace, "a"))
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, created.key, uid="somebody-else")
    assert await client.delete(CONFIG_MAPS, created.key, uid=created.metadata.uid) is None
    assert await client.find(CONFIG_MAPS, created.key) is None


async def test_delete_returns_an_object_that_has_finalizers(client: KubeClient, namespace: str) -> None:
    held = config_map(namespace, "a")
    held["metadata"]["finalizers"] = ["test.slinky/hold"]
    created = await client.create(CONFIG_MAPS, held)
    lingering = await client.delete(CONFIG_MAPS, created.key)
    assert lingering is not None
    assert lingering.metadata.deleting


async def test_an_unbound_pod_is_deleted_at_once_and_a_bound_pod_gracefully(client: KubeClient, namespace: str) -> None:
    unplaced = await client.create(PODS, pod(namespace, "a"))
    assert await client.delete(PODS, unplaced.key) is None
    placed = await client.create(PODS, pod(namespace, "b"))
    await client.bind(placed.key, "node-1")
    lingering = await client.delete(PODS, placed.key)
    assert lingering is not None
    assert lingering.metadata.deletion_grace_period_seconds


async def test_a_pod_is_bound_once(client: KubeClient, namespace: str) -> None:
    created = await client.create(PODS, pod(namespace, "a"))
    await client.bind(created.key, "node-1", uid=created.metadata.uid)
    assert (await client.get(PODS, created.key)).spec.node_name == "node-1"
    with pytest.raises(Conflict):
        await client.bind(created.key, "node-2", uid=created.metadata.uid)


async def test_binding_another_pod_of_the_same_name_is_refused(client: KubeClient, namespace: str) -> None:
    created = await client.create(PODS, pod(namespace, "a"))
    with pytest.raises(Conflict):
        await client.bind(created.key, "node-1", uid="somebody-else")


async def test_an_evicted_pod_is_deleted(client: KubeClient, namespace: str) -> None:
    created = await client.create(PODS, pod(namespace, "a"))
    await client.evict(created.key, uid=created.metadata.uid)
    found = await client.find(PODS, created.key)
    assert found is None or found.metadata.deleting


async def test_metadata_only_leaves_the_rest_to_the_server(client: KubeClient, namespace: str) -> None:
    await client.create(PODS, pod(namespace, "a", labels={"x": "1"}))
    (found,) = await client.list(PODS.metadata_only(), namespace=namespace)
    assert found.metadata.labels == {"x": "1"}
