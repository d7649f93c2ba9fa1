# SPDX-License-Identifier: Apache-2.0
"""From rules to an answer.

A rule is a pure function from a change to sentences about it; a kind has a table of rules that refuse and one of rules
that warn. An update that leaves the spec alone is never refused, nor is an object on its way out, and what was already
wrong before the update is a warning: a stricter version of this program must not lock anybody out of their objects.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from slinky.api import Accounting, Controller, LoginSet, NodeSet, RestApi, Token
from slinky.kube.admission import AdmissionResponse, deny

Ours = Controller | Accounting | RestApi | LoginSet | NodeSet | Token
T = TypeVar("T", bound=Ours)

#: The API server cuts longer lists of warnings anyway.
MOST_WARNINGS = 16


@dataclass(frozen=True)
class RuleContext:
    """What rules may look at besides the object: read beforehand, so that rules stay pure."""

    config_maps: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Keys of the ConfigMaps that the object refers to; one that does not exist is absent."""
    claims: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Access modes of the claims that it refers to; one that does not exist is absent."""
    controllers: Sequence[Controller] = ()
    node_sets: Sequence[NodeSet] = ()
    dependents: Sequence[str] = ()
    """Objects that refer to this one, as `kind/name`."""


@dataclass(frozen=True)
class AdmissionChange(Generic[T]):
    """An object as it would be, as it was (None if it is new), and the world around it."""

    new: T
    old: T | None = None
    world: RuleContext = RuleContext()


Rule = Callable[[AdmissionChange[T]], Iterable[str]]


@dataclass(frozen=True)
class Rules(Generic[T]):
    """Everything that is checked about one kind."""

    view: type[T]
    refuse: tuple[Rule[T], ...] = ()
    warn: tuple[Rule[T], ...] = ()


def judge(rules: Rules[T], change: AdmissionChange[T]) -> AdmissionResponse:
    """May it in."""
    if change.new.metadata.deleting or (change.old and change.old.spec == change.new.spec):
        return AdmissionResponse()
    wrong = _said(rules.refuse, change)
    known = _said(rules.refuse, replace(change, new=change.old, old=None)) if change.old else []
    warnings = [*_said(rules.warn, change), *(text for text in wrong if text in known)][:MOST_WARNINGS]
    refusals = [text for text in wrong if text not in known]
    if refusals:
        return deny("; ".join(refusals), warnings=warnings)
    return AdmissionResponse(warnings=tuple(warnings))


def _said(rules: Iterable[Rule[T]], change: AdmissionChange[T]) -> list[str]:
    return [text for rule in rules for text in rule(change)]
