# SPDX-License-Identifier: Apache-2.0
"""Evaluates the rules of a kind and builds the admission response.

A rule is a pure function from a change to messages about it. Each kind has one list of rules that refuse a change and
one of rules that warn about it. Three exceptions keep existing objects usable when a new version has stricter rules:
an update that does not change the spec is never refused, an object that is being deleted is never refused, and a
problem that the object had before the update is only a warning.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from slinky.api import Accounting, Controller, LoginSet, NodeSet, RestApi, Token
from slinky.kube.admission import AdmissionResponse, deny

CustomResource = Controller | Accounting | RestApi | LoginSet | NodeSet | Token
T = TypeVar("T", bound=CustomResource)

#: The API server truncates longer lists of warnings.
MOST_WARNINGS = 16


@dataclass(frozen=True)
class RuleContext:
    """Other objects that the rules need; they are read beforehand, so that rules stay pure."""

    config_maps: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Keys of the ConfigMaps that the object refers to, by name; missing ConfigMaps are absent."""
    claims: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Access modes of the claims that the object refers to, by name; missing claims are absent."""
    controllers: Sequence[Controller] = ()
    node_sets: Sequence[NodeSet] = ()
    replicas_managers: frozenset[str] = frozenset()
    """Who owns `spec.replicas` of the object after the change, besides the operator."""
    dependents: Sequence[str] = ()
    """Objects that refer to this one, as `kind/name`."""


@dataclass(frozen=True)
class AdmissionChange(Generic[T]):
    """The new object, the old object (None if it is being created), and the context of the rules."""

    new: T
    old: T | None = None
    context: RuleContext = RuleContext()


Rule = Callable[[AdmissionChange[T]], Iterable[str]]


@dataclass(frozen=True)
class Rules(Generic[T]):
    """All rules of one kind."""

    view: type[T]
    refuse: tuple[Rule[T], ...] = ()
    warn: tuple[Rule[T], ...] = ()


def evaluate(rules: Rules[T], change: AdmissionChange[T]) -> AdmissionResponse:
    """Evaluate the rules of a kind and build the admission response."""
    if change.new.metadata.deleting or (change.old and change.old.spec == change.new.spec):
        return AdmissionResponse()
    problems = _messages(rules.refuse, change)
    old_problems = _messages(rules.refuse, replace(change, new=change.old, old=None)) if change.old else []
    warnings = [*_messages(rules.warn, change), *(text for text in problems if text in old_problems)][:MOST_WARNINGS]
    refusals = [text for text in problems if text not in old_problems]
    if refusals:
        return deny("; ".join(refusals), warnings=warnings)
    return AdmissionResponse(warnings=tuple(warnings))


def _messages(rules: Iterable[Rule[T]], change: AdmissionChange[T]) -> list[str]:
    return [text for rule in rules for text in rule(change)]
