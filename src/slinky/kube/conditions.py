# SPDX-License-Identifier: Apache-2.0
"""Status conditions as `kubectl wait` and Helm read them. Pure.

`build_condition` makes one condition and `with_condition` puts it into a status. `lastTransitionTime` changes only when
the status of the condition changes, so a reconcile that finds nothing new computes an equal status and writes nothing.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

import msgspec

from slinky.kube.timestamps import format_timestamp
from slinky.kube.types import Condition

ConditionStatus = Literal["True", "False", "Unknown"]

Conditions = tuple[Condition, ...]


def condition_status(value: bool | None) -> ConditionStatus:
    """The status field of a condition; None is `Unknown`."""
    return "Unknown" if value is None else "True" if value else "False"


def build_condition(
    conditions: Iterable[Condition],
    condition_type: str,
    value: bool | None,
    reason: str = "",
    message: str = "",
    *,
    generation: int = 0,
    now: datetime,
) -> Condition:
    """A condition that is to replace the one of the same type in `conditions`."""
    previous = find_condition(conditions, condition_type)
    status = condition_status(value)
    unchanged = previous is not None and previous.status == status
    since = previous.last_transition_time if previous and unchanged else None
    return Condition(condition_type, status, reason, message, since or format_timestamp(now), generation)


def with_condition(
    conditions: Iterable[Condition],
    condition_type: str,
    value: bool | None,
    reason: str,
    message: str = "",
    *,
    generation: int,
    now: datetime,
) -> Conditions:
    """`conditions` with the condition of this type replaced, or added at the end if there is none."""
    previous = tuple(conditions)
    condition = build_condition(previous, condition_type, value, reason, message, generation=generation, now=now)
    if find_condition(previous, condition_type) is None:
        return (*previous, condition)
    return tuple(condition if item.type == condition_type else item for item in previous)


def find_condition(conditions: Iterable[Condition], condition_type: str) -> Condition | None:
    """The condition of this type, or None."""
    return next((condition for condition in conditions if condition.type == condition_type), None)


def is_condition_true(conditions: Iterable[Condition], condition_type: str) -> bool:
    """Whether there is a condition of this type with the status `True`."""
    condition = find_condition(conditions, condition_type)
    return condition is not None and condition.status == "True"


def condition_manifest(condition: Condition) -> dict[str, Any]:
    """A condition as it is written. Empty texts are written too: they are required, and a patch clears old ones."""
    return {"reason": "", "message": "", **msgspec.to_builtins(condition)}


def condition_manifests(conditions: Iterable[Condition]) -> list[dict[str, Any]]:
    """The `status.conditions` of a manifest."""
    return [condition_manifest(condition) for condition in conditions]
