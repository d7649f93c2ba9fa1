# SPDX-License-Identifier: Apache-2.0
"""A parser for the subset of CEL that device classes and claims use to select devices. Pure.

Supported are literals, lists, comparison, `in`, logical operators, `?:`, attributes and capacities, `has`, `cel.bind`,
`exists`, `all`, optional fields, and the usual functions on strings, quantities and versions. Everything else is
rejected when the expression is compiled: arithmetic, regular expressions (a pattern could block the bridge for ever),
and all other functions. An evaluation that costs more than Kubernetes allows is ended.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from slinky.bounds import CEL_LENGTH_MAX, CEL_NESTING_MAX
from slinky.bridge.devices import cel_terms, cel_values
from slinky.bridge.devices.cel_terms import Constant, Step, Term
from slinky.bridge.devices.cel_values import CostExceeded, Evaluation, EvaluationError, UnsupportedExpression

_TOKEN = re.compile(
    r"""\s*(?:(?P<string>[rR]?"(?:[^"\\\n]|\\.)*"|[rR]?'(?:[^'\\\n]|\\.)*')|(?P<float>\d+\.\d+)|(?P<integer>\d+)u?"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<symbol>&&|\|\||==|!=|<=|>=|\.\?|[!<>?:.,()\[\]-])|(?P<end>\Z))""",
    re.ASCII,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", **{char: char for char in "\\\"'`?"}}
_INTEGER_DIGITS_MAX = len(str(cel_values.INTEGER_MAX))


@dataclass(frozen=True, slots=True)
class CompiledExpression:
    """An expression that selects devices."""

    text: str
    term: Term

    def evaluate(self, run: Evaluation) -> bool:
        """The result. Raises `EvaluationError`, or `CostExceeded`."""
        try:
            value = self.term(run)
        except RecursionError:
            raise CostExceeded("it is nested too deeply") from None
        if not isinstance(value, bool):
            raise EvaluationError("the expression is not a boolean")
        return value


@lru_cache(maxsize=1024)
def compile_expression(expression: str) -> CompiledExpression:
    """The expression as a function of `device`. Raises `UnsupportedExpression`."""
    if len(expression) > CEL_LENGTH_MAX:
        raise UnsupportedExpression(f"an expression of {len(expression)} characters is too long")
    parser = _Parser(expression)
    term = parser.conditional()
    if parser.token:
        raise UnsupportedExpression(f"{parser.token!r} is not supported in {_quote(expression)}")
    return CompiledExpression(expression, term)


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
            raise UnsupportedExpression(f"{token!r} is missing before {self._here()} in {_quote(self.text)}")

    def name(self) -> str:
        if self.kind != "name":
            raise UnsupportedExpression(f"a name is missing before {self._here()} in {_quote(self.text)}")
        self.position += 1
        return self.tokens[self.position - 1][1]

    def _here(self) -> str:
        return _quote(self.token or "the end")

    def _nest(self) -> None:
        self.depth += 1
        if self.depth > CEL_NESTING_MAX:
            raise UnsupportedExpression("the expression is nested too deeply")

    # --- grammar, from the lowest precedence to the highest

    def conditional(self) -> Term:
        self._nest()
        cases: list[tuple[Term, Term]] = []
        term = self.disjunction()
        while self.take("?"):
            yes = self.disjunction()
            self.expect(":")
            cases.append((term, yes))
            term = self.disjunction()
        self.depth -= 1
        return cel_terms.conditional(cases, term)

    def disjunction(self) -> Term:
        terms = [self.conjunction()]
        while self.take("||"):
            terms.append(self.conjunction())
        return cel_terms.logic(terms, decisive=True)

    def conjunction(self) -> Term:
        terms = [self.relation()]
        while self.take("&&"):
            terms.append(self.relation())
        return cel_terms.logic(terms, decisive=False)

    def relation(self) -> Term:
        first = self.unary()
        rest = []
        while operator := self.take(*cel_values.RELATIONS):
            rest.append((cel_values.RELATIONS[operator], self.unary()))
        return cel_terms.relation(first, rest)

    def unary(self) -> Term:
        """A value with signs before it. Two equal signs cancel each other without a check of the value."""
        if not (operator := self.take(*cel_values.PREFIXES)):
            return self.member()
        is_applied = True
        while self.take(operator):
            is_applied = not is_applied
        operand = self.member()
        if not is_applied:
            return operand
        if operator == "-" and isinstance(operand, Constant) and type(operand.value) in (int, float):
            return Constant(-operand.value)
        return cel_terms.call(cel_values.PREFIXES[operator], operand)

    def member(self) -> Term:
        first = self.primary()
        return cel_terms.chain(first, self.steps())

    def steps(self) -> list[Step]:
        """The fields, elements and methods that follow a value."""
        steps: list[Step] = []
        while operator := self.take(".", ".?", "["):
            if operator == "[":
                steps.append(cel_terms.item(self.conditional()))
                self.expect("]")
            elif operator == ".?":
                steps.append(cel_terms.optional_field(self.name()))
            else:
                name = self.name()
                steps.append(self.method(name) if self.take("(") else cel_terms.field(name))
        return steps

    def primary(self) -> Term:
        kind, lexeme = self.kind, self.token
        if self.take("("):
            term = self.conditional()
            self.expect(")")
            return term
        if self.take("["):
            return cel_terms.list_of(self.arguments("]"))
        self.position += 1
        if kind in _LITERALS:
            return Constant(_LITERALS[kind](lexeme))
        if kind != "name":
            raise UnsupportedExpression(f"{lexeme or 'the end'!r} is not supported in {_quote(self.text)}")
        if lexeme in cel_values.CONSTANTS:
            return Constant(cel_values.CONSTANTS[lexeme])
        if lexeme == "cel" and self.take("."):
            return self.bind()
        return self.function(lexeme) if self.take("(") else cel_terms.variable(lexeme)

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
            return self.has()
        if name not in cel_values.FUNCTIONS:
            raise UnsupportedExpression(f"the function {name} is not supported")
        return cel_terms.call(cel_values.FUNCTIONS[name], *self.exact_arguments(1, name))

    def has(self) -> Term:
        """`has(value.field)`: only the last field may be missing."""
        self._nest()
        first = self.primary()
        steps = self.steps()
        self.depth -= 1
        before, name = self.tokens[self.position - 2 : self.position]
        self.expect(")")
        if not steps or before[1] != "." or name[0] != "name":
            raise UnsupportedExpression("has is supported only with a field, as in has(device.attributes.x)")
        return cel_terms.chain(first, [*steps[:-1], cel_terms.has_field(name[1])])

    def method(self, name: str) -> Step:
        if name in cel_terms.MACROS:
            variable = self.name()
            self.expect(",")
            return cel_terms.macro(variable, *self.exact_arguments(1, name), decisive=cel_terms.MACROS[name])
        if name == "orValue":
            return cel_terms.or_value(*self.exact_arguments(1, name))
        if name not in cel_values.METHODS:
            raise UnsupportedExpression(f"the function {name} is not supported")
        count, function = cel_values.METHODS[name]
        return cel_terms.method(function, self.exact_arguments(count, name))

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
        return cel_terms.bind(name, value, body)


def _tokenize(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position = 0
    while not tokens or tokens[-1][0] != "end":
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise UnsupportedExpression(f"{text[position:].strip()[:20]!r} is not supported")
        tokens.append((match.lastgroup, match[match.lastgroup]))
        position = match.end()
    return tokens


def _quote(text: str) -> str:
    return repr(text if len(text) <= 200 else f"{text[:200]}...")


def _unquote(text: str) -> str:
    if text[0] in "rR":
        return text[2:-1]

    def replace(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise UnsupportedExpression(f"the escape sequence in {_quote(text)} is not supported")
        return _ESCAPES[match[1]]

    return re.sub(r"\\(.)", replace, text[1:-1])


def _integer(text: str) -> int:
    digits = text.lstrip("0")
    if len(digits) > _INTEGER_DIGITS_MAX or int(digits or "0") > cel_values.INTEGER_MAX:
        raise UnsupportedExpression(f"{_quote(text)} is too large")
    return int(digits or "0")


_LITERALS: dict[str, Callable[[str], Any]] = {"string": _unquote, "integer": _integer, "float": float}
