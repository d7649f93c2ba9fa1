# SPDX-License-Identifier: Apache-2.0
"""Faults between the mirror and the real daemons: no fault loses an event, and none is taken for an absence."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from tests.integration.slurm.test_mirror import becomes, next_change
from tests.support.job_requests import external_job
from tests.support.slurmrestd_proxy import (
    Fault,
    SlurmrestdProxy,
    empty,
    errors_in_200,
    garbage,
    hung,
    on_path,
    page,
    truncated,
)
from tests.support.waiting import LIMIT, eventually

from slinky.lab.slurm.cluster import LabSlurm
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
async def cautious(proxy: SlurmrestdProxy, slurm: LabSlurm) -> AsyncIterator[SlurmClient]:
    """A client behind the fault proxy that does not wait long."""
    tokens = MintedToken(lambda: slurm.jwt_key, "slurm")
    async with SlurmClient(proxy.url, tokens, deadline=2) as client:
        await client.version()
        yield client


async def wait_reachable(mirror: Mirror, *, reachable: bool) -> None:
    """Wait until the mirror reaches Slurm, or reaches it no more."""
    async with asyncio.timeout(LIMIT):
        with mirror.subscribe(ObjectKind.MIRROR) as feed:
            while (mirror.fault is None) is not reachable:
                await feed.next()


@pytest.mark.parametrize("name", FAULTS)
async def test_no_fault_is_an_absence(name: str, cautious: SlurmClient, proxy: SlurmrestdProxy) -> None:
    proxy.fault, kind = FAULTS[name]
    requests = (cautious.job(1), cautious.node("k001"), cautious.nodes(), cautious.job_states())
    for error in await asyncio.gather(*requests, return_exceptions=True):
        assert isinstance(error, kind)
        assert not isinstance(error, SlurmNotFound)


@pytest.mark.parametrize("name", FAULTS)
async def test_a_mirror_without_slurm_knows_it_and_loses_no_change(
    name: str, cautious: SlurmClient, client: SlurmClient, proxy: SlurmrestdProxy
) -> None:
    submitted = await client.allocate(external_job())
    async with Mirror(cautious, intervals=LIVELY) as mirror:
        mirror.track(submitted.job_id)
        await mirror.synced()
        nodes = set(mirror.nodes)
        with mirror.subscribe(ObjectKind.JOB, ObjectKind.NODE) as feed:
            proxy.fault = FAULTS[name][0]
            await wait_reachable(mirror, reachable=False)
            await client.cancel(submitted.job_id)
            assert set(mirror.nodes) == nodes
            assert mirror.nodes.presence("k001", within=0.0) is Presence.UNKNOWN
            assert mirror.nodes.presence("nowhere", within=0.0) is Presence.UNKNOWN
            assert mirror.lookup_job(submitted.job_id, within=0.0).presence is Presence.UNKNOWN
            assert absences(feed) == []
            proxy.fault = None
            await wait_reachable(mirror, reachable=True)
            await next_change(feed, becomes(submitted.job_id, "CANCELLED"))
        assert set(mirror.nodes) == nodes


def absences(feed: Feed) -> list[str]:
    """Changes in a feed that a reader could take for an absence."""
    return [change.key for change in feed._queue.values() if change.after is None]


async def test_an_empty_node_list_takes_no_node_away(cautious: SlurmClient, proxy: SlurmrestdProxy) -> None:
    async with Mirror(cautious, intervals=LIVELY) as mirror:
        await mirror.synced()
        nodes = set(mirror.nodes)
        with mirror.subscribe(ObjectKind.NODE) as feed:
            proxy.fault = on_path("/nodes/", empty("nodes"))

            def read_three_times() -> bool:
                doubt = mirror.nodes.unconfirmed_loss
                return doubt is not None and doubt.observations >= 3

            await eventually(read_three_times, "three empty lists")
            assert set(mirror.nodes) == nodes
            assert mirror.nodes.presence("k001") is Presence.UNKNOWN
            assert mirror.nodes.unconfirmed_loss is not None
            assert len(feed) == 0
            proxy.fault = None
            await mirror.refresh()
            assert mirror.nodes.presence("k001") is Presence.PRESENT
            assert mirror.nodes.unconfirmed_loss is None


async def test_an_empty_job_list_ends_no_job(
    cautious: SlurmClient, client: SlurmClient, proxy: SlurmrestdProxy
) -> None:
    jobs = [(await client.submit(external_job(hold=True))).job_id for _ in range(8)]
    try:
        async with Mirror(cautious, intervals=LIVELY) as mirror:
            for job in jobs:
                mirror.track(job)
            with mirror.subscribe(ObjectKind.JOB) as feed:
                await next_change(feed, becomes(jobs[-1], "PENDING"))
                await mirror.refresh()
                proxy.fault = on_path("/jobs/state/", empty("jobs"))

                def doubted() -> bool:
                    mirror.request_refresh()
                    return bool(mirror.jobs.unconfirmed_loss)

                await eventually(doubted, "doubt in the empty list")
                assert mirror.lookup_job(jobs[0]).presence is Presence.UNKNOWN
                assert absences(feed) == []
                proxy.fault = None
                await mirror.refresh()
                assert mirror.lookup_job(jobs[0]).presence is Presence.PRESENT
    finally:
        await client.cancel_many(JobSelection(jobs=[str(job) for job in jobs]))


async def test_a_job_missing_from_a_list_is_read_before_it_counts_as_absent(
    cautious: SlurmClient, client: SlurmClient, proxy: SlurmrestdProxy
) -> None:
    submitted = await client.submit(external_job(hold=True))
    async with Mirror(cautious, intervals=LIVELY, all_jobs=False) as mirror:
        with mirror.subscribe(ObjectKind.JOB) as feed:
            mirror.track(submitted.job_id)
            await next_change(feed, becomes(submitted.job_id, "PENDING"))
            proxy.fault = on_path("/jobs/state/", empty("jobs"))
            await mirror.refresh()
            assert proxy.faults
            assert mirror.lookup_job(submitted.job_id).presence is Presence.PRESENT
            assert len(feed) == 0
    await client.cancel(submitted.job_id)


async def test_an_expired_token_is_an_auth_error_everywhere(slurm: LabSlurm) -> None:
    stale = mint_token(slurm.jwt_key, "slurm", lifetime=10, now=1_700_000_000)
    for token in (stale, mint_token(b"wrong" * 10, "slurm"), "nonsense"):
        async with SlurmClient(slurm.url, token) as client:
            for question in (client.up(), client.nodes(), client.job(1), client.accounting.accounts()):
                with pytest.raises(AuthError):
                    await question


async def test_a_mirror_whose_token_expires_continues_with_the_next_token(slurm: LabSlurm) -> None:
    tokens = MintedToken(lambda: slurm.jwt_key, "slurm", lifetime=2)
    async with SlurmClient(slurm.url, tokens) as client, Mirror(client, intervals=LIVELY) as mirror:
        await mirror.synced()
        await asyncio.sleep(3)  # longer than the life of the first token
        await mirror.refresh()
        assert mirror.fault is None


async def test_without_slurmdbd_only_accounting_fails(slurm: LabSlurm, client: SlurmClient) -> None:
    slurm.stop("slurmdbd")
    try:
        with pytest.raises(DatabaseUnreachable):
            await client.accounting.accounts()
        submitted = await client.allocate(external_job())
        await client.cancel(submitted.job_id)
    finally:
        slurm.start("slurmdbd")
    assert await client.accounting.accounts()


async def test_without_accounting_only_partitions_are_unreadable(slurm: LabSlurm, client: SlurmClient) -> None:
    """Slurmctld needs slurmdbd to list partitions; everything else works without accounting."""
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
            await mirror.refresh()
            await mirror.refresh()
            assert mirror.fault is newcomer.fault is None
            assert mirror.nodes.presence("k001") is Presence.PRESENT
            assert set(mirror.partitions) == known
        finally:
            slurm.start("slurmdbd")
        await eventually(lambda: newcomer.partitions.synced, "partitions of the new mirror")
        assert set(newcomer.partitions) == known


async def test_a_mirror_recovers_from_an_outage_of_slurmrestd(slurm: LabSlurm, client: SlurmClient) -> None:
    async with Mirror(client, intervals=LIVELY) as mirror:
        await mirror.synced()
        submitted = await client.allocate(external_job())
        mirror.track(submitted.job_id)
        with mirror.subscribe(ObjectKind.JOB) as feed:
            await next_change(feed, becomes(submitted.job_id, "RUNNING"))
            slurm.stop("slurmrestd")
            try:
                with pytest.raises(TransportError):
                    await client.ping()
                await wait_reachable(mirror, reachable=False)
                assert mirror.nodes.presence("k001", within=0.0) is Presence.UNKNOWN
                slurm.exec("scancel", str(submitted.job_id))
            finally:
                slurm.start("slurmrestd")
            await wait_reachable(mirror, reachable=True)
            await next_change(feed, becomes(submitted.job_id, "CANCELLED"))


async def test_an_outage_of_slurmctld_makes_everything_unknown_and_loses_nothing(
    slurm: LabSlurm, client: SlurmClient
) -> None:
    submitted = await client.submit(external_job(hold=True))
    async with Mirror(client, intervals=LIVELY) as mirror:
        mirror.track(submitted.job_id)
        with mirror.subscribe(ObjectKind.JOB, ObjectKind.NODE) as feed:
            await next_change(feed, becomes(submitted.job_id, "PENDING"))
            await mirror.synced()
            nodes = set(mirror.nodes)
            slurm.stop("slurmctld", signal=15)
            try:
                with pytest.raises(SlurmctldUnreachable):
                    await client.job(submitted.job_id)
                with pytest.raises(SlurmctldUnreachable):
                    await client.cancel(submitted.job_id)
                assert not await client.up()
                await wait_reachable(mirror, reachable=False)
                assert mirror.lookup_job(submitted.job_id, within=0.0).presence is Presence.UNKNOWN
                assert absences(feed) == []
            finally:
                slurm.start("slurmctld")
            await wait_reachable(mirror, reachable=True)
            await mirror.refresh()
            assert set(mirror.nodes) == nodes
            assert mirror.lookup_job(submitted.job_id).presence is Presence.PRESENT
            await client.cancel(submitted.job_id)
            await next_change(feed, becomes(submitted.job_id, "CANCELLED"))


async def test_a_lost_job_is_not_confused_with_the_job_that_reuses_its_id(slurm: LabSlurm, client: SlurmClient) -> None:
    async with Mirror(client, intervals=LIVELY) as mirror:
        await mirror.synced()
        for _ in range(12):
            submitted = await client.submit(external_job(hold=True, comment="first"))
            mirror.track(submitted.job_id)
            with mirror.subscribe(ObjectKind.JOB) as feed:
                change = await next_change(feed, becomes(submitted.job_id, "PENDING"))
            sluid = change.after.sluid
            slurm.stop("slurmctld", signal=9)
            slurm.start("slurmctld")
            second = await submit_when_possible(client)
            if second == submitted.job_id:
                break
            mirror.forget(submitted.job_id)
        else:
            pytest.fail("slurmctld saved its state in time, twelve times in a row")
        assert (await client.job(second)).sluid != sluid
        await eventually(
            lambda: mirror.lookup_job(submitted.job_id, sluid).presence is Presence.ABSENT, "the absence of the job"
        )
        record = mirror.lookup_job(submitted.job_id, sluid).record
        assert record is not None
        assert record.lost
        assert not record.state.ended
        assert (await client.job(second)).state.pending
    await client.cancel_many(JobSelection(user_name="slurm"))


async def submit_when_possible(client: SlurmClient) -> int:
    """Submit a job as soon as slurmctld accepts jobs again."""

    async def submit() -> int:
        return (await client.submit(external_job(hold=True, comment="second"))).job_id

    return await eventually(submit, "a submission")
