# SPDX-License-Identifier: Apache-2.0
"""Follows a collection for ever and keeps a `Sink` equal to it.

One stream brings the whole collection and then its changes (WatchList); a server that cannot do so gets a
paged list and a watch. However a stream ends, the next one goes on from the last version seen; only a lost
history (410, or versions that run backwards) starts a new list, and only a list that came to its end may
remove anything. It never gives up: the caller cancels it.
"""

import random
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from slinky.kube.client import KubeClient
from slinky.kube.errors import (
    ApiError,
    ApiStatus,
    BadRequest,
    Expired,
    Invalid,
    KubeError,
    Rewound,
    Unreadable,
    from_status,
)
from slinky.kube.line_splitter import LineSplitter
from slinky.kube.metrics import UNDECODABLE_OBJECTS, WATCH_ENDS, WATCH_EVENTS, WATCH_STARTS
from slinky.kube.queue import backoff_seconds
from slinky.kube.resource import Resource, UndecodableObject, WatchEvent
from slinky.kube.types import HasMeta, ObjectMeta, View, version_number
from slinky.observe import Log

T = TypeVar("T", bound=HasMeta)
T_contra = TypeVar("T_contra", bound=HasMeta, contravariant=True)

log = Log("slinky.kube.watch")

# A stream that lived this long, or brought anything, did its work: the next one may follow at once.
LASTING = 0.5
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class WatchSink(Protocol[T_contra]):
    """Is told what the server has."""

    def begin(self, *, rewound: bool) -> None:
        """A whole list starts; `rewound` if versions no longer compare with those from before."""

    def put(self, found: T_contra) -> None:
        """The object exists and looks so."""

    def drop(self, meta: ObjectMeta) -> None:
        """The object is gone."""

    def misread(self, found: UndecodableObject) -> None:
        """The object exists, but not in a shape we know."""

    def finish(self, version: str) -> None:
        """The list is whole as of `version`: what it did not mention and is not newer does not exist."""


class _Mark(View, frozen=True):
    resource_version: str
    annotations: dict[str, str] | None = None


class _Marked(View, frozen=True):
    """A bookmark's object; servers fill the rest of it with nulls that no view expects."""

    metadata: _Mark


_mark = msgspec.json.Decoder(WatchEvent[_Marked])
_error = msgspec.json.Decoder(WatchEvent[ApiStatus])


class Watch(Generic[T]):
    """Keeps `sink` equal to the objects of `resource` that match."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[T],
        sink: WatchSink[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        idle: float = 120.0,
        streaming: bool = True,
    ) -> None:
        self._client = client
        self._resource = resource
        self._sink = sink
        self._namespace = namespace
        self._select = {"labelSelector": labels, "fieldSelector": fields}
        # Bookmarks come about once a minute: two minutes of silence mean that nobody is there.
        self._idle = idle
        self._streaming = streaming
        self._version: str | None = None
        self._listing = False
        self._rewound = False
        self._events = WATCH_EVENTS.labels(resource.name)

    async def run(self) -> None:
        """Follow until cancelled."""
        failures = 0
        while True:
            before, began, asked = self._version, self._client.clock.monotonic(), 0.0
            try:
                await self._turn()
                why = "ended"
            except Expired:
                self._version, why = None, "expired"
            except Rewound:
                self._version, self._rewound, why = None, True, "rewound"
            except KubeError as error:
                why, asked = type(error).__name__, getattr(error, "retry_after", None) or 0.0
                log.info("watch cut", resource=self._resource.name, version=self._version, why=error)
            WATCH_ENDS.labels(self._resource.name, why).inc()
            lasted = self._client.clock.monotonic() - began
            failures = 0 if self._version not in (None, before) or lasted > LASTING else failures + 1
            await self._client.clock.sleep(max(asked, reconnect_delay(failures, self._client.rng)))

    async def _turn(self) -> None:
        if self._version is not None:
            WATCH_STARTS.labels(self._resource.name, "resume").inc()
            await self._read({"resourceVersion": self._version})
        elif not self._streaming or not await self._streamed():
            WATCH_STARTS.labels(self._resource.name, "list").inc()
            await self._list()

    async def _streamed(self) -> bool:
        """Get the list as the head of a watch and go on with that; False if the server cannot."""
        WATCH_STARTS.labels(self._resource.name, "stream").inc()
        self._begin()
        try:
            await self._read({"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"})
        except ApiError as error:
            if not self._listing or not lacks_streaming_lists(error):
                raise
            log.info("no streaming list here", resource=self._resource.name, why=error)
            return False
        return True

    async def _list(self) -> None:
        """Get the list in pages; the watch follows in the next turn."""
        self._begin()
        version = ""
        pages = self._client.pages(
            self._resource,
            namespace=self._namespace,
            labels=self._select["labelSelector"],
            fields=self._select["fieldSelector"],
        )
        async for page in pages:
            version = page.metadata.resource_version
            for item in page.items or ():
                self._exists(item)
        self._finish(version)

    async def _read(self, query: Mapping[str, Any]) -> None:
        query = {
            **query,
            **self._select,
            "allowWatchBookmarks": "true",
            # The server ends each stream after a while; not all of ours at once.
            "timeoutSeconds": self._client.rng.randint(300, 600),
        }
        lines = LineSplitter()
        async with self._client.open_watch(self._resource, query, namespace=self._namespace, idle=self._idle) as stream:
            async for chunk in stream.chunks():
                whole = lines.feed(chunk)
                self._events.inc(len(whole))
                for line in whole:
                    self._take(line)

    def _take(self, line: bytes) -> None:
        event = self._resource.decode_event(line)
        if event.type in ("ADDED", "MODIFIED"):
            self._exists(event.object)
        elif event.type == "DELETED":
            self._sink.drop(event.object.metadata)
        elif event.type == "BOOKMARK":
            self._bookmark(_decoded(_mark, line).object.metadata)
            return
        elif event.type == "ERROR":
            raise from_status(_decoded(_error, line).object, f"WATCH {self._resource.name}")
        if not self._listing:  # events of a list come in order of names: no point to resume from
            self._version = event.object.metadata.resource_version or self._version

    def _exists(self, found: T | UndecodableObject) -> None:
        if isinstance(found, UndecodableObject):
            UNDECODABLE_OBJECTS.labels(self._resource.name).inc()
            log.warning(
                "object of an unexpected shape",
                resource=self._resource.name,
                key=found.metadata.key,
                why=found.why,
            )
            self._sink.misread(found)
        else:
            self._sink.put(found)

    def _bookmark(self, meta: _Mark) -> None:
        if self._listing and (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true":
            self._finish(meta.resource_version)
        elif not self._listing:
            if version_number(meta.resource_version) < version_number(self._version or ""):
                raise Rewound(f"{self._resource.name}: from {self._version} to {meta.resource_version}")
            self._version = meta.resource_version

    def _begin(self) -> None:
        self._listing = True
        self._sink.begin(rewound=self._rewound)

    def _finish(self, version: str) -> None:
        self._listing, self._rewound, self._version = False, False, version
        self._sink.finish(version)


def _decoded(decoder: msgspec.json.Decoder[WatchEvent[Any]], line: bytes) -> WatchEvent[Any]:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"watch line {line[:80]!r}: {error}") from error


def lacks_streaming_lists(error: ApiError) -> bool:
    """Does this refusal mean that the server has no streaming lists, rather than that it is unwell."""
    if isinstance(error, BadRequest | Invalid):
        return True
    return error.code == 500 and "storage" in str(error)


def reconnect_delay(failures: int, rng: random.Random) -> float:
    """Seconds before the next stream: a blink after a good one, growing while nothing works."""
    return backoff_seconds(failures - 1, rng=rng, floor=0.25, ceiling=10.0) if failures else rng.uniform(0.0, 0.05)
