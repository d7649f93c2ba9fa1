# SPDX-License-Identifier: Apache-2.0
"""Values, operators and functions of the supported subset of CEL, and what they cost. Pure; `cel` parses expressions.

The cost is counted as Kubernetes counts it with cel-go: one for each name, field, comparison and call, a tenth for each
character or element that is traversed.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from slinky.bounds import CEL_COST_MAX
from slinky.kube import Quantity

#: The integers of CEL.
INTEGER_MIN, INTEGER_MAX = -(2**63), 2**63 - 1
_UNSIGNED_DIGITS_MAX, _UNSIGNED_MAX = 20, 2**64 - 1
_VERSION: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?", re.ASCII
)
_LOWER, _UPPER = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_TO_LOWER, _TO_UPPER = str.maketrans(_UPPER, _LOWER), str.maketrans(_LOWER, _UPPER)


class UnsupportedExpression(ValueError):  # noqa: N818 -- a finding that is reported to the user
    """The expression is not in the supported subset of CEL; the message names the part."""


class CostExceeded(UnsupportedExpression):
    """The evaluation of the expression costs more than Kubernetes allows."""


class EvaluationError(Exception):
    """The device does not have an attribute of the expression, or a value has the wrong type."""


class Evaluation:
    """One evaluation of an expression: its variables, and the cost so far."""

    __slots__ = ("cost", "limit", "variables")

    def __init__(self, variables: dict[str, Any], limit: int = CEL_COST_MAX) -> None:
        self.variables, self.limit, self.cost = variables, limit, 0

    def charge(self, cost: int = 1) -> None:
        """Add to the cost. Raises `CostExceeded` beyond the limit."""
        self.cost += cost
        if self.cost > self.limit:
            raise CostExceeded(f"its evaluation for one device costs more than {self.limit:,}")

    def charge_traversal(self, size: int) -> None:
        """Add the cost of reading so many characters or elements."""
        self.charge(-(-size // 10))


@dataclass(frozen=True, slots=True)
class OptionalValue:
    """An optional value."""

    value: Any = None
    present: bool = False


@dataclass(frozen=True, slots=True, order=True)
class SemanticVersion:
    """A semantic version, without build metadata. Versions are ordered as semver.org specifies."""

    major: int
    minor: int
    patch: int
    is_release: bool
    prerelease: tuple[tuple[bool, int, str], ...] = ()  # numbers come before words

    @classmethod
    def parse(cls, text: str) -> "SemanticVersion":
        """Raises `EvaluationError` if the text is not a semantic version."""
        match = _VERSION.fullmatch(text)
        if match is None or any(len(number) > _UNSIGNED_DIGITS_MAX for number in match.group(1, 2, 3)):
            raise EvaluationError(f"{text[:100]!r} is not a version")
        major, minor, patch = (int(number) for number in match.group(1, 2, 3))
        labels = match[4].split(".") if match[4] else []
        if max(major, minor, patch) > _UNSIGNED_MAX or not all([*labels, *(match[5].split(".") if match[5] else [])]):
            raise EvaluationError(f"{text[:100]!r} is not a version")
        return cls(major, minor, patch, not labels, tuple(map(_parse_label, labels)))


def _parse_label(label: str) -> tuple[bool, int, str]:
    if not label.isdigit():
        return True, 0, label
    if len(label) > _UNSIGNED_DIGITS_MAX or int(label) > _UNSIGNED_MAX or (label[0] == "0" and label != "0"):
        raise EvaluationError(f"{label[:100]!r} is not a number of a version")
    return False, int(label), ""


class Fields(dict[str, Any]):
    """A map in which missing domains are empty maps, as in Kubernetes."""

    def __missing__(self, key: str) -> "dict[str, Any]":
        return {}


def require_bool(value: Any) -> bool:
    """The value. Raises `EvaluationError` if it is not a boolean."""
    if not isinstance(value, bool):
        raise EvaluationError("a value is not a boolean")
    return value


def require_string(value: Any) -> str:
    """The value. Raises `EvaluationError` if it is not a string."""
    if not isinstance(value, str):
        raise EvaluationError("a value is not a string")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# --- fields and elements


def get_item(container: Any, key: Any) -> Any:
    """The element of a map or list. Raises `EvaluationError`."""
    if isinstance(container, dict) and isinstance(key, str) and (isinstance(container, Fields) or key in container):
        return container[key]
    if isinstance(container, list) and isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(container):
        return container[key]
    raise EvaluationError(f"{str(key)[:100]} does not exist")


def has_field(container: Any, name: str) -> bool:
    """Whether a map has a field; Kubernetes treats every domain as present."""
    return isinstance(container, Fields) or (isinstance(container, dict) and name in container)


def find_item(container: Any, key: Any) -> OptionalValue:
    """The element of a map or list, or of an optional one, as an optional value."""
    if isinstance(container, OptionalValue):
        container = container.value
    try:
        return OptionalValue(get_item(container, key), True)
    except EvaluationError:
        return OptionalValue()


def elements(value: Any) -> list[Any]:
    """The elements of a list, or the keys of a map. Raises `EvaluationError`."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return list(value)
    raise EvaluationError("only lists and maps have elements")


# --- operators


def _negate_bool(run: Evaluation, value: Any) -> bool:
    run.charge()
    return not require_bool(value)


def _negate_number(run: Evaluation, value: Any) -> Any:
    run.charge()
    if not _is_number(value):
        raise EvaluationError("a value is not a number")
    return -value


def _are_equal(run: Evaluation, left: Any, right: Any) -> bool:
    """Values of different types are never equal, except integers and floats."""
    if isinstance(left, list) and isinstance(right, list):
        run.charge_traversal(min(len(left), len(right)))
        return len(left) == len(right) and all(
            _are_equal_elements(run, *pair) for pair in zip(left, right, strict=True)
        )
    if isinstance(left, dict) and isinstance(right, dict):
        run.charge_traversal(min(len(left), len(right)))
        pairs = ((value, right.get(key)) for key, value in left.items())
        return left.keys() == right.keys() and all(_are_equal_elements(run, *pair) for pair in pairs)
    if _is_incomparable(left, right):
        raise EvaluationError("two values cannot be compared")
    return ((_is_number(left) and _is_number(right)) or type(left) is type(right)) and bool(left == right)


def _is_incomparable(left: Any, right: Any) -> bool:
    """Whether Kubernetes fails to compare values, instead of finding them different."""
    return isinstance(left, Quantity | SemanticVersion) and type(left) is not type(right)


def _are_equal_elements(run: Evaluation, left: Any, right: Any) -> bool:
    """Other than in Kubernetes, every element is charged: lists of lists of lists have many of them."""
    if left is right:
        return True
    run.charge()
    return _are_equal(run, left, right)


def _equal(run: Evaluation, left: Any, right: Any) -> bool:
    run.charge_traversal(_shorter(left, right))
    return _are_equal(run, left, right)


def _not_equal(run: Evaluation, left: Any, right: Any) -> bool:
    if _is_incomparable(left, right):
        run.charge()
        return True
    return not _equal(run, left, right)


def _shorter(left: Any, right: Any) -> int:
    """The size of the shorter of two strings; other values are of size one, and lists are charged as they are read."""
    return min(len(left), len(right)) if isinstance(left, str) and isinstance(right, str) else 1


def _order(test: Callable[[Any, Any], bool]) -> Callable[[Evaluation, Any, Any], bool]:
    def compare(run: Evaluation, left: Any, right: Any) -> bool:
        run.charge_traversal(_shorter(left, right))
        same = type(left) is type(right) and isinstance(left, str | bool)
        if not same and not (_is_number(left) and _is_number(right)):
            raise EvaluationError("two values cannot be compared")
        return test(left, right)

    return compare


def _contains_item(run: Evaluation, value: Any, container: Any) -> bool:
    if isinstance(container, dict):
        run.charge()
        return isinstance(value, str) and value in container
    if isinstance(container, list):
        run.charge(len(container))
        return any(_are_equal(run, value, other) for other in container)
    raise EvaluationError("only lists and maps have elements")


Operator = Callable[[Evaluation, Any, Any], bool]
RELATIONS: dict[str, Operator] = {
    "==": _equal,
    "!=": _not_equal,
    "<": _order(lambda left, right: left < right),
    "<=": _order(lambda left, right: left <= right),
    ">": _order(lambda left, right: left > right),
    ">=": _order(lambda left, right: left >= right),
    "in": _contains_item,
}
PREFIXES: dict[str, Callable[[Evaluation, Any], Any]] = {"!": _negate_bool, "-": _negate_number}
CONSTANTS = {"true": True, "false": False, "null": None}


# --- functions


def _read_string(run: Evaluation, value: Any) -> str:
    """A string that a function reads once."""
    run.charge_traversal(len(require_string(value)))
    return str(value)


def _contains_text(run: Evaluation, text: Any, part: Any) -> bool:
    run.charge(-(-len(require_string(text)) // 10) * -(-len(require_string(part)) // 10))
    return part in text


def _quantity(run: Evaluation, value: Any) -> Quantity:
    try:
        return Quantity.parse(_read_string(run, value))
    except ValueError:
        raise EvaluationError("a text is not a quantity") from None


def _compare(run: Evaluation, left: Any, right: Any) -> int:
    run.charge()
    if type(left) is not type(right) or not isinstance(left, Quantity | SemanticVersion):
        raise EvaluationError("two values cannot be compared")
    return int(left > right) - int(left < right)


def _size(run: Evaluation, value: Any) -> int:
    run.charge()
    if not isinstance(value, str | list | dict):
        raise EvaluationError("a value has no size")
    return len(value)


def _require_optional(run: Evaluation, value: Any) -> OptionalValue:
    run.charge()
    if not isinstance(value, OptionalValue):
        raise EvaluationError("a value is not optional")
    return value


def _value(run: Evaluation, value: Any) -> Any:
    optional = _require_optional(run, value)
    if not optional.present:
        raise EvaluationError("an optional value is absent")
    return optional.value


Function = Callable[..., Any]
"""A function of the evaluation and its arguments."""

FUNCTIONS: dict[str, Function] = {
    "quantity": _quantity,
    "semver": lambda run, value: SemanticVersion.parse(_read_string(run, value)),
    "size": _size,
}
METHODS: dict[str, tuple[int, Function]] = {  # with the number of arguments
    "startsWith": (1, lambda run, text, part: _read_string(run, text).startswith(require_string(part))),
    "endsWith": (1, lambda run, text, part: _read_string(run, text).endswith(require_string(part))),
    "contains": (1, _contains_text),
    "lowerAscii": (0, lambda run, text: _read_string(run, text).translate(_TO_LOWER)),
    "upperAscii": (0, lambda run, text: _read_string(run, text).translate(_TO_UPPER)),
    "size": (0, _size),
    "compareTo": (1, _compare),
    "isGreaterThan": (1, lambda run, left, right: _compare(run, left, right) > 0),
    "isLessThan": (1, lambda run, left, right: _compare(run, left, right) < 0),
    "hasValue": (0, lambda run, value: _require_optional(run, value).present),
    "value": (0, _value),
}
