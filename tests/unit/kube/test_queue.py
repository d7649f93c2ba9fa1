# SPDX-License-Identifier: Apache-2.0
"""Laws of the queue."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slinky.kube.queue import Queue, backoff_seconds
from slinky.observe import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def queue(clock: ManualClock) -> Queue[str]:
    return Queue("test", clock=clock, rng=random.Random(7))  # noqa: S311


async def drain(queue: Queue[str]) -> list[str]:
    taken = []
    while len(queue):
        key = await queue.get()
        taken.append(key)
        queue.done(key)
    return taken


async def test_a_key_added_twice_is_worked_on_once(queue: Queue[str]) -> None:
    for key in "abab":
        queue.add(key)
    assert await drain(queue) == ["a", "b"]


async def test_a_key_may_change_its_group_while_it_is_worked_on(clock: ManualClock) -> None:
    group = {"a": "one"}
    queue: Queue[str] = Queue("test", group=lambda key: group[key], clock=clock)
    queue.add("a")
    assert await queue.get() == "a"
    group["a"] = "two"
    queue.add("a")
    queue.done("a")
    assert await drain(queue) == ["a"]


async def test_a_key_changed_during_work_comes_again_afterwards(queue: Queue[str]) -> None:
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    assert len(queue) == 0
    queue.done(key)
    assert await drain(queue) == ["a"]


async def test_a_key_waits_for_its_minimum_interval_however_often_it_changes(clock: ManualClock) -> None:
    queue: Queue[str] = Queue("test", min_interval=1.0, clock=clock)
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.done(key)
    queue.add("a")
    assert await drain(queue) == []
    await clock.advance(0.9)
    queue.add("b")
    assert await drain(queue) == ["b"]
    await clock.advance(0.2)
    assert await drain(queue) == ["a"]
    await clock.advance(5)
    queue.add("a")
    assert await drain(queue) == ["a"]


async def test_higher_priority_goes_first_then_first_come(queue: Queue[str]) -> None:
    queue.add("slow", priority=-1)
    queue.add("a")
    queue.add("b")
    queue.add("urgent", priority=5)
    assert await drain(queue) == ["urgent", "a", "b", "slow"]


async def test_a_raised_priority_moves_a_waiting_key_forward(queue: Queue[str]) -> None:
    for key in "abc":
        queue.add(key)
    queue.add("c", priority=1)
    assert await drain(queue) == ["c", "a", "b"]


async def test_a_delayed_key_comes_when_due(queue: Queue[str], clock: ManualClock) -> None:
    queue.add("a", after=10.0)
    await clock.advance(9.9)
    assert len(queue) == 0
    await clock.advance(0.2)
    assert await drain(queue) == ["a"]


async def test_of_two_delays_the_earlier_wins(queue: Queue[str], clock: ManualClock) -> None:
    queue.add("a", after=10.0)
    queue.add("a", after=1.0)
    queue.add("a", after=5.0)
    await clock.advance(1.0)
    assert await drain(queue) == ["a"]
    await clock.advance(60.0)
    assert len(queue) == 0


async def test_adding_a_delayed_key_makes_it_ready_at_once(queue: Queue[str], clock: ManualClock) -> None:
    queue.add("a", after=10.0)
    queue.add("a")
    assert await drain(queue) == ["a"]
    await clock.advance(60.0)
    assert len(queue) == 0


async def test_the_back_off_grows_with_each_failure_until_a_success(queue: Queue[str]) -> None:
    pauses = [queue.retry("a") for _ in range(6)]
    assert all(later > sooner * 0.99 for sooner, later in zip(pauses, pauses[2:], strict=False))
    queue.forget("a")
    assert queue.retry("a") <= 0.5


async def test_groups_take_turns(clock: ManualClock) -> None:
    queue: Queue[str] = Queue("test", group=lambda key: key[0], clock=clock)
    for key in ("a1", "a2", "a3", "b1", "c1"):
        queue.add(key)
    assert await drain(queue) == ["a1", "b1", "c1", "a2", "a3"]


async def test_a_stuck_group_cannot_take_all_workers(clock: ManualClock) -> None:
    queue: Queue[str] = Queue("test", group=lambda key: key[0], group_limit=2, clock=clock)
    for number in range(9):
        queue.add(f"dead-{number}")
    stuck = [await queue.get(), await queue.get()]
    queue.add("well")
    assert await queue.get() == "well"
    waiting = asyncio.ensure_future(queue.get())
    await clock.advance(1.0)
    assert not waiting.done()
    queue.done(stuck[0])
    assert (await waiting).startswith("dead")


async def test_a_cancelled_worker_passes_its_wake_up_to_another(queue: Queue[str], clock: ManualClock) -> None:
    first, second = asyncio.ensure_future(queue.get()), asyncio.ensure_future(queue.get())
    await clock.advance(0)
    queue.add("a")
    first.cancel()
    assert await second == "a"


async def test_empty_groups_are_removed(clock: ManualClock) -> None:
    queue: Queue[str] = Queue("test", group=lambda key: key, clock=clock)
    for number in range(100):
        queue.add(str(number))
        queue.done(await queue.get())
    waiting = asyncio.ensure_future(queue.get())
    await clock.advance(0)
    assert not queue._groups
    waiting.cancel()


@given(attempt=st.integers(0, 10_000), seed=st.integers())
def test_backoff_stays_within_bounds(attempt: int, seed: int) -> None:
    pause = backoff_seconds(attempt, rng=random.Random(seed), floor=0.5, ceiling=300.0)  # noqa: S311
    assert 0.25 <= pause <= 300.0


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 3), st.integers(-1, 2)), max_size=40))
def test_no_key_is_lost_and_none_is_worked_on_twice_at_once(steps: list[tuple[str, int, int]]) -> None:
    async def play() -> None:
        clock = ManualClock()
        queue: Queue[str] = Queue(
            "test", group=lambda key: (key[0] < "c" and "low") or "high", group_limit=2, clock=clock
        )
        busy: list[str] = []
        worked: set[str] = set()

        async def work() -> None:
            while True:
                key = await queue.get()
                assert key not in busy
                busy.append(key)
                await clock.sleep(0.5)
                busy.remove(key)
                worked.add(key)
                queue.done(key)

        async with asyncio.TaskGroup() as tasks:
            workers = [tasks.create_task(work()) for _ in range(3)]
            for key, after, priority in steps:
                queue.add(key, after=float(after), priority=priority)
                await clock.advance(0.3)
            await clock.advance(60.0)
            for worker in workers:
                worker.cancel()
        assert worked == {key for key, _, _ in steps}
        assert len(queue) == 0

    asyncio.run(play())
