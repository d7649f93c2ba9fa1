# SPDX-License-Identifier: Apache-2.0
"""A parser for the subset of CEL that device classes and claims use to select devices. Pure.

An expression is compiled to a function from a device to a boolean. Supported are literals, lists, comparison, `in`,
logical operators, `?:`, attributes and capacities, `has`, `cel.bind`, `exists`, `all`, optional fields, and the usual
functions on strings, quantities and versions. Everything else is rejected when the expression is compiled: arithmetic,
regular expressions (a pattern could block the bridge for ever), and all other functions.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from slinky.bridge.devices import cel_values
from slinky.bridge.devices.cel_values import EvaluationError, OptionalValue, UnsupportedExpression

Scope = Mapping[str, Any]
Term = Callable[[Scope], Any]

#: Limit on nesting, which protects the recursive parser.
NESTING_MAX = 50
_TOKEN = re.compile(
    r"""\s*(?:(?P<string>[rR]?"(?:[^"\\\n]|\\.)*"|[rR]?'(?:[^'\\\n]|\\.)*')|(?P<float>\d+\.\d+)|(?P<integer>\d+)u?"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<symbol>&&|\|\||==|!=|<=|>=|\.\?|[!<>?:.,()\[\]-]))""",
    re.ASCII,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", **{char: char for char in "\\\"'`?"}}


@lru_cache(maxsize=1024)
def compile_expression(expression: str) -> Callable[[Scope], bool]:
    """The expression as a function of `device`. Raises `UnsupportedExpression`."""
    parser = _Parser(expression)
    term = parser.conditional()
    if parser.token:
        raise UnsupportedExpression(f"{parser.token!r} is not supported in {expression!r}")

    def evaluate(scope: Scope) -> bool:
        value = term(scope)
        if not isinstance(value, bool):
            raise EvaluationError(f"{expression!r} is not a boolean")
        return value

    return evaluate


class _Parser:
    """A recursive descent parser of one expression."""

    def __init__(self, text: str) -> None:
        self.tokens = _tokenize(text)
        self.text, self.position, self.depth = text, 0, 0

    @property
    def kind(self) -> str:
        return self.tokens[self.position][0]

    @property
    def token(self) -> str:
        return self.tokens[self.position][1]

    def take(self, *tokens: str) -> str:
        """Consume the next token if it is one of these, and return it; otherwise return an empty string."""
        if self.kind in {"symbol", "name"} and self.token in tokens:
            self.position += 1
            return self.tokens[self.position - 1][1]
        return ""

    def expect(self, token: str) -> None:
        if not self.take(token):
            raise UnsupportedExpression(f"{token!r} is missing before {self.token or 'the end'!r} in {self.text!r}")

    def name(self) -> str:
        if self.kind != "name":
            raise UnsupportedExpression(f"a name is missing before {self.token or 'the end'!r} in {self.text!r}")
        self.position += 1
        return self.tokens[self.position - 1][1]

    # --- grammar, from the lowest precedence to the highest

    def conditional(self) -> Term:
        self.depth += 1
        if self.depth > NESTING_MAX:
            raise UnsupportedExpression("the expression is nested too deeply")
        term = self.disjunction()
        if self.take("?"):
            yes = self.disjunction()
            self.expect(":")
            term = _conditional(term, yes, self.conditional())
        self.depth -= 1
        return term

    def disjunction(self) -> Term:
        term = self.conjunction()
        while self.take("||"):
            term = _logic(term, self.conjunction(), decisive=True)
        return term

    def conjunction(self) -> Term:
        term = self.relation()
        while self.take("&&"):
            term = _logic(term, self.relation(), decisive=False)
        return term

    def relation(self) -> Term:
        term = self.unary()
        while operator := self.take("==", "!=", "<", "<=", ">", ">=", "in"):
            term = _call(cel_values.RELATIONS[operator], term, self.unary())
        return term

    def unary(self) -> Term:
        self.depth += 1
        if self.depth > NESTING_MAX:
            raise UnsupportedExpression("the expression is nested too deeply")
        if self.take("!"):
            term = _call(cel_values.negate_bool, self.unary())
        elif self.take("-"):
            term = _call(cel_values.negate_number, self.unary())
        else:
            term = self.member()
        self.depth -= 1
        return term

    def member(self) -> Term:
        term = self.primary()
        while operator := self.take(".", ".?", "["):
            if operator == "[":
                term = _call(cel_values.get_item, term, self.conditional())
                self.expect("]")
            elif operator == ".?":
                term = _optional(term, self.name())
            else:
                name = self.name()
                term = self.method(term, name) if self.take("(") else _call(cel_values.get_item, term, _constant(name))
        return term

    def primary(self) -> Term:
        kind, lexeme = self.kind, self.token
        if self.take("("):
            term = self.conditional()
            self.expect(")")
            return term
        if self.take("["):
            return _list(self.arguments("]"))
        self.position += 1
        if kind in _LITERALS:
            return _constant(_LITERALS[kind](lexeme))
        if kind != "name":
            raise UnsupportedExpression(f"{lexeme or 'the end'!r} is not supported in {self.text!r}")
        if lexeme in cel_values.CONSTANTS:
            return _constant(cel_values.CONSTANTS[lexeme])
        if lexeme == "cel" and self.take("."):
            return self.bind()
        return self.function(lexeme) if self.take("(") else lambda scope: _variable(scope, lexeme)

    def arguments(self, end: str) -> list[Term]:
        terms: list[Term] = []
        while not self.take(end):
            terms.append(self.conditional())
            if not self.take(","):
                self.expect(end)
                break
        return terms

    def function(self, name: str) -> Term:
        if name == "has":
            (term,) = self.exact_arguments(1, name)
            return lambda scope: _is_present(term, scope)
        if name not in cel_values.FUNCTIONS:
            raise UnsupportedExpression(f"the function {name} is not supported")
        return _call(cel_values.FUNCTIONS[name], *self.exact_arguments(1, name))

    def method(self, term: Term, name: str) -> Term:
        if name in cel_values.MACROS:
            variable = self.name()
            self.expect(",")
            return _macro(term, variable, *self.exact_arguments(1, name), combine=cel_values.MACROS[name])
        if name not in cel_values.METHODS:
            raise UnsupportedExpression(f"the function {name} is not supported")
        count, method = cel_values.METHODS[name]
        return _call(method, term, *self.exact_arguments(count, name))

    def exact_arguments(self, count: int, name: str) -> list[Term]:
        terms = self.arguments(")")
        if len(terms) != count:
            raise UnsupportedExpression(f"{name} with {len(terms)} arguments is not supported, only with {count}")
        return terms

    def bind(self) -> Term:
        if self.name() != "bind":
            raise UnsupportedExpression("cel.bind is the only supported function of cel")
        self.expect("(")
        name = self.name()
        self.expect(",")
        value, body = self.exact_arguments(2, "cel.bind")
        return lambda scope: body({**scope, name: value(scope)})


def _tokenize(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise UnsupportedExpression(f"{text[position:].strip()[:20]!r} is not supported")
        tokens.append((match.lastgroup, match[match.lastgroup]))
        position = match.end()
    return [*tokens, ("end", "")]


def _unquote(text: str) -> str:
    if text[0] in "rR":
        return text[2:-1]

    def replace(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise UnsupportedExpression(f"the escape sequence in {text} is not supported")
        return _ESCAPES[match[1]]

    return re.sub(r"\\(.)", replace, text[1:-1])


_LITERALS: dict[str, Callable[[str], Any]] = {"string": _unquote, "integer": int, "float": float}


# --- terms: functions of the variables in scope


def _constant(value: Any) -> Term:
    return lambda _: value


def _variable(scope: Scope, name: str) -> Any:
    if name not in scope:
        raise EvaluationError(f"{name} is not defined")
    return scope[name]


def _list(terms: list[Term]) -> Term:
    return lambda scope: [term(scope) for term in terms]


def _call(function: Callable[..., Any], *terms: Term) -> Term:
    return lambda scope: function(*(term(scope) for term in terms))


def _conditional(test: Term, yes: Term, no: Term) -> Term:
    return lambda scope: yes(scope) if cel_values.require_bool(test(scope)) else no(scope)


def _logic(left: Term, right: Term, *, decisive: bool) -> Term:
    """`||` and `&&`: a side with the decisive value determines the result even if the other side fails."""

    def evaluate(scope: Scope) -> bool:
        try:
            if cel_values.require_bool(left(scope)) is decisive:
                return decisive
        except EvaluationError:
            if cel_values.require_bool(right(scope)) is decisive:
                return decisive
            raise
        return cel_values.require_bool(right(scope))

    return evaluate


def _macro(terms: Term, name: str, body: Term, *, combine: Callable[[Iterable[bool]], bool]) -> Term:
    def evaluate(scope: Scope) -> bool:
        values = terms(scope)
        if not isinstance(values, list):
            raise EvaluationError("only lists have elements")
        return combine(cel_values.require_bool(body({**scope, name: value})) for value in values)

    return evaluate


def _optional(term: Term, name: str) -> Term:
    def evaluate(scope: Scope) -> OptionalValue:
        container = term(scope)
        if isinstance(container, OptionalValue):
            container = container.value if container.present else {}
        is_present = isinstance(container, dict) and name in container
        return OptionalValue(container[name], True) if is_present else OptionalValue()

    return evaluate


def _is_present(term: Term, scope: Scope) -> bool:
    try:
        term(scope)
    except EvaluationError:
        return False
    return True
