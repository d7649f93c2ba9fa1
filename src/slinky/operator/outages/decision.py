# SPDX-License-Identifier: Apache-2.0
"""The phases of a planned outage, and what each one waits for. Pure.

Before the outage a reservation keeps jobs away that would not end in time. At its start all hosts are drained; once
no job runs, the daemons stop: login hosts, slurmctld, slurmdbd. They start in the opposite order when the outage ends
or is removed from the spec, whatever phase it is in. A phase ends only on facts: Slurm confirms that every host is
drained, Kubernetes that no pod is left or that one is ready. What is not known ends no phase.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from slinky.api.controller import Controller
from slinky.api.fields.outage import Outage, OutagePhase, OutageStatus, OutageStep
from slinky.api.names import metadata
from slinky.kube.timestamps import format_timestamp
from slinky.operator.slurm.snapshot import SlurmSnapshot
from slinky.slurm import Host, HostlistError, Reservation, ReservationRequest, expand, number

#: Begin of the reasons of drains for an outage, as they are written to Slurm.
DRAIN_TEXT = "Outage of cluster"
FLAGS = ("IGNORE_JOBS", "MAINT")
USER = "slurm"
#: Hosts that a message names.
NAMED_HOSTS = 5
#: Seconds between looks at a phase whose end has no event.
RECHECK_SECONDS = 2.0
#: Seconds between looks at an outage that lies ahead: hosts may join the reservation.
SCHEDULED_SECONDS = 60.0


class OutageObservation(NamedTuple):
    """What is observed of a cluster."""

    slurm: SlurmSnapshot
    login_pods: int = 0
    controller_pods: int = 0
    controller_ready: bool = False
    accounting_pods: int = 0  # 0 for a slurmdbd that does not stop, because other clusters use it
    accounting_ready: bool = True  # also if there is none


class OutageDecision(NamedTuple):
    """The new record of the outage, the reservation to write or to delete, and when to look again."""

    status: OutageStatus
    reserve: ReservationRequest | None = None
    release: str = ""
    recheck_seconds: float | None = None

    @property
    def phase(self) -> OutagePhase:
        """The new phase."""
        return OutagePhase.parse(self.status.phase)


class _Step(NamedTuple):
    phase: OutagePhase
    waits_for: str = ""


def advance(controller: Controller, observation: OutageObservation, now: datetime) -> OutageDecision:
    """Return what follows from the spec, the present phase and what is observed."""
    outage, record, phase = controller.spec.outage, controller.status.outage, controller.outage_phase
    if phase in {OutagePhase.NONE, OutagePhase.COMPLETED}:
        if outage is None or outage.start is None or outage.start_time == record.start_time:
            return OutageDecision(record)
        record, phase = OutageStatus(start_time=outage.start_time), OutagePhase.NONE
        step = _Step(OutagePhase.SCHEDULED)
    else:
        step = _next_step(controller, phase, observation, now)
    status = _record(record, phase, step, now)
    if step.phase is OutagePhase.SCHEDULED and outage is not None:
        return OutageDecision(status, *_plan_reservation(controller, outage, observation.slurm, now))
    release = controller.outage_reservation if _is_reserved(controller, observation, step.phase) else ""
    done = step.phase is OutagePhase.COMPLETED
    return OutageDecision(status, release=release, recheck_seconds=None if done else RECHECK_SECONDS)


def drain_text(controller: Controller) -> str:
    """Return why hosts are drained; empty if no outage drains them."""
    if not controller.outage_phase.drains:
        return ""
    reason = controller.spec.outage.reason if controller.spec.outage else ""
    return f"{DRAIN_TEXT} {controller.cluster_name}" + (f": {reason}" if reason else "")


def stops_accounting(controllers: Iterable[Controller]) -> bool:
    """Return whether slurmdbd stops: an outage of every cluster that uses it has come so far."""
    phases = [controller.outage_phase for controller in controllers]
    return bool(phases) and all(phase.stops_accounting for phase in phases)


def _next_step(controller: Controller, phase: OutagePhase, seen: OutageObservation, now: datetime) -> _Step:
    if phase in _WHEN_OVER and _is_over(controller.spec.outage, controller.status.outage, now):
        return _Step(_WHEN_OVER[phase])
    return _STEPS[phase](controller, seen, now)


def _is_over(outage: Outage | None, record: OutageStatus, now: datetime) -> bool:
    """Return whether the outage of the record has ended, was removed, or was replaced by another one."""
    return outage is None or outage.start_time != record.start_time or outage.end is None or now >= outage.end


def _scheduled(controller: Controller, seen: OutageObservation, now: datetime) -> _Step:
    outage = controller.spec.outage
    has_begun = outage is not None and outage.start is not None and now >= outage.start
    return _Step(OutagePhase.DRAINING if has_begun else OutagePhase.SCHEDULED)


def _draining(controller: Controller, seen: OutageObservation, now: datetime) -> _Step:
    """Return what follows once every host is drained, which only a fresh answer of Slurm tells."""
    slurm = seen.slurm
    if not slurm.trusted:
        return _Step(OutagePhase.DRAINING, "Slurm does not answer")
    hosts = sorted(host.name for host in slurm.hosts.values() if not _is_drained(host))
    if hosts:
        named = ", ".join(hosts[:NAMED_HOSTS]) + (
            f" and {len(hosts) - NAMED_HOSTS} more" if hosts[NAMED_HOSTS:] else ""
        )
        return _Step(OutagePhase.DRAINING, f"hosts that are not drained yet: {named}")
    outage = controller.spec.outage
    stops = outage is not None and outage.stop_daemons and not controller.spec.external
    return _Step(OutagePhase.STOPPING_LOGIN if stops else OutagePhase.DRAINED)


def _is_drained(host: Host) -> bool:
    """Return whether no job runs on a host and none starts; a host that is down gets no job either."""
    return host.state.drained or (host.state.down and not host.state.busy)


def _stopping_login(controller: Controller, seen: OutageObservation, now: datetime) -> _Step:
    return _stopping(OutagePhase.STOPPING_LOGIN, OutagePhase.STOPPING_CONTROLLER, seen.login_pods)


def _stopping_controller(controller: Controller, seen: OutageObservation, now: datetime) -> _Step:
    return _stopping(OutagePhase.STOPPING_CONTROLLER, OutagePhase.STOPPING_ACCOUNTING, seen.controller_pods)


def _stopping_accounting(controller: Controller, seen: OutageObservation, now: datetime) -> _Step:
    return _stopping(OutagePhase.STOPPING_ACCOUNTING, OutagePhase.STOPPED, seen.accounting_pods)


def _stopping(phase: OutagePhase, following: OutagePhase, pods: int) -> _Step:
    return _Step(phase, f"{pods} pods have not ended") if pods else _Step(following)


def _starting_accounting(controller: Controller, seen: OutageObservation, now: datetime) -> _Step:
    if not seen.accounting_ready:
        return _Step(OutagePhase.STARTING_ACCOUNTING, "slurmdbd is not ready")
    return _Step(OutagePhase.STARTING_CONTROLLER)


def _starting_controller(controller: Controller, seen: OutageObservation, now: datetime) -> _Step:
    if not (seen.controller_ready and seen.slurm.trusted):
        return _Step(OutagePhase.STARTING_CONTROLLER, "slurmctld does not answer yet")
    return _Step(OutagePhase.RESUMING)


def _resuming(controller: Controller, seen: OutageObservation, now: datetime) -> _Step:
    """Return what follows once the reservation is gone and no host is drained for the outage."""
    slurm = seen.slurm
    if not slurm.trusted:
        return _Step(OutagePhase.RESUMING, "Slurm does not answer")
    text = f"{metadata.REASON_PREFIX}{DRAIN_TEXT}"
    drained = [host for host in slurm.hosts.values() if host.state.draining and host.reason.startswith(text)]
    if drained:
        return _Step(OutagePhase.RESUMING, f"{len(drained)} hosts are still drained")
    if controller.outage_reservation in slurm.reservations:
        return _Step(OutagePhase.RESUMING, "the reservation still exists")
    return _Step(OutagePhase.COMPLETED)


def _stay(phase: OutagePhase) -> Callable[[Controller, OutageObservation, datetime], _Step]:
    return lambda controller, seen, now: _Step(phase)


#: The phase that follows when the outage is over, or is removed from the spec, before its daemons have started again.
_WHEN_OVER = {
    OutagePhase.SCHEDULED: OutagePhase.COMPLETED,
    OutagePhase.DRAINING: OutagePhase.RESUMING,
    OutagePhase.DRAINED: OutagePhase.RESUMING,
    OutagePhase.STOPPING_LOGIN: OutagePhase.RESUMING,
    OutagePhase.STOPPING_CONTROLLER: OutagePhase.STARTING_CONTROLLER,
    OutagePhase.STOPPING_ACCOUNTING: OutagePhase.STARTING_ACCOUNTING,
    OutagePhase.STOPPED: OutagePhase.STARTING_ACCOUNTING,
}
#: What each phase waits for.
_STEPS: Mapping[OutagePhase, Callable[[Controller, OutageObservation, datetime], _Step]] = {
    OutagePhase.SCHEDULED: _scheduled,
    OutagePhase.DRAINING: _draining,
    OutagePhase.DRAINED: _stay(OutagePhase.DRAINED),
    OutagePhase.STOPPING_LOGIN: _stopping_login,
    OutagePhase.STOPPING_CONTROLLER: _stopping_controller,
    OutagePhase.STOPPING_ACCOUNTING: _stopping_accounting,
    OutagePhase.STOPPED: _stay(OutagePhase.STOPPED),
    OutagePhase.STARTING_ACCOUNTING: _starting_accounting,
    OutagePhase.STARTING_CONTROLLER: _starting_controller,
    OutagePhase.RESUMING: _resuming,
}


def _record(record: OutageStatus, before: OutagePhase, step: _Step, now: datetime) -> OutageStatus:
    message = f"{step.phase.meaning}; {step.waits_for}" if step.waits_for else step.phase.meaning
    timeline = record.timeline
    if step.phase is not before:
        timeline = (*timeline, OutageStep(step.phase.value, format_timestamp(now)))
    return msgspec.structs.replace(record, phase=step.phase.value, message=message, timeline=timeline)


def _is_reserved(controller: Controller, seen: OutageObservation, phase: OutagePhase) -> bool:
    """Return whether the reservation exists and is not needed any more."""
    ended = phase in {OutagePhase.RESUMING, OutagePhase.COMPLETED}
    return ended and seen.slurm.trusted and controller.outage_reservation in seen.slurm.reservations


def _plan_reservation(
    controller: Controller, outage: Outage, slurm: SlurmSnapshot, now: datetime
) -> tuple[ReservationRequest | None, str, float]:
    """Return the reservation of an outage that lies ahead, if it has to be written, and when to look again."""
    left = (outage.start - now).total_seconds() if outage.start else 0.0
    if left <= 0:
        return None, "", 0.0
    hosts = sorted(slurm.hosts)
    live = slurm.reservations.get(controller.outage_reservation)
    request = _reservation(controller, outage, hosts)
    written = not slurm.trusted or not hosts or (live is not None and _matches(live, request))
    return None if written else request, "", min(left, SCHEDULED_SECONDS if written else RECHECK_SECONDS)


def _reservation(controller: Controller, outage: Outage, hosts: list[str]) -> ReservationRequest:
    start, end = outage.start, outage.end
    return ReservationRequest(
        name=controller.outage_reservation,
        start_time=number(int(start.timestamp()) if start else 0),
        end_time=number(int(end.timestamp()) if end else 0),
        node_list=hosts,
        flags=FLAGS,
        users=[USER],
    )


def _matches(live: Reservation, request: ReservationRequest) -> bool:
    try:
        hosts = sorted(expand(live.node_list)) if live.node_list else []
    except HostlistError:
        hosts = []
    times = (request.start_time, request.end_time)
    return hosts == request.node_list and (live.start_time.whole, live.end_time.whole) == tuple(
        time.whole if time else 0 for time in times
    )
