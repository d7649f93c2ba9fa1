# SPDX-License-Identifier: Apache-2.0
"""Many equal changes become few requests, and nobody's fault is another's."""

import asyncio
from typing import Any

import pytest

from slinky.bridge.nodes.batching import UpdateBatcher
from slinky.slurm import NodeUpdate, Problem, Rejected

DRAIN = NodeUpdate(state=("DRAIN",), reason="cordoned")
OPEN = NodeUpdate(state=("UNDRAIN",))


class Slurm:
    """Takes changes, except of hosts it does not know."""

    def __init__(self, *unknown: str) -> None:
        self.unknown = set(unknown)
        self.requests: list[tuple[list[str], NodeUpdate]] = []

    async def update_nodes(self, hosts: list[str], change: NodeUpdate) -> None:
        self.requests.append((list(hosts), change))
        for _ in range(10):
            await asyncio.sleep(0)
        if self.unknown & set(hosts):
            raise Rejected(Problem(2018, "no such node"))


async def drained(slurm: Slurm, *hosts: str) -> list[Any]:
    batcher = UpdateBatcher(slurm.update_nodes)
    return await asyncio.gather(*(batcher.submit(host, DRAIN) for host in hosts), return_exceptions=True)


async def test_those_who_come_while_a_request_is_under_way_share_the_next() -> None:
    slurm = Slurm()
    assert await drained(slurm, *(f"n{number}" for number in range(100))) == [None] * 100
    assert [len(hosts) for hosts, _ in slurm.requests] == [1, 99]


async def test_different_changes_are_never_mixed() -> None:
    slurm = Slurm()
    batcher = UpdateBatcher(slurm.update_nodes)
    changes = [DRAIN, OPEN] * 10
    await asyncio.gather(*(batcher.submit(f"n{number}", change) for number, change in enumerate(changes)))
    for hosts, change in slurm.requests:
        assert {changes[int(host[1:])] for host in hosts} == {change}


async def test_a_host_that_is_refused_does_not_keep_others_from_their_change() -> None:
    slurm = Slurm("bad")
    results = await drained(slurm, "n0", "n1", "bad", "n2")
    assert [type(result) for result in results] == [type(None), type(None), Rejected, type(None)]


async def test_those_who_joined_one_that_was_given_up_hear_of_it() -> None:
    slurm = Slurm()
    batcher = UpdateBatcher(slurm.update_nodes)
    first = asyncio.create_task(batcher.submit("n0", DRAIN))
    await asyncio.sleep(0)
    leader = asyncio.create_task(batcher.submit("n1", DRAIN))
    await asyncio.sleep(0)
    joined = asyncio.create_task(batcher.submit("n2", DRAIN))
    await asyncio.sleep(0)
    leader.cancel()
    await first
    with pytest.raises(Exception, match="cancelled"):
        await joined
    await batcher.submit("n1", DRAIN)
