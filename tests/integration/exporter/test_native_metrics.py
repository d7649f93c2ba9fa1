# SPDX-License-Identifier: Apache-2.0
"""The metrics that a real slurmctld serves itself: their meaning, a standby, their protection, and slurmrestd down."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry
from tests.support.slurm_settings import slurm_settings
from tests.support.slurmrestd_proxy import SlurmrestdProxy, page
from tests.support.waiting import eventually

from slinky.exporter.app import ClusterCollector
from slinky.exporter.cluster_reader import ClusterReader
from slinky.exporter.compat.slurmctld import NATIVE_FIELDS, read_statistics
from slinky.exporter.settings import ExporterSettings
from slinky.lab.slurm.cluster import LabSlurm
from slinky.observe import SystemClock
from slinky.slurm import AuthError, Diag, MintedToken, NativeMetrics, SlurmClient, TokenSource
from slinky.slurm.native_metrics import PATH

#: Names that slurmctld serves beside its statistics: times of the answer itself.
TIMES = {"slurm_sched_stats_timestamp", "slurm_last_proc_req_start"}
#: Figures that a request itself changes.
MOVING = ("server_thread_count", "gettimeofday_latency", "agent_count", "agent_thread_count")


def address(slurm: LabSlurm) -> str:
    """Where slurmctld serves its metrics: at the port of its own protocol."""
    return f"http://{slurm.address}:6817"


def token(slurm: LabSlurm, user: str = "slurm") -> TokenSource:
    return MintedToken(lambda: slurm.jwt_key, user)


async def test_the_metrics_of_slurmctld_are_its_statistics_under_other_names(slurm: LabSlurm) -> None:
    async with NativeMetrics(address(slurm)) as native, SlurmClient(slurm.url, token(slurm)) as client:
        names = set(await native.read())
        assert names - TIMES == {f"slurm_{name}" for name in NATIVE_FIELDS}
        fields = {field.partition(".")[0] for field in NATIVE_FIELDS.values()}.difference(MOVING)

        def shown(diag: Diag) -> dict[str, object]:
            return {field: getattr(diag, field) for field in fields}

        async def agree() -> bool:
            # A cycle of the scheduler may end between the two reads.
            assert shown(read_statistics(await native.read())) == shown(await client.diag())
            return True

        await eventually(agree, "the same figures from slurmctld and from slurmrestd")


async def test_a_standby_sends_the_reader_to_the_primary(slurm: LabSlurm) -> None:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=303, headers={"Location": f"{address(slurm)}{PATH}"})

    async with served(answer) as standby, NativeMetrics(standby) as native:
        assert "slurm_bf_cycle_cnt" in await native.read()


@contextlib.asynccontextmanager
async def served(answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """The address of a server that answers every request so."""
    runner = web.ServerRunner(web.Server(answer), handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_protected_metrics_are_refused_with_the_reason(slurm: LabSlurm) -> None:
    with slurm_settings(slurm, {"PrivateData": "jobs"}):
        async with NativeMetrics(address(slurm)) as native:
            with pytest.raises(AuthError, match="PrivateData"):
                await native.read()


async def test_slurmctld_is_known_while_slurmrestd_is_down_and_no_lock_is_taken(
    slurm: LabSlurm, proxy: SlurmrestdProxy
) -> None:
    registry = CollectorRegistry()
    async with contextlib.AsyncExitStack() as stack:
        slurmctld = await stack.enter_async_context(SlurmrestdProxy(address(slurm)))
        client = await stack.enter_async_context(SlurmClient(proxy.url, token(slurm)))
        native = await stack.enter_async_context(NativeMetrics(slurmctld.url))
        reader = ClusterReader(client, SystemClock(), jobs_max=100, native=native, native_seconds=0.2, cluster="c")
        registry.register(ClusterCollector(reader, ExporterSettings()))

        def value(name: str, **labels: str) -> float | None:
            return registry.get_sample_value(f"slinky_slurm_{name}", {"cluster": "c", **labels})

        task = asyncio.create_task(reader.run())
        stack.callback(task.cancel)
        await reader.mirror.synced()
        await eventually(lambda: value("up", source="native") == 1, "the metrics of slurmctld")
        proxy.fault = page(502, "no slurmrestd")
        await eventually(lambda: value("up", source="statistics") == 0, "the loss of slurmrestd")
        assert value("up", source="native") == 1
        assert value("controller_threads") is not None
        assert value("backfill_cycles_total") is not None
        assert value("jobs", partition="ext", state="running") is None, "only slurmrestd tells of jobs"
        slurmctld.fault = page(503, "no slurmctld")
        await eventually(lambda: (value("source_age_seconds", source="native") or 0) > 1, "an age that grows")
        slurmctld.fault, proxy.fault = None, None
        await eventually(lambda: value("up", source="statistics") == 1, "the return of slurmrestd")
        assert {path for _, path in slurmctld.requests} == {PATH}
