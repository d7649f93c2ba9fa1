# SPDX-License-Identifier: Apache-2.0
"""The status conditions that every kind reports. Pure.

A kind describes itself with an `ObjectHealth`; `update_conditions` turns that into conditions whose transition time
changes only when their status does.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from slinky.api.fields.conditions import (
    AUTOSCALING_ACTIVE,
    CONFIG_SYNCED,
    DEGRADED,
    MEANINGS,
    OUTAGE,
    PROGRESSING,
    READY,
    RESERVATION_CREATED,
    SLURM_REACHABLE,
)
from slinky.kube.conditions import Conditions, find_condition, with_condition
from slinky.kube.types import Condition
from slinky.kube.views import ReplicaStatus


class ConditionState(NamedTuple):
    """Status of a condition (None: unknown), with its reason and message."""

    value: bool | None
    reason: str
    message: str = ""

    def message_for(self, condition_type: str) -> str:
        """Return the message, or by default what this status means for that type of condition."""
        meaning = MEANINGS[condition_type]
        default = {True: meaning.true, False: meaning.false, None: meaning.unknown}[self.value]
        return (self.message or default)[:1024]


NOT_DEGRADED = ConditionState(False, "AsExpected")


class ObjectHealth(NamedTuple):
    """States of an object's conditions. Every kind reports the first five; only some kinds report the others."""

    ready: ConditionState
    progressing: ConditionState = ConditionState(False, "Settled")
    degraded: ConditionState = NOT_DEGRADED
    slurm: ConditionState = ConditionState(None, "NotAsked")
    config: ConditionState = ConditionState(None, "NotWritten")
    reserved: ConditionState | None = None
    autoscaling: ConditionState | None = None
    outage: ConditionState | None = None

    def states(self) -> Iterable[tuple[str, ConditionState | None]]:
        """Return the types of conditions with their states."""
        return (
            (READY, self.ready),
            (PROGRESSING, self.progressing),
            (DEGRADED, self.degraded),
            (SLURM_REACHABLE, self.slurm),
            (CONFIG_SYNCED, self.config),
            (RESERVATION_CREATED, self.reserved),
            (AUTOSCALING_ACTIVE, self.autoscaling),
            (OUTAGE, self.outage),
        )


def update_conditions(
    conditions: Iterable[Condition], health: ObjectHealth, *, generation: int, now: datetime
) -> Conditions:
    """Return the conditions with the states of `health` in them."""
    result = tuple(conditions)
    for condition_type, state in health.states():
        if state is not None:
            message = state.message_for(condition_type)
            result = with_condition(
                result, condition_type, state.value, state.reason, message, generation=generation, now=now
            )
    return result


def previous_state(conditions: Iterable[Condition], condition_type: str) -> ConditionState:
    """Return the state that was last reported for this type of condition."""
    condition = find_condition(conditions, condition_type)
    if condition is None:
        return ConditionState(None, "NotAsked")
    return ConditionState({"True": True, "False": False}.get(condition.status), condition.reason, condition.message)


def blocked_health(reason: str, hint: str, slurm: ConditionState) -> ObjectHealth:
    """Return the health of an object that a person must correct; until then nothing is changed."""
    return ObjectHealth(
        ConditionState(False, reason, hint),
        ConditionState(False, "Blocked", "waiting for a correction, see the condition Degraded"),
        ConditionState(True, reason, hint),
        slurm,
        ConditionState(False, "Blocked", "the spec is not applied, see the condition Degraded"),
    )


def workload_health(desired: int, ready: int, updated: int, observed: bool, wait: str = "") -> ObjectHealth:
    """Return the health of a Deployment or StatefulSet with these numbers of pods; `wait` is what it waits for."""
    if observed and ready >= desired and updated >= desired:
        return ObjectHealth(ConditionState(True, "Available", f"{ready} of {desired} ready"))
    message = f"{ready} of {desired} ready, {updated} up to date" + (f"; {wait}" if wait else "")
    return ObjectHealth(
        ConditionState(ready >= desired > 0, "Rolling" if ready >= desired else "NotReady", message),
        ConditionState(True, "Rolling", message),
    )


def deployment_health(
    desired: int, workload: ReplicaStatus | None, observed: bool, slurm: ConditionState, wait: str = ""
) -> ObjectHealth:
    """Return the health of a kind that consists of a Deployment: RestApi or LoginSet."""
    status = workload or ReplicaStatus()
    health = workload_health(desired, status.ready_replicas, status.updated_replicas, observed, wait)
    rolled_out = observed and status.updated_replicas >= desired
    config = ConditionState(rolled_out, "Loaded" if rolled_out else "Rolling")
    return health._replace(degraded=_stuck(status), slurm=slurm, config=config)


def _stuck(status: ReplicaStatus) -> ConditionState:
    """Return the state of Degraded that a Deployment reports by itself: it has made no progress for ten minutes."""
    progressing = next((c for c in status.conditions if (c.type, c.status) == ("Progressing", "False")), None)
    if progressing is None:
        return NOT_DEGRADED
    return ConditionState(True, progressing.reason or progressing.type, progressing.message)
