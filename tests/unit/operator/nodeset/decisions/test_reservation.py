# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from tests.unit.operator.samples import NOW, host, node_set, node_set_snapshot, pod, trusted_snapshot, worker_of

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


def scheduled(created: str = "", **more: Any) -> NodeSet:
    update = {"type": "ScheduledUpdate", "scheduledUpdate": {"startTime": START, "duration": "90m", "flags": ["daily"]}}
    known = [{"type": "ReservationCreated", "status": "True", "message": created}] if created else []
    return node_set(updateStrategy=update, status={"conditions": known}, **more)


def slurm_with(*reservation: Reservation) -> SlurmSnapshot:
    return trusted_snapshot(host("gpu-0"))._replace(reservations={action.name: action for action in reservation})


def next_step(gpu_set: NodeSet, slurm: SlurmSnapshot) -> Reserve | EndReservation | None:
    return next_action(gpu_set, (worker_of(pod(), slurm),), slurm, NOW)


def test_a_scheduled_update_reserves_its_hosts() -> None:
    action = next_step(scheduled(), slurm_with())
    assert isinstance(action, Reserve)
    assert action.request.flags == ["DAILY", "IGNORE_JOBS", "MAINT"]
    assert (action.request.name, action.request.node_list) == (NAME, ["gpu-0"])
    assert action.request.duration is not None
    assert action.request.duration.value == 90


def test_a_reservation_is_made_once_for_a_start_time() -> None:
    assert next_step(scheduled(START), slurm_with()) is None
    assert isinstance(next_step(scheduled("2020-01-01T00:00:00Z"), slurm_with()), Reserve)


def test_new_hosts_join_and_nothing_else_changes() -> None:
    assert next_step(scheduled(START), slurm_with(Reservation(NAME, node_list="gpu-0"))) is None
    action = next_step(scheduled(START), slurm_with(Reservation(NAME, node_list="gpu-[0-4]")))
    assert isinstance(action, Reserve)
    assert action.request.node_list == ["gpu-0"]
    assert action.request.start_time is None


def reservation(begins: float, minutes: int = 90, *flags: str) -> Reservation:
    """One that was made for our host, and begins so many minutes from now."""
    start = int(NOW.timestamp() + 60 * begins)
    end = number(start + 60 * minutes)
    return Reservation(NAME, node_list="gpu-0", flags=flags, start_time=number(start), end_time=end)


BEFORE = "2026-11-16T12:20:00+00:00"
MOVED = [
    ("as requested", START, reservation(30), False),
    ("a user has chosen another start", BEFORE, reservation(20), True),
    ("a user has chosen another duration", START, reservation(30, 45), True),
    ("active: only its hosts change", BEFORE, reservation(-5, 45), False),
    ("Slurm has moved a recurring one", START, reservation(24 * 60, 90, "DAILY"), False),
    ("a user moves a recurring one", BEFORE, reservation(24 * 60, 90, "DAILY"), True),
    ("recurring, and its requested start is not recorded", "", reservation(24 * 60, 90, "DAILY"), False),
    ("its requested start is not recorded: requested again", "", reservation(30), True),
]


@pytest.mark.parametrize(("law", "created", "live", "moves"), MOVED, ids=[case[0] for case in MOVED])
def test_a_reservation_follows_the_time_that_is_asked_for(
    law: str, created: str, live: Reservation, moves: bool
) -> None:
    action = next_step(scheduled(created), slurm_with(live))
    assert (action is not None) is moves
    if isinstance(action, Reserve):
        assert action.start == START
        assert action.request.start_time == number(int(NOW.timestamp()) + 30 * 60)
        assert action.request.duration == number(90)
        assert action.request.node_list == ["gpu-0"]


def test_it_goes_when_it_is_not_wanted() -> None:
    for gpu_set in (node_set(), scheduled(START, replicas=0), scheduled(START, deleting=5)):
        assert next_step(gpu_set, slurm_with(Reservation(NAME, node_list="gpu-0"))) == EndReservation(NAME)
    assert next_step(node_set(), slurm_with(Reservation("other"))) is None


def test_without_knowledge_nothing_is_done() -> None:
    assert next_step(scheduled(), slurm_with()._replace(trusted=False)) is None


def test_a_healthy_worker_is_replaced_only_inside_the_window() -> None:
    outside = node_set_snapshot(
        scheduled(START), [pod(revision="rev1")], slurm_with(Reservation(NAME, node_list="gpu-0"))
    )
    assert not [a for a in plan(outside) if isinstance(a, CondemnWorker)]
    inside = trusted_snapshot(host("gpu-0", "IDLE+MAINTENANCE", reservation=NAME))
    assert [
        a.cause
        for a in plan(node_set_snapshot(scheduled(START), [pod(revision="rev1")], inside))
        if isinstance(a, CondemnWorker)
    ] == ["update"]


def test_the_condition_remembers_the_start_time() -> None:
    created = health(
        node_set_snapshot(scheduled(), [pod()], slurm_with()), ExecutionReport(reservation_start=START)
    ).reserved
    assert created is not None
    assert (created.value, created.message) == (True, START)
    assert health(node_set_snapshot(node_set(), [pod()], slurm_with())).reserved is None


@pytest.mark.parametrize(
    ("hosts", "flags", "steps"),
    [
        ("gpu-[0-3]", (), Reserve),
        ("gpu-[0-1,3]", (), EndReservation),
        ("gpu-[0-1]", ("DAILY",), None),
        ("gpu-[2-3]", (), None),
    ],
    ids=["others stay", "nothing is left", "nothing is left, but it is recurring", "not in it"],
)
def test_slurm_forgets_no_host_that_is_reserved_so_it_leaves_first(
    hosts: str, flags: tuple[str, ...], steps: type | None
) -> None:
    stale = [host(name, "DOWN+DRAIN", reservation=NAME) for name in ("gpu-0", "gpu-1")]
    slurm = trusted_snapshot(*stale, host("gpu-2"), host("gpu-3"))
    slurm = slurm._replace(reservations={NAME: Reservation(NAME, node_list=hosts, flags=flags)})
    pods = [pod("gpu-2"), pod("gpu-3", node="node2", ready=None)]
    created = [
        action
        for action in plan(node_set_snapshot(scheduled(START, replicas=4), pods, slurm))
        if isinstance(action, CreateWorker)
    ]
    assert [action.stale_host for action in created] == ["gpu-0", "gpu-1"]
    for action in created:
        assert type(action.release) is (steps or type(None))
        if isinstance(action.release, Reserve):
            assert action.release.request.node_list == ["gpu-2"], "neither of them, nor one that is not there"


def test_a_set_is_held_until_its_reservation_is_positively_gone() -> None:
    drain, reservation = {metadata.DRAIN_FINALIZER}, {metadata.DRAIN_FINALIZER, metadata.RESERVATION_FINALIZER}
    live, blind = slurm_with(Reservation(NAME)), slurm_with()._replace(trusted=False)
    assert desired_finalizers(node_set(), slurm_with(), set()) == drain
    assert desired_finalizers(scheduled(), slurm_with(), drain) == reservation
    assert (
        desired_finalizers(node_set(), live, reservation)
        == desired_finalizers(node_set(), blind, reservation)
        == reservation
    )
    assert desired_finalizers(node_set(), slurm_with(), {*reservation, "example.com/theirs"}) == {
        *drain,
        "example.com/theirs",
    }
