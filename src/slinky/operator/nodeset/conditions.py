# SPDX-License-Identifier: Apache-2.0
"""Pod conditions that show a worker's state in Slurm. Pure."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from slinky.kube.conditions import build_condition
from slinky.kube.types import Condition
from slinky.operator.nodeset.decisions.host_metadata import conditions
from slinky.operator.nodeset.workers import STATE, Worker


def wanted(worker: Worker, now: datetime) -> list[dict[str, Any]] | None:
    """The conditions to write; None when they are there already or nothing is known."""
    said = conditions(worker)
    if said is None:
        return None
    current = worker.pod.status.conditions
    if {found.type: found.message for found in _ours(current)} == said:
        return None
    built = (build_condition(current, kind, True, message=message, now=now) for kind, message in sorted(said.items()))
    return [msgspec.to_builtins(condition) for condition in built]


def _ours(found: Iterable[Condition]) -> Iterable[Condition]:
    return (condition for condition in found if condition.type.startswith(STATE))
