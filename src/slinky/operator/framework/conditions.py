# SPDX-License-Identifier: Apache-2.0
"""The conditions that every kind reports. Pure.

`Health` is what a kind knows of itself; `conditions` turns it into conditions that move only when their meaning does.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from slinky.api.fields.conditions import (
    CONFIG_SYNCED,
    DEGRADED,
    MEANINGS,
    PROGRESSING,
    READY,
    RESERVATION_CREATED,
    SLURM_REACHABLE,
)
from slinky.kube.conditions import Conditions, find_condition, with_condition
from slinky.kube.types import Condition


class Fact(NamedTuple):
    """A truth, or None where it cannot be known, with a reason in one word and a sentence."""

    value: bool | None
    reason: str
    message: str = ""

    def sentence(self, kind: str) -> str:
        """What is said of it: the given words, or what the condition means anyway."""
        meaning = MEANINGS[kind]
        usual = {True: meaning.true, False: meaning.false, None: meaning.unknown}[self.value]
        return (self.message or usual)[:1024]


GOOD = Fact(False, "AsExpected")


class ObjectHealth(NamedTuple):
    """How an object does. The first five are said by every kind, a reservation only by those that may have one."""

    ready: Fact
    progressing: Fact = Fact(False, "Settled")
    degraded: Fact = GOOD
    slurm: Fact = Fact(None, "NotAsked")
    config: Fact = Fact(None, "NotWritten")
    reserved: Fact | None = None

    def facts(self) -> Iterable[tuple[str, Fact | None]]:
        """Condition types and what is to be said of them."""
        return (
            (READY, self.ready),
            (PROGRESSING, self.progressing),
            (DEGRADED, self.degraded),
            (SLURM_REACHABLE, self.slurm),
            (CONFIG_SYNCED, self.config),
            (RESERVATION_CREATED, self.reserved),
        )


def conditions(before: Iterable[Condition], health: ObjectHealth, *, generation: int, now: datetime) -> Conditions:
    """`before` with these facts in it."""
    result = tuple(before)
    for kind, fact in health.facts():
        if fact is not None:
            result = with_condition(
                result, kind, fact.value, fact.reason, fact.sentence(kind), generation=generation, now=now
            )
    return result


def held(before: Iterable[Condition], kind: str) -> Fact:
    """What was last said of this condition."""
    found = find_condition(before, kind)
    if found is None:
        return Fact(None, "NotAsked")
    return Fact({"True": True, "False": False}.get(found.status), found.reason, found.message)


def blocked(reason: str, hint: str, slurm: Fact) -> ObjectHealth:
    """A person must act; until then everything stays as it is, whatever configuration that is."""
    return ObjectHealth(
        Fact(False, reason, hint),
        Fact(False, "Blocked", "waiting for a person, see Degraded"),
        Fact(True, reason, hint),
        slurm,
        Fact(False, "Blocked", "what is wanted is not carried out, see Degraded"),
    )


def of_workload(wanted: int, ready: int, updated: int, observed: bool) -> ObjectHealth:
    """How a Deployment or StatefulSet does."""
    if observed and ready >= wanted and updated >= wanted:
        return ObjectHealth(Fact(True, "Available", f"{ready} of {wanted} ready"))
    words = f"{ready} of {wanted} ready, {updated} up to date"
    return ObjectHealth(Fact(ready >= wanted > 0, "Rolling" if ready >= wanted else "NotReady", words),
                  Fact(True, "Rolling", words))  # fmt: skip
