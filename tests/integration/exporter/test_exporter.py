# SPDX-License-Identifier: Apache-2.0
"""The exporter on a real slurmctld: its series follow the cluster, and a scrape costs Slurm nothing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import NamedTuple

import pytest
from prometheus_client import CollectorRegistry
from tests.support.job_requests import external_job
from tests.support.slurm_settings import slurm_settings
from tests.support.slurmrestd_proxy import SlurmrestdProxy, page
from tests.support.waiting import eventually

from slinky.exporter.app import ClusterCollector
from slinky.exporter.cluster_reader import ClusterReader
from slinky.exporter.families import FAMILIES
from slinky.exporter.settings import ExporterSettings
from slinky.exporter.snapshot import OPTIONAL_SOURCES, MetricSource
from slinky.lab.slurm.cluster import LabSlurm
from slinky.observe import SystemClock
from slinky.observe.metrics import render_metrics
from slinky.slurm import JobSelection, MintedToken, SlurmClient

#: What an exporter reads without further settings.
REQUIRED = frozenset(MetricSource) - OPTIONAL_SOURCES


class Exporter(NamedTuple):
    """A running exporter and a client of the same cluster."""

    registry: CollectorRegistry
    client: SlurmClient

    def value(self, name: str, /, **labels: str) -> float | None:
        """The value of one series; None if there is none."""
        cluster = {"cluster": self.client.session.server.cluster}
        return self.registry.get_sample_value(f"slinky_slurm_{name}", labels | cluster)


@contextlib.asynccontextmanager
async def running_exporter(url: str, slurm: LabSlurm) -> AsyncIterator[Exporter]:
    """An exporter that has read the cluster; its jobs are cancelled at the end."""
    settings, registry = ExporterSettings(), CollectorRegistry()
    async with SlurmClient(url, MintedToken(lambda: slurm.jwt_key, "slurm")) as client:
        reader = ClusterReader(client, SystemClock(), jobs_max=settings.jobs_max)
        registry.register(ClusterCollector(reader, settings))
        task = asyncio.create_task(reader.run())
        try:
            await reader.mirror.synced()
            yield Exporter(registry, client)
        finally:
            await client.cancel_many(JobSelection(user_name="slurm"))
            task.cancel()


@pytest.fixture
async def exporter(slurm: LabSlurm, proxy: SlurmrestdProxy) -> AsyncIterator[Exporter]:
    async with running_exporter(proxy.url, slurm) as exporter:
        yield exporter


async def test_the_series_follow_the_queue(exporter: Exporter) -> None:
    client = exporter.client
    running = await client.submit(external_job(tres_per_node="gres/gpu:2"))
    pending = await client.submit(external_job(tres_per_node="gres/gpu:8", nodes="4", tasks=4))
    await eventually(lambda: exporter.value("jobs", partition="ext", state="running") == 1, "a running job")
    await eventually(lambda: exporter.value("pending_gres", partition="ext", gres="gpu", type="") == 32, "its demand")
    assert exporter.value("pending_nodes", partition="ext") == 4
    assert exporter.value("pending_largest_job_nodes", partition="ext") == 4
    assert exporter.value("account_jobs", account="lab", state="pending") == 1
    await eventually(
        lambda: exporter.value("gres", partition="ext", gres="gpu", type="h100", state="allocated") == 2, "its GPUs"
    )
    await eventually(lambda: exporter.value("jobs_pending", partition="ext", reason="Resources") == 1, "the reason")

    await client.cancel(running.job_id)
    await eventually(lambda: exporter.value("jobs", partition="ext", state="running") == 1, "the next job")
    await eventually(
        lambda: exporter.value("job_wait_seconds_count", partition="ext", qos="normal") is not None, "its wait"
    )
    await client.cancel(pending.job_id)
    await eventually(
        lambda: (exporter.value("jobs_ended_total", partition="ext", account="lab", state="cancelled") or 0) >= 2,
        "both ends",
    )


async def test_limits_and_fair_shares_are_read(slurm: LabSlurm) -> None:
    limits = ("GrpTRES=cpu=100,gres/gpu=7", "GrpJobs=11", "GrpSubmitJobs=13")
    slurm.exec("sacctmgr", "-i", "modify", "qos", "normal", "set", *limits)
    slurm.exec("sacctmgr", "-i", "modify", "account", "lab", "set", "GrpTRES=mem=5000", "GrpJobs=17")
    try:
        async with running_exporter(slurm.url, slurm) as exporter:
            await eventually(lambda: exporter.value("up", source="limits") == 1, "the limits")
            expected = {"cpu": 100, "gres/gpu": 7, "jobs": 11, "submitted_jobs": 13}
            amounts = {name: exporter.value("limit", kind="qos", name="normal", resource=name) for name in expected}
            assert amounts == expected
            assert exporter.value("limit", kind="account", name="lab", resource="mem") == 5000 * 2**20
            assert exporter.value("limit", kind="account", name="lab", resource="jobs") == 17
            await exporter.client.allocate(external_job(tres_per_node="gres/gpu:2"))
            used = {"kind": "qos", "name": "normal", "resource": "gres/gpu"}
            await eventually(lambda: exporter.value("limit_used", **used) == 2, "the use of the limit")
            await eventually(lambda: exporter.value("account_shares_ratio", account="lab") is not None, "fair shares")
    finally:
        none = ("GrpTRES=cpu=-1,gres/gpu=-1", "GrpJobs=-1", "GrpSubmitJobs=-1")
        slurm.exec("sacctmgr", "-i", "modify", "qos", "normal", "set", *none)
        slurm.exec("sacctmgr", "-i", "modify", "account", "lab", "set", "GrpTRES=mem=-1", "GrpJobs=-1")


async def test_a_scrape_sends_no_request(exporter: Exporter, proxy: SlurmrestdProxy) -> None:
    before = len(proxy.requests)
    for _ in range(20):
        render_metrics(exporter.registry)
    # The event loop did not run in between, so the mirror cannot have sent anything either.
    await asyncio.sleep(0)
    assert len(proxy.requests) == before


@pytest.mark.parametrize("status", [502, 303], ids=["no slurmrestd", "a redirection by a standby"])
async def test_a_slurm_that_is_down_has_no_series(exporter: Exporter, proxy: SlurmrestdProxy, status: int) -> None:
    await eventually(lambda: exporter.value("nodes", partition="ext", state="idle") == 4, "four hosts")
    proxy.fault = page(status, "not here")
    await eventually(lambda: exporter.value("up", source="nodes") == 0, "the loss of Slurm")
    assert exporter.value("nodes", partition="ext", state="idle") is None
    assert exporter.value("controller_threads") is None
    assert exporter.value("source_age_seconds", source="nodes") is not None
    proxy.fault = None
    await eventually(lambda: exporter.value("nodes", partition="ext", state="idle") == 4, "the return of Slurm")


async def test_an_array_counts_by_its_tasks(exporter: Exporter, slurm: LabSlurm) -> None:
    slurm.exec("sbatch", "--partition=ext", "--hold", "--array=0-9", "--wrap=true", "--uid=slurm", "--chdir=/tmp")
    await eventually(lambda: exporter.value("jobs", partition="ext", state="pending") == 10, "ten pending tasks")
    assert exporter.value("jobs_pending", partition="ext", reason="JobHeldUser") == 10


async def test_an_ordinary_user_may_read_everything(slurm: LabSlurm, exporter: Exporter) -> None:
    async with SlurmClient(slurm.url, MintedToken(lambda: slurm.jwt_key, "nobody")) as client:
        reader = ClusterReader(client, SystemClock(), jobs_max=100)
        task = asyncio.create_task(reader.run())
        await reader.mirror.synced()
        await exporter.client.allocate(external_job(tres_per_node="gres/gpu:2"))
        gpus = next(family for family in FAMILIES if family.name == "account_gres_allocated")
        await eventually(lambda: gpus.compute(reader.snapshot()) == {("lab", "gpu", ""): 2}, "its GPUs")
        await eventually(lambda: reader.snapshot().up == REQUIRED, "every source")
        task.cancel()


def is_synced_without_jobs(reader: ClusterReader) -> bool:
    return reader.mirror.jobs.synced and not list(reader.snapshot().jobs)


async def test_private_data_are_read_with_the_token_of_slurm_and_are_not_shown_to_others(slurm: LabSlurm) -> None:
    with slurm_settings(slurm, {"PrivateData": "jobs,nodes,usage,users"}):
        async with running_exporter(slurm.url, slurm) as exporter:
            await exporter.client.allocate(external_job(tres_per_node="gres/gpu:2"))
            await eventually(lambda: exporter.value("jobs", partition="ext", state="running") == 1, "the job")
            assert exporter.value("account_jobs", account="lab", state="running") == 1
            assert exporter.value("up", source="nodes") == 1
            async with SlurmClient(slurm.url, MintedToken(lambda: slurm.jwt_key, "nobody")) as client:
                reader = ClusterReader(client, SystemClock(), jobs_max=100)
                task = asyncio.create_task(reader.run())
                # slurmctld lists the states of all jobs to every user; the jobs themselves it does not show.
                hidden = partial(is_synced_without_jobs, reader)
                try:
                    await eventually(hidden, "the jobs of others to be hidden")
                finally:
                    task.cancel()


async def test_a_rate_limit_of_slurmctld_delays_an_ordinary_user_and_nothing_else(slurm: LabSlurm) -> None:
    count = 40  # slurmctld lets a user send 30 requests at once
    with slurm_settings(slurm, {"SlurmctldParameters": "enable_configless,rl_enable"}):
        async with contextlib.AsyncExitStack() as stack:
            slurm_user = await stack.enter_async_context(running_exporter(slurm.url, slurm))
            for _ in range(count):
                await slurm_user.client.submit(external_job(hold=True))
            tokens = MintedToken(lambda: slurm.jwt_key, "nobody")
            client = await stack.enter_async_context(SlurmClient(slurm.url, tokens))
            reader = ClusterReader(client, SystemClock(), jobs_max=1000)
            task = asyncio.create_task(reader.run())
            stack.callback(task.cancel)
            for known in (
                lambda: slurm_user.value("account_jobs", account="lab", state="pending") == count,
                lambda: sum(record.detail is not None for record in reader.snapshot().jobs) == count,
            ):
                await eventually(known, "every job with its account")
