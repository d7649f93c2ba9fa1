# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 -- msgspec gives each struct its own copy of an empty default
"""Label selectors. Pure."""

from collections.abc import Mapping
from typing import Literal

from slinky.kube.types import View


class LabelRequirement(View, frozen=True):
    """One entry of `matchExpressions`."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()


class LabelSelector(View, frozen=True):
    """A label selector."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelRequirement, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.match_labels or self.match_expressions)


def selector_matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches these labels."""
    labels_match = all(labels.get(key) == value for key, value in selector.match_labels.items())
    return labels_match and all(_matches(requirement, labels) for requirement in selector.match_expressions)


def _matches(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
    return value is None
