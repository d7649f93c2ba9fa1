# SPDX-License-Identifier: Apache-2.0
"""Laws of the control loop."""

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
from slinky.kube.controller import OBJECTS_PER_SLICE
from slinky.observe import Log, ManualClock
from slinky.observe.clock import settle
from slinky.observe.log import record_fields

A = Key("ns", "a")


class Rig:
    def __init__(self, reconcile: Callable[[Key], Awaitable[RequeueAfter | None]], **options: object) -> None:
        self.clock = ManualClock()
        self.blocked: list[ErrorDecision] = []
        self.cache: Cache[ConfigMap] = Cache(CONFIG_MAPS)
        self.reconciled: list[Key] = []

        async def counted(key: Key) -> RequeueAfter | None:
            self.reconciled.append(key)
            return await reconcile(key)

        async def report_blocked(_: Key, decision: ErrorDecision) -> None:
            self.blocked.append(decision)

        self.controller: ControlLoop[Key] = ControlLoop(
            "test",
            counted,
            on_blocked=report_blocked,
            clock=self.clock,
            rng=random.Random(1),  # noqa: S311
            **options,  # type: ignore[arg-type]
        )
        self.controller.watch(self.cache)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(self.controller.run())
            await asyncio.sleep(0)
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
    assert rig.reconciled == [A]


async def test_a_deletion_is_reconciled_too() -> None:
    rig = Rig(fine)
    async with rig.running():
        rig.cache.put(config_map("a", 1))
        await rig.clock.advance(1.0)
        rig.cache.remove(ObjectMeta("a", "ns", resource_version="2"))
        await rig.clock.advance(1.0)
    assert rig.reconciled == [A, A]


async def test_a_loop_that_does_not_run_collects_no_keys() -> None:
    rig = Rig(fine)
    for number in range(100):
        rig.cache.put(config_map(f"pod-{number}", 2 * number + 1))
        rig.cache.remove(ObjectMeta(f"pod-{number}", "ns", resource_version=str(2 * number + 2)))
    rig.controller.queue.add(A)
    rig.controller.queue.add(A, after=5.0)
    assert len(rig.controller.queue) == 0
    async with rig.running():
        await rig.clock.advance(10.0)
    assert rig.reconciled == []


async def test_a_loop_that_starts_reconciles_everything_in_its_caches_once() -> None:
    rig = Rig(fine)
    covered: Cache[ConfigMap] = Cache(CONFIG_MAPS)
    rig.controller.watch(covered, initial=False)
    covered.put(config_map("covered by another watch", 1))
    names = [f"object-{number}" for number in range(2 * OBJECTS_PER_SLICE)]
    for number, name in enumerate(names, 1):
        rig.cache.put(config_map(name, number))
    async with rig.running():
        await settle(rounds=len(names))
        assert sorted(key.name for key in rig.reconciled) == sorted(names)
        rig.cache.put(config_map(names[0], 10_000))
        await rig.clock.advance(1.0)
        assert rig.reconciled[-1].name == names[0]
    rig.cache.put(config_map(names[1], 20_000))
    assert len(rig.controller.queue) == 0, "a loop that was stopped collects nothing either"


async def test_reconciles_without_a_request_do_not_stall_the_event_loop() -> None:
    rig = Rig(fine, workers=4)
    async with rig.running():
        for number in range(1000):
            rig.cache.put(config_map(f"object-{number}", number + 1))
        before = -1
        while len(rig.reconciled) < 1000:
            assert len(rig.reconciled) - before <= 5, "each worker reconciles one key before other work has its turn"
            before = len(rig.reconciled)
            await asyncio.sleep(0)


async def test_a_key_is_reconciled_again_after_the_requested_time() -> None:
    async def reconcile(_: Key) -> RequeueAfter | None:
        return RequeueAfter(60.0)

    rig = Rig(reconcile)
    async with rig.running():
        rig.controller.queue.add(A)
        await rig.clock.advance(59.0)
        assert len(rig.reconciled) == 1
        await rig.clock.advance(2.0)
        assert len(rig.reconciled) == 2


async def test_try_later_backs_off_and_success_forgets_it() -> None:
    async def reconcile(_: Key) -> RequeueAfter | None:
        if len(rig.reconciled) < 4:
            raise Later("not yet")
        return None

    rig = Rig(reconcile)
    async with rig.running():
        rig.controller.queue.add(A)
        await rig.clock.advance(10.0)
        assert len(rig.reconciled) == 4
        assert rig.controller.queue.failures(A) == 0


async def test_the_retry_time_of_an_error_replaces_the_back_off() -> None:
    async def reconcile(_: Key) -> RequeueAfter | None:
        raise Later("busy", after=100.0)

    rig = Rig(reconcile)
    async with rig.running():
        rig.controller.queue.add(A)
        await rig.clock.advance(99.0)
        assert len(rig.reconciled) == 1


async def test_a_blocked_key_is_reported_and_waits_for_a_change() -> None:
    async def reconcile(_: Key) -> RequeueAfter | None:
        raise Blocked("NoSecret", "create the secret `key`")

    rig = Rig(reconcile)
    async with rig.running():
        rig.cache.put(config_map("a", 1))
        await rig.clock.advance(120.0)
        assert len(rig.reconciled) == 1
        rig.cache.put(config_map("a", 2))
        await rig.clock.advance(1.0)
        assert len(rig.reconciled) == 2
    assert [(decision.reason, decision.message) for decision in rig.blocked] == [
        ("NoSecret", "create the secret `key`")
    ] * 2


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
    assert set(rig.reconciled) == {A, Key("ns", "b")}


async def test_a_reconcile_that_hangs_is_cut_off() -> None:
    async def reconcile(_: Key) -> RequeueAfter | None:
        await asyncio.Event().wait()
        return None

    rig = Rig(reconcile, deadline=0.01, workers=1)
    rig.controller.queue.open()
    rig.controller.queue.add(A)
    assert await rig.controller.queue.get() == A
    await rig.controller.reconcile_once(A)
    assert rig.controller.queue.failures(A) == 1


async def test_errors_of_other_packages_have_their_own_classifier() -> None:
    class SlurmDown(Exception):  # noqa: N818
        pass

    def classify(error: Exception) -> ErrorDecision | None:
        return ErrorDecision(ErrorKind.LATER, "SlurmDown", "no answer", 7.0) if isinstance(error, SlurmDown) else None

    async def reconcile(_: Key) -> RequeueAfter | None:
        raise SlurmDown

    rig = Rig(reconcile, error_classifiers=[classify])
    async with rig.running():
        rig.controller.queue.add(A)
        await rig.clock.advance(8.0)
    assert len(rig.reconciled) == 2


async def test_a_group_that_hangs_does_not_delay_other_groups() -> None:
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
        await settle(rounds=100)
        assert sum(key.namespace == "well" for key in rig.reconciled) == 50


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
    assert all(len(values) == 1 for values in ids.values()), "one id in all lines of one reconcile"
    assert ids["ns/a"] != ids["ns/b"]
    assert all(re.fullmatch("[0-9a-f]{8}", value) for values in ids.values() for value in values)


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
