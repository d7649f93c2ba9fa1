# SPDX-License-Identifier: Apache-2.0
"""Follows a collection of the API server and keeps a `WatchSink` equal to it.

One stream delivers the whole collection and then its changes (a streaming list). For a server without streaming lists
the watch reads the list in pages and then watches. When a stream ends, the next one resumes from the last resource
version. Only a lost history (410, or versions that decrease) starts a new list, and only a complete list removes
objects. A watch never gives up; the caller cancels it.
"""

import asyncio
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

#: A stream that delivered an event or lasted this many seconds was healthy: the next one starts without back-off.
HEALTHY_SECONDS = 0.5
#: Events that are handled before other tasks get a turn.
EVENTS_PER_SLICE = 20
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class WatchSink(Protocol[T_contra]):
    """Receives the objects of a watch."""

    def begin_list(self, *, rewound: bool) -> None:
        """A list starts; `rewound` if its resource versions do not compare with earlier ones."""

    def put(self, item: T_contra) -> None:
        """The object exists in this version."""

    def remove(self, meta: ObjectMeta) -> None:
        """The object is gone."""

    def put_undecodable(self, item: UndecodableObject) -> None:
        """The object exists but could not be decoded."""

    def finish_list(self, version: str) -> None:
        """The list is complete as of `version`: an object that it does not contain and that is not newer is gone."""


class _BookmarkMeta(View, frozen=True):
    resource_version: str
    annotations: dict[str, str] | None = None


class _Bookmark(View, frozen=True):
    """The object of a bookmark event. Its other fields are null, which the views do not allow."""

    metadata: _BookmarkMeta


_bookmark_decoder = msgspec.json.Decoder(WatchEvent[_Bookmark])
_error_decoder = msgspec.json.Decoder(WatchEvent[ApiStatus])


class Watch(Generic[T]):
    """Keeps `sink` equal to the selected objects of `resource`."""

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
        self._selectors = {"labelSelector": labels, "fieldSelector": fields}
        # The server sends a bookmark about once a minute, so two silent minutes mean a dead connection.
        self._idle = idle
        self._streaming = streaming
        self._version: str | None = None
        self._listing = False
        self._rewound = False
        self._events = WATCH_EVENTS.labels(resource.name)

    async def run(self) -> None:
        """Follow the collection until cancelled."""
        failures = 0
        while True:
            previous_version, started, retry_after = self._version, self._client.clock.monotonic(), 0.0
            try:
                await self._run_stream()
                why = "ended"
            except Expired:
                self._version, why = None, "expired"
            except Rewound:
                self._version, self._rewound, why = None, True, "rewound"
            except KubeError as error:
                why, retry_after = type(error).__name__, getattr(error, "retry_after", None) or 0.0
                log.info("watch interrupted", resource=self._resource.name, version=self._version, why=error)
            WATCH_ENDS.labels(self._resource.name, why).inc()
            lasted = self._client.clock.monotonic() - started
            healthy = self._version not in (None, previous_version) or lasted > HEALTHY_SECONDS
            failures = 0 if healthy else failures + 1
            await self._client.clock.sleep(max(retry_after, reconnect_delay(failures, self._client.rng)))

    async def _run_stream(self) -> None:
        if self._version is not None:
            WATCH_STARTS.labels(self._resource.name, "resume").inc()
            await self._read({"resourceVersion": self._version})
        elif not self._streaming or not await self._stream_list():
            WATCH_STARTS.labels(self._resource.name, "list").inc()
            await self._list()

    async def _stream_list(self) -> bool:
        """Read a streaming list and the watch that follows it; False if the server has no streaming lists."""
        WATCH_STARTS.labels(self._resource.name, "stream").inc()
        self._begin()
        try:
            await self._read({"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"})
        except ApiError as error:
            if not self._listing or not lacks_streaming_lists(error):
                raise
            log.info("the server has no streaming lists; reading pages", resource=self._resource.name, why=error)
            return False
        return True

    async def _list(self) -> None:
        """Read the list in pages; the next stream resumes from its version."""
        self._begin()
        version = ""
        pages = self._client.pages(
            self._resource,
            namespace=self._namespace,
            labels=self._selectors["labelSelector"],
            fields=self._selectors["fieldSelector"],
        )
        async for page in pages:
            version = page.metadata.resource_version
            for item in page.items or ():
                self._put(item)
        self._finish(version)

    async def _read(self, query: Mapping[str, Any]) -> None:
        query = {
            **query,
            **self._selectors,
            "allowWatchBookmarks": "true",
            # The server ends each stream after this time. It is random so that the streams do not all end at once.
            "timeoutSeconds": self._client.rng.randint(300, 600),
        }
        splitter = LineSplitter()
        async with self._client.open_watch(self._resource, query, namespace=self._namespace, idle=self._idle) as stream:
            async for chunk in stream.chunks():
                lines = splitter.feed(chunk)
                self._events.inc(len(lines))
                for count, line in enumerate(lines, 1):
                    self._handle(line)
                    if count % EVENTS_PER_SLICE == 0:
                        await asyncio.sleep(0)  # one chunk may have a hundred events

    def _handle(self, line: bytes) -> None:
        event = self._resource.decode_event(line)
        if event.type in ("ADDED", "MODIFIED"):
            self._put(event.object)
        elif event.type == "DELETED":
            self._sink.remove(event.object.metadata)
        elif event.type == "BOOKMARK":
            self._bookmark(_decode(_bookmark_decoder, line).object.metadata)
            return
        elif event.type == "ERROR":
            raise from_status(_decode(_error_decoder, line).object, f"WATCH {self._resource.name}")
        if not self._listing:  # the events of a streaming list are ordered by name, so a watch cannot resume from them
            self._version = event.object.metadata.resource_version or self._version

    def _put(self, item: T | UndecodableObject) -> None:
        if isinstance(item, UndecodableObject):
            UNDECODABLE_OBJECTS.labels(self._resource.name).inc()
            log.warning(
                "object cannot be decoded; its last decoded version stays in use",
                resource=self._resource.name,
                key=item.metadata.key,
                why=item.why,
            )
            self._sink.put_undecodable(item)
        else:
            self._sink.put(item)

    def _bookmark(self, meta: _BookmarkMeta) -> None:
        if self._listing and (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true":
            self._finish(meta.resource_version)
        elif not self._listing:
            if version_number(meta.resource_version) < version_number(self._version or ""):
                raise Rewound(
                    f"{self._resource.name}: resource version went from {self._version} to {meta.resource_version}"
                )
            self._version = meta.resource_version

    def _begin(self) -> None:
        self._listing = True
        self._sink.begin_list(rewound=self._rewound)

    def _finish(self, version: str) -> None:
        self._listing, self._rewound, self._version = False, False, version
        self._sink.finish_list(version)


def _decode(decoder: msgspec.json.Decoder[WatchEvent[Any]], line: bytes) -> WatchEvent[Any]:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"watch event {line[:80]!r} cannot be decoded: {error}") from error


def lacks_streaming_lists(error: ApiError) -> bool:
    """Whether an error means that the server has no streaming lists; other errors are failures of the server."""
    if isinstance(error, BadRequest | Invalid):
        return True
    return error.code == 500 and "storage" in str(error)


def reconnect_delay(failures: int, rng: random.Random) -> float:
    """Seconds until the next stream: almost none after a healthy one, then back-off with each failure."""
    return backoff_seconds(failures - 1, rng=rng, floor=0.25, ceiling=10.0) if failures else rng.uniform(0.0, 0.05)
