# SPDX-License-Identifier: Apache-2.0
"""Whether a node with certain features satisfies the constraint of a job, such as `gpu&(ib|roce)`. Pure.

Brackets count as parentheses, and the number of nodes after a `*` is ignored: both concern several nodes together,
and this module answers for one node. An expression that cannot be read matches no node.
"""

import re
from collections.abc import Collection
from functools import lru_cache

_TOKENS = re.compile(r"\s*(?:(?P<name>[^\s&|,()\[\]*]+)(?:\*\d+)?|(?P<sign>[&|,()\[\]])|(?P<count>\*\d+))")
_OPENING, _CLOSING, _SIGNS = frozenset("(["), frozenset(")]"), frozenset("&|,()[]")
_EXPRESSIONS_CACHED = 4096
#: Deeper nesting than a person writes counts as unreadable.
MAX_DEPTH = 20

#: A name, or an operator with its operands.
Expression = str | tuple[str, tuple["Expression", ...]]


class FeatureExpressionError(ValueError):
    """A constraint that cannot be read."""


def satisfies(features: Collection[str], text: str) -> bool:
    """Whether these features satisfy the constraint; every node satisfies an empty one."""
    if not text.strip():
        return True
    try:
        return _evaluate(parse_features(text), features)
    except FeatureExpressionError:
        return False


@lru_cache(maxsize=_EXPRESSIONS_CACHED)
def parse_features(text: str) -> Expression:
    """Parse a constraint. Raises `FeatureExpressionError`."""
    tokens = _tokenize(text)
    expression, position = _any_of(tokens, 0, 0)
    if position != len(tokens):
        raise FeatureExpressionError(f"cannot read {text!r} after {' '.join(tokens[:position])!r}")
    return expression


def _tokenize(text: str) -> list[str]:
    tokens, position = [], 0
    while position < len(text.rstrip()):
        match = _TOKENS.match(text, position)
        if match is None:
            raise FeatureExpressionError(f"cannot read {text!r}")
        if match["count"] is None:
            tokens.append(match["name"] or match["sign"])
        position = match.end()
    return tokens


def _any_of(tokens: list[str], position: int, depth: int) -> tuple[Expression, int]:
    operands: list[Expression] = []
    while True:
        operand, position = _all_of(tokens, position, depth)
        operands.append(operand)
        if position >= len(tokens) or tokens[position] != "|":
            return ("|", tuple(operands)) if len(operands) > 1 else operands[0], position
        position += 1


def _all_of(tokens: list[str], position: int, depth: int) -> tuple[Expression, int]:
    operands: list[Expression] = []
    while True:
        operand, position = _term(tokens, position, depth)
        operands.append(operand)
        if position >= len(tokens) or tokens[position] not in {"&", ","}:
            return ("&", tuple(operands)) if len(operands) > 1 else operands[0], position
        position += 1


def _term(tokens: list[str], position: int, depth: int) -> tuple[Expression, int]:
    token = tokens[position] if position < len(tokens) else ""
    if token in _OPENING and depth < MAX_DEPTH:
        inner, position = _any_of(tokens, position + 1, depth + 1)
        if position >= len(tokens) or tokens[position] not in _CLOSING:
            raise FeatureExpressionError("a parenthesis is not closed")
        return inner, position + 1
    if not token or token in _SIGNS:
        raise FeatureExpressionError("a feature is missing")
    return token, position + 1


def _evaluate(expression: Expression, features: Collection[str]) -> bool:
    if isinstance(expression, str):
        return expression in features
    operator, operands = expression
    results = (_evaluate(operand, features) for operand in operands)
    return any(results) if operator == "|" else all(results)
