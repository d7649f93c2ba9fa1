# SPDX-License-Identifier: Apache-2.0
"""Laws of the watch, on scripted streams: the sink always equals the server."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.kube.objects import bookmark, event, failure
from tests.unit.kube.scripted import CUT, Chunks, Scripted, answer

from slinky.kube import CONFIG_MAPS, Cache, ConfigMap, Key, KubeClient, Watch
from slinky.kube.errors import Unreachable, api_error
from slinky.kube.watch import EVENTS_PER_SLICE
from slinky.observe import ManualClock


class Rig:
    def __init__(self, *, streams: list[Any], requests: list[Any] | None = None, streaming: bool = True) -> None:
        self.clock = ManualClock()
        self.transport = Scripted(requests, streams)
        self.cache: Cache[ConfigMap] = Cache(CONFIG_MAPS)
        client = KubeClient(
            self.transport,
            clock=self.clock,
            rng=random.Random(1),  # noqa: S311
        )
        self.watch = Watch(client, CONFIG_MAPS, self.cache, streaming=streaming)

    @property
    def names(self) -> dict[str, str]:
        return {item.metadata.name: item.metadata.resource_version for item in self.cache}

    def queries(self) -> list[dict[str, str]]:
        return [
            {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
            for _, path, _ in self.transport.sent
        ]


@contextlib.asynccontextmanager
async def played(rig: Rig, seconds: float = 120.0) -> AsyncIterator[Rig]:
    """Run the watch until its script is over."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(rig.watch.run())
        await rig.clock.advance(seconds)
        yield rig
        task.cancel()


HEAD = [event("ADDED", "b", 9), event("ADDED", "a", 3), bookmark(10, end=True)]


async def test_one_stream_delivers_the_list_and_its_changes() -> None:
    async with played(Rig(streams=[Chunks([*HEAD, event("MODIFIED", "a", 11), event("DELETED", "b", 12)])])) as rig:
        assert rig.names == {"a": "11"}
        assert rig.queries()[0]["sendInitialEvents"] == "true"


async def test_an_interrupted_stream_resumes_from_the_last_version() -> None:
    streams = [
        Chunks([*HEAD, event("MODIFIED", "a", 11), CUT]),
        Chunks([event("MODIFIED", "a", 13)]),
        Chunks([event("ADDED", "c", 14), CUT]),
    ]
    async with played(Rig(streams=streams)) as rig:
        assert rig.names == {"a": "13", "b": "9", "c": "14"}
        assert [query.get("resourceVersion") for query in rig.queries()[:4]] == [None, "11", "13", "14"]


async def test_a_stream_interrupted_within_its_list_removes_nothing_and_restarts() -> None:
    streams = [
        Chunks([*HEAD, failure(410, "Expired")]),
        Chunks([event("ADDED", "a", 3), CUT]),  # b was not mentioned: no proof
        Chunks([CUT]),
    ]
    async with played(Rig(streams=streams)) as rig:
        assert rig.names == {"a": "3", "b": "9"}
        assert rig.queries()[2]["sendInitialEvents"] == "true"


async def test_an_incomplete_line_is_ignored() -> None:
    line = event("MODIFIED", "a", 11)
    streams = [Chunks([*HEAD, line[:-9], CUT]), Chunks([line])]
    async with played(Rig(streams=streams)) as rig:
        assert rig.names["a"] == "11"
        assert rig.queries()[1]["resourceVersion"] == "10"


@pytest.mark.parametrize(
    "loss",
    [Chunks([failure(410, "Expired")]), api_error(410, b"{}")],
    ids=["inside the stream", "as an answer"],
)
async def test_a_lost_history_is_listed_again_and_absent_objects_are_removed(loss: Any) -> None:
    streams = [Chunks(HEAD), loss, Chunks([event("ADDED", "a", 3), bookmark(20, end=True)])]
    async with played(Rig(streams=streams)) as rig:
        assert rig.names == {"a": "3"}


async def test_bookmarks_advance_the_version_to_resume_from() -> None:
    async with played(Rig(streams=[Chunks([*HEAD, bookmark(50), CUT]), Chunks([CUT])])) as rig:
        assert rig.queries()[1]["resourceVersion"] == "50"


async def test_decreasing_versions_start_a_new_list_that_replaces_the_cache() -> None:
    streams = [Chunks([*HEAD, bookmark(4)]), Chunks([event("ADDED", "a", 2), bookmark(4, end=True)])]
    async with played(Rig(streams=streams)) as rig:
        assert rig.names == {"a": "2"}


PAGE = {
    "metadata": {"resourceVersion": "30"},
    "items": [{"metadata": {"name": "a", "namespace": "ns", "resourceVersion": "3"}}],
}


@pytest.mark.parametrize(
    "refusal",
    [
        api_error(422, b"{}"),
        api_error(400, b"{}"),
        Chunks([failure(500, "InternalError", "storage cannot do it")]),
    ],
)
async def test_a_server_without_streaming_lists_is_listed_in_pages(refusal: Any) -> None:
    streams = [refusal, Chunks([event("ADDED", "b", 31)])]
    async with played(Rig(streams=streams, requests=[answer(200, PAGE)])) as rig:
        assert rig.names == {"a": "3", "b": "31"}
        assert rig.queries()[2]["resourceVersion"] == "30"


async def test_a_list_that_expires_half_way_removes_nothing() -> None:
    first = PAGE | {"metadata": {"resourceVersion": "30", "continue": "more"}}
    requests = [answer(200, first), answer(410, {"reason": "Expired", "code": 410}), answer(200, PAGE)]
    rig = Rig(streams=[Chunks([CUT])], requests=requests, streaming=False)
    rig.cache.begin_list()
    rig.cache.put(msgspec.convert(PAGE["items"][0] | {"metadata": {"name": "x"}}, ConfigMap))  # type: ignore[index]
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(rig.watch.run())
        await rig.clock.advance(0.1)
        assert Key("", "x") in rig.cache
        await rig.clock.advance(60.0)
        assert rig.names == {"a": "3"}
        task.cancel()


async def test_an_undecodable_object_is_counted_and_the_watch_continues() -> None:
    streams = [Chunks([*HEAD, event("MODIFIED", "a", 11, data=["?"]), event("ADDED", "c", 12)])]
    async with played(Rig(streams=streams)) as rig:
        assert rig.names == {"a": "3", "b": "9", "c": "12"}
        assert set(rig.cache.undecodable) == {Key("ns", "a")}


async def test_an_unreachable_server_is_retried_with_back_off() -> None:
    rig = Rig(streams=[Unreachable("refused")] * 40)
    async with played(rig):
        sent = len(rig.transport.sent)
        assert 10 < sent < 30
        await rig.clock.advance(10.0)
        assert len(rig.transport.sent) <= sent + 2


async def test_the_watch_waits_for_the_retry_after_of_a_busy_server() -> None:
    rig = Rig(streams=[api_error(429, b"{}", retry_after="60"), Chunks(HEAD)])
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(rig.watch.run())
        await rig.clock.advance(59.0)
        assert len(rig.transport.sent) == 1
        await rig.clock.advance(2.0)
        assert rig.cache.synced
        task.cancel()


async def test_garbage_in_the_stream_only_ends_the_stream() -> None:
    streams = [Chunks([*HEAD, b"<html>502</html>\n"]), Chunks([event("ADDED", "c", 12)])]
    async with played(Rig(streams=streams)) as rig:
        assert rig.names == {"a": "3", "b": "9", "c": "12"}


@settings(max_examples=80, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["ADDED", "MODIFIED", "DELETED"])), max_size=15),
    cuts=st.lists(st.integers(0, 2000), max_size=6),
)
def test_interruptions_of_the_stream_do_not_change_the_result(steps: list[tuple[str, str]], cuts: list[int]) -> None:
    """Streams break at any byte; each new one replays what came after the version it asks for."""
    history = [(version, event(kind, name, version)) for version, (name, kind) in enumerate(steps, start=11)]
    expected: dict[str, str] = {"a": "3", "b": "9"}
    for version, (name, kind) in enumerate(steps, start=11):
        expected.pop(name, None)
        if kind != "DELETED":
            expected[name] = str(version)

    class Server(Scripted):
        @contextlib.asynccontextmanager
        async def stream(self, path: str, **_: Any) -> AsyncIterator[Any]:
            query = parse_qs(urlsplit(path).query)
            if "resourceVersion" in query:
                since = int(query["resourceVersion"][0])
                stream = b"".join(line for version, line in history if version > since)
            else:
                stream = b"".join(HEAD) + b"".join(line for _, line in history)
            if cuts:
                yield Chunks([stream[: cuts.pop()], CUT])
            else:
                yield Chunks([stream])

    async def play() -> None:
        rig = Rig(streams=[])
        rig.watch._client.transport = Server()
        async with played(rig):
            assert rig.names == expected

    asyncio.run(play())


async def test_many_events_of_one_chunk_do_not_stall_the_event_loop() -> None:
    chunk = b"".join(event("ADDED", f"n{number}", number + 1) for number in range(1000))
    rig = Rig(streams=[Chunks([chunk + bookmark(2000, end=True)])])
    watching, most, before = asyncio.create_task(rig.watch.run()), 0, 0
    while len(rig.cache) < 1000:
        await asyncio.sleep(0)
        most, before = max(most, len(rig.cache) - before), len(rig.cache)
    watching.cancel()
    assert 0 < most <= EVENTS_PER_SLICE
