# SPDX-License-Identifier: Apache-2.0
"""One kind of thing as last seen, with the age of that knowledge and whether it can be trusted.

A `Table` is filled by the mirror and read by everybody. It separates what was seen from what is known: a
key that is missing is ABSENT only if the view is fresh and beyond doubt, otherwise UNKNOWN. `judge` decides
whether a new list may be believed; it is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

#: Knowledge older than this is no basis for anything that cannot be undone.
FRESH = 15.0
#: A loss of up to this many things at once is believed at once ...
FEW = 5
#: ... and so is one of up to this share of all.
SHARE = 0.25
#: A greater loss must be seen this many times, over this many seconds.
SIGHTINGS = 3
PATIENCE = 60.0


class Presence(Enum):
    """What is known of one thing."""

    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class ListTrust(Enum):
    """Whether a new list is believed."""

    BELIEVE = "believe"
    DOUBT = "doubt"  # a great loss: believe it when it lasts
    REFUSE = "refuse"  # empty where it was full: only a person or an announced removal makes that true


def judge(known: int, missing: int, announced: int) -> ListTrust:
    """Whether `missing` of `known` things may be gone, when the removal of `announced` of them was
    expected.
    """
    unexpected = missing - announced
    if unexpected <= 0:
        return ListTrust.BELIEVE
    if missing >= known:
        return ListTrust.REFUSE
    return ListTrust.BELIEVE if unexpected <= max(FEW, known * SHARE) else ListTrust.DOUBT


class Doubt(NamedTuple):
    """A list that is not believed yet."""

    since: float
    sightings: int
    missing: frozenset[str]
    lasting: bool

    def convinces(self, now: float) -> bool:
        """Whether it has lasted long enough to be true."""
        return not self.lasting and self.sightings >= SIGHTINGS and now - self.since >= PATIENCE

    def __str__(self) -> str:
        return f"{len(self.missing)} vanished at once"


class ObservedTable(Mapping[str, T], Generic[T]):
    """Things by key, as last seen."""

    def __init__(self, clock: Callable[[], float], *, cautious: bool = True, complete: bool = True) -> None:
        """A cautious table doubts great losses; one that is not complete never calls anything absent."""
        self._clock = clock
        self._cautious = cautious
        self._complete = complete
        self._items: dict[str, T] = {}
        self._confirmed: float | None = None
        self._announced: set[str] = set()
        self.doubt: Doubt | None = None

    def __getitem__(self, key: str) -> T:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def synced(self) -> bool:
        """Whether it has been filled at least once."""
        return self._confirmed is not None

    @property
    def age(self) -> float:
        """Seconds since slurmctld last confirmed this view; infinite before the first time."""
        return float("inf") if self._confirmed is None else max(0.0, self._clock() - self._confirmed)

    def fresh(self, within: float = FRESH) -> bool:
        """Whether the view is young enough to act upon, and beyond doubt."""
        return self.age <= within and self.doubt is None

    def presence(self, key: str, within: float = FRESH) -> Presence:
        """What was known of one thing `age` seconds ago; UNKNOWN whenever the view is old or in doubt.

        Something that was made since then is not in it yet: after a change of your own, refresh first.
        """
        if not self.fresh(within):
            return Presence.UNKNOWN
        if key in self._items:
            return Presence.PRESENT
        return Presence.ABSENT if self._complete else Presence.UNKNOWN

    def expect_removal(self, keys: Collection[str]) -> None:
        """Somebody is removing these on purpose; their absence needs no second look."""
        self._announced.update(keys)

    def accept(self) -> None:
        """A person says that the loss in doubt is real."""
        if self.doubt is not None:
            self._announced.update(self.doubt.missing)

    def confirm(self) -> None:
        """Take note that nothing has changed by slurmctld's word, or that it has just sent everything."""
        if self.doubt is None:
            self._confirmed = self._clock()

    def put(self, key: str, item: T) -> T | None:
        """Set one thing; returns what was there."""
        before = self._items.get(key)
        self._items[key] = item
        return before

    def drop(self, key: str) -> T | None:
        """Forget one thing; returns what was there."""
        self._announced.discard(key)
        return self._items.pop(key, None)

    def replace(
        self, seen: Mapping[str, T], *, same: Callable[[T, T], bool] | None = None
    ) -> list[tuple[str, T | None, T | None]]:
        """Take over a full list; returns (key, before, after) for all that differ, and are not the `same`.

        A loss that `judge` does not believe leaves the missing things where they are and the table in doubt.
        """
        missing = frozenset(self._items.keys() - seen.keys())
        if not self._believes(missing):
            missing = frozenset()
        changed: list[tuple[str, T | None, T | None]] = []
        for key, item in seen.items():
            before = self._items.get(key)
            if before == item:
                continue
            self._items[key] = item
            if before is None or same is None or not same(before, item):
                changed.append((key, before, item))
        changed.extend((key, self.drop(key), None) for key in sorted(missing))
        self.confirm()
        return changed

    def _believes(self, missing: frozenset[str]) -> bool:
        if not self._cautious:
            return True
        verdict = judge(len(self._items), len(missing), len(missing & self._announced))
        return self.weigh(missing, doubtful=verdict is not ListTrust.BELIEVE, lasting=verdict is ListTrust.REFUSE)

    def weigh(self, missing: frozenset[str], *, doubtful: bool, lasting: bool = False) -> bool:
        """Whether a loss is believed now, given how doubtful it is and how long it has been seen."""
        if not doubtful:
            self.doubt = None
            return True
        now, before = self._clock(), self.doubt
        since, sightings = (before.since, before.sightings) if before else (now, 0)
        doubt = Doubt(since, sightings + 1, missing, lasting)
        convinced = doubt.convinces(now)
        self.doubt = None if convinced else doubt
        return convinced
