# SPDX-License-Identifier: Apache-2.0
"""What an object reports of an upgrade that waits or is refused. Pure."""

from slinky.operator.framework.conditions import ConditionState, ObjectHealth
from slinky.operator.upgrades.rules import UpgradeAction, UpgradeVerdict


def with_verdict(health: ObjectHealth, verdict: UpgradeVerdict) -> ObjectHealth:
    """Return the health of an object whose new image is not used yet; the daemon runs on with the present one."""
    if verdict.allowed:
        return health
    state = ConditionState(True, verdict.reason, verdict.message)
    config = ConditionState(False, verdict.reason, verdict.message)
    if verdict.action is UpgradeAction.WAIT:
        return health._replace(progressing=state, config=config)
    return health._replace(degraded=state, config=config)
