# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.slurm.mirror.pending_refresh import (
    BURST,
    LISTED_JOBS_MAX,
    RATE,
    REASON_EXPECTED_SECONDS,
    SHORT_LIST,
    SINGLE_READS_MAX,
    PendingJob,
    RefreshBudget,
    awaits_reason,
    prefers_list,
)


def job(key: str, *, has_reason: bool = True, read_at: float = 0.0, first_seen: float = 0.0) -> PendingJob:
    return PendingJob(has_reason, read_at, key, first_seen)


def test_jobs_without_a_reason_are_read_first_then_the_job_read_longest_ago() -> None:
    queue = [job("new", read_at=8), job("old", read_at=2), job("silent", has_reason=False, read_at=9)]
    assert RefreshBudget(0).choose(queue, 20, 1) == ["silent", "old", "new"]


def test_a_job_that_was_just_read_is_not_read_again_and_costs_nothing() -> None:
    budget = RefreshBudget(0)
    assert budget.choose([job("a", read_at=9.5)], 10, 1) == []
    assert len(budget.choose([job(str(n)) for n in range(100)], 10, 1)) == int(BURST)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30), st.integers(0, 200))
def test_a_long_queue_costs_no_more_than_the_rate_in_the_long_run(pauses: list[float], length: int) -> None:
    budget, now, read = RefreshBudget(0), 0.0, 0
    queue = [job(str(n), read_at=-1) for n in range(length)]
    for pause in pauses:
        now += pause
        read += len(budget.choose(queue, now, 1))
    assert read <= BURST + now * RATE + 1e-6


def test_a_young_job_without_a_reason_is_worth_another_read_and_an_old_one_is_not() -> None:
    assert awaits_reason([job("a", has_reason=False, first_seen=10)], 10 + REASON_EXPECTED_SECONDS - 1)
    assert not awaits_reason([job("a", has_reason=False, first_seen=10)], 10 + REASON_EXPECTED_SECONDS)
    assert not awaits_reason([job("a", first_seen=10)], 11)


@pytest.mark.parametrize(
    ("pending", "total", "expected"),
    [
        (SINGLE_READS_MAX, SINGLE_READS_MAX, False),
        (SINGLE_READS_MAX + 1, SHORT_LIST, True),
        (SINGLE_READS_MAX + 1, SHORT_LIST + 1, False),
        (500, 10_000, True),
        (500, 10_001, False),
        (10_000, LISTED_JOBS_MAX, True),
        (10_000, LISTED_JOBS_MAX + 1, False),
    ],
)
def test_many_pending_jobs_are_read_by_one_list_unless_it_is_too_long(pending: int, total: int, expected: bool) -> None:
    assert prefers_list(pending, total) is expected
