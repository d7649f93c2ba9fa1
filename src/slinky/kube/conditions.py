# SPDX-License-Identifier: Apache-2.0
"""Conditions as `kubectl wait` and Helm understand them.

`changed` returns a new tuple and leaves the old alone; `lastTransitionTime` moves only when the status does,
so an unchanged world gives an equal tuple and needs no write.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

import msgspec

from slinky.kube.types import Condition

Truth = Literal["True", "False", "Unknown"]

Conditions = tuple[Condition, ...]


def rfc3339(when: datetime) -> str:
    """A time to the second, as metav1.Time is written."""
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def truth(value: bool | None) -> Truth:
    """None is Unknown."""
    return "Unknown" if value is None else "True" if value else "False"


def changed(
    conditions: Iterable[Condition],
    kind: str,
    value: bool | None,
    reason: str,
    message: str = "",
    *,
    generation: int,
    now: datetime,
) -> Conditions:
    """`conditions` with this one in its place, or at the end if it is new."""
    held = tuple(conditions)
    old = find(held, kind)
    status = truth(value)
    moved = old is None or old.status != status or not old.last_transition_time
    since = rfc3339(now) if moved else old.last_transition_time if old else None
    new = Condition(kind, status, reason, message, since, generation)
    if old is None:
        return (*held, new)
    return tuple(new if condition.type == kind else condition for condition in held)


def find(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """The condition of that type."""
    return next((condition for condition in conditions if condition.type == kind), None)


def is_true(conditions: Iterable[Condition], kind: str) -> bool:
    """It is there and true."""
    found = find(conditions, kind)
    return found is not None and found.status == "True"


def without(conditions: Iterable[Condition], kind: str) -> Conditions:
    """`conditions` without that type."""
    return tuple(condition for condition in conditions if condition.type != kind)


def manifests(conditions: Iterable[Condition]) -> list[dict[str, object]]:
    """`conditions` as they go into a status; all required fields are there even if empty."""
    required = {"reason": "", "message": ""}
    return [{**required, **msgspec.to_builtins(condition)} for condition in conditions]
