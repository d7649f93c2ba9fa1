# SPDX-License-Identifier: Apache-2.0
"""What tests on daemons rely on: labs are shared, and a hanging test shows where it hangs."""

import asyncio
from types import SimpleNamespace

import pytest
from tests.support.labs import SessionLabs
from tests.support.task_stacks import task_stacks

from slinky.lab import bringup
from slinky.lab.bringup import LabOptions


def test_a_lab_that_is_up_is_shared_if_it_has_enough_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    def up(options: LabOptions, _progress: object) -> SimpleNamespace:
        return SimpleNamespace(name=options.name, state=SimpleNamespace(nodes=options.nodes))

    monkeypatch.setattr(bringup, "up", up)
    session = SessionLabs()
    own = session.make(nodes=5)
    small = session.shared(nodes=0)
    large = session.shared(nodes=2)
    assert len({own.name, small.name, large.name}) == 3
    assert session.shared(nodes=0) is small
    assert session.shared(nodes=2) is large


def test_every_lab_is_ended_even_if_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    def down(name: str) -> None:
        ended.append(name)
        raise OSError(name)

    monkeypatch.setattr(bringup, "up", lambda options, _: SimpleNamespace(name=options.name))
    monkeypatch.setattr(bringup, "down", down)
    session = SessionLabs()
    made = [session.make().name, session.make().name]
    with pytest.raises(ExceptionGroup, match="did not end"):
        session.end()
    assert ended == made


async def test_the_stack_of_a_task_ends_where_it_waits() -> None:
    async def inner() -> None:
        await asyncio.Event().wait()

    async def outer() -> None:
        await inner()

    task = asyncio.create_task(outer(), name="hanging")
    await asyncio.sleep(0)
    _, _, stack = task_stacks().partition("hanging:")
    task.cancel()
    assert [line.split()[-1].rpartition(".")[2] for line in stack.strip().splitlines()[:3]] == [
        "outer",
        "inner",
        "wait",
    ]
