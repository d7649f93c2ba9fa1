# SPDX-License-Identifier: Apache-2.0
"""When slurmctld starts to use an Accounting, and whether slurmdbd has registered the cluster. Pure.

A slurmctld that is restarted with a slurmdbd that does not answer waits, or exits, or starts without being registered;
then no job is recorded. Therefore a running slurmctld keeps its configuration until slurmdbd answers, and afterwards
the operator verifies that slurmdbd has the cluster.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum

from slinky.api.accounting import Accounting
from slinky.api.fields.conditions import READY
from slinky.api.names import wellknown
from slinky.kube.conditions import find_condition, is_condition_true
from slinky.kube.timestamps import age_seconds, unix_seconds
from slinky.kube.views import Pod
from slinky.operator.framework.conditions import ConditionState, ObjectHealth
from slinky.slurm.conf import ConfError, parse


class Registration(Enum):
    """Whether slurmdbd has registered the cluster."""

    POSTPONED = "postponed"  # slurmctld does not use the slurmdbd yet, because its configuration is tried
    REGISTERED = "registered"
    STARTING = "starting"  # slurmdbd does not have the cluster yet, and slurmctld has just started
    UNREGISTERED = "unregistered"  # slurmdbd does not have the cluster although slurmctld has run for a while
    UNKNOWN = "unknown"


def storage_host(files: Mapping[str, str]) -> str:
    """Return the AccountingStorageHost of a configuration; empty if it has none."""
    try:
        lines = parse(files.get(wellknown.SLURM_CONF, ""))
    except ConfError:
        return ""
    settings = (setting for line in lines for setting in line)
    return next((setting.value for setting in settings if setting.has_key("AccountingStorageHost")), "")


def accounting_to_use(
    wanted: Accounting | None, running: Mapping[str, str] | None, existing: Iterable[Accounting]
) -> Accounting | None:
    """Return the Accounting that slurmctld is to use now; `running` are its files, None before its first start."""
    if wanted is None or running is None or is_usable(wanted):
        return wanted
    host = storage_host(running)
    if host == wanted.host:
        return wanted
    return next((accounting for accounting in existing if accounting.host == host), None)


def is_usable(accounting: Accounting) -> bool:
    """Return whether slurmdbd answers; the operator does not know it of one outside Kubernetes."""
    return accounting.spec.external or is_condition_true(accounting.status.conditions, READY)


def with_accounting(
    health: ObjectHealth, wanted: Accounting | None, used: Accounting | None, registration: Registration
) -> ObjectHealth:
    """Return the health of a Controller whose accounting may not work yet; slurmctld schedules jobs meanwhile."""
    if wanted is None:
        return health
    if used is None or used.host != wanted.host or registration is Registration.POSTPONED:
        return _not_recording(health, "WaitingForAccounting", _postponed_message(wanted))
    if registration in {Registration.STARTING, Registration.UNREGISTERED}:
        text = f"slurmdbd of Accounting {wanted.key.name} does not have this cluster, so that no job is recorded"
        state = _not_recording(health, "NotRegistered", text)
        return state if registration is Registration.UNREGISTERED else state._replace(degraded=health.degraded)
    return health


def active_seconds(pods: Iterable[Pod], now: datetime) -> float:
    """Return for how long slurmctld has answered."""
    ready = (item for pod in pods for item in pod.status.conditions if (item.type, item.status) == ("Ready", "True"))
    return max((age_seconds(item.last_transition_time, now) for item in ready), default=0.0)


def needs_restart(accounting: Accounting, pods: Iterable[Pod]) -> Pod | None:
    """Return the active slurmctld if it has started before slurmdbd answered; it registers when it starts again."""
    ready = find_condition(accounting.status.conditions, READY)
    if accounting.spec.external or ready is None or ready.status != "True":
        return None
    since = unix_seconds(ready.last_transition_time)
    return next((pod for pod in pods if pod.ready and 0 < _start_time(pod) < since), None)


def _start_time(pod: Pod) -> float:
    running = (status.state.running for status in pod.status.container_statuses if status.name == "slurmctld")
    return max((unix_seconds(state.started_at) for state in running if state), default=0.0)


def _postponed_message(wanted: Accounting) -> str:
    ready = find_condition(wanted.status.conditions, READY)
    why = f": {ready.message}" if ready and ready.message else ""
    return (
        f"slurmctld runs without Accounting {wanted.key.name} until that is ready and its configuration is tried{why}"
    )


def _not_recording(health: ObjectHealth, reason: str, message: str) -> ObjectHealth:
    degraded = health.degraded if health.degraded.value else ConditionState(True, reason, message)
    return health._replace(
        ready=ConditionState(False, reason, message) if health.ready.value else health.ready,
        progressing=ConditionState(True, reason, message),
        config=ConditionState(False, reason, message) if health.config.value else health.config,
        degraded=degraded,
    )
