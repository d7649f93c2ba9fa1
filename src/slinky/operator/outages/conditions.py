# SPDX-License-Identifier: Apache-2.0
"""What objects report of a planned outage. Pure."""

from slinky.api.controller import Controller
from slinky.api.fields.outage import OutagePhase, OutageStatus
from slinky.operator.framework.conditions import ConditionState, ObjectHealth

REASON = "Outage"


def with_outage(health: ObjectHealth, status: OutageStatus) -> ObjectHealth:
    """Return the health of a Controller: its condition Outage, and the others while slurmctld is stopped."""
    phase = OutagePhase.parse(status.phase)
    if phase is OutagePhase.NONE:
        return health
    health = health._replace(outage=ConditionState(phase.active, phase.value, status.message))
    if not phase.active:
        return health
    text = f"outage: {status.message}"
    health = health._replace(progressing=ConditionState(True, REASON, text))
    return health._replace(ready=ConditionState(False, REASON, text)) if phase.stops_controller else health


def stopped_health(health: ObjectHealth, controller: Controller) -> ObjectHealth:
    """Return the health of an object whose daemon is stopped by the outage of a cluster."""
    text = f"stopped by the outage of Controller {controller.metadata.name}: {controller.status.outage.message}"
    return health._replace(ready=ConditionState(False, REASON, text), progressing=ConditionState(True, REASON, text))
