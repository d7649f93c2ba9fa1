# SPDX-License-Identifier: Apache-2.0
"""Laws of recording events."""

import random
from typing import Any

import msgspec
import pytest
from tests.unit.kube.scripted import Scripted, answer

from slinky.kube import EventRecorder, KubeClient, Reference, Unreachable
from slinky.kube.events import COMBINED
from slinky.observe import ManualClock

POD = Reference("v1", "Pod", "a", "ns", "uid-a", "7")
OK = answer(201, {"metadata": {"name": "e"}})


class Rig:
    def __init__(self) -> None:
        self.transport, self.clock = Scripted(), ManualClock()
        client = KubeClient(self.transport, clock=self.clock, rng=random.Random(1))  # noqa: S311
        self.recorder = EventRecorder(client, "test")

    async def flush(self, *answers: Any) -> list[tuple[str, dict[str, Any]]]:
        """What was written; every request is answered well unless said otherwise."""
        self.transport.responses = [*answers, *[OK] * 100]
        self.transport.sent = []
        await self.recorder.flush()
        return [(method, msgspec.json.decode(body or b"")) for method, _, body in self.transport.sent]


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_a_repeated_event_is_one_event_with_a_count(rig: Rig) -> None:
    for _ in range(3):
        rig.recorder.record(POD, "Waiting", "for room")
    ((method, event),) = await rig.flush()
    assert (method, event["count"], event["involvedObject"]["uid"]) == ("POST", 3, "uid-a")
    rig.recorder.record(POD, "Waiting", "for room")
    ((method, again),) = await rig.flush()
    assert (method, again["count"]) == ("PATCH", 4)


async def test_another_version_of_the_object_is_the_same_object(rig: Rig) -> None:
    rig.recorder.record(POD, "Waiting", "for room")
    rig.recorder.record(msgspec.structs.replace(POD, resource_version="8"), "Waiting", "for room")
    assert [event["count"] for _, event in await rig.flush()] == [2]


async def test_many_messages_of_one_reason_are_combined(rig: Rig) -> None:
    for number in range(15):
        rig.recorder.record(POD, "Waiting", f"for job {number}")
    written = await rig.flush()
    assert len(written) == 11
    assert written[-1][1]["message"] == f"{COMBINED}for job 14"
    assert written[-1][1]["count"] == 5


async def test_the_event_limit_of_one_object_does_not_affect_others(rig: Rig) -> None:
    other = msgspec.structs.replace(POD, name="b", uid="uid-b")
    for number in range(100):
        rig.recorder.record(POD, f"Reason{number}", "text")
    rig.recorder.record(other, "Reason", "text")
    assert len(await rig.flush()) == 26
    await rig.clock.advance(301.0)
    rig.recorder.record(POD, "ReasonLater", "text")
    assert len(await rig.flush()) == 1


async def test_an_event_that_could_not_be_sent_is_sent_later(rig: Rig) -> None:
    rig.recorder.record(POD, "Waiting", "for room")
    await rig.flush(Unreachable("down"))
    assert [method for method, _ in await rig.flush()] == ["POST"]


async def test_a_refused_event_is_dropped(rig: Rig) -> None:
    rig.recorder.record(POD, "Waiting", "for room")
    await rig.flush(answer(403, {"code": 403, "reason": "Forbidden", "message": "namespace is going"}))
    assert await rig.flush() == []


async def test_an_expired_event_is_created_again(rig: Rig) -> None:
    rig.recorder.record(POD, "Waiting", "for room")
    await rig.flush()
    rig.recorder.record(POD, "Waiting", "for room")
    written = await rig.flush(answer(404, {"code": 404, "reason": "NotFound"}))
    assert [method for method, _ in written] == ["PATCH", "POST"]
    assert written[-1][1]["count"] == 2
