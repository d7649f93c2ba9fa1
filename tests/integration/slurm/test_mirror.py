# SPDX-License-Identifier: Apache-2.0
"""The mirror on the real daemons, without faults."""

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest
from tests.support.job_requests import external_job
from tests.support.waiting import LIMIT, eventually

from slinky.lab.lab import Lab
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import (
    Change,
    Doorbell,
    Feed,
    Job,
    JobRecord,
    JobSelection,
    MintedToken,
    Mirror,
    NodeUpdate,
    ObjectKind,
    PollingIntervals,
    Presence,
    RequestRecord,
    SlurmClient,
    number,
)
from slinky.slurm.mirror.job_tracker import MANY_ENDS
from slinky.slurm.mirror.pending_refresh import SINGLE_READS_MAX


async def next_change(feed: Feed, matches: Callable[[Change], bool]) -> Change:
    """The next change that matches; the feed loses the changes before it."""
    async with asyncio.timeout(LIMIT):
        while True:
            change = await feed.next()
            if matches(change):
                return change


def becomes(key: object, base: str) -> Callable[[Change], bool]:
    """Matches the change of an object to a state."""

    def matches(change: Change) -> bool:
        after = change.after
        return change.key == str(key) and after is not None and after.state.base == base

    return matches


@pytest.fixture
async def mirror(client: SlurmClient) -> AsyncIterator[Mirror]:
    async with Mirror(client) as mirror:
        await mirror.synced()
        yield mirror
    await client.cancel_many(JobSelection(user_name="slurm"))


async def test_the_first_contact_is_published_like_every_other_change(client: SlurmClient) -> None:
    mirror = Mirror(client)
    with mirror.subscribe(ObjectKind.MIRROR) as feed:
        async with mirror:
            assert await next_change(feed, lambda change: change.after is None)
            assert mirror.nodes.synced
            assert mirror.reservations.synced


async def test_the_mirror_has_hosts_partitions_and_reservations(mirror: Mirror) -> None:
    assert {"c1", "c2", "k001", "k004"} <= set(mirror.nodes)
    assert {"all", "work", "ext"} <= set(mirror.partitions)
    assert mirror.reservations.synced
    assert mirror.fault is None
    assert mirror.nodes.unconfirmed_loss is None
    assert mirror.nodes.presence("k001") is Presence.PRESENT
    assert mirror.nodes.presence("nowhere") is Presence.ABSENT


async def test_changes_of_a_tracked_job_are_published_from_start_to_end(mirror: Mirror, client: SlurmClient) -> None:
    with mirror.subscribe(ObjectKind.JOB) as feed:
        submitted = await client.submit(external_job(tres_per_node="gres/gpu:h100:2", comment="uid"))
        mirror.track(submitted.job_id)
        started = (await next_change(feed, becomes(submitted.job_id, "RUNNING"))).after
        assert isinstance(started, JobRecord)
        assert started.detail is not None
        assert started.detail.comment == "uid"
        assert started.sluid == started.detail.sluid
        assert started.resources is not None
        assert [(gres.count, gres.index) for gres in started.resources[0].gres] == [(2, "0-1")]
        assert mirror.lookup_job(submitted.job_id, started.sluid).presence is Presence.PRESENT
        assert mirror.lookup_job(submitted.job_id, "another").presence is Presence.UNKNOWN
        await client.cancel(submitted.job_id)
        ended = (await next_change(feed, becomes(submitted.job_id, "CANCELLED"))).after
        assert isinstance(ended, JobRecord)
        assert ended.detail is not None
        assert ended.detail.state.ended
    mirror.forget(submitted.job_id)


async def test_a_new_job_can_be_read_at_once(mirror: Mirror, client: SlurmClient) -> None:
    submitted = await client.allocate(external_job(comment="uid"))
    await mirror.read_job(submitted.job_id)
    record = mirror.jobs[str(submitted.job_id)]
    assert record.state.running
    assert record.sluid
    assert record.resources


async def test_many_ends_at_once_are_all_published_with_full_detail(mirror: Mirror, client: SlurmClient) -> None:
    jobs = [str((await client.submit(external_job(hold=True))).job_id) for _ in range(3 * MANY_ENDS)]
    with mirror.subscribe(ObjectKind.JOB) as feed:
        for job in jobs:
            await mirror.read_job(job)
        await client.cancel_many(JobSelection(jobs=jobs))
        for job in jobs:
            if not mirror.jobs[job].state.ended:
                await next_change(feed, becomes(job, "CANCELLED"))
        while not all((detail := mirror.jobs[job].detail) and detail.state.ended for job in jobs):
            await next_change(feed, lambda change: change.key in jobs)


async def test_the_cancellation_of_a_waiting_job_by_others_is_published(
    mirror: Mirror, client: SlurmClient, slurm: LabSlurm
) -> None:
    submitted = await client.submit(external_job(hold=True))
    with mirror.subscribe(ObjectKind.JOB) as feed:
        mirror.track(submitted.job_id)
        await next_change(feed, becomes(submitted.job_id, "PENDING"))
        slurm.exec("scancel", str(submitted.job_id))
        await next_change(feed, becomes(submitted.job_id, "CANCELLED"))


async def test_changes_of_untracked_jobs_are_published(mirror: Mirror, slurm: LabSlurm) -> None:
    with mirror.subscribe(ObjectKind.JOB) as feed:
        out = slurm.exec("sbatch", "--parsable", "-A", "lab", "-D", "/tmp", "--wrap", "true", user="alice")
        await next_change(feed, becomes(out.strip(), "COMPLETED"))


async def test_drains_are_published(mirror: Mirror, client: SlurmClient) -> None:
    with mirror.subscribe(ObjectKind.NODE) as feed:
        await client.update_node("k003", NodeUpdate(state=["DRAIN"], reason="test: drain"))
        mirror.request_refresh(nodes=True)
        drained = (await next_change(feed, lambda change: change.key == "k003")).after
        assert drained.state.drained
        assert drained.reason == "test: drain"
        await client.update_node("k003", NodeUpdate(state=["RESUME"]))
        await mirror.refresh()
    assert mirror.nodes["k003"].state.schedulable


async def test_new_and_deleted_hosts_are_published(mirror: Mirror, client: SlurmClient, slurm: LabSlurm) -> None:
    with mirror.subscribe(ObjectKind.NODE) as feed:
        slurm.add_external_nodes(2, prefix="m")
        mirror.request_refresh(nodes=True)
        await next_change(feed, becomes("m001", "IDLE"))
        await client.delete_nodes("m001", "m002")
        mirror.request_refresh(nodes=True)
        await next_change(feed, lambda change: change.key == "m001" and change.after is None)
    assert mirror.nodes.presence("m001") is Presence.ABSENT


async def test_reservations_are_published(client: SlurmClient, slurm: LabSlurm) -> None:
    intervals = msgspec.structs.replace(PollingIntervals(), partitions=0.2)
    async with Mirror(client, intervals=intervals) as mirror:
        await mirror.synced()
        with mirror.subscribe(ObjectKind.RESERVATION) as feed:
            slurm.exec(
                "scontrol", "create", "reservation", "ReservationName=r1", "StartTime=now+1hour",
                "Duration=10", "Nodes=k001", "Users=slurm",
            )  # fmt: skip
            await next_change(feed, lambda change: change.key == "r1" and change.after is not None)
            slurm.exec("scontrol", "delete", "reservation", "r1")
            await next_change(feed, lambda change: change.key == "r1" and change.after is None)


async def test_a_mirror_can_read_tracked_jobs_only(client: SlurmClient) -> None:
    other = await client.submit(external_job(hold=True))
    async with Mirror(client, all_jobs=False) as mirror:
        await mirror.synced()
        submitted = await client.submit(external_job(hold=True))
        with mirror.subscribe(ObjectKind.JOB) as feed:
            mirror.track(submitted.job_id)
            await next_change(feed, becomes(submitted.job_id, "PENDING"))
        assert str(other.job_id) not in mirror.jobs
    await client.cancel_many(JobSelection(jobs=[str(submitted.job_id), str(other.job_id)]))


async def test_a_doorbell_ring_makes_the_mirror_read_at_once(
    client: SlurmClient, slurm: LabSlurm, slurm_lab: Lab
) -> None:
    lazy = PollingIntervals(statistics=300, idle_jobs=300, active_jobs=300, nodes=300, partitions=300)
    here = slurm_lab.network.host
    async with Mirror(client, intervals=lazy) as mirror, Doorbell(mirror.request_refresh, host=here) as bell:
        await mirror.synced()
        with mirror.subscribe(ObjectKind.JOB) as feed:
            submitted = await client.allocate(external_job())
            slurm.exec("bash", "-c", f"echo rung > /dev/udp/{here}/{bell.port}")
            await next_change(feed, becomes(submitted.job_id, "RUNNING"))
    await client.cancel(submitted.job_id)


async def test_an_idle_mirror_never_reads_a_list_of_jobs_in_full(slurm: LabSlurm) -> None:
    seen: list[RequestRecord] = []
    tokens = MintedToken(lambda: slurm.jwt_key, "slurm")
    async with SlurmClient(slurm.url, tokens, observe=seen.append) as client, Mirror(client) as mirror:
        await mirror.synced()
        await mirror.refresh()
    paths = {exchange.path.removeprefix("/slurm/v0.0.45/") for exchange in seen}
    assert paths <= {"ping/", "diag/", "jobs/state/", "nodes/", "partitions/", "reservations/"}


async def test_the_detail_of_a_waiting_job_is_refreshed(client: SlurmClient) -> None:
    intervals = PollingIntervals(pending_job=0.1, idle_jobs=0.2, active_jobs=0.1)
    async with Mirror(client, intervals=intervals) as mirror:
        submitted = await client.submit(external_job(hold=True, priority=number(0)))
        with mirror.subscribe(ObjectKind.JOB) as feed:
            mirror.track(submitted.job_id)
            await next_change(feed, becomes(submitted.job_id, "PENDING"))
            await client.update_job(submitted.job_id, external_job(comment="changed", flags=None, hold=True))
            await next_change(feed, lambda change: change.after.detail.comment == "changed")
    await client.cancel(submitted.job_id)


async def test_the_reasons_of_many_waiting_jobs_come_from_one_list(slurm: LabSlurm) -> None:
    intervals, sent = PollingIntervals(pending_jobs=0.2, pending_job=LIMIT), list[RequestRecord]()
    async with SlurmClient(slurm.url, MintedToken(lambda: slurm.jwt_key, "slurm"), observe=sent.append) as client:
        jobs = [(await client.submit(external_job(hold=True))).job_id for _ in range(SINGLE_READS_MAX + 1)]
        async with Mirror(client, all_jobs=False, intervals=intervals) as mirror:
            await mirror.synced()
            for job in jobs:
                mirror.track(job)
            await eventually(
                lambda: all(_detail(mirror, job).state_reason == "JobHeldUser" for job in jobs), "all jobs"
            )
            await eventually(lambda: any(call.path.endswith("/jobs/") for call in sent), "a list of all jobs")
            await client.update_job(jobs[-1], external_job(comment="changed", flags=None, hold=True))
            await eventually(lambda: _detail(mirror, jobs[-1]).comment == "changed", "the change of one job")
        await client.cancel_many(JobSelection(user_name="slurm"))


def _detail(mirror: Mirror, job: int) -> Job:
    record = mirror.jobs.get(str(job))
    return record.detail if record and record.detail else Job(job)


async def test_heterogeneous_jobs_are_followed_like_others(mirror: Mirror, client: SlurmClient) -> None:
    jobs = [await client.submit(external_job(hold=True), external_job(hold=True)) for _ in range(7)]
    with mirror.subscribe(ObjectKind.JOB) as feed:
        for job in jobs:
            mirror.track(job.job_id)
        await next_change(feed, becomes(jobs[-1].job_id, "PENDING"))
        await mirror.refresh()
        assert mirror.nodes.unconfirmed_loss is None
        await client.cancel(jobs[0].job_id)
        await next_change(feed, becomes(jobs[0].job_id, "CANCELLED"))
