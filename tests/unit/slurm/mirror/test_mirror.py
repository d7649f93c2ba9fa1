# SPDX-License-Identifier: Apache-2.0
"""Signs of a change: slurmctld counts a request before it carries it out, and may restart unnoticed."""

import asyncio

from msgspec import structs
from tests.unit.slurm.mirror.quiet_slurmctld import QuietSlurmctld

from slinky.slurm import Change, Diag, Host, Listing, Mirror, ObjectKind, PollingIntervals
from slinky.slurm.mirror.mirror import CHANGES_PER_SLICE
from slinky.slurm.mirror.polling import Source
from slinky.slurm.model.statistics import RpcCount


class CountingSlurmctld(QuietSlurmctld):
    """One node; a drain is counted at once, and carried out after the list was read once more."""

    def __init__(self) -> None:
        super().__init__()
        self.counted = 0
        self.before = 1

    async def diag(self) -> Diag:
        counts = (RpcCount(message_type="REQUEST_UPDATE_NODE", count=self.counted),)
        return structs.replace(await super().diag(), rpcs_by_message_type=counts)

    async def nodes(self, since: int | None = None) -> Listing[Host] | None:
        if not self.counted or self.before > 0:
            self.before -= bool(self.counted)
            return Listing((Host("a", words=("IDLE",)),), 1) if since is None else None
        return Listing((Host("a", words=("IDLE", "DRAIN")),), 2)


async def test_a_change_that_was_counted_before_it_was_made_is_found() -> None:
    ctld = CountingSlurmctld()
    # As with thousands of nodes: the list is too expensive to be read without a sign of a change.
    intervals = PollingIntervals(statistics=0.01, expensive_nodes=0.0, cost_factor=0.0)
    async with Mirror(ctld.client, intervals=intervals) as mirror:
        await mirror.synced()
        await asyncio.sleep(0.05)
        ctld.counted = 1
        async with asyncio.timeout(5):
            while not mirror.nodes["a"].state.draining:  # noqa: ASYNC110 - the table has no event to wait for
                await asyncio.sleep(0.01)
    assert ctld.before == 0


async def test_a_restart_of_slurmctld_that_no_request_noticed_is_reported() -> None:
    """Jobs may have come back with an older state; listeners search for them."""
    ctld = CountingSlurmctld()
    async with Mirror(ctld.client, intervals=PollingIntervals(statistics=0.01)) as mirror:
        await mirror.synced()
        with mirror.subscribe(ObjectKind.MIRROR) as feed:
            ctld.started_at = 2
            async with asyncio.timeout(5):
                assert await feed.next() == Change(ObjectKind.MIRROR, "", 1, None)


async def test_jobs_follow_nodes_once_they_are_read_after_the_last_change_of_a_node() -> None:
    ctld, now = CountingSlurmctld(), [0.0]
    mirror = Mirror(ctld.client, clock=lambda: now[0])
    assert not mirror.jobs_follow_nodes
    follows = []
    for source in (Source.NODES, Source.JOBS, Source.NODES, Source.JOBS):
        now[0] += 1
        await mirror._read_source(source)
        follows.append(mirror.jobs_follow_nodes)
    # The first list of nodes is a change, the second one is none.
    assert follows == [False, True, True, True]
    ctld.counted, ctld.before = 1, 0
    for source, expected in ((Source.NODES, False), (Source.JOBS, True)):
        now[0] += 1
        await mirror._read_source(source)
        assert mirror.jobs_follow_nodes is expected


async def test_many_changes_of_one_list_do_not_stall_the_event_loop() -> None:
    class ManyNodes(QuietSlurmctld):
        async def nodes(self, since: int | None = None) -> Listing[Host] | None:
            return Listing(tuple(Host(f"n{number}") for number in range(1000)), 1) if since is None else None

    mirror, reported = Mirror(ManyNodes().client), 0

    def count(change: Change) -> None:
        nonlocal reported
        reported += change.kind is ObjectKind.NODE

    mirror.listen(count)
    async with mirror:
        while reported < 1000:
            before = reported
            await asyncio.sleep(0)
            assert reported - before <= CHANGES_PER_SLICE
