# SPDX-License-Identifier: Apache-2.0
"""The change feed: what became of what, told to whoever listens, with nothing lost.

A `Feed` keeps at most one change per thing: if a job changes twice before its reader looks, the reader sees
one change from the first `before` to the last `after`. So a slow reader costs memory for the number of
things, never for the number of events, and an absence is never dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from enum import Enum
from typing import Any, NamedTuple


class ObjectKind(Enum):
    """What changed."""

    JOB = "job"
    NODE = "node"
    PARTITION = "partition"
    RESERVATION = "reservation"
    #: The mirror itself: it sees everything for the first time, loses or regains sight, doubts or believes again.
    SIGHT = "sight"


class Change(NamedTuple):
    """One thing before and after; None is absence, as a confirmed fact."""

    kind: ObjectKind
    key: str
    before: Any
    after: Any


Listener = Callable[[Change], None]


def moves(change: Change) -> bool:
    """Whether something happens, so that more may follow: not when an old job is purged, nor when only more became
    known of one.
    """
    if change.kind is ObjectKind.JOB:
        before, after = change.before, change.after
        return after is not None and (before is None or before.state != after.state)
    return change.kind is ObjectKind.NODE


def merged(earlier: Change, later: Change) -> Change | None:
    """Two changes of one thing as one; None if the second undid the first."""
    if earlier.before == later.after:
        return None
    return earlier._replace(after=later.after)


class Feed:
    """Changes for one reader, in the order in which the things first changed."""

    def __init__(self, kinds: Iterable[ObjectKind] = ()) -> None:
        self._kinds = frozenset(kinds) or frozenset(ObjectKind)
        self._waiting: dict[tuple[ObjectKind, str], Change] = {}
        self._news = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, change: Change) -> None:
        """Add a change, folded into one that still waits."""
        if change.kind not in self._kinds:
            return
        place = change.kind, change.key
        earlier = self._waiting.get(place)
        now = change if earlier is None else merged(earlier, change)
        if now is None:
            del self._waiting[place]
        else:
            self._waiting[place] = now
            self._news.set()

    async def next(self) -> Change:
        """The oldest change, as soon as there is one."""
        while not self._waiting:
            self._news.clear()
            await self._news.wait()
        return self._waiting.pop(next(iter(self._waiting)))

    def __aiter__(self) -> AsyncIterator[Change]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[Change]:
        while True:
            yield await self.next()
