# SPDX-License-Identifier: Apache-2.0
"""Every query of every dashboard, and every alert, on a real Prometheus that scrapes a real Slurm with work in it.

The exporter, a bridge and an operator run as in a cluster; only their polling is faster.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from charts.monitoring import alerts, process_boards, slurm_boards
from charts.monitoring.description import Query
from prometheus_client import CollectorRegistry
from tests.integration.bridge.bridge_stage import BridgeStage, bridge_stage
from tests.integration.bridge.conftest import kube
from tests.integration.operator.conftest import crds
from tests.integration.operator.stage import SlurmStage, slurm_stage
from tests.support.job_requests import external_job
from tests.support.prometheus_server import PrometheusServer, prometheus_server
from tests.support.slurmrestd_proxy import SlurmrestdProxy, page
from tests.support.waiting import eventually

from slinky.api.token import TOKENS
from slinky.bridge.metrics import count_call
from slinky.exporter.app import ClusterCollector
from slinky.exporter.cluster_reader import ClusterReader
from slinky.exporter.observed_metrics import ObservedMetrics
from slinky.exporter.request_counts import RequestCounts
from slinky.exporter.settings import ExporterSettings
from slinky.kube import KubeClient
from slinky.lab.errors import LabError
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.slurm.cluster import LabSlurm
from slinky.observe import Health, SystemClock
from slinky.observe.endpoint import serve_endpoint
from slinky.slurm import MintedToken, NativeMetrics, PollingIntervals, SlurmClient, number

__all__ = ["crds", "kube"]

BOARDS = (*slurm_boards.BOARDS, *process_boards.BOARDS)
#: What Grafana puts in place of its variables.
VARIABLES = {"$cluster": ".*", "$namespace": ".*", "$job": ".*", "$__rate_interval": "20s"}
#: Eight GPUs on each of four nodes: nothing else fits beside it.
WHOLE = external_job(tres_per_node="gres/gpu:8", nodes="4", tasks=4, time_limit=number(60))
RESERVED = ("Duration=60", "Nodes=k001", "Users=slurm")
#: A series that shows that a node is out of service, by the state that an administrator sets.
OUT_OF_SERVICE = {
    "drain": 'slinky_slurm_nodes_draining{owner="administrator"}',
    "down": 'slinky_slurm_cluster_nodes{state="down"}',
}
AUTOSCALING = Path(__file__).parents[3] / "docs/operator/autoscaling.md"
JWT_KEY = {"name": "jwt-key", "key": "jwt.key"}


class Site(NamedTuple):
    """Everything that Prometheus scrapes."""

    prometheus: PrometheusServer
    slurm: LabSlurm
    client: SlurmClient
    proxy: SlurmrestdProxy
    bridge: BridgeStage
    operator: SlurmStage


@contextlib.asynccontextmanager
async def served_exporter(url: str, slurm: LabSlurm) -> AsyncIterator[int]:
    """The port of an exporter that follows the cluster fast and shows users and jobs."""
    settings, registry, observed = ExporterSettings(users=True, jobs=True), CollectorRegistry(), ObservedMetrics()
    tokens = MintedToken(lambda: slurm.jwt_key, "slurm")
    requests, slurmctld = RequestCounts(observed), f"http://{slurm.address}:6817"
    async with (
        SlurmClient(url, tokens, observe=requests.observe) as client,
        NativeMetrics(slurmctld, observe=requests.observe) as native,
    ):
        reader = ClusterReader(
            client,
            SystemClock(),
            jobs_max=1000,
            observed=observed,
            intervals=PollingIntervals(),
            gpu_seconds=0.5,
            forecast_seconds=0.5,
            native=native,
            native_seconds=1.0,
        )
        registry.register(ClusterCollector(reader, settings, tokens))
        task = asyncio.create_task(reader.run())
        try:
            await reader.mirror.synced()
            async with serve_endpoint(Health(), host="127.0.0.1", port=0, registry=registry) as port:
                yield port
        finally:
            task.cancel()


@pytest.fixture
async def site(
    plane: BarePlane, crds: None, kube: KubeClient, slurm: LabSlurm, proxy: SlurmrestdProxy, tmp_path: Path
) -> AsyncIterator[Site]:
    groups = [alerts.rule_group(chart) for chart in ("slurm", "slurm-operator", "slurm-bridge")]
    async with contextlib.AsyncExitStack() as stack:
        tokens = MintedToken(lambda: slurm.jwt_key, "slurm")
        client = await stack.enter_async_context(SlurmClient(slurm.url, tokens, observe=count_call))
        stack.callback(restore, slurm)
        set_limits(slurm, cpu=1000, jobs=100)
        operator = await stack.enter_async_context(slurm_stage(plane, slurm, tmp_path, trial_seconds=0))
        bridge = await stack.enter_async_context(bridge_stage(kube, client))
        await bridge.start()
        assert operator.proxy.operator is not None
        ports = {
            "exporter": await stack.enter_async_context(served_exporter(proxy.url, slurm)),
            "bridge": await stack.enter_async_context(serve_endpoint(Health(), host="127.0.0.1", port=0)),
            "operator": operator.proxy.operator.port,
        }
        prometheus = await stack.enter_async_context(prometheus_server(tmp_path, ports, map(at_once, groups)))
        yield Site(prometheus, slurm, client, proxy, bridge, operator)


def restore(slurm: LabSlurm) -> None:
    """Undo what the test did to the shared Slurm."""
    set_limits(slurm, cpu=-1, jobs=-1)
    for command in (
        ("scontrol", "update", "nodename=c1", "state=resume"),
        ("scontrol", "delete", "reservation", "night"),
        ("scancel", "--user=slurm"),
    ):
        with contextlib.suppress(LabError):
            slurm.exec(*command)


def set_limits(slurm: LabSlurm, *, cpu: int, jobs: int) -> None:
    slurm.exec("sacctmgr", "-i", "modify", "account", "lab", "set", f"GrpTRES=cpu={cpu}", f"GrpJobs={jobs}")


def at_once(group: dict[str, Any]) -> dict[str, Any]:
    """The rules of a group, which fire as soon as they hold."""
    return {**group, "rules": [{**rule, "for": "0s"} for rule in group["rules"]]}


async def test_every_panel_has_data_and_alerts_fire_and_resolve(site: Site) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(use_slurm(site))
        tasks.create_task(use_bridge(site))
        tasks.create_task(use_operator(site))

    async def every_query_has_values() -> bool:
        missing = [
            f"{board.title} / {panel.title}: {query.expression}"
            for board in BOARDS
            for panel in board.panels
            for query in panel.queries
            if not await site.prometheus.values(grafana_expression(query)) and not panel.optional
        ]
        assert not missing, "\n".join(missing)
        return True

    await eventually(every_query_has_values, "data in every panel")

    # What KEDA asks, with the names of this test in place of those of the page.
    (query,) = re.findall(r"query: (.*)", AUTOSCALING.read_text())
    names = {"slurm-worker-burst": "gpu", '"slurm"': f'"{site.operator.namespace}"'}
    for old, new in names.items():
        assert old in query
        query = query.replace(old, new)
    assert await site.prometheus.values(query) == [2]

    rules = await site.prometheus.rules()
    assert {rule["name"] for rule in rules} == {alert.name for alert in alerts.ALERTS}
    assert not {rule["name"]: rule["lastError"] for rule in rules if rule["health"] != "ok"}

    await wait_alert(site.prometheus, "SlurmctldDown", "inactive")
    site.proxy.fault = page(502, "no slurmrestd")
    await wait_alert(site.prometheus, "SlurmctldDown", "firing")
    site.proxy.fault = None
    await wait_alert(site.prometheus, "SlurmctldDown", "inactive")


def grafana_expression(query: Query) -> str:
    """The expression that Grafana sends for a query."""
    expression = query.expression
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


async def wait_alert(prometheus: PrometheusServer, name: str, state: str) -> None:
    async def is_in_state() -> bool:
        return await prometheus.alert_state(name) == state

    await eventually(is_in_state, f"alert {name} to be {state}")


async def use_slurm(site: Site) -> None:
    """Start, queue and end jobs, drain and lose nodes: each twice, because rates need a change between two scrapes."""
    prometheus, client, slurm = site.prometheus, site.client, site.slurm
    slurm.exec("scontrol", "create", "reservation", "ReservationName=night", "StartTime=now+1day", *RESERVED)
    jobs = [(await client.submit(WHOLE)).job_id for _ in range(5)]
    for job in jobs[:3]:
        await prometheus.wait_values(f'slinky_slurm_job_info{{job="{job}"}}')
        await client.cancel(job)
    await prometheus.wait_values(f'slinky_slurm_job_info{{job="{jobs[3]}"}}')
    for count in (1, 2):
        await change_node(site, "c1", "drain", "slinky_slurm_node_drain_seconds_count", count)
        await change_node(site, "c2", "down", "slinky_slurm_node_unavailable_seconds_count", count)
    slurm.exec("scontrol", "update", "nodename=c1", "state=drain", "reason=test")


async def change_node(site: Site, node: str, state: str, metric: str, count: int) -> None:
    """Take a node out of service and bring it back; Prometheus has seen both.

    With ReturnToService=2 a node that is down returns when its slurmd registers, at any time: only one without a
    slurmd stays down until Prometheus has scraped it.
    """
    with without_slurmd(site.slurm, node) if state == "down" else contextlib.nullcontext():
        site.slurm.exec("scontrol", "update", f"nodename={node}", f"state={state}", "reason=test")
        await site.prometheus.wait_values(OUT_OF_SERVICE[state], 1)
    if state != "down":
        site.slurm.exec("scontrol", "update", f"nodename={node}", "state=resume")
    await site.prometheus.wait_values(f"sum({metric})", count)


@contextlib.contextmanager
def without_slurmd(slurm: LabSlurm, node: str) -> Iterator[None]:
    slurm.stop(f"slurmd-{node}")
    try:
        yield
    finally:
        slurm.start(f"slurmd-{node}")


async def use_bridge(site: Site) -> None:
    """Place two pods one after the other, and let a third wait."""
    bridge, prometheus, placements = site.bridge, site.prometheus, "sum(slinky_bridge_place_seconds_count)"
    await bridge.add_node()
    before = max(await prometheus.values(placements), default=0)
    for count in (1, 2):
        await bridge.run_pod(f"p{count}")
        await prometheus.wait_values(placements, before + count)
        await bridge.report_phase(f"p{count}", "Succeeded", 0)
        await bridge.wait_released(f"p{count}")
    await bridge.create_pod("waits", nodeSelector={"none": "such"})


async def use_operator(site: Site) -> None:
    """Two workers that another autoscaler sets, and a token."""
    spec = {"username": "slurm", "jwtKeyRef": JWT_KEY, "secretRef": {"name": "t", "key": "t"}}
    await site.operator.apply(TOKENS, "t", spec=spec)
    await site.operator.apply_workers(2, autoscaling={"maxReplicas": 2, "minReplicas": 2, "mode": "External"})
    await site.operator.wait_workers(2)
