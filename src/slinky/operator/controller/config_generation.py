# SPDX-License-Identifier: Apache-2.0
"""Generations of a configuration, and which of them slurmctld is to run. Pure.

Every different set of files is a generation with a number. It is tried before it is used, remembered as loaded once the
slurmctld in charge says so, and taken back if slurmctld does not come up with it. A verdict belongs to the files: the
same ones are never judged twice, and an edit makes others.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

#: How many generations are kept to be looked at, besides those in use.
KEPT = 5


class GenerationState(StrEnum):
    """What is known of a generation."""

    UNTRIED = "untried"  # its trial is not over
    GOOD = "good"  # a throwaway slurmctld started with it
    UNKNOWN = "unknown"  # it could not be tried, which is no reason to refuse it
    BAD = "bad"  # a throwaway slurmctld ended with it
    LOADED = "loaded"  # the slurmctld in charge has run it
    FAILED = "failed"  # slurmctld did not come up with it


USABLE = frozenset({GenerationState.GOOD, GenerationState.UNKNOWN, GenerationState.LOADED})


class Generation(NamedTuple):
    """One set of files."""

    number: int
    digest: str
    data: Mapping[str, str]
    verdict: GenerationState = GenerationState.UNTRIED
    words: str = ""
    made: float = 0.0

    @property
    def mark(self) -> str:
        """What the files say of themselves, and slurmctld of the files it runs."""
        return mark(self.number, self.digest)


class Past(NamedTuple):
    """What is remembered: the generations, which one is used since when, and which one last ran."""

    generations: tuple[Generation, ...] = ()
    used: str = ""
    good: str = ""
    since: float = 0.0

    def find(self, wanted: str) -> Generation | None:
        """The generation with this mark."""
        return next((found for found in self.generations if found.mark == wanted), None)

    def same(self, digest: str) -> Generation | None:
        """The generation of these very files."""
        return next((found for found in self.generations if found.digest == digest), None)

    @property
    def next(self) -> int:
        """The number of a new one."""
        return max((found.number for found in self.generations), default=0) + 1


class Observation(NamedTuple):
    """What was observed now."""

    tried: GenerationState | None = None
    tried_words: str = ""
    loaded: str | None = None  # the mark that slurmctld reports
    crashed: str | None = None  # how slurmctld ended, if it keeps ending with the generation in use
    now: float = 0.0
    patience: float = 0.0  # how long a trial may take


class Decision(NamedTuple):
    """What is wanted, what slurmctld is to run (None: nothing yet), which one last ran, and records that changed."""

    wanted: Generation
    used: Generation | None
    good: str
    changed: tuple[Generation, ...] = ()

    @property
    def trying(self) -> bool:
        """A trial has to be going on."""
        return self.wanted.verdict is GenerationState.UNTRIED


def mark(number: int, digest: str) -> str:
    """Number and digest as one word."""
    return f"{number}-{digest}"


def decide(wanted: Generation, past: Past, seen: Observation) -> Decision:
    """Judge what can be judged, and choose."""
    used, good = past.find(past.used), past.good
    if used is not None and seen.loaded == used.mark:
        used, good = used._replace(verdict=GenerationState.LOADED, words=""), used.mark
    elif used is not None and seen.crashed is not None and _to_blame(used, past):
        used = used._replace(verdict=GenerationState.FAILED, words=seen.crashed)
    if used is not None and used.digest == wanted.digest:
        wanted = used
    wanted = _judged(wanted, seen)
    chosen = wanted if wanted.verdict in USABLE else _fallback(used, past)
    changed = {found.mark: found for found in (used, wanted) if found is not None and past.find(found.mark) != found}
    return Decision(wanted, chosen, good, tuple(changed.values()))


def superfluous(past: Past, decision: Decision) -> list[Generation]:
    """Generations that need not be kept."""
    needed = {decision.wanted.mark, decision.used.mark if decision.used else "", decision.good, past.used}
    others = sorted((found for found in past.generations if found.mark not in needed), key=lambda found: -found.number)
    return others[KEPT:]


def _to_blame(used: Generation, past: Past) -> bool:
    """A generation that has run before is not the cause, and without another one nothing is won by blaming it."""
    return (
        used.verdict is not GenerationState.LOADED
        and past.good not in {"", used.mark}
        and past.find(past.good) is not None
    )


def _judged(wanted: Generation, seen: Observation) -> Generation:
    if wanted.verdict is not GenerationState.UNTRIED:
        return wanted
    if seen.tried is not None:
        return wanted._replace(verdict=seen.tried, words=seen.tried_words)
    if seen.now - wanted.made >= seen.patience:
        return wanted._replace(verdict=GenerationState.UNKNOWN, words="the trial did not end in time")
    return wanted


def _fallback(used: Generation | None, past: Past) -> Generation | None:
    return used if used is not None and used.verdict in USABLE else past.find(past.good)
