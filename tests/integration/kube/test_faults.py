# SPDX-License-Identifier: Apache-2.0
"""Faults between watches and a real API server: no event is lost, no absence invented, no connection left dirty."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.integration.kube.apiserver_proxy import ApiServerProxy
from tests.integration.kube.objects import config_map, pod
from tests.integration.kube.test_watch import following
from tests.support.kubernetes_minor import MINOR
from tests.support.waiting import eventually

from slinky.kube import (
    CONFIG_MAPS,
    CUSTOM_RESOURCES,
    NAMESPACES,
    PODS,
    Access,
    Cache,
    ConfigMap,
    Key,
    KubeClient,
    Object,
    Resource,
    TooManyRequests,
    Unreadable,
    View,
    Watch,
    connect,
)
from slinky.kube.aio_transport import AioTransport
from slinky.kube.auth import BearerTokenFile, StaticBearerToken
from slinky.kube.metrics import UNDECODABLE_OBJECTS, WATCH_ENDS, WATCH_STARTS
from slinky.kube.tls import Pem
from slinky.lab.kubernetes.bare_plane import BarePlane

pytestmark = pytest.mark.plane


@contextlib.asynccontextmanager
async def open_client(access: Access) -> AsyncIterator[KubeClient]:
    transport = AioTransport(access)
    try:
        yield KubeClient(transport)
    finally:
        await transport.close()


@contextlib.asynccontextmanager
async def through_proxy(plane: BarePlane) -> AsyncIterator[tuple[ApiServerProxy, KubeClient]]:
    async with (
        ApiServerProxy(plane.url, plane.ca).running() as proxy,
        open_client(Access(proxy.url, StaticBearerToken(plane.token))) as client,
    ):
        yield proxy, client


async def write_some(client: KubeClient, namespace: str, rounds: int) -> None:
    """Create, change and delete, so that every kind of event occurs."""
    for number in range(rounds):
        name = f"c-{number % 20}"
        manifest = config_map(namespace, name, {"round": str(number), "ballast": "x" * 3000})
        await client.apply(CONFIG_MAPS, manifest)
        if number % 7 == 3:
            await client.delete(CONFIG_MAPS, Key(namespace, name))


async def wait_equal(client: KubeClient, cache: Cache[ConfigMap], namespace: str) -> None:
    """Wait until the cache equals a new list."""
    expected = {item.key: item for item in await client.list(CONFIG_MAPS, namespace=namespace)}
    await eventually(lambda: {item.key: item for item in cache} == expected, "a cache equal to the list")


def count_watch_ends() -> float:
    samples = [sample for metric in WATCH_ENDS.collect() for sample in metric.samples]
    return sum(sample.value for sample in samples if sample.labels.get("resource") == CONFIG_MAPS.name)


@pytest.mark.parametrize("cut", ["time", "bytes"])
async def test_a_watch_that_is_cut_repeatedly_becomes_consistent(
    plane: BarePlane, client: KubeClient, namespace: str, cut: str
) -> None:
    dice = random.Random(7)  # noqa: S311
    async with through_proxy(plane) as (proxy, shaky):
        proxy.fault = lambda _: dice.uniform(0.05, 0.4) if cut == "time" else dice.randrange(500, 40_000)
        absent: list[Key] = []
        async with following(shaky, namespace) as cache:
            cache.listen(lambda old, new: absent.append(old.key) if new is None and old else None)
            while proxy.connections <= 3:  # until the stream was really cut a few times
                await write_some(client, namespace, 60)
            await wait_equal(client, cache, namespace)
        # An absence is only ever concluded for what was deleted: rounds 3, 10, 17 ... of 20 names.
        assert {key.name for key in absent} <= {f"c-{number % 20}" for number in range(60) if number % 7 == 3}


async def test_a_watch_survives_a_restart_of_the_server(plane: BarePlane, client: KubeClient, namespace: str) -> None:
    await write_some(client, namespace, 10)
    async with following(client, namespace) as cache:
        before = len(cache)
        ends = count_watch_ends()
        await asyncio.to_thread(plane.stop_apiserver)
        await eventually(lambda: count_watch_ends() > ends, "the end of the watch")
        assert len(cache) == before  # an unreachable server is no absence
        await asyncio.to_thread(plane.start_apiserver)
        await client.delete(CONFIG_MAPS, Key(namespace, "c-0"))
        await client.create(CONFIG_MAPS, config_map(namespace, "after"))
        await wait_equal(client, cache, namespace)


async def test_a_rotated_server_certificate_is_trusted_when_its_file_is(own_plane: BarePlane) -> None:
    access = Access(own_plane.url, StaticBearerToken(own_plane.token), ca=Pem(own_plane.ca))
    async with open_client(access) as ours:
        await ours.create(NAMESPACES, {"metadata": {"name": "before"}})
        old = own_plane.ca.read_bytes()

        def rotate() -> None:
            own_plane.stop_apiserver()
            own_plane.renew_certificates()
            own_plane.start_apiserver()

        await asyncio.to_thread(rotate)
        assert own_plane.ca.read_bytes() != old
        assert (await ours.get(NAMESPACES, Key("", "before"))).metadata.name == "before"


async def test_an_expired_resource_version_leads_to_a_new_list(client: KubeClient, namespace: str) -> None:
    await client.create(CONFIG_MAPS, config_map(namespace, "a"))
    cache: Cache[ConfigMap] = Cache(CONFIG_MAPS)
    watch = Watch(client, CONFIG_MAPS, cache, namespace=namespace)
    watch._version = "1"  # older than the history that the server keeps
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(watch.run())
        await eventually(lambda: cache.synced and Key(namespace, "a") in cache, "the object in the cache")
        task.cancel()


async def test_requests_to_a_busy_server_are_retried(plane: BarePlane, namespace: str) -> None:
    busy = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    async with through_proxy(plane) as (proxy, shaky):
        proxy.canned = [busy]
        assert await shaky.list(CONFIG_MAPS, namespace=namespace) == []
        assert proxy.connections == 2
        proxy.canned = [busy, busy]
        async with following(shaky, namespace) as cache:
            assert len(cache) == 0


async def test_a_disruption_budget_refuses_an_eviction(client: KubeClient, namespace: str) -> None:
    labels = {"app": "kept"}
    created = await client.create(PODS, pod(namespace, "a", labels=labels, nodeName="n1"))
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await client.patch(PODS, created.key, {"status": ready}, subresource="status")
    budget = Resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", Object)
    spec = {"minAvailable": 1, "selector": {"matchLabels": labels}}
    await client.create(budget, budget.manifest(Key(namespace, "a"), spec=spec))
    with pytest.raises(TooManyRequests):
        await client.evict(created.key)
    assert not (await client.get(PODS, created.key)).metadata.deleting


class LooseSpec(View, frozen=True):
    size: int = 0


class Loose(Object, frozen=True):
    spec: LooseSpec = LooseSpec()


LOOSE = Resource("test.slinky.dev/v1", "Loose", "looses", Loose)


async def establish(client: KubeClient, definition: dict[str, Any], resource: Resource[Any]) -> None:
    await client.apply(CUSTOM_RESOURCES, definition)

    async def served() -> bool:
        with contextlib.suppress(Exception):
            await client.list(resource)
            return True
        return False

    await eventually(served, f"the kind {resource.kind}")


async def test_an_undecodable_object_does_not_stop_a_watch(client: KubeClient, namespace: str) -> None:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    spec = {
        "group": "test.slinky.dev",
        "names": {"kind": "Loose", "plural": "looses"},
        "scope": "Namespaced",
        "versions": [version],
    }
    name = Key("", "looses.test.slinky.dev")
    await establish(client, CUSTOM_RESOURCES.manifest(name, spec=spec), LOOSE)
    bad, good = Key(namespace, "bad"), Key(namespace, "good")
    await client.send(
        "POST",
        LOOSE.path(namespace=namespace),
        body=msgspec.json.encode(LOOSE.manifest(bad, spec={"size": "large"})),
    )
    cache: Cache[Loose] = Cache(LOOSE)
    counted = UNDECODABLE_OBJECTS.labels(LOOSE.name)._value.get()
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(Watch(client, LOOSE, cache, namespace=namespace).run())
        await cache.wait_synced(30.0)
        with pytest.raises(Unreadable, match="bad"):
            cache.get(bad)
        await client.create(LOOSE, LOOSE.manifest(good, spec={"size": 1}))
        await eventually(lambda: good in cache, "the good object in the cache")
        await client.patch(LOOSE, bad, {"spec": {"size": 2}})
        await eventually(lambda: bad not in cache.undecodable and len(cache) == 2, "both objects in the cache")
        task.cancel()
    assert UNDECODABLE_OBJECTS.labels(LOOSE.name)._value.get() == counted + 1


async def test_a_rotated_token_is_used_and_the_watch_continues(
    plane: BarePlane, client: KubeClient, namespace: str, tmp_path: Path
) -> None:
    accounts = Resource("v1", "ServiceAccount", "serviceaccounts", Object)
    secrets = Resource("v1", "Secret", "secrets", Object)
    bindings = Resource(
        "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", Object, namespaced=False
    )
    await client.create(accounts, {"metadata": {"name": "robot", "namespace": namespace}})
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    await client.create(bindings, bindings.manifest(Key("", namespace), subjects=[subject], roleRef=role))

    async def mint(name: str) -> str:
        """A token that dies with its secret."""
        bound = await client.create(secrets, {"metadata": {"name": name, "namespace": namespace}})
        ref = {"kind": "Secret", "apiVersion": "v1", "name": name, "uid": bound.metadata.uid}
        ask = {"spec": {"expirationSeconds": 3600, "boundObjectRef": ref}}
        path = accounts.path(Key(namespace, "robot"), subresource="token")
        answer = msgspec.json.decode(await client.send("POST", path, body=msgspec.json.encode(ask)))
        return str(answer["status"]["token"])

    file = tmp_path / "token"
    file.write_text(await mint("one"))
    access = Access(plane.url, BearerTokenFile(file, max_age=3600.0), ca=Pem(plane.ca))
    async with open_client(access) as robot, following(robot, namespace) as cache:
        file.write_text(await mint("two"))
        await client.delete(secrets, Key(namespace, "one"))
        await asyncio.sleep(0.1)
        for number in range(3):
            await robot.create(CONFIG_MAPS, config_map(namespace, f"n-{number}"))
        await wait_equal(client, cache, namespace)


async def test_cancelled_requests_leave_no_dirty_connection(client: KubeClient, namespace: str) -> None:
    for number in range(10):
        await client.create(CONFIG_MAPS, config_map(namespace, f"c-{number}", {"x": "y" * 20_000 * number}))
    dice = random.Random(3)  # noqa: S311

    async def impatient(number: int) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(dice.uniform(0.0, 0.02)):
                found = await client.get(CONFIG_MAPS, Key(namespace, f"c-{number % 10}"))
                assert found.metadata.name == f"c-{number % 10}"

    async def patient(number: int) -> None:
        found = await client.get(CONFIG_MAPS, Key(namespace, f"c-{number % 10}"))
        assert (found.metadata.name, len(found.data["x"])) == (f"c-{number % 10}", 20_000 * (number % 10))

    async with asyncio.TaskGroup() as tasks:
        for number in range(150):
            tasks.create_task(impatient(number))
            tasks.create_task(patient(number))


async def test_a_server_without_streaming_lists_can_be_watched() -> None:
    with BarePlane.running(MINOR, flags=["--feature-gates=WatchList=false"]) as old:
        async with connect(old.kubeconfig) as ours:
            await ours.create(CONFIG_MAPS, config_map("default", "a"))
            listed = WATCH_STARTS.labels(CONFIG_MAPS.name, "list")._value.get()
            async with following(ours, "default") as cache:
                await write_some(ours, "default", 10)
                await wait_equal(ours, cache, "default")
            assert WATCH_STARTS.labels(CONFIG_MAPS.name, "list")._value.get() == listed + 1
