# SPDX-License-Identifier: Apache-2.0
"""The maintenance reservation of a scheduled update: when it is made, changed and removed. Pure.

A reservation that ended is reaped by Slurm, so having made one for a start time is remembered in a condition; another
is made only for another start time. One that repeats itself keeps the time to which Slurm has moved it, until a person
asks for another one. While it is in force only its hosts change.
"""

from collections.abc import Collection, Iterable, Set
from datetime import datetime
from typing import NamedTuple

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


class Reserve(NamedTuple):
    """Make the reservation, or give it these hosts."""

    request: ReservationRequest
    start: str


class EndReservation(NamedTuple):
    """Remove the reservation."""

    name: str


def wanted(of: NodeSet) -> bool:
    """A scheduled update is asked for."""
    going = of.metadata.deleting or not (of.per_node or of.spec.replicas)
    return of.spec.update_strategy.type == "ScheduledUpdate" and not going and bool(_start(of))


def finalizers(of: NodeSet, sight: SlurmSnapshot, held: Set[str]) -> Set[str]:
    """What holds a NodeSet until it has been cleared up after, beside what somebody else put there."""
    gone = sight.trusted and of.reservation_name not in sight.reservations
    needed = wanted(of) or (metadata.RESERVATION_FINALIZER in held and not gone)
    ours = {metadata.DRAIN_FINALIZER, metadata.RESERVATION_FINALIZER} if needed else {metadata.DRAIN_FINALIZER}
    return (held - {metadata.RESERVATION_FINALIZER}) | ours


def step(
    of: NodeSet, workers: tuple[Worker, ...], sight: SlurmSnapshot, now: datetime
) -> Reserve | EndReservation | None:
    """What to do about the reservation now; nothing without fresh knowledge."""
    if not sight.trusted:
        return None
    held = sight.reservations.get(of.reservation_name)
    if not wanted(of):
        return EndReservation(held.name) if held else None
    hosts = sorted(worker.hostname for worker in workers if worker.host is not None)
    if not hosts or (held is None and made_for(of) == _start(of)):
        return None
    if held is None or (_moved(of, held) and not held.active(now.timestamp())):
        return Reserve(_request(of, hosts), _start(of))
    if _hosts(held.node_list) != hosts:
        return Reserve(ReservationRequest(name=held.name, node_list=hosts), _start(of))
    return None


def without(
    of: NodeSet, gone: Collection[str], workers: Iterable[Worker], sight: SlurmSnapshot
) -> Reserve | EndReservation | None:
    """Takes hosts out of the reservation, since Slurm forgets no host that is reserved; they join when they return.

    One that holds nothing else is removed instead: its update is under way. One that repeats itself is left as it is.
    """
    held = sight.reservations.get(of.reservation_name) if sight.trusted else None
    hosts = _hosts(held.node_list) if held else []
    if held is None or not set(gone) & set(hosts):
        return None
    # What is seen of the reservation may be a few seconds old and name hosts that were forgotten meanwhile.
    there = {worker.hostname for worker in workers if worker.ready and worker.host is not None}
    left = [host for host in hosts if host in there and host not in gone]
    if left:
        return Reserve(ReservationRequest(name=held.name, node_list=left), _start(of))
    return None if RECURRING & set(held.flags) else EndReservation(held.name)


def made_for(of: NodeSet) -> str:
    """The start time for which a reservation was made, as the condition remembers it."""
    found = find_condition(of.status.conditions, RESERVATION_CREATED)
    return found.message if found and found.status == "True" else ""


def _moved(of: NodeSet, held: Reservation) -> bool:
    """A person has asked for another time since it was made.

    Slurm itself moves one that repeats itself, so where such a one starts says nothing.
    """
    before, lasting = made_for(of), held.end_time.whole - held.start_time.whole
    known = before or not RECURRING & set(held.flags)
    return bool(known and before != _start(of)) or (lasting > 0 and lasting != 60 * _minutes(of))


def _minutes(of: NodeSet) -> int:
    return int(seconds(of.spec.update_strategy.scheduled_update.duration) // 60)


def _start(of: NodeSet) -> str:
    return of.spec.update_strategy.scheduled_update.start_time or ""


def _request(of: NodeSet, hosts: list[str]) -> ReservationRequest:
    asked = of.spec.update_strategy.scheduled_update
    return ReservationRequest(
        name=of.reservation_name,
        start_time=number(int(datetime.fromisoformat(_start(of)).timestamp())),
        duration=number(_minutes(of)),
        node_list=hosts,
        flags=sorted({*FLAGS, *(flag.upper() for flag in asked.flags)}),
        users=[USER],
    )


def _hosts(text: str) -> list[str]:
    try:
        return sorted(expand(text)) if text else []
    except HostlistError:
        return []
