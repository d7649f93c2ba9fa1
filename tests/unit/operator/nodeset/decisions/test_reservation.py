# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from tests.unit.operator.made import NOW, host, node_set, one, pod, seeing, snapshot

from slinky.api.names import metadata
from slinky.api.nodeset import NodeSet
from slinky.operator.nodeset.actions import CondemnWorker, CreateWorker, ExecutionReport
from slinky.operator.nodeset.decisions.reservation import EndReservation, Reserve, desired_finalizers, next_action
from slinky.operator.nodeset.plan import plan
from slinky.operator.nodeset.status import health
from slinky.operator.slurm.snapshot import SlurmSnapshot
from slinky.slurm import Reservation, number

START = "2026-11-16T12:30:00+00:00"
NAME = "SlurmOperatorMaint-gpu"


def scheduled(made: str = "", **more: Any) -> NodeSet:
    update = {"type": "ScheduledUpdate", "scheduledUpdate": {"startTime": START, "duration": "90m", "flags": ["daily"]}}
    known = [{"type": "ReservationCreated", "status": "True", "message": made}] if made else []
    return node_set(updateStrategy=update, status={"conditions": known}, **more)


def seen(*held: Reservation) -> SlurmSnapshot:
    return seeing(host("gpu-0"))._replace(reservations={found.name: found for found in held})


def next_step(of: NodeSet, sight: SlurmSnapshot) -> Reserve | EndReservation | None:
    return next_action(of, (one(pod(), sight),), sight, NOW)


def test_a_scheduled_update_reserves_its_hosts() -> None:
    found = next_step(scheduled(), seen())
    assert isinstance(found, Reserve)
    assert found.request.flags == ["DAILY", "IGNORE_JOBS", "MAINT"]
    assert (found.request.name, found.request.node_list) == (NAME, ["gpu-0"])
    assert found.request.duration is not None
    assert found.request.duration.value == 90


def test_a_reservation_is_made_once_for_a_start_time() -> None:
    assert next_step(scheduled(START), seen()) is None
    assert isinstance(next_step(scheduled("2020-01-01T00:00:00Z"), seen()), Reserve)


def test_new_hosts_join_and_nothing_else_changes() -> None:
    assert next_step(scheduled(START), seen(Reservation(NAME, node_list="gpu-0"))) is None
    found = next_step(scheduled(START), seen(Reservation(NAME, node_list="gpu-[0-4]")))
    assert isinstance(found, Reserve)
    assert found.request.node_list == ["gpu-0"]
    assert found.request.start_time is None


def held(begins: float, minutes: int = 90, *flags: str) -> Reservation:
    """One that was made for our host, and begins so many minutes from now."""
    start = int(NOW.timestamp() + 60 * begins)
    end = number(start + 60 * minutes)
    return Reservation(NAME, node_list="gpu-0", flags=flags, start_time=number(start), end_time=end)


BEFORE = "2026-11-16T12:20:00+00:00"
MOVED = [
    ("as it was asked for", START, held(30), False),
    ("a person has chosen another start", BEFORE, held(20), True),
    ("a person has chosen another length", START, held(30, 45), True),
    ("in force: only its hosts change", BEFORE, held(-5, 45), False),
    ("Slurm has moved one that repeats itself", START, held(24 * 60, 90, "DAILY"), False),
    ("a person moves one that repeats itself", BEFORE, held(24 * 60, 90, "DAILY"), True),
    ("made by somebody who left no word of when, and repeating itself", "", held(24 * 60, 90, "DAILY"), False),
    ("made, but the word of it was lost: said again", "", held(30), True),
]


@pytest.mark.parametrize(("law", "made", "there", "moves"), MOVED, ids=[case[0] for case in MOVED])
def test_a_reservation_follows_the_time_that_is_asked_for(law: str, made: str, there: Reservation, moves: bool) -> None:
    found = next_step(scheduled(made), seen(there))
    assert (found is not None) is moves
    if isinstance(found, Reserve):
        assert found.start == START
        assert found.request.start_time == number(int(NOW.timestamp()) + 30 * 60)
        assert found.request.duration == number(90)
        assert found.request.node_list == ["gpu-0"]


def test_it_goes_when_it_is_not_wanted() -> None:
    for of in (node_set(), scheduled(START, replicas=0), scheduled(START, deleting=5)):
        assert next_step(of, seen(Reservation(NAME, node_list="gpu-0"))) == EndReservation(NAME)
    assert next_step(node_set(), seen(Reservation("somebody-elses"))) is None


def test_without_knowledge_nothing_is_done() -> None:
    assert next_step(scheduled(), seen()._replace(trusted=False)) is None


def test_a_healthy_worker_is_replaced_only_inside_the_window() -> None:
    outside = snapshot(scheduled(START), [pod(revision="rev1")], seen(Reservation(NAME, node_list="gpu-0")))
    assert not [a for a in plan(outside) if isinstance(a, CondemnWorker)]
    inside = seeing(host("gpu-0", "IDLE+MAINTENANCE", reservation=NAME))
    assert [
        a.cause
        for a in plan(snapshot(scheduled(START), [pod(revision="rev1")], inside))
        if isinstance(a, CondemnWorker)
    ] == ["update"]


def test_the_condition_remembers_the_start_time() -> None:
    made = health(snapshot(scheduled(), [pod()], seen()), ExecutionReport(reservation_start=START)).reserved
    assert made is not None
    assert (made.value, made.message) == (True, START)
    assert health(snapshot(node_set(), [pod()], seen())).reserved is None


@pytest.mark.parametrize(
    ("hosts", "flags", "steps"),
    [
        ("gpu-[0-3]", (), Reserve),
        ("gpu-[0-1,3]", (), EndReservation),
        ("gpu-[0-1]", ("DAILY",), None),
        ("gpu-[2-3]", (), None),
    ],
    ids=["others stay", "nothing is left", "nothing is left, but it repeats itself", "not in it"],
)
def test_slurm_forgets_no_host_that_is_reserved_so_it_leaves_first(
    hosts: str, flags: tuple[str, ...], steps: type | None
) -> None:
    stale = [host(name, "DOWN+DRAIN", reservation=NAME) for name in ("gpu-0", "gpu-1")]
    sight = seeing(*stale, host("gpu-2"), host("gpu-3"))
    sight = sight._replace(reservations={NAME: Reservation(NAME, node_list=hosts, flags=flags)})
    pods = [pod("gpu-2"), pod("gpu-3", node="node2", ready=None)]
    made = [
        found for found in plan(snapshot(scheduled(START, replicas=4), pods, sight)) if isinstance(found, CreateWorker)
    ]
    assert [found.stale_host for found in made] == ["gpu-0", "gpu-1"]
    for found in made:
        assert type(found.release) is (steps or type(None))
        if isinstance(found.release, Reserve):
            assert found.release.request.node_list == ["gpu-2"], "neither of them, nor one that is not there"


def test_a_set_is_held_until_its_reservation_is_positively_gone() -> None:
    drain, held = {metadata.DRAIN_FINALIZER}, {metadata.DRAIN_FINALIZER, metadata.RESERVATION_FINALIZER}
    there, blind = seen(Reservation(NAME)), seen()._replace(trusted=False)
    assert desired_finalizers(node_set(), seen(), set()) == drain
    assert desired_finalizers(scheduled(), seen(), drain) == held
    assert desired_finalizers(node_set(), there, held) == desired_finalizers(node_set(), blind, held) == held
    assert desired_finalizers(node_set(), seen(), {*held, "example.com/theirs"}) == {*drain, "example.com/theirs"}
