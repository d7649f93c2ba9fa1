# SPDX-License-Identifier: Apache-2.0
"""Condition writes are deferred during bindings and released afterwards."""

from slinky.bridge.lifecycle.deferral import QUIET_SECONDS, Deferral
from slinky.bridge.workload.grouping import Workload
from slinky.observe import ManualClock

FIRST, SECOND = (Workload("ns", "Pod", name) for name in ("first", "second"))


async def test_deferred_workloads_are_enqueued_once_no_pod_is_being_bound() -> None:
    enqueued, clock = list[Workload](), ManualClock()
    deferral = Deferral(enqueued.append, clock)
    assert not deferral.active
    with deferral.binding():
        with deferral.binding():
            deferral.record(FIRST, deferred=True)
            deferral.record(SECOND, deferred=True)
            deferral.record(SECOND, deferred=False)  # written in the meantime
        assert deferral.active
        await clock.advance(QUIET_SECONDS)
        assert enqueued == []
    assert deferral.active  # for QUIET_SECONDS after the last binding
    await clock.advance(QUIET_SECONDS)
    assert enqueued == [FIRST]
    assert not deferral.active


async def test_another_binding_prolongs_the_deferral() -> None:
    enqueued, clock = list[Workload](), ManualClock()
    deferral = Deferral(enqueued.append, clock)
    with deferral.binding():
        deferral.record(FIRST, deferred=True)
    with deferral.binding():
        await clock.advance(QUIET_SECONDS)
        assert enqueued == []
    await clock.advance(QUIET_SECONDS)
    assert enqueued == [FIRST]
