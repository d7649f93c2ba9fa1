# SPDX-License-Identifier: Apache-2.0
"""The maintenance reservation of a scheduled update: when it is created, changed and deleted. Pure.

Slurm deletes a reservation when it ends, so the condition ReservationCreated records the start time for which one was
created; another one is created only for another start time. Slurm moves the start of a recurring reservation; the
operator keeps that time until a user asks for another one. While a reservation is active, only its hosts change.
"""

from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from slinky.api.fields.amounts import seconds
from slinky.api.fields.conditions import RESERVATION_CREATED
from slinky.api.names import metadata
from slinky.api.nodeset import NodeSet
from slinky.kube.conditions import find_condition
from slinky.operator.nodeset.workers import Worker
from slinky.operator.slurm.snapshot import SlurmSnapshot
from slinky.slurm import HostlistError, Reservation, ReservationRequest, expand, number

USER = "slurm"
FLAGS = ("IGNORE_JOBS", "MAINT")
RECURRING = frozenset({"HOURLY", "DAILY", "WEEKLY", "WEEKDAY", "WEEKEND"})


@dataclass(frozen=True, slots=True)
class Reserve:
    """Create the reservation, or change it."""

    label: ClassVar[str] = "reserve"

    request: ReservationRequest
    start: str


@dataclass(frozen=True, slots=True)
class EndReservation:
    """Delete the reservation."""

    label: ClassVar[str] = "release"

    name: str


def is_wanted(node_set: NodeSet) -> bool:
    """Whether the spec asks for a scheduled update of existing workers."""
    removed = node_set.metadata.deleting or not (node_set.per_node or node_set.spec.replicas)
    return node_set.spec.update_strategy.type == "ScheduledUpdate" and not removed and bool(_start(node_set))


def desired_finalizers(node_set: NodeSet, slurm: SlurmSnapshot, current: Set[str]) -> Set[str]:
    """The finalizers that a NodeSet should have; those of other controllers are kept."""
    gone = slurm.trusted and node_set.reservation_name not in slurm.reservations
    needed = is_wanted(node_set) or (metadata.RESERVATION_FINALIZER in current and not gone)
    ours = {metadata.DRAIN_FINALIZER, metadata.RESERVATION_FINALIZER} if needed else {metadata.DRAIN_FINALIZER}
    return (current - {metadata.RESERVATION_FINALIZER}) | ours


def next_action(
    node_set: NodeSet, workers: tuple[Worker, ...], slurm: SlurmSnapshot, now: datetime
) -> Reserve | EndReservation | None:
    """The next action on the reservation; None if the snapshot of Slurm is not trusted."""
    if not slurm.trusted:
        return None
    live = slurm.reservations.get(node_set.reservation_name)
    if not is_wanted(node_set):
        return EndReservation(live.name) if live else None
    hosts = sorted(worker.hostname for worker in workers if worker.host is not None)
    if not hosts or (live is None and created_for(node_set) == _start(node_set)):
        return None
    if live is None or (_has_changed(node_set, live) and not live.active(now.timestamp())):
        return Reserve(_request(node_set, hosts), _start(node_set))
    if _hosts(live.node_list) != hosts:
        return Reserve(ReservationRequest(name=live.name, node_list=hosts), _start(node_set))
    return None


def release_hosts(
    node_set: NodeSet, removed: Collection[str], workers: Iterable[Worker], slurm: SlurmSnapshot
) -> Reserve | EndReservation | None:
    """Take hosts out of the reservation, because Slurm does not delete a reserved host; they join when they return.

    If no host would remain, the reservation is deleted: its update is in progress. A recurring reservation is left as
    it is.
    """
    live = slurm.reservations.get(node_set.reservation_name) if slurm.trusted else None
    hosts = _hosts(live.node_list) if live else []
    if live is None or not set(removed) & set(hosts):
        return None
    # The snapshot of the reservation may be a few seconds old and contain hosts that were deleted meanwhile.
    present = {worker.hostname for worker in workers if worker.ready and worker.host is not None}
    remaining = [host for host in hosts if host in present and host not in removed]
    if remaining:
        return Reserve(ReservationRequest(name=live.name, node_list=remaining), _start(node_set))
    return None if RECURRING & set(live.flags) else EndReservation(live.name)


def created_for(node_set: NodeSet) -> str:
    """The start time for which a reservation was created, from the condition ReservationCreated."""
    condition = find_condition(node_set.status.conditions, RESERVATION_CREATED)
    return condition.message if condition and condition.status == "True" else ""


def is_in_maintenance(worker: Worker, reservation: str) -> bool:
    """Whether the host is in this maintenance reservation now."""
    host = worker.host
    return host is not None and "MAINTENANCE" in host.state and host.reservation == reservation


def _has_changed(node_set: NodeSet, live: Reservation) -> bool:
    """Whether a user has asked for another start or duration since the reservation was created.

    Slurm moves the start of a recurring reservation, so its start in Slurm is not compared.
    """
    created, length = created_for(node_set), live.end_time.whole - live.start_time.whole
    known = created or not RECURRING & set(live.flags)
    return bool(known and created != _start(node_set)) or (length > 0 and length != 60 * _minutes(node_set))


def _minutes(node_set: NodeSet) -> int:
    return int(seconds(node_set.spec.update_strategy.scheduled_update.duration) // 60)


def _start(node_set: NodeSet) -> str:
    return node_set.spec.update_strategy.scheduled_update.start_time or ""


def _request(node_set: NodeSet, hosts: list[str]) -> ReservationRequest:
    flags = node_set.spec.update_strategy.scheduled_update.flags
    return ReservationRequest(
        name=node_set.reservation_name,
        start_time=number(int(datetime.fromisoformat(_start(node_set)).timestamp())),
        duration=number(_minutes(node_set)),
        node_list=hosts,
        flags=sorted({*FLAGS, *(flag.upper() for flag in flags)}),
        users=[USER],
    )


def _hosts(text: str) -> list[str]:
    try:
        return sorted(expand(text)) if text else []
    except HostlistError:
        return []
