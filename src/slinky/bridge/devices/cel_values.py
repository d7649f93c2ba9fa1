# SPDX-License-Identifier: Apache-2.0
"""What the words of an expression over devices mean: values, comparison, functions. Pure; `cel` reads them."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from slinky.kube import Quantity


class UnsupportedExpression(ValueError):  # noqa: N818 -- a finding, told to the user
    """The expression cannot be decided here; the message says which part."""


class EvaluationError(Exception):
    """A device lacks what the expression looks at, or it is of another type."""


@dataclass(frozen=True)
class OptionalValue:
    """An optional value."""

    value: Any = None
    there: bool = False


@dataclass(frozen=True, order=True)
class SemanticVersion:
    """A semantic version, without its build."""

    major: int
    minor: int
    patch: int
    final: bool
    label: str = ""

    @classmethod
    def parse(cls, text: str) -> "SemanticVersion":
        """Raises `Absent` if it is none."""
        found = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+.*)?", text, re.ASCII)
        if found is None:
            raise EvaluationError(f"{text!r} is no version")
        return cls(int(found[1]), int(found[2]), int(found[3]), not found[4], found[4] or "")


class Fields(dict[str, Any]):
    """A map in which a domain that nobody mentions is empty, as in Kubernetes."""

    def __missing__(self, key: str) -> "dict[str, Any]":
        return {}


def require_bool(value: Any) -> bool:
    """The value, if it is a truth. Raises `Absent`."""
    if not isinstance(value, bool):
        raise EvaluationError(f"{value!r} is neither true nor false")
    return value


def negation(value: Any) -> bool:
    """The opposite of a truth. Raises `Absent`."""
    return not require_bool(value)


def minus(value: Any) -> Any:
    """A number with the other sign. Raises `Absent`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise EvaluationError(f"{value!r} is no number")
    return -value


def item(held: Any, key: Any) -> Any:
    """What a map or a list has under a key. Raises `Absent`."""
    if isinstance(held, Fields) or (isinstance(held, dict) and key in held):
        return held[key]
    if isinstance(held, list) and isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(held):
        return held[key]
    raise EvaluationError(f"there is no {key}")


def _same(left: Any, right: Any) -> bool:
    """Values of different types are never equal; numbers are numbers."""
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (left, right))
    return (numbers or type(left) is type(right)) and left == right


def _ordered(left: Any, right: Any, test: Callable[[Any, Any], bool]) -> bool:
    alike = type(left) is type(right) or all(type(value) in (int, float) for value in (left, right))
    if not alike or not isinstance(left, int | float | str | SemanticVersion) or isinstance(left, bool):
        raise EvaluationError(f"{left!r} and {right!r} cannot be compared")
    return test(left, right)


def _within(value: Any, held: Any) -> bool:
    if isinstance(held, dict):
        return value in held
    if isinstance(held, list):
        return any(_same(value, other) for other in held)
    raise EvaluationError("only lists and maps have elements")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise EvaluationError(f"{value!r} is no text")
    return value


def _compare(left: Any, right: Any) -> int:
    if type(left) is not type(right) or isinstance(left, str | bool):
        raise EvaluationError(f"{left!r} and {right!r} cannot be compared")
    return int(left > right) - int(left < right)


def _or_value(value: Any, other: Any) -> Any:
    if not isinstance(value, OptionalValue):
        raise EvaluationError("only optional values have another")
    return value.value if value.there else other


def _size(value: Any) -> int:
    if not isinstance(value, str | list | dict):
        raise EvaluationError(f"{value!r} has no size")
    return len(value)


def _quantity(value: Any) -> Any:
    try:
        return Quantity.parse(_text(value))
    except ValueError as error:
        raise EvaluationError(str(error)) from None


CONSTANTS = {"true": True, "false": False, "null": None}
RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _same,
    "!=": lambda left, right: not _same(left, right),
    "<": lambda left, right: _ordered(left, right, lambda a, b: a < b),
    "<=": lambda left, right: _ordered(left, right, lambda a, b: a <= b),
    ">": lambda left, right: _ordered(left, right, lambda a, b: a > b),
    ">=": lambda left, right: _ordered(left, right, lambda a, b: a >= b),
    "in": _within,
}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "quantity": _quantity,
    "semver": lambda value: SemanticVersion.parse(_text(value)),
    "size": _size,
}
MACROS: dict[str, Callable[[Iterable[bool]], bool]] = {"exists": any, "all": all}
METHODS: dict[str, tuple[int, Callable[..., Any]]] = {
    "startsWith": (1, lambda text, part: _text(text).startswith(_text(part))),
    "endsWith": (1, lambda text, part: _text(text).endswith(_text(part))),
    "contains": (1, lambda text, part: _text(part) in _text(text)),
    "lowerAscii": (0, lambda text: _text(text).lower()),
    "upperAscii": (0, lambda text: _text(text).upper()),
    "size": (0, _size),
    "compareTo": (1, _compare),
    "isGreaterThan": (1, lambda left, right: _compare(left, right) > 0),
    "isLessThan": (1, lambda left, right: _compare(left, right) < 0),
    "orValue": (1, _or_value),
    "hasValue": (0, lambda value: isinstance(value, OptionalValue) and value.there),
}
