# SPDX-License-Identifier: Apache-2.0
"""Follows the NodeSets of one Controller by a watch, and says why if they cannot be read."""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

from slinky.api.nodeset import NODE_SETS, NodeSet
from slinky.kube import ApiError, Cache, Expired, Forbidden, Key, KubeClient, KubeError, NotFound, Resource, Watch
from slinky.kube.errors import Rewound
from slinky.kube.transport import Stream
from slinky.web.page_data import KnownNodeSets

Notify = Callable[[], None]


class NodeSetFeed:
    """The NodeSets that refer to one Controller."""

    def __init__(self, client: KubeClient, controller: Key) -> None:
        self._controller = controller
        self._listeners: list[Notify] = []
        self._cache: Cache[NodeSet] = Cache(NODE_SETS)
        self._cache.listen(lambda _before, _after: self._notify())
        self._client = NotingClient(client, self._notify)
        self._watch = Watch(self._client, NODE_SETS, self._cache, namespace=controller.namespace)

    def listen(self, listener: Notify) -> None:
        """Call `listener` after each change."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Follow the NodeSets until cancelled."""
        await self._watch.run()

    def known(self) -> KnownNodeSets:
        """The NodeSets as they are known now."""
        own = (item for item in self._cache if item.controller_key == self._controller)
        fault = self._client.fault
        return KnownNodeSets(
            items=tuple(sorted(own, key=lambda item: item.metadata.name)),
            unreadable=tuple(sorted(key.name for key in self._cache.undecodable)),
            read=self._cache.synced,
            fault=describe_fault(fault, self._controller.namespace) if fault else "",
        )

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()


class NotingClient(KubeClient):
    """A client that notes why its last request failed; `fault` is None after one that did not fail."""

    def __init__(self, client: KubeClient, notify: Notify) -> None:
        super().__init__(client.transport, namespace=client.namespace, clock=client.clock, rng=client.rng)
        self.fault: KubeError | None = None
        self._notify_fault = notify

    @contextlib.asynccontextmanager
    async def open_watch(
        self, resource: Resource[Any], query: Mapping[str, Any], *, namespace: str = "", idle: float = 120.0
    ) -> AsyncIterator[Stream]:
        """Send one watch request, and note how it went."""
        with self._noted():
            async with super().open_watch(resource, query, namespace=namespace, idle=idle) as stream:
                self._note(None)
                yield stream

    async def send(self, *arguments: Any, **options: Any) -> bytes:
        """Send a request, and note how it went."""
        with self._noted():
            body = await super().send(*arguments, **options)
            self._note(None)
            return body

    @contextlib.contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except (Expired, Rewound):
            raise  # the watch reads the list again
        except KubeError as error:
            self._note(error)
            raise

    def _note(self, fault: KubeError | None) -> None:
        changed = type(fault) is not type(self.fault)
        self.fault = fault
        if changed:
            self._notify_fault()


def describe_fault(error: KubeError, namespace: str) -> str:
    """Why NodeSets cannot be read, as sentences for a person."""
    if isinstance(error, Forbidden):
        right = f"get, list and watch on {NODE_SETS.name}"
        return f"The page may not read NodeSets: its service account needs {right} in the namespace {namespace}."
    if isinstance(error, NotFound):
        return "The API server has no NodeSets: the definitions of the chart slurm-operator-crds are not installed."
    # The text of an error of the API server begins with the request, which differs each time.
    why = error.status.message if isinstance(error, ApiError) else str(error)
    return f"NodeSets cannot be read; what is shown may be old. {why}"
