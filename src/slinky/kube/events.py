# SPDX-License-Identifier: Apache-2.0
"""Kubernetes events: recorded at once, written in the background, limited per object.

A repeated event increments the count of the first one. If one object has too many different messages under one reason,
they are combined into one event. The number of new events of one object is limited by a token bucket. Recording never
waits and never fails: an event that cannot be written is counted and dropped.
"""

import random
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from slinky.kube.client import KubeClient
from slinky.kube.errors import ApiError, NotFound, ServerError, TooManyRequests, Unreachable
from slinky.kube.metrics import EVENTS_SENT
from slinky.kube.timestamps import format_timestamp
from slinky.kube.types import Key, Reference
from slinky.kube.views import EVENTS
from slinky.observe import Clock, Log

log = Log("slinky.kube.events")

COMBINED = "(combined from similar events): "


@dataclass(frozen=True)
class EventLimits:
    """Limits on the events of one object.

    Within `window` seconds, `distinct_messages` of one reason are separate events; further ones are combined. An object
    may record `burst` new events at once, and one more every `refill` seconds. The recorder remembers the last
    `remembered` events, so that repetitions increment their counts.
    """

    distinct_messages: int = 10
    window: float = 600.0
    burst: int = 25
    refill: float = 300.0
    remembered: int = 4096


class _EventIdentity(NamedTuple):
    item: Reference
    type: str
    reason: str
    message: str


@dataclass
class _Record:
    name: str
    first: datetime
    last: datetime
    message: str
    count: int = 0
    written: bool = False


@dataclass
class _RecentMessages:
    """The recent messages of one object under one reason."""

    since: float
    messages: set[str] = field(default_factory=set)


class _Bounded(OrderedDict[Any, Any]):
    """A mapping that drops its oldest entry when it has more than `limit`."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self.limit:
            self.popitem(last=False)


class EventRecorder:
    """Records the events of one component."""

    def __init__(
        self,
        client: KubeClient,
        component: str,
        *,
        instance: str = "",
        interval: float = 1.0,
        limits: EventLimits | None = None,
    ) -> None:
        self._client = client
        self._clock: Clock = client.clock
        self._rng: random.Random = client.rng
        self._component = component
        self._instance = instance or component
        self._interval = interval
        self._limits = limits or EventLimits()
        self._records: OrderedDict[_EventIdentity, _Record] = _Bounded(self._limits.remembered)
        self._recent: OrderedDict[tuple[Reference, str, str], _RecentMessages] = _Bounded(self._limits.remembered)
        self._tokens: OrderedDict[Reference, tuple[float, float]] = _Bounded(self._limits.remembered)
        self._unwritten: dict[_EventIdentity, _Record] = {}

    def record(self, item: Reference, reason: str, message: str, *, warning: bool = False) -> None:
        """Record an event on `item`; `reason` is one word in CamelCase, `message` a sentence."""
        # With the resource version, every repetition would be a different event.
        item = Reference(item.api_version, item.kind, item.name, item.namespace, item.uid)
        event_type = "Warning" if warning else "Normal"
        identity, text = self._combine(_EventIdentity(item, event_type, reason, message[:1024]))
        record, now = self._records.get(identity), self._clock.now()
        if record is None:
            if not self._take_token(item):
                EVENTS_SENT.labels("muted").inc()
                return
            name = f"{item.name[:200]}.{self._rng.getrandbits(64):016x}"
            record = self._records[identity] = _Record(name, now, now, text)
        record.count, record.last, record.message = record.count + 1, now, text
        self._unwritten[identity] = record

    async def run(self) -> None:
        """Write recorded events until cancelled."""
        while True:
            await self._clock.sleep(self._interval)
            await self.flush()

    async def flush(self) -> None:
        """Write the recorded events; if the server is unavailable, they stay for the next call."""
        batch, self._unwritten = self._unwritten, {}
        for identity, record in batch.items():
            try:
                await self._write(identity, record)
                EVENTS_SENT.labels("written").inc()
            except (Unreachable, ServerError, TooManyRequests):
                if len(self._unwritten) < self._limits.remembered:
                    self._unwritten.setdefault(identity, record)
            except ApiError as error:  # the namespace is gone, or the permission is missing: drop the event
                EVENTS_SENT.labels("refused").inc()
                log.info(
                    "the API server refused an event", name=identity.item.name, reason=identity.reason, error=error
                )

    async def _write(self, identity: _EventIdentity, record: _Record) -> None:
        key = Key(identity.item.namespace or "default", record.name)
        if record.written:
            update = {"count": record.count, "lastTimestamp": format_timestamp(record.last), "message": record.message}
            try:
                await self._client.patch(EVENTS, key, update)
                return
            except NotFound:  # the server deletes events after an hour
                pass
        await self._client.create(EVENTS, self._manifest(key, identity, record))
        record.written = True

    def _manifest(self, key: Key, identity: _EventIdentity, record: _Record) -> dict[str, Any]:
        item = identity.item
        return EVENTS.manifest(
            key,
            involvedObject={
                "apiVersion": item.api_version,
                "kind": item.kind,
                "name": item.name,
                "namespace": item.namespace,
                "uid": item.uid,
            },
            type=identity.type,
            reason=identity.reason,
            message=record.message,
            count=record.count,
            firstTimestamp=format_timestamp(record.first),
            lastTimestamp=format_timestamp(record.last),
            source={"component": self._component},
            reportingComponent=self._component,
            reportingInstance=self._instance,
        )

    def _combine(self, identity: _EventIdentity) -> tuple[_EventIdentity, str]:
        topic, now = (identity.item, identity.type, identity.reason), self._clock.monotonic()
        recent = self._recent.get(topic)
        if recent is None or now - recent.since > self._limits.window:
            recent = self._recent[topic] = _RecentMessages(now)
        if identity.message in recent.messages or len(recent.messages) < self._limits.distinct_messages:
            recent.messages.add(identity.message)
            return identity, identity.message
        return identity._replace(message=COMBINED), COMBINED + identity.message

    def _take_token(self, item: Reference) -> bool:
        now = self._clock.monotonic()
        tokens, updated = self._tokens.get(item, (float(self._limits.burst), now))
        tokens = min(float(self._limits.burst), tokens + (now - updated) / self._limits.refill)
        self._tokens[item] = (tokens - 1 if tokens >= 1 else tokens, now)
        return tokens >= 1
