# SPDX-License-Identifier: Apache-2.0
"""Caches, watches and controllers on a real API server."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.integration.kube.objects import config_map
from tests.support.request_counts import count_writes
from tests.support.waiting import eventually

from slinky.kube import (
    CONFIG_MAPS,
    Cache,
    ControlLoop,
    Election,
    Key,
    KubeClient,
    LeaseTiming,
    RequeueAfter,
    Runtime,
    Watch,
    by_label,
)

pytestmark = pytest.mark.plane


@contextlib.asynccontextmanager
async def following(client: KubeClient, namespace: str, **options: Any) -> AsyncIterator[Cache[Any]]:
    cache = Cache(CONFIG_MAPS, indexes={"app": by_label("app")})
    watch = Watch(client, CONFIG_MAPS, cache, namespace=namespace, **options)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(watch.run())
        try:
            await cache.wait_synced(30.0)
            yield cache
        finally:
            task.cancel()


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "paged"])
async def test_a_cache_has_existing_objects_and_their_changes(
    client: KubeClient, namespace: str, streaming: bool
) -> None:
    await client.create(CONFIG_MAPS, config_map(namespace, "old", {"x": "1"}))
    async with following(client, namespace, streaming=streaming) as cache:
        assert cache.keys() == [Key(namespace, "old")]
        await client.create(CONFIG_MAPS, config_map(namespace, "new"))
        await client.patch(CONFIG_MAPS, Key(namespace, "old"), {"data": {"x": "2"}})
        await eventually(lambda: len(cache) == 2 and {"x": "2"} in [item.data for item in cache], "both changes")
        await client.delete(CONFIG_MAPS, Key(namespace, "old"))
        await eventually(lambda: cache.get(Key(namespace, "old")) is None, "the deletion")


async def test_a_controller_reconciles_until_done(client: KubeClient, namespace: str) -> None:
    runtime = Runtime(client)
    cache = runtime.cache(CONFIG_MAPS, namespace=namespace)
    rounds: list[Key] = []

    async def reconcile(key: Key) -> RequeueAfter | None:
        found = cache.get(key)
        rounds.append(key)
        if found is None or found.data.get("state") == "done":
            return None
        cache.record_write(await client.patch(CONFIG_MAPS, key, {"data": {"state": "done"}}))
        return None

    controller = ControlLoop("test", reconcile)
    controller.watch(cache)
    runtime.add_controller(controller)
    running = asyncio.ensure_future(runtime.run())
    try:
        await client.create(CONFIG_MAPS, config_map(namespace, "a"))
        await eventually(lambda: any(item.data.get("state") == "done" for item in cache), "the write in the cache")
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    assert Key(namespace, "a") in rounds


async def test_a_converged_controller_writes_nothing(client: KubeClient, namespace: str) -> None:
    runtime = Runtime(client)
    cache = runtime.cache(CONFIG_MAPS, namespace=namespace)
    at_rest: Counter[Key] = Counter()

    async def reconcile(key: Key) -> RequeueAfter | None:
        found = cache.get(key)
        if found is not None and found.data.get("state") == "done":
            at_rest[key] += 1
        else:
            want = CONFIG_MAPS.manifest(key, data={"state": "done"})
            cache.record_write(await client.apply(CONFIG_MAPS, want, manager="test"))
        return RequeueAfter(0.05)

    async def each_at_rest(times: int) -> None:
        """Wait for reconciles of each object in its final state; a reconcile ends after its write is counted."""
        await eventually(lambda: len(at_rest) == 5 and min(at_rest.values()) >= times, f"{times} reconciles at rest")

    controller = ControlLoop("test", reconcile)
    controller.watch(cache)
    runtime.add_controller(controller)
    for number in range(5):
        await client.create(CONFIG_MAPS, config_map(namespace, f"c-{number}"))
    election = Election(
        client, Key(namespace, "lease"), "me", timing=LeaseTiming(duration=600.0, give_up=400.0, interval=300.0)
    )
    running = asyncio.ensure_future(runtime.run(lead=election.lead))
    try:
        await each_at_rest(1)
        before = count_writes()
        await each_at_rest(5)
        assert count_writes() == before
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
