# SPDX-License-Identifier: Apache-2.0
from hypothesis import given
from hypothesis import strategies as st

from slinky.slurm.mirror.pending_refresh import BURST, CURIOUS, RATE, Allowance, Waiting, curious


def job(key: str, *, explained: bool = True, read_at: float = 0.0, first_seen: float = 0.0) -> Waiting:
    return Waiting(explained, read_at, key, first_seen)


def test_the_unexplained_are_read_first_then_the_longest_unread() -> None:
    queue = [job("new", read_at=8), job("old", read_at=2), job("silent", explained=False, read_at=9)]
    assert Allowance(0).choose(queue, 20, 1) == ["silent", "old", "new"]


def test_what_was_just_read_is_left_alone_and_costs_nothing() -> None:
    allowance = Allowance(0)
    assert allowance.choose([job("a", read_at=9.5)], 10, 1) == []
    assert len(allowance.choose([job(str(n)) for n in range(100)], 10, 1)) == int(BURST)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30), st.integers(0, 200))
def test_a_long_queue_costs_no_more_than_the_rate_in_the_long_run(pauses: list[float], length: int) -> None:
    allowance, now, read = Allowance(0), 0.0, 0
    queue = [job(str(n), read_at=-1) for n in range(length)]
    for pause in pauses:
        now += pause
        read += len(allowance.choose(queue, now, 1))
    assert read <= BURST + now * RATE + 1e-6


def test_a_young_job_without_a_reason_is_worth_another_look_and_an_old_one_is_not() -> None:
    assert curious([job("a", explained=False, first_seen=10)], 10 + CURIOUS - 1)
    assert not curious([job("a", explained=False, first_seen=10)], 10 + CURIOUS)
    assert not curious([job("a", first_seen=10)], 11)
