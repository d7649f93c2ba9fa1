# SPDX-License-Identifier: Apache-2.0
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.slurm.mirror.polling import (
    ActivityCounters,
    PollingIntervals,
    PollState,
    Source,
    Urgency,
    backfill_has_run,
    backoff,
    has_restarted,
    next_read_at,
    sources_to_read,
)
from slinky.slurm.model.statistics import Diag, RpcCount
from slinky.slurm.model.values import number

INTERVALS = PollingIntervals()
COSTS = st.floats(0, 100)


def at(
    source: Source,
    *,
    cost: float = 0.0,
    full_cost: float = 0.0,
    urgency: Urgency = Urgency.NONE,
    jobs_change: bool = False,
    failures: int = 0,
) -> float:
    last = PollState(at=0.0, cost=cost, full_cost=full_cost, urgency=urgency, failures=failures)
    return next_read_at(source, last, jobs_change=jobs_change, intervals=INTERVALS)


def test_a_source_that_was_never_read_is_due_at_once() -> None:
    for source in Source:
        assert next_read_at(source, PollState(), jobs_change=False, intervals=INTERVALS) == float("-inf")


def test_job_states_are_read_often_while_jobs_change_and_rarely_otherwise() -> None:
    assert at(Source.JOBS, jobs_change=True) == INTERVALS.active_jobs
    assert at(Source.JOBS) == INTERVALS.idle_jobs
    assert at(Source.JOBS, urgency=Urgency.NOW) == INTERVALS.urgent


@pytest.mark.parametrize("sign", ["jobs_change", "counters_rose", "changes_expected"])
def test_the_statistics_are_read_often_while_a_change_is_expected_and_less_often_otherwise(sign: str) -> None:
    signs = {"jobs_change": False, "changes_expected": False}

    def interval(intervals: PollingIntervals, **more: bool) -> float:
        return next_read_at(Source.STATISTICS, PollState(at=0.0), intervals=intervals, **{**signs, **more})

    assert interval(INTERVALS) == INTERVALS.idle_statistics
    assert interval(INTERVALS, **{sign: True}) == INTERVALS.statistics < INTERVALS.idle_statistics
    assert interval(PollingIntervals(statistics=4.0)) == 4.0, "a slow reader stays slow"


def test_a_risen_counter_shortens_the_interval_of_states_and_delays_no_node_list() -> None:
    last = PollState(at=0.0, full_cost=1.0, urgency=Urgency.SOON)
    assert (
        next_read_at(Source.JOBS, PollState(at=0.0), jobs_change=False, counters_rose=True, intervals=INTERVALS)
        == INTERVALS.active_jobs
    )
    assert next_read_at(Source.NODES, last, jobs_change=False, counters_rose=True, intervals=INTERVALS) == at(
        Source.NODES, full_cost=1.0, urgency=Urgency.SOON
    )


@given(COSTS, st.sampled_from(Urgency), st.booleans(), st.sampled_from(Source))
def test_the_pause_is_at_least_a_multiple_of_the_cost_of_a_read(
    cost: float, urgency: Urgency, jobs_change: bool, source: Source
) -> None:
    assert at(source, cost=cost, urgency=urgency, jobs_change=jobs_change) >= INTERVALS.cost_factor * cost
    assert at(source, full_cost=cost, urgency=urgency, jobs_change=jobs_change) >= INTERVALS.cost_factor * cost


@given(COSTS, COSTS, st.booleans(), st.sampled_from(Source))
def test_an_urgent_read_is_never_later_than_a_regular_one(
    cost: float, full_cost: float, jobs_change: bool, source: Source
) -> None:
    moments = [
        at(source, cost=cost, full_cost=full_cost, urgency=urgency, jobs_change=jobs_change) for urgency in Urgency
    ]
    assert all(moment <= moments[0] for moment in moments)


def test_an_expensive_node_list_is_read_on_a_sign_and_a_cheap_one_regularly() -> None:
    assert at(Source.NODES, full_cost=0.01) == INTERVALS.nodes
    assert at(Source.NODES, full_cost=1.0) == INTERVALS.idle_nodes
    assert at(Source.NODES, full_cost=1.0, urgency=Urgency.SOON) == 20.0
    assert at(Source.NODES, full_cost=1.0, urgency=Urgency.SOON, jobs_change=True) == 60.0
    assert at(Source.NODES, full_cost=1.0, urgency=Urgency.NOW) == 1.5


def test_ten_thousand_states_are_reread_within_a_second_and_a_half_while_jobs_change() -> None:
    cost = 0.3
    assert at(Source.JOBS, cost=cost, jobs_change=True) + cost < 1.5


@given(st.integers(1, 1000))
def test_the_pause_after_failures_grows_up_to_a_maximum(failures: int) -> None:
    assert INTERVALS.retry_min <= backoff(failures, INTERVALS) <= INTERVALS.retry_max
    assert at(Source.JOBS, failures=failures, urgency=Urgency.NOW) == backoff(failures, INTERVALS)


def test_a_database_that_hangs_is_not_read_again_at_once() -> None:
    assert at(Source.PARTITIONS, failures=1) == INTERVALS.partitions
    assert at(Source.PARTITIONS, failures=1, cost=15.0) == INTERVALS.cost_factor * 15.0
    assert at(Source.NODES, failures=1, cost=15.0) == INTERVALS.retry_min


def counters(**changes: object) -> ActivityCounters:
    diag = Diag(req_time_start=number(5), rpcs_by_message_type=(RpcCount("REQUEST_KILL_JOBS", 1),))
    return ActivityCounters.from_diag(msgspec.structs.replace(diag, **changes))


def requests(**counts: int) -> ActivityCounters:
    return counters(rpcs_by_message_type=tuple(RpcCount(name, count) for name, count in counts.items()))


@pytest.mark.parametrize("counter", ["submitted", "started", "completed", "canceled", "failed"])
def test_a_job_counter_that_rises_requests_jobs_and_nodes(counter: str) -> None:
    urgencies = sources_to_read(counters(), counters(**{f"jobs_{counter}": 1}))
    assert urgencies == {Source.JOBS: Urgency.NOW, Source.NODES: Urgency.SOON}


def test_a_cancel_of_a_pending_job_requests_jobs_although_no_job_counter_rises() -> None:
    assert Source.JOBS in sources_to_read(requests(REQUEST_KILL_JOBS=1), requests(REQUEST_KILL_JOBS=2))


def test_a_request_about_nodes_requests_the_node_list_now() -> None:
    urgencies = sources_to_read(requests(REQUEST_UPDATE_NODE=1), requests(REQUEST_UPDATE_NODE=2))
    assert urgencies[Source.NODES] is Urgency.NOW


def test_the_mirrors_own_requests_are_no_activity() -> None:
    before = requests(REQUEST_KILL_JOBS=1)
    after = requests(REQUEST_KILL_JOBS=1, REQUEST_STATS_INFO=9, REQUEST_JOB_STATE=3, REQUEST_PING=2)
    assert not sources_to_read(before, after)
    assert not has_restarted(before, after)


def test_a_backfill_cycle_is_noticed_and_requests_no_job_states() -> None:
    assert backfill_has_run(counters(), counters(bf_cycle_counter=1))
    assert not backfill_has_run(counters(), counters(bf_queue_len=1))
    assert not backfill_has_run(None, counters())
    assert not sources_to_read(counters(), counters(bf_cycle_counter=1))


def test_a_restart_of_slurmctld_is_noticed() -> None:
    assert has_restarted(counters(), counters(req_time_start=number(6)))
    assert not has_restarted(None, counters())
    assert sources_to_read(counters(), counters(req_time_start=number(6)))[Source.NODES] is Urgency.NOW
    assert sources_to_read(None, counters()) == {}
