# SPDX-License-Identifier: Apache-2.0
"""Laws of the controller loop."""

import asyncio
import contextlib
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tests.unit.kube.objects import config_map

from slinky.kube import (
    CONFIG_MAPS,
    Blocked,
    Cache,
    ConfigMap,
    ControlLoop,
    ErrorDecision,
    ErrorKind,
    Key,
    Later,
    ObjectMeta,
    RequeueAfter,
)
from slinky.observe import Log, ManualClock
from slinky.observe.log import record_fields

A = Key("ns", "a")


class Rig:
    def __init__(self, reconcile: Callable[[Key], Awaitable[RequeueAfter | None]], **options: object) -> None:
        self.clock = ManualClock()
        self.told: list[ErrorDecision] = []
        self.cache: Cache[ConfigMap] = Cache(CONFIG_MAPS)
        self.seen: list[Key] = []

        async def counted(key: Key) -> RequeueAfter | None:
            self.seen.append(key)
            return await reconcile(key)

        async def blocked(_: Key, judged: ErrorDecision) -> None:
            self.told.append(judged)

        self.controller: ControlLoop[Key] = ControlLoop(
            "test",
            counted,
            on_blocked=blocked,
            clock=self.clock,
            rng=random.Random(1),  # noqa: S311
            **options,  # type: ignore[arg-type]
        )
        self.controller.watch(self.cache)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as family:
            task = family.create_task(self.controller.run())
            yield
            task.cancel()


async def fine(_: Key) -> RequeueAfter | None:
    return None


async def test_a_change_is_reconciled_once() -> None:
    rig = Rig(fine)
    async with rig.running():
        rig.cache.put(config_map("a", 1))
        rig.cache.put(config_map("a", 2))
        await rig.clock.advance(1.0)
    assert rig.seen == [A]


async def test_a_deletion_is_reconciled_too() -> None:
    rig = Rig(fine)
    async with rig.running():
        rig.cache.put(config_map("a", 1))
        await rig.clock.advance(1.0)
        rig.cache.remove(ObjectMeta("a", "ns", resource_version="2"))
        await rig.clock.advance(1.0)
    assert rig.seen == [A, A]


async def test_again_means_again_after_that_long() -> None:
    async def reconcile(_: Key) -> RequeueAfter | None:
        return RequeueAfter(60.0)

    rig = Rig(reconcile)
    async with rig.running():
        rig.controller.queue.add(A)
        await rig.clock.advance(59.0)
        assert len(rig.seen) == 1
        await rig.clock.advance(2.0)
        assert len(rig.seen) == 2


async def test_try_later_backs_off_and_success_forgets_it() -> None:
    async def reconcile(_: Key) -> RequeueAfter | None:
        if len(rig.seen) < 4:
            raise Later("not yet")
        return None

    rig = Rig(reconcile)
    async with rig.running():
        rig.controller.queue.add(A)
        await rig.clock.advance(10.0)
        assert len(rig.seen) == 4
        assert rig.controller.queue.failures(A) == 0


async def test_the_servers_own_pause_is_honoured() -> None:
    async def reconcile(_: Key) -> RequeueAfter | None:
        raise Later("busy", after=100.0)

    rig = Rig(reconcile)
    async with rig.running():
        rig.controller.queue.add(A)
        await rig.clock.advance(99.0)
        assert len(rig.seen) == 1


async def test_blocked_tells_a_person_and_waits_for_a_change() -> None:
    async def reconcile(_: Key) -> RequeueAfter | None:
        raise Blocked("NoSecret", "create the secret `key`")

    rig = Rig(reconcile)
    async with rig.running():
        rig.cache.put(config_map("a", 1))
        await rig.clock.advance(120.0)
        assert len(rig.seen) == 1
        rig.cache.put(config_map("a", 2))
        await rig.clock.advance(1.0)
        assert len(rig.seen) == 2
    assert [(told.reason, told.message) for told in rig.told] == [("NoSecret", "create the secret `key`")] * 2


async def test_a_bug_in_one_key_does_not_stop_the_others() -> None:
    async def reconcile(key: Key) -> RequeueAfter | None:
        if key == A:
            raise ZeroDivisionError
        return None

    rig = Rig(reconcile, workers=1)
    async with rig.running():
        rig.controller.queue.add(A)
        rig.controller.queue.add(Key("ns", "b"))
        await rig.clock.advance(0.1)
    assert set(rig.seen) == {A, Key("ns", "b")}


async def test_a_reconcile_that_hangs_is_cut_off() -> None:
    async def reconcile(_: Key) -> RequeueAfter | None:
        await asyncio.Event().wait()
        return None

    rig = Rig(reconcile, deadline=0.01, workers=1)
    rig.controller.queue.add(A)
    assert await rig.controller.queue.get() == A
    await rig.controller.reconcile_once(A)
    assert rig.controller.queue.failures(A) == 1


async def test_errors_of_other_packages_are_judged_by_their_own_table() -> None:
    class SlurmDown(Exception):  # noqa: N818
        pass

    def judge(error: Exception) -> ErrorDecision | None:
        return ErrorDecision(ErrorKind.LATER, "SlurmDown", "no answer", 7.0) if isinstance(error, SlurmDown) else None

    async def reconcile(_: Key) -> RequeueAfter | None:
        raise SlurmDown

    rig = Rig(reconcile, error_classifiers=[judge])
    async with rig.running():
        rig.controller.queue.add(A)
        await rig.clock.advance(8.0)
    assert len(rig.seen) == 2


async def test_a_dead_cluster_starves_nobody() -> None:
    async def reconcile(key: Key) -> RequeueAfter | None:
        if key.namespace == "dead":
            await rig.clock.sleep(1000.0)
        return None

    rig = Rig(reconcile, workers=4, group=lambda key: key.namespace, deadline=10_000.0)
    async with rig.running():
        for number in range(50):
            rig.controller.queue.add(Key("dead", str(number)))
        for number in range(50):
            rig.controller.queue.add(Key("well", str(number)))
        await rig.clock.advance(1.0)
        assert sum(key.namespace == "well" for key in rig.seen) == 50


async def test_every_log_line_of_a_reconcile_carries_its_id(caplog: pytest.LogCaptureFixture) -> None:
    log = Log("test")

    async def reconcile(_: Key) -> RequeueAfter | None:
        log.info("first")
        await asyncio.sleep(0)
        log.info("second")
        raise Later("not yet")

    rig = Rig(reconcile, workers=2)
    with caplog.at_level("INFO"):
        async with rig.running():
            rig.controller.queue.add(A)
            rig.controller.queue.add(Key("ns", "b"))
            await rig.clock.advance(0.1)
    lines = [(record.getMessage(), record_fields(record)) for record in caplog.records]
    ids = {key: {fields["reconcile"] for _, fields in lines if fields["key"] == key} for key in ("ns/a", "ns/b")}
    assert {message for message, _ in lines} == {"first", "second", "reconcile is retried later"}
    assert all(len(found) == 1 for found in ids.values()), "one id in all lines of one reconcile"
    assert ids["ns/a"] != ids["ns/b"]
    assert all(re.fullmatch("[0-9a-f]{8}", text) for found in ids.values() for text in found)


async def test_the_ids_of_reconciles_come_from_the_given_random_numbers(caplog: pytest.LogCaptureFixture) -> None:
    log = Log("test")

    async def reconcile(_: Key) -> RequeueAfter | None:
        log.info("line")
        return None

    controller: ControlLoop[Key] = ControlLoop("test", reconcile, rng=random.Random(7))  # noqa: S311
    with caplog.at_level("INFO"):
        await controller.reconcile_once(A)
    expected = random.Random(7).getrandbits(32)  # noqa: S311
    assert [record_fields(record)["reconcile"] for record in caplog.records] == [f"{expected:08x}"]
