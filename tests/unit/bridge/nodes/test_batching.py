# SPDX-License-Identifier: Apache-2.0
"""Equal changes are sent as few requests, and a rejected host does not affect the others."""

import asyncio
from typing import Any

import pytest

from slinky.bridge.nodes.batching import UpdateBatcher
from slinky.slurm import NodeUpdate, Problem, Rejected

DRAIN = NodeUpdate(state=("DRAIN",), reason="cordoned")
OPEN = NodeUpdate(state=("UNDRAIN",))


class Slurm:
    """Accepts changes, except of hosts it does not know."""

    def __init__(self, *unknown: str) -> None:
        self.unknown = set(unknown)
        self.requests: list[tuple[list[str], NodeUpdate]] = []

    async def update_nodes(self, hosts: list[str], change: NodeUpdate) -> None:
        self.requests.append((list(hosts), change))
        for _ in range(10):
            await asyncio.sleep(0)
        if self.unknown & set(hosts):
            raise Rejected(Problem(2018, "no such node"))


async def drain(slurm: Slurm, *hosts: str) -> list[Any]:
    batcher = UpdateBatcher(slurm.update_nodes)
    return await asyncio.gather(*(batcher.submit(host, DRAIN) for host in hosts), return_exceptions=True)


async def test_hosts_that_arrive_during_a_request_share_the_next() -> None:
    slurm = Slurm()
    assert await drain(slurm, *(f"n{number}" for number in range(100))) == [None] * 100
    assert [len(hosts) for hosts, _ in slurm.requests] == [1, 99]


async def test_different_changes_are_never_mixed() -> None:
    slurm = Slurm()
    batcher = UpdateBatcher(slurm.update_nodes)
    changes = [DRAIN, OPEN] * 10
    await asyncio.gather(*(batcher.submit(f"n{number}", change) for number, change in enumerate(changes)))
    for hosts, change in slurm.requests:
        assert {changes[int(host[1:])] for host in hosts} == {change}


async def test_a_rejected_host_does_not_prevent_the_change_of_others() -> None:
    slurm = Slurm("bad")
    results = await drain(slurm, "n0", "n1", "bad", "n2")
    assert [type(result) for result in results] == [type(None), type(None), Rejected, type(None)]


async def test_hosts_of_a_cancelled_batch_get_an_error() -> None:
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
