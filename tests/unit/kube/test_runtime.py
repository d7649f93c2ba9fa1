# SPDX-License-Identifier: Apache-2.0
"""A process is ready when its caches are synced; a cache that never syncs ends the process."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from slinky.kube import KubeClient
from slinky.kube.errors import Later
from slinky.kube.runtime import Runtime
from slinky.kube.views import NODES, PODS
from slinky.observe import Health


def test_a_process_is_ready_when_all_caches_are_synced() -> None:
    health = Health()
    runtime = Runtime(cast("KubeClient", None), health=health)
    pods, nodes = runtime.cache(PODS), runtime.cache(NODES)
    assert "pods" in str(health.readiness())
    pods.finish_list("1")
    assert "nodes" in str(health.readiness())
    nodes.finish_list("1")
    assert health.readiness() == {}


async def test_waiting_for_a_cache_ends_at_the_deadline() -> None:
    runtime = Runtime(cast("KubeClient", None), sync_timeout=0.01)
    runtime.cache(PODS)
    with pytest.raises(Later, match="pods"):
        await runtime.wait_synced()


async def test_the_services_of_the_leader_wait_for_leadership() -> None:
    runtime = Runtime(cast("KubeClient", None))
    elected, started = asyncio.Event(), asyncio.Event()

    async def service() -> None:
        started.set()

    async def lead(work: Callable[[], Awaitable[None]]) -> None:
        await elected.wait()
        await work()

    runtime.add_leader_service(service)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(runtime.run(lead))
        await asyncio.sleep(0)
        assert not started.is_set()
        elected.set()
        await started.wait()
