# SPDX-License-Identifier: Apache-2.0
"""The objects of one kind as last read from Slurm, with the age and the reliability of that information.

The mirror fills an `ObservedTable` and every other component reads it. A key that is missing from the table is ABSENT
only if the last list is fresh and no loss is unconfirmed; otherwise it is UNKNOWN. `decide_loss` decides whether
objects that a new list lacks are gone.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, ValuesView
from enum import Enum
from typing import Generic, NamedTuple, TypeVar, overload

T = TypeVar("T")
D = TypeVar("D")

#: Information older than this must not lead to anything that cannot be undone.
FRESH_SECONDS = 15.0
#: The simultaneous loss of up to this many objects is accepted at once ...
ACCEPTED_COUNT = 5
#: ... and so is the loss of up to this share of all objects.
ACCEPTED_SHARE = 0.25
#: A greater loss must be observed this many times, over at least this many seconds.
CONFIRMATIONS = 3
CONFIRMATION_SECONDS = 60.0


class Presence(Enum):
    """Whether an object exists."""

    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class LossDecision(Enum):
    """Whether the objects that a new list lacks are gone."""

    ACCEPT = "accept"
    CONFIRM = "confirm"  # a great loss: accepted once it has been observed for long enough
    REJECT = "reject"  # an empty list: accepted only if the removals were expected or an administrator accepts it


def decide_loss(known: int, missing: int, expected: int) -> LossDecision:
    """Whether `missing` of `known` objects are gone, when the removal of `expected` of them was announced."""
    unexpected = missing - expected
    if unexpected <= 0:
        return LossDecision.ACCEPT
    if missing >= known:
        return LossDecision.REJECT
    return LossDecision.ACCEPT if unexpected <= max(ACCEPTED_COUNT, known * ACCEPTED_SHARE) else LossDecision.CONFIRM


class UnconfirmedLoss(NamedTuple):
    """Objects that recent lists lack and that are not considered gone yet."""

    since: float
    observations: int
    missing: frozenset[str]
    #: Time does not confirm this loss.
    permanent: bool

    def is_confirmed(self, now: float) -> bool:
        """Whether the loss was observed often enough and for long enough."""
        return not self.permanent and self.observations >= CONFIRMATIONS and now - self.since >= CONFIRMATION_SECONDS

    def __str__(self) -> str:
        return f"{len(self.missing)} vanished at once"


class ObservedTable(Mapping[str, T], Generic[T]):
    """Objects by key, as last read."""

    def __init__(self, clock: Callable[[], float], *, confirm_losses: bool = True, complete: bool = True) -> None:
        """`confirm_losses` delays great losses; a table that is not `complete` never reports a key as absent."""
        self._clock = clock
        self._confirm_losses = confirm_losses
        self._complete = complete
        self._items: dict[str, T] = {}
        self._confirmed_at: float | None = None
        self._expected_removals: set[str] = set()
        self.unconfirmed_loss: UnconfirmedLoss | None = None

    def __getitem__(self, key: str) -> T:
        return self._items[key]

    # The methods of Mapping itself go through __getitem__ for each object: too slow for a pass over every job.

    def __contains__(self, key: object) -> bool:
        return key in self._items

    @overload
    def get(self, key: str, default: None = None, /) -> T | None: ...
    @overload
    def get(self, key: str, default: T | D, /) -> T | D: ...
    def get(self, key: str, default: T | D | None = None, /) -> T | D | None:
        """The object with this key."""
        return self._items.get(key, default)

    def values(self) -> ValuesView[T]:
        """All objects."""
        return self._items.values()

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def synced(self) -> bool:
        """Whether the table has been filled at least once."""
        return self._confirmed_at is not None

    @property
    def age(self) -> float:
        """Seconds since slurmctld last confirmed the table; infinite before the first time."""
        return float("inf") if self._confirmed_at is None else max(0.0, self._clock() - self._confirmed_at)

    def is_fresh(self, within: float = FRESH_SECONDS) -> bool:
        """Whether slurmctld confirmed the table within this many seconds and no loss is unconfirmed."""
        return self.age <= within and self.unconfirmed_loss is None

    def presence(self, key: str, within: float = FRESH_SECONDS) -> Presence:
        """Whether an object existed `age` seconds ago; UNKNOWN if the table is not fresh.

        An object that was created since then is not in the table yet: refresh the mirror after your own writes.
        """
        if not self.is_fresh(within):
            return Presence.UNKNOWN
        if key in self._items:
            return Presence.PRESENT
        return Presence.ABSENT if self._complete else Presence.UNKNOWN

    def expect_removal(self, keys: Collection[str]) -> None:
        """Announce that these objects are being removed, so that their absence is accepted at once."""
        self._expected_removals.update(keys)

    def accept_loss(self) -> None:
        """Accept the unconfirmed loss, by the decision of an administrator."""
        if self.unconfirmed_loss is not None:
            self._expected_removals.update(self.unconfirmed_loss.missing)

    def confirm(self) -> None:
        """Record that slurmctld has just reported no change or sent the whole list."""
        if self.unconfirmed_loss is None:
            self._confirmed_at = self._clock()

    def put(self, key: str, item: T) -> T | None:
        """Set one object; returns the previous one."""
        before = self._items.get(key)
        self._items[key] = item
        return before

    def drop(self, key: str) -> T | None:
        """Remove one object; returns it."""
        self._expected_removals.discard(key)
        return self._items.pop(key, None)

    def replace(
        self, items: Mapping[str, T], *, is_same: Callable[[T, T], bool] | None = None
    ) -> list[tuple[str, T | None, T | None]]:
        """Take over a full list; returns (key, before, after) of every object that changed, according to `is_same`.

        While a loss is not accepted, the missing objects stay in the table.
        """
        missing = frozenset(self._items.keys() - items.keys())
        if not self._decide(missing):
            missing = frozenset()
        changes: list[tuple[str, T | None, T | None]] = []
        for key, item in items.items():
            before = self._items.get(key)
            if before == item:
                continue
            self._items[key] = item
            if before is None or is_same is None or not is_same(before, item):
                changes.append((key, before, item))
        changes.extend((key, self.drop(key), None) for key in sorted(missing))
        self.confirm()
        return changes

    def _decide(self, missing: frozenset[str]) -> bool:
        if not self._confirm_losses:
            return True
        decision = decide_loss(len(self._items), len(missing), len(missing & self._expected_removals))
        return self.accepts_loss(
            missing, suspect=decision is not LossDecision.ACCEPT, permanent=decision is LossDecision.REJECT
        )

    def accepts_loss(self, missing: frozenset[str], *, suspect: bool, permanent: bool = False) -> bool:
        """Whether these objects are gone; a suspect loss is accepted once it was observed for long enough."""
        if not suspect:
            self.unconfirmed_loss = None
            return True
        now, before = self._clock(), self.unconfirmed_loss
        since, observations = (before.since, before.observations) if before else (now, 0)
        loss = UnconfirmedLoss(since, observations + 1, missing, permanent)
        confirmed = loss.is_confirmed(now)
        self.unconfirmed_loss = None if confirmed else loss
        return confirmed
