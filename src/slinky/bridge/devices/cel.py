# SPDX-License-Identifier: Apache-2.0
"""The part of CEL in which device classes and claims choose devices. Pure.

An expression becomes a function from a device to yes or no. Known are literals, lists, comparison, `in`, logic,
`?:`, attributes and capacities, `has`, `cel.bind`, `exists`, `all`, optional fields, the usual functions on text,
quantities and versions. What is not known is refused when the expression is read, never guessed: arithmetic,
regular expressions (a pattern could keep the bridge busy for ever) and every other function.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from slinky.bridge.devices import cel_values
from slinky.bridge.devices.cel_values import EvaluationError, OptionalValue, UnsupportedExpression

Scope = Mapping[str, Any]
Term = Callable[[Scope], Any]

#: Deeper nesting than people write only serves to break the reader.
NESTING_MAX = 50
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>[rR]?"(?:[^"\\\n]|\\.)*"|[rR]?'(?:[^'\\\n]|\\.)*')|(?P<real>\d+\.\d+)|(?P<whole>\d+)u?"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<sign>&&|\|\||==|!=|<=|>=|\.\?|[!<>?:.,()\[\]-]))""",
    re.ASCII,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", **{sign: sign for sign in "\\\"'`?"}}


@lru_cache(maxsize=1024)
def compile_expression(expression: str) -> Callable[[Scope], bool]:
    """The expression as a function of `device`. Raises `Undecidable`."""
    reader = _Reader(expression)
    term = reader.choice()
    if reader.sign:
        raise UnsupportedExpression(f"{reader.sign!r} is not understood in {expression!r}")

    def decide(scope: Scope) -> bool:
        found = term(scope)
        if not isinstance(found, bool):
            raise EvaluationError(f"{expression!r} is neither true nor false")
        return found

    return decide


class _Reader:
    """Reads one expression from left to right."""

    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.text, self.at, self.depth = text, 0, 0

    @property
    def kind(self) -> str:
        return self.tokens[self.at][0]

    @property
    def sign(self) -> str:
        return self.tokens[self.at][1]

    def take(self, *signs: str) -> str:
        """The next sign, if it is one of these."""
        if self.kind in {"sign", "name"} and self.sign in signs:
            self.at += 1
            return self.tokens[self.at - 1][1]
        return ""

    def need(self, sign: str) -> None:
        if not self.take(sign):
            raise UnsupportedExpression(f"{sign!r} is missing before {self.sign or 'the end'!r} in {self.text!r}")

    def name(self) -> str:
        if self.kind != "name":
            raise UnsupportedExpression(f"a name is missing before {self.sign or 'the end'!r} in {self.text!r}")
        self.at += 1
        return self.tokens[self.at - 1][1]

    # --- from the loosest binding to the tightest

    def choice(self) -> Term:
        self.depth += 1
        if self.depth > NESTING_MAX:
            raise UnsupportedExpression("the expression is nested too deeply")
        term = self.either()
        if self.take("?"):
            yes = self.either()
            self.need(":")
            term = _choice(term, yes, self.choice())
        self.depth -= 1
        return term

    def either(self) -> Term:
        term = self.both()
        while self.take("||"):
            term = _logic(term, self.both(), decisive=True)
        return term

    def both(self) -> Term:
        term = self.relation()
        while self.take("&&"):
            term = _logic(term, self.relation(), decisive=False)
        return term

    def relation(self) -> Term:
        term = self.unary()
        while sign := self.take("==", "!=", "<", "<=", ">", ">=", "in"):
            term = _applied(cel_values.RELATIONS[sign], term, self.unary())
        return term

    def unary(self) -> Term:
        self.depth += 1
        if self.depth > NESTING_MAX:
            raise UnsupportedExpression("the expression is nested too deeply")
        if self.take("!"):
            term = _applied(cel_values.negation, self.unary())
        elif self.take("-"):
            term = _applied(cel_values.minus, self.unary())
        else:
            term = self.member()
        self.depth -= 1
        return term

    def member(self) -> Term:
        term = self.primary()
        while sign := self.take(".", ".?", "["):
            if sign == "[":
                term = _applied(cel_values.item, term, self.choice())
                self.need("]")
            elif sign == ".?":
                term = _optional(term, self.name())
            else:
                name = self.name()
                term = self.method(term, name) if self.take("(") else _applied(cel_values.item, term, _constant(name))
        return term

    def primary(self) -> Term:
        kind, sign = self.kind, self.sign
        if self.take("("):
            term = self.choice()
            self.need(")")
            return term
        if self.take("["):
            return _listed(self.arguments("]"))
        self.at += 1
        if kind in _LITERALS:
            return _constant(_LITERALS[kind](sign))
        if kind != "name":
            raise UnsupportedExpression(f"{sign or 'the end'!r} is not understood in {self.text!r}")
        if sign in cel_values.CONSTANTS:
            return _constant(cel_values.CONSTANTS[sign])
        if sign == "cel" and self.take("."):
            return self.bind()
        return self.function(sign) if self.take("(") else lambda scope: _named(scope, sign)

    def arguments(self, end: str) -> list[Term]:
        found: list[Term] = []
        while not self.take(end):
            found.append(self.choice())
            if not self.take(","):
                self.need(end)
                break
        return found

    def function(self, name: str) -> Term:
        if name == "has":
            (term,) = self.given(1, name)
            return lambda scope: _present(term, scope)
        if name not in cel_values.FUNCTIONS:
            raise UnsupportedExpression(f"the function {name} is not known here")
        return _applied(cel_values.FUNCTIONS[name], *self.given(1, name))

    def method(self, term: Term, name: str) -> Term:
        if name in cel_values.MACROS:
            variable = self.name()
            self.need(",")
            return _over(term, variable, *self.given(1, name), decide=cel_values.MACROS[name])
        if name not in cel_values.METHODS:
            raise UnsupportedExpression(f"the function {name} is not known here")
        count, work = cel_values.METHODS[name]
        return _applied(work, term, *self.given(count, name))

    def given(self, count: int, name: str) -> list[Term]:
        found = self.arguments(")")
        if len(found) != count:
            raise UnsupportedExpression(f"{name} has {len(found)} arguments where {count} are known")
        return found

    def bind(self) -> Term:
        if self.name() != "bind":
            raise UnsupportedExpression("of cel only cel.bind is known here")
        self.need("(")
        name = self.name()
        self.need(",")
        value, body = self.given(2, "cel.bind")
        return lambda scope: body({**scope, name: value(scope)})


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise UnsupportedExpression(f"{text[at:].strip()[:20]!r} is not understood")
        found.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return [*found, ("end", "")]


def _unquoted(text: str) -> str:
    if text[0] in "rR":
        return text[2:-1]

    def meant(found: re.Match[str]) -> str:
        if found[1] not in _ESCAPES:
            raise UnsupportedExpression(f"the escape in {text} is not known here")
        return _ESCAPES[found[1]]

    return re.sub(r"\\(.)", meant, text[1:-1])


_LITERALS: dict[str, Callable[[str], Any]] = {"text": _unquoted, "whole": int, "real": float}


# --- terms: functions of what is in scope


def _constant(value: Any) -> Term:
    return lambda _: value


def _named(scope: Scope, name: str) -> Any:
    if name not in scope:
        raise EvaluationError(f"{name} is not defined")
    return scope[name]


def _listed(terms: list[Term]) -> Term:
    return lambda scope: [term(scope) for term in terms]


def _applied(work: Callable[..., Any], *terms: Term) -> Term:
    return lambda scope: work(*(term(scope) for term in terms))


def _choice(test: Term, yes: Term, no: Term) -> Term:
    return lambda scope: yes(scope) if cel_values.require_bool(test(scope)) else no(scope)


def _logic(left: Term, right: Term, *, decisive: bool) -> Term:
    """Or and and: a side that decides does so even where the other one fails."""

    def work(scope: Scope) -> bool:
        try:
            if cel_values.require_bool(left(scope)) is decisive:
                return decisive
        except EvaluationError:
            if cel_values.require_bool(right(scope)) is decisive:
                return decisive
            raise
        return cel_values.require_bool(right(scope))

    return work


def _over(terms: Term, name: str, body: Term, *, decide: Callable[[Iterable[bool]], bool]) -> Term:
    def work(scope: Scope) -> bool:
        found = terms(scope)
        if not isinstance(found, list):
            raise EvaluationError("only lists have elements")
        return decide(cel_values.require_bool(body({**scope, name: value})) for value in found)

    return work


def _optional(term: Term, name: str) -> Term:
    def work(scope: Scope) -> OptionalValue:
        held = term(scope)
        if isinstance(held, OptionalValue):
            held = held.value if held.there else {}
        return OptionalValue(held[name], True) if isinstance(held, dict) and name in held else OptionalValue()

    return work


def _present(term: Term, scope: Scope) -> bool:
    try:
        term(scope)
    except EvaluationError:
        return False
    return True
