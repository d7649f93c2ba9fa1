# SPDX-License-Identifier: Apache-2.0
"""Events for people: recorded at once, written in the background, never in a flood.

A repeated event raises the count of the first one; too many different messages of one kind are combined; one
object gets a burst and then a trickle. Recording never waits and never fails: what cannot be written is
counted and dropped.
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
    """How much one object may say.

    `alike` messages of one reason within `window` seconds stay apart, the rest are combined; an object may
    record `burst` new events at once and one more each `refill` seconds; `kept` events are remembered to be
    counted up.
    """

    alike: int = 10
    window: float = 600.0
    burst: int = 25
    refill: float = 300.0
    kept: int = 4096


class _Same(NamedTuple):
    about: Reference
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
class _Talk:
    """What one object said lately under one reason."""

    since: float
    messages: set[str] = field(default_factory=set)


class _Bounded(OrderedDict[Any, Any]):
    """Forgets its oldest entry beyond `limit`."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self.limit:
            self.popitem(last=False)


class EventRecorder:
    """Records events in the name of one component."""

    def __init__(
        self,
        client: KubeClient,
        component: str,
        *,
        instance: str = "",
        every: float = 1.0,
        limits: EventLimits | None = None,
    ) -> None:
        self._client = client
        self._clock: Clock = client.clock
        self._rng: random.Random = client.rng
        self._component = component
        self._instance = instance or component
        self._every = every
        self._limits = limits or EventLimits()
        self._records: OrderedDict[_Same, _Record] = _Bounded(self._limits.kept)
        self._talks: OrderedDict[tuple[Reference, str, str], _Talk] = _Bounded(self._limits.kept)
        self._tokens: OrderedDict[Reference, tuple[float, float]] = _Bounded(self._limits.kept)
        self._dirty: dict[_Same, _Record] = {}

    def record(self, about: Reference, reason: str, message: str, *, warning: bool = False) -> None:
        """Something happened to `about`; `reason` is one CamelCase word, `message` a sentence."""
        # The version of the object would make every repetition a different event.
        about = Reference(about.api_version, about.kind, about.name, about.namespace, about.uid)
        kind = "Warning" if warning else "Normal"
        same, text = self._combine(_Same(about, kind, reason, message[:1024]))
        record, now = self._records.get(same), self._clock.now()
        if record is None:
            if not self._may_speak(about):
                EVENTS_SENT.labels("muted").inc()
                return
            name = f"{about.name[:200]}.{self._rng.getrandbits(64):016x}"
            record = self._records[same] = _Record(name, now, now, text)
        record.count, record.last, record.message = record.count + 1, now, text
        self._dirty[same] = record

    async def run(self) -> None:
        """Write what was recorded, until cancelled."""
        while True:
            await self._clock.sleep(self._every)
            await self.flush()

    async def flush(self) -> None:
        """Write what was recorded; what the server cannot take now waits for the next time."""
        batch, self._dirty = self._dirty, {}
        for same, record in batch.items():
            try:
                await self._write(same, record)
                EVENTS_SENT.labels("written").inc()
            except (Unreachable, ServerError, TooManyRequests):
                if len(self._dirty) < self._limits.kept:
                    self._dirty.setdefault(same, record)
            except ApiError as error:  # the namespace is gone, or we may not: say so once and go on
                EVENTS_SENT.labels("refused").inc()
                log.info("event refused", about=same.about.name, reason=same.reason, error=error)

    async def _write(self, same: _Same, record: _Record) -> None:
        key = Key(same.about.namespace or "default", record.name)
        if record.written:
            again = {"count": record.count, "lastTimestamp": format_timestamp(record.last), "message": record.message}
            try:
                await self._client.patch(EVENTS, key, again)
                return
            except NotFound:  # events expire after an hour
                pass
        await self._client.create(EVENTS, self._manifest(key, same, record))
        record.written = True

    def _manifest(self, key: Key, same: _Same, record: _Record) -> dict[str, Any]:
        about = same.about
        return EVENTS.manifest(
            key,
            involvedObject={
                "apiVersion": about.api_version,
                "kind": about.kind,
                "name": about.name,
                "namespace": about.namespace,
                "uid": about.uid,
            },
            type=same.type,
            reason=same.reason,
            message=record.message,
            count=record.count,
            firstTimestamp=format_timestamp(record.first),
            lastTimestamp=format_timestamp(record.last),
            source={"component": self._component},
            reportingComponent=self._component,
            reportingInstance=self._instance,
        )

    def _combine(self, same: _Same) -> tuple[_Same, str]:
        topic, now = (same.about, same.type, same.reason), self._clock.monotonic()
        talk = self._talks.get(topic)
        if talk is None or now - talk.since > self._limits.window:
            talk = self._talks[topic] = _Talk(now)
        if same.message in talk.messages or len(talk.messages) < self._limits.alike:
            talk.messages.add(same.message)
            return same, same.message
        return same._replace(message=COMBINED), COMBINED + same.message

    def _may_speak(self, about: Reference) -> bool:
        now = self._clock.monotonic()
        tokens, at = self._tokens.get(about, (float(self._limits.burst), now))
        tokens = min(float(self._limits.burst), tokens + (now - at) / self._limits.refill)
        self._tokens[about] = (tokens - 1 if tokens >= 1 else tokens, now)
        return tokens >= 1
