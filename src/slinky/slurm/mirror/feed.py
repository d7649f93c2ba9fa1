# SPDX-License-Identifier: Apache-2.0
"""The change feed: tells listeners about changes of the mirror, and delivers them to readers without losing any.

A `Feed` keeps at most one change per object: if a job changes twice before the reader takes the first change, the
reader gets one change from the first `before` to the last `after`. The memory of a slow reader is therefore bounded
by the number of objects, not of events, and the removal of an object is never dropped.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from enum import Enum
from typing import Any, NamedTuple

from slinky.observe import Log

log = Log("slinky.slurm.mirror")


class ObjectKind(Enum):
    """The kind of object that changed."""

    JOB = "job"
    NODE = "node"
    PARTITION = "partition"
    RESERVATION = "reservation"
    #: The mirror itself: first sync completed, connection lost or restored, slurmctld restarted, a loss unconfirmed or
    #: confirmed.
    MIRROR = "mirror"


class Change(NamedTuple):
    """One object before and after; None means that Slurm has confirmed its absence."""

    kind: ObjectKind
    key: str
    before: Any
    after: Any


Listener = Callable[[Change], None]


def is_activity(change: Change) -> bool:
    """Whether more changes are likely to follow: not after the purge of an old job, nor after more detail was read."""
    if change.kind is ObjectKind.JOB:
        before, after = change.before, change.after
        return after is not None and (before is None or before.state != after.state)
    return change.kind is ObjectKind.NODE


def merge_changes(earlier: Change, later: Change) -> Change | None:
    """Two changes of one object as one; None if the second reverted the first."""
    if earlier.before == later.after:
        return None
    return earlier._replace(after=later.after)


class Feed:
    """Changes for one reader, in the order in which the objects first changed."""

    def __init__(self, kinds: Iterable[ObjectKind] = ()) -> None:
        self._kinds = frozenset(kinds) or frozenset(ObjectKind)
        self._queue: dict[tuple[ObjectKind, str], Change] = {}
        self._added = asyncio.Event()

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, change: Change) -> None:
        """Queue a change, merged into the queued change of the same object if there is one."""
        if change.kind not in self._kinds:
            return
        key = change.kind, change.key
        earlier = self._queue.get(key)
        merged = change if earlier is None else merge_changes(earlier, change)
        if merged is None:
            del self._queue[key]
        else:
            self._queue[key] = merged
            self._added.set()

    async def next(self) -> Change:
        """The oldest change, as soon as there is one."""
        while not self._queue:
            self._added.clear()
            await self._added.wait()
        return self._queue.pop(next(iter(self._queue)))

    def __aiter__(self) -> AsyncIterator[Change]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[Change]:
        while True:
            yield await self.next()


class ChangeSource:
    """Tells listeners and readers about changes."""

    def __init__(self) -> None:
        self._listeners: dict[object, Listener] = {}

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener`, which must not block, for every change from now on; returns a function that stops this."""
        token = object()
        self._listeners[token] = listener

        def stop() -> None:
            self._listeners.pop(token, None)

        return stop

    @contextlib.contextmanager
    def subscribe(self, *kinds: ObjectKind) -> Iterator[Feed]:
        """A feed of changes from now on, of these kinds or of all."""
        feed = Feed(kinds)
        stop = self.listen(feed.put)
        try:
            yield feed
        finally:
            stop()

    async def changes(self, *kinds: ObjectKind) -> AsyncIterator[Change]:
        """Changes as they happen, of these kinds or of all."""
        with self.subscribe(*kinds) as feed:
            async for change in feed:
                yield change

    def _publish(self, change: Change) -> None:
        for listener in tuple(self._listeners.values()):
            try:
                listener(change)
            except Exception as error:
                log.error("a listener failed", error=error, kind=change.kind.value, key=change.key)
