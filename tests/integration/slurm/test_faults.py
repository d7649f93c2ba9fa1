# SPDX-License-Identifier: Apache-2.0
"""Bad luck, on the real daemons: no fault loses an event, and none invents an absence."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from tests.integration.slurm.faults import (
    Fault,
    FaultProxy,
    empty,
    errors_in_200,
    garbage,
    hung,
    only,
    page,
    truncated,
)
from tests.integration.slurm.test_client import external
from tests.integration.slurm.test_mirror import PATIENCE, becomes, until

from slinky.lab.slurm.cluster import Beside
from slinky.slurm import (
    AuthError,
    DatabaseUnreachable,
    Feed,
    JobSelection,
    Malformed,
    MintedToken,
    Mirror,
    ObjectKind,
    PollingIntervals,
    Presence,
    Rejected,
    Retryable,
    SlurmClient,
    SlurmctldUnreachable,
    SlurmError,
    SlurmNotFound,
    TransportError,
    mint_token,
)

LIVELY = PollingIntervals(
    statistics=0.1,
    active_jobs=0.1,
    idle_jobs=0.5,
    nodes=0.1,
    partitions=0.5,
    node_cost_factor=1,
    retry_min=0.1,
    retry_max=0.5,
)

FAULTS: dict[str, tuple[Fault, type[SlurmError]]] = {
    "garbage": (garbage(), Malformed),
    "a proxy's 404 in plain text": (page(404, "404 page not found"), Malformed),
    "a proxy's 404 in HTML": (page(404, "<html>not found</html>", "text/html"), Malformed),
    "a proxy's JSON 404": (page(404, '{"message": "no route"}', "application/json"), Malformed),
    "an empty object": (page(200, "{}", "application/json"), Malformed),
    "an answer that breaks off": (truncated(), TransportError),
    "silence": (hung(), TransportError),
    "errors in a 200": (errors_in_200(), Rejected),
    "slurmctld down in a 200": (errors_in_200(1800), SlurmctldUnreachable),
    "slurmrestd's own 502": (page(502, "bad gateway"), Malformed),
}


@pytest.fixture
async def cautious(proxy: FaultProxy, slurm: Beside) -> AsyncIterator[SlurmClient]:
    """A client behind the fault proxy that does not wait long."""
    tokens = MintedToken(lambda: slurm.jwt_key, "slurm")
    async with SlurmClient(proxy.url, tokens, deadline=2) as client:
        await client.version()
        yield client


async def settled(mirror: Mirror, *, sighted: bool) -> None:
    """Wait until the mirror sees, or sees no more."""
    async with asyncio.timeout(PATIENCE):
        with mirror.subscribe(ObjectKind.MIRROR) as feed:
            while (mirror.fault is None) is not sighted:
                await feed.next()


@pytest.mark.parametrize("name", FAULTS)
async def test_no_fault_is_an_absence(name: str, cautious: SlurmClient, proxy: FaultProxy) -> None:
    proxy.fault, kind = FAULTS[name]
    for question in (cautious.job(1), cautious.node("k001"), cautious.nodes(), cautious.job_states()):
        with pytest.raises(SlurmError) as caught:
            await question
        assert isinstance(caught.value, kind)
        assert not isinstance(caught.value, SlurmNotFound)


@pytest.mark.parametrize("name", FAULTS)
async def test_a_blind_mirror_knows_that_it_is_blind_and_misses_nothing(
    name: str, cautious: SlurmClient, client: SlurmClient, proxy: FaultProxy
) -> None:
    made = await client.allocate(external())
    async with Mirror(cautious, intervals=LIVELY) as mirror:
        mirror.track(made.job_id)
        await mirror.synced()
        nodes = set(mirror.nodes)
        with mirror.subscribe(ObjectKind.JOB, ObjectKind.NODE) as feed:
            proxy.fault = FAULTS[name][0]
            await settled(mirror, sighted=False)
            await client.cancel(made.job_id)
            assert set(mirror.nodes) == nodes
            assert mirror.nodes.presence("k001", within=0.0) is Presence.UNKNOWN
            assert mirror.nodes.presence("nowhere", within=0.0) is Presence.UNKNOWN
            assert mirror.lookup_job(made.job_id, within=0.0).presence is Presence.UNKNOWN
            assert absences(feed) == []
            proxy.fault = None
            await settled(mirror, sighted=True)
            await until(feed, becomes(made.job_id, "CANCELLED"))
        assert set(mirror.nodes) == nodes


def absences(feed: Feed) -> list[str]:
    """What a feed has to tell that somebody could take for an absence."""
    return [change.key for change in feed._queue.values() if change.after is None]


async def test_an_empty_node_list_takes_no_node_away(cautious: SlurmClient, proxy: FaultProxy) -> None:
    async with Mirror(cautious, intervals=LIVELY) as mirror:
        await mirror.synced()
        nodes = set(mirror.nodes)
        with mirror.subscribe(ObjectKind.NODE) as feed:
            proxy.fault = only("/nodes/", empty("nodes"))
            async with asyncio.timeout(PATIENCE):
                while not mirror.nodes.unconfirmed_loss or mirror.nodes.unconfirmed_loss.observations < 3:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert set(mirror.nodes) == nodes
            assert mirror.nodes.presence("k001") is Presence.UNKNOWN
            assert mirror.nodes.unconfirmed_loss is not None
            assert len(feed) == 0
            proxy.fault = None
            await mirror.refresh()
            assert mirror.nodes.presence("k001") is Presence.PRESENT
            assert mirror.nodes.unconfirmed_loss is None


async def test_an_empty_job_list_ends_no_job(cautious: SlurmClient, client: SlurmClient, proxy: FaultProxy) -> None:
    made = [(await client.submit(external(hold=True))).job_id for _ in range(8)]
    try:
        async with Mirror(cautious, intervals=LIVELY) as mirror:
            for job in made:
                mirror.track(job)
            with mirror.subscribe(ObjectKind.JOB) as feed:
                await until(feed, becomes(made[-1], "PENDING"))
                await mirror.refresh()
                proxy.fault = only("/jobs/state/", empty("jobs"))
                async with asyncio.timeout(PATIENCE):
                    while not mirror.jobs.unconfirmed_loss:
                        mirror.request_refresh()
                        await asyncio.sleep(0.05)
                assert mirror.lookup_job(made[0]).presence is Presence.UNKNOWN
                assert absences(feed) == []
                proxy.fault = None
                await mirror.refresh()
                assert mirror.lookup_job(made[0]).presence is Presence.PRESENT
    finally:
        await client.cancel_many(JobSelection(jobs=[str(job) for job in made]))


async def test_one_job_that_a_list_lacks_is_looked_up_before_it_is_called_gone(
    cautious: SlurmClient, client: SlurmClient, proxy: FaultProxy
) -> None:
    made = await client.submit(external(hold=True))
    async with Mirror(cautious, intervals=LIVELY, all_jobs=False) as mirror:
        with mirror.subscribe(ObjectKind.JOB) as feed:
            mirror.track(made.job_id)
            await until(feed, becomes(made.job_id, "PENDING"))
            proxy.fault = only("/jobs/state/", empty("jobs"))
            await mirror.refresh()
            assert proxy.hits
            assert mirror.lookup_job(made.job_id).presence is Presence.PRESENT
            assert len(feed) == 0
    await client.cancel(made.job_id)


async def test_an_expired_token_is_an_auth_error_everywhere(slurm: Beside) -> None:
    stale = mint_token(slurm.jwt_key, "slurm", lifetime=10, now=1_700_000_000)
    for token in (stale, mint_token(b"wrong" * 10, "slurm"), "nonsense"):
        async with SlurmClient(slurm.url, token) as client:
            for question in (client.up(), client.nodes(), client.job(1), client.accounting.accounts()):
                with pytest.raises(AuthError):
                    await question


async def test_a_mirror_whose_token_expires_goes_on_with_the_next_one(slurm: Beside) -> None:
    tokens = MintedToken(lambda: slurm.jwt_key, "slurm", lifetime=2)
    async with SlurmClient(slurm.url, tokens) as client, Mirror(client, intervals=LIVELY) as mirror:
        await mirror.synced()
        await asyncio.sleep(3)
        await mirror.refresh()
        assert mirror.fault is None


async def test_without_slurmdbd_only_accounting_fails(slurm: Beside, client: SlurmClient) -> None:
    slurm.stop("slurmdbd")
    try:
        with pytest.raises(DatabaseUnreachable):
            await client.accounting.accounts()
        made = await client.allocate(external())
        await client.cancel(made.job_id)
    finally:
        slurm.start("slurmdbd")
    assert await client.accounting.accounts()


async def test_without_accounting_only_partitions_are_out_of_sight(slurm: Beside, client: SlurmClient) -> None:
    """Partitions are told with the help of slurmdbd; a cluster without accounting works on."""
    async with Mirror(client, intervals=LIVELY) as mirror, contextlib.AsyncExitStack() as later:
        await mirror.synced()
        known = set(mirror.partitions)
        slurm.stop("slurmdbd")
        try:
            with pytest.raises(DatabaseUnreachable):
                await client.partitions()
            newcomer = await later.enter_async_context(Mirror(client, intervals=LIVELY))
            await newcomer.synced()
            assert not newcomer.partitions.synced
            assert set(newcomer.nodes) == set(mirror.nodes)
            await asyncio.sleep(2 * LIVELY.partitions)
            await mirror.refresh()
            assert mirror.fault is newcomer.fault is None
            assert mirror.nodes.presence("k001") is Presence.PRESENT
            assert set(mirror.partitions) == known
        finally:
            slurm.start("slurmdbd")
        async with asyncio.timeout(PATIENCE):
            while not newcomer.partitions.synced:  # noqa: ASYNC110 - a table has no event of its own
                await asyncio.sleep(0.05)
        assert set(newcomer.partitions) == known


async def test_without_slurmrestd_the_mirror_is_blind_and_then_sees_again(slurm: Beside, client: SlurmClient) -> None:
    async with Mirror(client, intervals=LIVELY) as mirror:
        await mirror.synced()
        made = await client.allocate(external())
        mirror.track(made.job_id)
        with mirror.subscribe(ObjectKind.JOB) as feed:
            await until(feed, becomes(made.job_id, "RUNNING"))
            slurm.stop("slurmrestd")
            try:
                with pytest.raises(TransportError):
                    await client.ping()
                await settled(mirror, sighted=False)
                assert mirror.nodes.presence("k001", within=0.0) is Presence.UNKNOWN
                slurm.exec("scancel", str(made.job_id))
            finally:
                slurm.start("slurmrestd")
            await settled(mirror, sighted=True)
            await until(feed, becomes(made.job_id, "CANCELLED"))


async def test_without_slurmctld_nothing_is_known_and_nothing_is_lost(slurm: Beside, client: SlurmClient) -> None:
    made = await client.submit(external(hold=True))
    async with Mirror(client, intervals=LIVELY) as mirror:
        mirror.track(made.job_id)
        with mirror.subscribe(ObjectKind.JOB, ObjectKind.NODE) as feed:
            await until(feed, becomes(made.job_id, "PENDING"))
            await mirror.synced()
            nodes = set(mirror.nodes)
            slurm.stop("slurmctld", signal=15)
            try:
                with pytest.raises(SlurmctldUnreachable):
                    await client.job(made.job_id)
                with pytest.raises(SlurmctldUnreachable):
                    await client.cancel(made.job_id)
                assert not await client.up()
                await settled(mirror, sighted=False)
                assert mirror.lookup_job(made.job_id, within=0.0).presence is Presence.UNKNOWN
                assert absences(feed) == []
            finally:
                slurm.start("slurmctld")
            await settled(mirror, sighted=True)
            await mirror.refresh()
            assert set(mirror.nodes) == nodes
            assert mirror.lookup_job(made.job_id).presence is Presence.PRESENT
            await client.cancel(made.job_id)
            await until(feed, becomes(made.job_id, "CANCELLED"))


async def test_a_job_lost_in_a_crash_is_not_taken_for_the_one_that_got_its_id(
    slurm: Beside, client: SlurmClient
) -> None:
    async with Mirror(client, intervals=LIVELY) as mirror:
        await mirror.synced()
        for _ in range(12):
            made = await client.submit(external(hold=True, comment="first"))
            mirror.track(made.job_id)
            with mirror.subscribe(ObjectKind.JOB) as feed:
                change = await until(feed, becomes(made.job_id, "PENDING"))
            sluid = change.after.sluid
            slurm.stop("slurmctld", signal=9)
            slurm.start("slurmctld")
            second = await retried(client)
            if second == made.job_id:
                break
            mirror.forget(made.job_id)
        else:
            pytest.fail("slurmctld saved its state in time, twelve times in a row")
        assert (await client.job(second)).sluid != sluid
        async with asyncio.timeout(PATIENCE):
            while mirror.lookup_job(made.job_id, sluid).presence is not Presence.ABSENT:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        record = mirror.lookup_job(made.job_id, sluid).record
        assert record is not None
        assert record.lost
        assert not record.state.ended
        assert (await client.job(second)).state.pending
    await client.cancel_many(JobSelection(user_name="slurm"))


async def retried(client: SlurmClient) -> int:
    """Submit as soon as slurmctld takes jobs again."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(Retryable):
                return (await client.submit(external(hold=True, comment="second"))).job_id
            await asyncio.sleep(0.2)
