# SPDX-License-Identifier: Apache-2.0
"""What tests on daemons rely on: labs are shared, and a hanging test shows where it hangs."""

import asyncio
from types import SimpleNamespace

import pytest
from tests.support.labs import SessionLabs
from tests.support.task_stacks import task_stacks

from slinky.lab import bringup


def test_labs_are_shared_until_no_test_needs_their_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    monkeypatch.setattr(bringup, "up", lambda options, _: SimpleNamespace(name=options.name))
    monkeypatch.setattr(bringup, "down", ended.append)
    session = SessionLabs()
    own, nodes, slurm = session.make(), session.with_nodes(), session.with_slurm()
    assert len({own.name, nodes.name, slurm.name}) == 3
    assert session.with_nodes() is nodes
    session.end_nodes()
    session.end_nodes()
    assert ended == [nodes.name]
    assert session.with_slurm() is slurm
    assert session.with_nodes() is not nodes


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
