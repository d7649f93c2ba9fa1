# SPDX-License-Identifier: Apache-2.0
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.slurm.pace import Last, Rhythm, Source, Telltale, backoff, due, earliest, restarted, stirred
from slinky.slurm.values import number
from slinky.slurm.views import Diag, RpcCount

RHYTHM = Rhythm()
COSTS = st.floats(0, 100)


def at(
    source: Source, *, cost: float = 0.0, wanted: bool = False, moving: bool = False, failures: int = 0
) -> float:
    last = Last(at=0.0, cost=cost, wanted=wanted, failures=failures)
    return due(source, last, moving=moving, rhythm=RHYTHM)


def test_what_was_never_read_is_due_at_once() -> None:
    for source in Source:
        assert due(source, Last(), moving=False, rhythm=RHYTHM) == float("-inf")


def test_states_are_read_often_while_something_moves_and_seldom_otherwise() -> None:
    assert at(Source.JOBS, moving=True) == RHYTHM.lively
    assert at(Source.JOBS) == RHYTHM.sweep
    assert at(Source.JOBS, wanted=True) == RHYTHM.urgent


@given(COSTS, st.booleans(), st.booleans(), st.sampled_from(Source))
def test_no_server_is_asked_beyond_its_share(cost: float, wanted: bool, moving: bool, source: Source) -> None:
    assert at(source, cost=cost, wanted=wanted, moving=moving) >= RHYTHM.burden * cost


def test_a_full_node_list_of_a_second_is_not_read_again_for_twenty() -> None:
    assert at(Source.NODES, cost=1.0) == 20.0
    assert at(Source.NODES, cost=1.0, wanted=True) == 3.0


def test_ten_thousand_states_are_reread_within_a_second_and_a_half_while_moving() -> None:
    cost = 0.3
    assert at(Source.JOBS, cost=cost, moving=True) + cost < 1.5


@given(st.integers(1, 1000))
def test_failures_are_met_with_patience_but_never_with_despair(failures: int) -> None:
    assert RHYTHM.retry <= backoff(failures, RHYTHM) <= RHYTHM.retry_most
    assert at(Source.JOBS, failures=failures, wanted=True) == backoff(failures, RHYTHM)


def telltale(**changes: object) -> Telltale:
    diag = Diag(req_time_start=number(5), rpcs_by_message_type=(RpcCount("REQUEST_KILL_JOBS", 1),))
    return Telltale.of(msgspec.structs.replace(diag, **changes))


@pytest.mark.parametrize("counter", ["submitted", "started", "completed", "canceled", "failed"])
def test_a_job_counter_stirs(counter: str) -> None:
    assert stirred(telltale(), telltale(**{f"jobs_{counter}": 1}))


def test_a_cancel_of_a_waiting_job_stirs_although_no_counter_moves() -> None:
    assert stirred(telltale(), telltale(rpcs_by_message_type=(RpcCount("REQUEST_KILL_JOBS", 2),)))


def test_our_own_questions_do_not_stir() -> None:
    asked = (
        RpcCount("REQUEST_KILL_JOBS", 1),
        RpcCount("REQUEST_STATS_INFO", 9),
        RpcCount("REQUEST_JOB_STATE", 3),
    )
    assert not stirred(telltale(), telltale(rpcs_by_message_type=asked))
    assert not restarted(telltale(), telltale(rpcs_by_message_type=asked))


def test_a_new_start_of_slurmctld_is_noticed() -> None:
    assert restarted(telltale(), telltale(req_time_start=number(6)))
    assert not restarted(None, telltale())
    assert stirred(None, telltale())


def test_the_next_turn_is_the_first_that_is_due() -> None:
    assert earliest([5.0, 3.0], 1.0) == 2.0
    assert earliest([0.5], 1.0) == 0.0
