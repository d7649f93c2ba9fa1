# SPDX-License-Identifier: Apache-2.0
import asyncio

from hypothesis import given
from hypothesis import strategies as st

from slinky.slurm.mirror.feed import Change, Feed, ObjectKind

STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([None, 1, 2, 3])), max_size=30)


def drain(feed: Feed) -> list[Change]:
    async def read() -> list[Change]:
        return [await feed.next() for _ in range(len(feed))]

    return asyncio.run(read())


@given(STEPS)
def test_a_slow_reader_ends_up_where_a_fast_one_does(steps: list[tuple[str, int | None]]) -> None:
    latest: dict[str, int | None] = {}
    feed = Feed()
    for key, value in steps:
        if latest.get(key) != value:
            feed.put(Change(ObjectKind.JOB, key, latest.get(key), value))
            latest[key] = value
    assert len(feed) <= 3
    for change in drain(feed):
        assert change.before is None
        assert latest.pop(change.key) == change.after
    assert not any(latest.values())


def test_an_absence_is_never_dropped() -> None:
    feed = Feed()
    feed.put(Change(ObjectKind.NODE, "a", 1, 2))
    feed.put(Change(ObjectKind.NODE, "a", 2, None))
    assert drain(feed) == [Change(ObjectKind.NODE, "a", 1, None)]


def test_a_reader_gets_only_the_kinds_it_asked_for() -> None:
    feed = Feed([ObjectKind.NODE])
    feed.put(Change(ObjectKind.JOB, "1", None, 1))
    feed.put(Change(ObjectKind.NODE, "n", None, 1))
    assert [change.key for change in drain(feed)] == ["n"]


async def test_a_waiting_reader_is_woken() -> None:
    feed = Feed()
    waiting = asyncio.create_task(feed.next())
    await asyncio.sleep(0)
    feed.put(Change(ObjectKind.JOB, "1", None, 1))
    assert (await waiting).key == "1"
    feed.put(Change(ObjectKind.JOB, "2", None, 1))
    async for change in feed:
        assert change.key == "2"
        break
