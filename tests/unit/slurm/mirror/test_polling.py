# SPDX-License-Identifier: Apache-2.0
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.slurm.mirror.polling import (
    Hurry,
    Last,
    Rhythm,
    Source,
    Telltale,
    backoff,
    due,
    replanned,
    restarted,
    stirred,
)
from slinky.slurm.model.statistics import Diag, RpcCount
from slinky.slurm.model.values import number

RHYTHM = Rhythm()
COSTS = st.floats(0, 100)


def at(
    source: Source,
    *,
    cost: float = 0.0,
    full: float = 0.0,
    hurry: Hurry = Hurry.NONE,
    moving: bool = False,
    failures: int = 0,
) -> float:
    last = Last(at=0.0, cost=cost, full=full, hurry=hurry, failures=failures)
    return due(source, last, moving=moving, rhythm=RHYTHM)


def test_what_was_never_read_is_due_at_once() -> None:
    for source in Source:
        assert due(source, Last(), moving=False, rhythm=RHYTHM) == float("-inf")


def test_states_are_read_often_while_something_moves_and_seldom_otherwise() -> None:
    assert at(Source.JOBS, moving=True) == RHYTHM.lively
    assert at(Source.JOBS) == RHYTHM.sweep
    assert at(Source.JOBS, hurry=Hurry.NOW) == RHYTHM.urgent


def test_a_stir_keeps_states_in_view_for_a_while_and_puts_no_node_list_off() -> None:
    last = Last(at=0.0, full=1.0, hurry=Hurry.SOON)
    assert due(Source.JOBS, Last(at=0.0), moving=False, astir=True, rhythm=RHYTHM) == RHYTHM.lively
    assert due(Source.NODES, last, moving=False, astir=True, rhythm=RHYTHM) == at(
        Source.NODES, full=1.0, hurry=Hurry.SOON
    )


@given(COSTS, st.sampled_from(Hurry), st.booleans(), st.sampled_from(Source))
def test_no_server_is_asked_beyond_its_share(cost: float, hurry: Hurry, moving: bool, source: Source) -> None:
    assert at(source, cost=cost, hurry=hurry, moving=moving) >= RHYTHM.burden * cost
    assert at(source, full=cost, hurry=hurry, moving=moving) >= RHYTHM.burden * cost


@given(COSTS, COSTS, st.booleans(), st.sampled_from(Source))
def test_hurry_never_means_later(cost: float, full: float, moving: bool, source: Source) -> None:
    moments = [at(source, cost=cost, full=full, hurry=hurry, moving=moving) for hurry in Hurry]
    assert all(moment <= moments[0] for moment in moments)


def test_a_heavy_node_list_is_read_at_a_sign_and_a_light_one_all_the_time() -> None:
    assert at(Source.NODES, full=0.01) == RHYTHM.nodes
    assert at(Source.NODES, full=1.0) == RHYTHM.node_sweep
    assert at(Source.NODES, full=1.0, hurry=Hurry.SOON) == 20.0
    assert at(Source.NODES, full=1.0, hurry=Hurry.SOON, moving=True) == 60.0
    assert at(Source.NODES, full=1.0, hurry=Hurry.NOW) == 1.5


def test_ten_thousand_states_are_reread_within_a_second_and_a_half_while_moving() -> None:
    cost = 0.3
    assert at(Source.JOBS, cost=cost, moving=True) + cost < 1.5


@given(st.integers(1, 1000))
def test_failures_are_met_with_patience_but_never_with_despair(failures: int) -> None:
    assert RHYTHM.retry <= backoff(failures, RHYTHM) <= RHYTHM.retry_most
    assert at(Source.JOBS, failures=failures, hurry=Hurry.NOW) == backoff(failures, RHYTHM)


def test_a_database_that_hangs_is_not_asked_again_at_once() -> None:
    assert at(Source.PARTITIONS, failures=1) == RHYTHM.tables
    assert at(Source.PARTITIONS, failures=1, cost=15.0) == RHYTHM.burden * 15.0
    assert at(Source.NODES, failures=1, cost=15.0) == RHYTHM.retry


def telltale(**changes: object) -> Telltale:
    diag = Diag(req_time_start=number(5), rpcs_by_message_type=(RpcCount("REQUEST_KILL_JOBS", 1),))
    return Telltale.of(msgspec.structs.replace(diag, **changes))


def requests(**counts: int) -> Telltale:
    return telltale(rpcs_by_message_type=tuple(RpcCount(name, count) for name, count in counts.items()))


@pytest.mark.parametrize("counter", ["submitted", "started", "completed", "canceled", "failed"])
def test_a_job_counter_stirs(counter: str) -> None:
    signs = stirred(telltale(), telltale(**{f"jobs_{counter}": 1}))
    assert signs == {Source.JOBS: Hurry.NOW, Source.NODES: Hurry.SOON}


def test_a_cancel_of_a_waiting_job_stirs_although_no_counter_moves() -> None:
    assert Source.JOBS in stirred(requests(REQUEST_KILL_JOBS=1), requests(REQUEST_KILL_JOBS=2))


def test_a_request_about_nodes_makes_us_look_at_nodes() -> None:
    signs = stirred(requests(REQUEST_UPDATE_NODE=1), requests(REQUEST_UPDATE_NODE=2))
    assert signs[Source.NODES] is Hurry.NOW


def test_our_own_questions_do_not_stir() -> None:
    before = requests(REQUEST_KILL_JOBS=1)
    after = requests(REQUEST_KILL_JOBS=1, REQUEST_STATS_INFO=9, REQUEST_JOB_STATE=3, REQUEST_PING=2)
    assert not stirred(before, after)
    assert not restarted(before, after)


def test_a_plan_of_slurmctld_is_noticed_and_is_no_sign_that_a_job_moved() -> None:
    assert replanned(telltale(), telltale(bf_cycle_counter=1))
    assert not replanned(telltale(), telltale(bf_queue_len=1))
    assert not replanned(None, telltale())
    assert not stirred(telltale(), telltale(bf_cycle_counter=1))


def test_a_new_start_of_slurmctld_is_noticed() -> None:
    assert restarted(telltale(), telltale(req_time_start=number(6)))
    assert not restarted(None, telltale())
    assert stirred(telltale(), telltale(req_time_start=number(6)))[Source.NODES] is Hurry.NOW
    assert stirred(None, telltale()) == {}
