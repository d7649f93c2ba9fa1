# SPDX-License-Identifier: Apache-2.0
"""Pod conditions that show a worker's state in Slurm. Pure."""

from collections.abc import Iterable
from datetime import datetime

from slinky.kube.conditions import rfc3339
from slinky.kube.types import Condition
from slinky.operator.nodeset.decisions.host_metadata import conditions
from slinky.operator.nodeset.workers import STATE, Worker


def wanted(worker: Worker, now: datetime) -> list[dict[str, str]] | None:
    """The conditions to write; None when they are there already or nothing is known."""
    said = conditions(worker)
    if said is None:
        return None
    held = {found.type: found for found in _ours(worker.pod.status.conditions)}
    if {kind: found.message for kind, found in held.items()} == said:
        return None
    return [_condition(kind, message, held.get(kind), now) for kind, message in sorted(said.items())]


def _ours(found: Iterable[Condition]) -> Iterable[Condition]:
    return (condition for condition in found if condition.type.startswith(STATE))


def _condition(kind: str, message: str, before: Condition | None, now: datetime) -> dict[str, str]:
    since = (before and before.last_transition_time) or rfc3339(now)
    return {"type": kind, "status": "True", "message": message, "lastTransitionTime": since}
