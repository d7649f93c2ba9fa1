# SPDX-License-Identifier: Apache-2.0
"""Runs caches, watches and control loops together.

Caches are shared: a second request for the same kind and selection returns the same cache. `run` starts the services
and watches, waits until all caches are synced, then starts the control loops and the services of the leader, after
leader election if one is given.
All tasks have one parent: if one of them fails, all end.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from slinky.kube.cache import Cache, IndexValues
from slinky.kube.client import KubeClient
from slinky.kube.controller import ControlLoop
from slinky.kube.resource import Resource
from slinky.kube.types import HasMeta
from slinky.kube.watch import Watch
from slinky.observe import Health, Log

T = TypeVar("T", bound=HasMeta)

log = Log("slinky.kube.runtime")

Lead = Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]
"""Runs the given work as the leader, such as `slinky.kube.lease.Election.lead`."""


class Runtime:
    """The caches, control loops and services of one process for one Kubernetes cluster."""

    def __init__(self, client: KubeClient, *, health: Health | None = None, sync_timeout: float = 120.0) -> None:
        self.client = client
        self.health = health or Health()
        self._sync_timeout = sync_timeout
        self._caches: dict[tuple[Any, ...], Cache[Any]] = {}
        self._watches: list[Watch[Any]] = []
        self._controllers: list[ControlLoop[Any]] = []
        self._services: list[Callable[[], Awaitable[None]]] = []
        self._leader_services: list[Callable[[], Awaitable[None]]] = []
        self.health.add_readiness_check("caches", self._unsynced)

    def cache(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, IndexValues[T]] | None = None,
    ) -> Cache[T]:
        """The cache of the selected objects; `run` keeps it current."""
        cache_key = (resource.name, resource.view, resource.accept, namespace, labels, fields)
        cache: Cache[T] | None = self._caches.get(cache_key)
        if cache is None:
            cache = self._caches[cache_key] = Cache(resource, indexes=indexes)
            self._watches.append(Watch(self.client, resource, cache, namespace=namespace, labels=labels, fields=fields))
        elif indexes:
            cache.add_indexes(indexes)
        return cache

    def add_controller(self, controller: ControlLoop[Any]) -> None:
        """Run this control loop as soon as all caches are synced (and this process is the leader)."""
        self._controllers.append(controller)

    def add_service(self, service: Callable[[], Awaitable[None]]) -> None:
        """Run this service from the start, whether or not this process is the leader."""
        self._services.append(service)

    def add_leader_service(self, service: Callable[[], Awaitable[None]]) -> None:
        """Run this service together with the control loops, only while this process is the leader."""
        self._leader_services.append(service)

    async def run(self, lead: Lead | None = None) -> None:
        """Run all watches, services and control loops until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for service in self._services:
                tasks.create_task(_awaited(service()))
            for watch in self._watches:
                tasks.create_task(watch.run())
            await self.wait_synced()
            await (lead(self._run_controllers) if lead else self._run_controllers())

    async def wait_synced(self) -> None:
        """Wait until all caches are synced."""
        # The cached objects live long. While the caches grow, the garbage collector would traverse all of them again
        # and again, and stall the event loop each time. So it is off until the caches are synced, and then ignores
        # these objects for good.
        gc.disable()
        try:
            for cache in self._caches.values():
                await cache.wait_synced(self._sync_timeout)
        finally:
            gc.freeze()
            gc.enable()
        log.info("all caches are synced", objects=sum(len(cache) for cache in self._caches.values()))

    async def _run_controllers(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for service in self._leader_services:
                tasks.create_task(_awaited(service()))
            for controller in self._controllers:
                tasks.create_task(controller.run())

    def _unsynced(self) -> str | None:
        unsynced = [cache.resource.name for cache in self._caches.values() if not cache.synced]
        return f"waiting for the first list of {', '.join(unsynced)}" if unsynced else None


async def _awaited(work: Awaitable[None]) -> None:
    await work
