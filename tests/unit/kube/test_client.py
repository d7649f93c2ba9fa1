# SPDX-License-Identifier: Apache-2.0
"""Laws of the verbs, on a scripted transport."""

import random
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from tests.unit.kube.scripted import Scripted, answer

from slinky.kube import (
    CONFIG_MAPS,
    PODS,
    Key,
    KubeClient,
    NotFound,
    ServerError,
    TooManyRequests,
    Unreachable,
    Unreadable,
)
from slinky.kube.errors import ErrorKind, api_error, classify_error
from slinky.observe import ManualClock

FOUND = {"metadata": {"name": "a", "namespace": "ns", "resourceVersion": "1"}}
BUSY = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "slow down"}


class Rig:
    def __init__(self, *requests: object) -> None:
        self.transport = Scripted(list(requests))
        self.clock = ManualClock()
        self.client = KubeClient(self.transport, clock=self.clock, rng=random.Random(1), deadline=30.0)  # noqa: S311

    async def get(self, seconds: float) -> object:
        """The answer to a get during which `seconds` pass."""
        import asyncio  # noqa: PLC0415

        task = asyncio.ensure_future(self.client.get(CONFIG_MAPS, Key("ns", "a")))
        await self.clock.advance(seconds)
        return await task


async def test_a_request_is_repeated_after_the_retry_after_of_a_busy_server() -> None:
    rig = Rig(answer(429, BUSY, Retry_After="5"), answer(200, FOUND))
    await rig.get(7.0)
    assert len(rig.transport.sent) == 2


async def test_a_retry_after_beyond_the_deadline_is_raised_at_once() -> None:
    rig = Rig(answer(429, BUSY, Retry_After="60"))
    with pytest.raises(TooManyRequests) as refused:
        await rig.get(0.0)
    assert refused.value.retry_after == 60.0
    assert classify_error(refused.value).after == 60.0


async def test_a_refusal_without_a_retry_after_is_raised() -> None:
    rig = Rig(answer(503, b"<html>bad gateway</html>"))
    with pytest.raises(ServerError, match="bad gateway"):
        await rig.get(0.0)


async def test_an_eviction_is_never_repeated() -> None:
    rig = Rig(answer(429, BUSY, Retry_After="1"))
    with pytest.raises(TooManyRequests):
        await rig.client.evict(Key("ns", "a"))


async def test_a_write_that_may_have_happened_is_not_repeated() -> None:
    rig = Rig(Unreachable("reset"))
    with pytest.raises(Unreachable):
        await rig.client.create(CONFIG_MAPS, FOUND)
    assert len(rig.transport.sent) == 1


async def test_a_response_that_is_not_an_object_is_unreadable_and_not_empty() -> None:
    for body in (b"", b"<html>", b"[]", b'{"metadata": 7}'):
        with pytest.raises(Unreadable):
            await Rig(answer(200, body)).get(0.0)


async def test_pages_ask_for_the_rest_of_the_same_snapshot() -> None:
    rig = Rig(
        answer(200, {"metadata": {"resourceVersion": "5", "continue": "next"}, "items": [FOUND]}),
        answer(200, {"metadata": {"resourceVersion": "5"}, "items": None}),
    )
    pages = [page async for page in rig.client.pages(CONFIG_MAPS, labels="a=b", version="5")]
    queries = [parse_qs(urlsplit(path).query) for _, path, _ in rig.transport.sent]
    assert len(pages) == 2
    assert "continue" not in queries[0]
    assert queries[1]["continue"] == ["next"]
    assert "resourceVersion" not in queries[1]
    assert queries[1]["labelSelector"] == ["a=b"]


async def test_a_binding_names_the_uid_of_its_pod() -> None:
    rig = Rig(answer(201, {"kind": "Status", "status": "Success"}))
    await rig.client.bind(Key("ns", "a"), "n1", uid="u")
    method, path, body = rig.transport.sent[0]
    assert (method, path) == ("POST", PODS.path(Key("ns", "a"), subresource="binding"))
    assert msgspec.json.decode(body or b"")["metadata"]["uid"] == "u"


async def test_deleting_an_absent_object_raises_not_found() -> None:
    rig = Rig(answer(404, {"code": 404, "reason": "NotFound"}))
    with pytest.raises(NotFound):
        await rig.client.delete(CONFIG_MAPS, Key("ns", "a"))


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (409, "AlreadyExists", ErrorKind.LATER),
        (404, "NotFound", ErrorKind.LATER),
        (429, "", ErrorKind.LATER),
        (503, "", ErrorKind.LATER),
        (403, "Forbidden", ErrorKind.BLOCKED),
        (422, "Invalid", ErrorKind.BLOCKED),
        (418, "", ErrorKind.BUG),
    ],
)
def test_each_refusal_has_its_kind(code: int, reason: str, kind: ErrorKind) -> None:
    error = api_error(code, msgspec.json.encode({"code": code, "reason": reason}))
    assert classify_error(error).kind is kind


def test_an_unknown_error_is_a_bug() -> None:
    assert classify_error(KeyError("x")).kind is ErrorKind.BUG
