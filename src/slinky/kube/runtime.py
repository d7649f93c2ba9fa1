# SPDX-License-Identifier: Apache-2.0
"""Wires caches, watches and controllers into one supervised whole.

Caches are shared: asking twice for the same kind and selection gives the same one. `run` starts every watch,
waits until all caches are whole, then starts the controllers, under a leader's lease if given one. Every task
has this one parent; if one of them fails, all end.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from slinky.kube.cache import Cache, IndexOf
from slinky.kube.client import KubeClient
from slinky.kube.controller import ControlLoop
from slinky.kube.resource import Resource
from slinky.kube.types import HasMeta
from slinky.kube.watch import Watch
from slinky.observe import Health, Log

T = TypeVar("T", bound=HasMeta)

log = Log("slinky.kube.runtime")

Lead = Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]
"""Runs the given work while leading; `slinky.kube.lease.Election.lead` is one."""


class Runtime:
    """One process's view of one Kubernetes cluster."""

    def __init__(self, client: KubeClient, *, health: Health | None = None, patience: float = 120.0) -> None:
        self.client = client
        self.health = health or Health()
        self._patience = patience
        self._caches: dict[tuple[Any, ...], Cache[Any]] = {}
        self._watches: list[Watch[Any]] = []
        self._controllers: list[ControlLoop[Any]] = []
        self._services: list[Callable[[], Awaitable[None]]] = []
        self.health.add_readiness_check("caches", self._unsynced)

    def cache(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, IndexOf[T]] | None = None,
    ) -> Cache[T]:
        """The cache of the selected objects, kept current while `run` runs."""
        known = (resource.name, resource.view, resource.accept, namespace, labels, fields)
        found: Cache[T] | None = self._caches.get(known)
        if found is None:
            found = self._caches[known] = Cache(resource, indexes=indexes)
            self._watches.append(Watch(self.client, resource, found, namespace=namespace, labels=labels, fields=fields))
        elif indexes:
            found.add_indexes(indexes)
        return found

    def add_controller(self, controller: ControlLoop[Any]) -> None:
        """Run this controller once the caches are whole."""
        self._controllers.append(controller)

    def add_service(self, service: Callable[[], Awaitable[None]]) -> None:
        """Run this from the start, leading or not."""
        self._services.append(service)

    async def run(self, lead: Lead | None = None) -> None:
        """Run everything until cancelled."""
        async with asyncio.TaskGroup() as family:
            for service in self._services:
                family.create_task(_awaited(service()))
            for watch in self._watches:
                family.create_task(watch.run())
            await self.wait_synced()
            await (lead(self._control) if lead else self._control())

    async def wait_synced(self) -> None:
        """Wait until every cache is whole."""
        # What arrives now lives long. The collector would walk all of it again and again while it grows, and
        # stop the loop each time; so it rests until the caches are whole and then leaves them out for good.
        gc.disable()
        try:
            for cache in self._caches.values():
                await cache.wait_synced(self._patience)
        finally:
            gc.freeze()
            gc.enable()
        log.info("caches are whole", objects=sum(len(cache) for cache in self._caches.values()))

    async def _control(self) -> None:
        async with asyncio.TaskGroup() as family:
            for controller in self._controllers:
                family.create_task(controller.run())

    def _unsynced(self) -> str | None:
        late = [cache.resource.name for cache in self._caches.values() if not cache.synced]
        return f"waiting for {', '.join(late)}" if late else None


async def _awaited(work: Awaitable[None]) -> None:
    await work
