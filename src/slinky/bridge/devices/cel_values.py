# SPDX-License-Identifier: Apache-2.0
"""Values, operators and functions of the supported subset of CEL. Pure; `cel` parses the expressions."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from slinky.kube import Quantity


class UnsupportedExpression(ValueError):  # noqa: N818 -- a finding that is reported to the user
    """The expression is not in the supported subset of CEL; the message names the part."""


class EvaluationError(Exception):
    """The device does not have an attribute of the expression, or a value has the wrong type."""


@dataclass(frozen=True, slots=True)
class OptionalValue:
    """An optional value."""

    value: Any = None
    present: bool = False


@dataclass(frozen=True, slots=True, order=True)
class SemanticVersion:
    """A semantic version, without build metadata."""

    major: int
    minor: int
    patch: int
    is_release: bool
    prerelease: str = ""

    @classmethod
    def parse(cls, text: str) -> "SemanticVersion":
        """Raises `EvaluationError` if the text is not a semantic version."""
        match = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+.*)?", text, re.ASCII)
        if match is None:
            raise EvaluationError(f"{text!r} is not a version")
        return cls(int(match[1]), int(match[2]), int(match[3]), not match[4], match[4] or "")


class Fields(dict[str, Any]):
    """A map in which missing domains are empty maps, as in Kubernetes."""

    def __missing__(self, key: str) -> "dict[str, Any]":
        return {}


def require_bool(value: Any) -> bool:
    """The value. Raises `EvaluationError` if it is not a boolean."""
    if not isinstance(value, bool):
        raise EvaluationError(f"{value!r} is not a boolean")
    return value


def negate_bool(value: Any) -> bool:
    """The opposite of a boolean. Raises `EvaluationError`."""
    return not require_bool(value)


def negate_number(value: Any) -> Any:
    """A number with the opposite sign. Raises `EvaluationError`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise EvaluationError(f"{value!r} is not a number")
    return -value


def get_item(container: Any, key: Any) -> Any:
    """The element of a map or list. Raises `EvaluationError`."""
    if isinstance(container, Fields) or (isinstance(container, dict) and key in container):
        return container[key]
    if isinstance(container, list) and isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(container):
        return container[key]
    raise EvaluationError(f"{key} does not exist")


def _equal(left: Any, right: Any) -> bool:
    """Values of different types are never equal, except integers and floats."""
    are_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (left, right))
    return (are_numbers or type(left) is type(right)) and left == right


def _compare_order(left: Any, right: Any, test: Callable[[Any, Any], bool]) -> bool:
    comparable = type(left) is type(right) or all(type(value) in (int, float) for value in (left, right))
    if not comparable or not isinstance(left, int | float | str | SemanticVersion) or isinstance(left, bool):
        raise EvaluationError(f"{left!r} and {right!r} cannot be compared")
    return test(left, right)


def _contains(value: Any, container: Any) -> bool:
    if isinstance(container, dict):
        return value in container
    if isinstance(container, list):
        return any(_equal(value, other) for other in container)
    raise EvaluationError("only lists and maps have elements")


def _require_string(value: Any) -> str:
    if not isinstance(value, str):
        raise EvaluationError(f"{value!r} is not a string")
    return value


def _compare(left: Any, right: Any) -> int:
    if type(left) is not type(right) or isinstance(left, str | bool):
        raise EvaluationError(f"{left!r} and {right!r} cannot be compared")
    return int(left > right) - int(left < right)


def _or_value(value: Any, other: Any) -> Any:
    if not isinstance(value, OptionalValue):
        raise EvaluationError("orValue requires an optional value")
    return value.value if value.present else other


def _size(value: Any) -> int:
    if not isinstance(value, str | list | dict):
        raise EvaluationError(f"{value!r} has no size")
    return len(value)


def _quantity(value: Any) -> Any:
    try:
        return Quantity.parse(_require_string(value))
    except ValueError as error:
        raise EvaluationError(str(error)) from None


CONSTANTS = {"true": True, "false": False, "null": None}
RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": lambda left, right: _compare_order(left, right, lambda a, b: a < b),
    "<=": lambda left, right: _compare_order(left, right, lambda a, b: a <= b),
    ">": lambda left, right: _compare_order(left, right, lambda a, b: a > b),
    ">=": lambda left, right: _compare_order(left, right, lambda a, b: a >= b),
    "in": _contains,
}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "quantity": _quantity,
    "semver": lambda value: SemanticVersion.parse(_require_string(value)),
    "size": _size,
}
MACROS: dict[str, Callable[[Iterable[bool]], bool]] = {"exists": any, "all": all}
METHODS: dict[str, tuple[int, Callable[..., Any]]] = {
    "startsWith": (1, lambda text, part: _require_string(text).startswith(_require_string(part))),
    "endsWith": (1, lambda text, part: _require_string(text).endswith(_require_string(part))),
    "contains": (1, lambda text, part: _require_string(part) in _require_string(text)),
    "lowerAscii": (0, lambda text: _require_string(text).lower()),
    "upperAscii": (0, lambda text: _require_string(text).upper()),
    "size": (0, _size),
    "compareTo": (1, _compare),
    "isGreaterThan": (1, lambda left, right: _compare(left, right) > 0),
    "isLessThan": (1, lambda left, right: _compare(left, right) < 0),
    "orValue": (1, _or_value),
    "hasValue": (0, lambda value: isinstance(value, OptionalValue) and value.present),
}
