# SPDX-License-Identifier: Apache-2.0
"""Words wait for deeds, and are not forgotten."""

import asyncio

import pytest

from slinky.bridge.lifecycle import deferral
from slinky.bridge.lifecycle.deferral import Deferral
from slinky.bridge.workload.grouping import Workload

ONE, TWO = (Workload("ns", "Pod", name) for name in ("one", "two"))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferral, "CALM", 0.0)


async def test_who_kept_quiet_is_woken_once_nobody_is_given_a_node_any_more() -> None:
    woken = asyncio.Queue[Workload]()
    found = Deferral(woken.put_nowait)
    assert not found.on
    with found.placing():
        with found.placing():
            found.note(ONE, quiet=True)
            found.note(TWO, quiet=True)
            found.note(TWO, quiet=False)  # has said it meanwhile
        assert found.on
        await asyncio.sleep(0)
        assert woken.empty()
    assert found.on  # for a moment after
    async with asyncio.timeout(5):
        assert await woken.get() == ONE
    assert not found.on
    assert woken.empty()


async def test_one_who_is_given_a_node_in_the_moment_after_prolongs_it() -> None:
    woken = asyncio.Queue[Workload]()
    found = Deferral(woken.put_nowait)
    with found.placing():
        found.note(ONE, quiet=True)
    with found.placing():
        await asyncio.sleep(0.01)
        assert woken.empty()
    async with asyncio.timeout(5):
        assert await woken.get() == ONE
