# SPDX-License-Identifier: Apache-2.0
"""Every query of every dashboard and every alert, evaluated by Prometheus's own engine (promtool).

The series are those that the exporter, the operator and the bridge produce for a small cluster; counters grow.
"""

import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml
from charts.monitoring import alerts, process_boards, slurm_boards
from charts.monitoring.description import Query
from prometheus_client.metrics_core import Metric
from tests.unit.exporter.test_families import DETAILS, HOSTS, NOW, QUEUE, at, cluster, host, job

from slinky.bridge import metrics as bridge
from slinky.exporter import series
from slinky.exporter.app import token_expiry
from slinky.exporter.forecast_accuracy import ForecastAccuracy
from slinky.exporter.gpu_time import GpuTime
from slinky.exporter.job_history import JobHistory
from slinky.exporter.node_history import NodeHistory
from slinky.exporter.observed_metrics import ObservedMetrics
from slinky.exporter.request_counts import RequestCounts
from slinky.exporter.snapshot import ClusterSnapshot, MetricSource
from slinky.insight.forecast import StartRange, StartSource
from slinky.insight.group_limits import group_limits
from slinky.kube.types import Key
from slinky.lab.prepare.inventory import ArtifactInventory
from slinky.observe.metrics import REGISTRY
from slinky.operator import metrics as operator
from slinky.slurm import Diag, License, MintedToken, RequestRecord, Reservation, Share, Tres, number
from slinky.slurm.model.accounts import Association, AssociationMax, AssociationTres

BOARDS = (*slurm_boards.BOARDS, *process_boards.BOARDS)
#: What Grafana puts in place of its variables.
VARIABLES = {"$cluster": ".*", "$namespace": ".*", "$job": ".*", "$__rate_interval": "60s"}
TIMES = {"submit_time": at(NOW - 1000), "eligible_time": at(NOW - 100)}
ENDED = {**TIMES, "start_time": at(NOW - 10), "end_time": at(NOW + 50), "account": "a", "time_limit": at(2)}
STATISTICS = {
    "rpcs_by_message_type": [{"message_type": "REQUEST_PING", "count": 7, "total_time": 5}],
    "rpcs_by_user": [{"user": "alice", "count": 3, "total_time": 4}],
}
SHARE = {
    "name": "a",
    "shares_normalized": at(1),
    "effective_usage": at(0.5),
    "fairshare": {"level": at(2)},
    "type": ["ASSOCIATION"],
}


def example_cluster() -> ClusterSnapshot:
    limited = Association("a", max=AssociationMax(tres=AssociationTres(total=(Tres("cpu", count=8),))))
    return cluster(
        jobs=QUEUE,
        hosts=HOSTS,
        up=frozenset(MetricSource),
        ages=dict.fromkeys(MetricSource, 1.0),
        diag=msgspec.convert(STATISTICS, Diag),
        shares=(msgspec.convert(SHARE, Share),),
        limits=group_limits((), (limited,), "c1"),
        licenses=(License("matlab", total=3, used=1, free=2),),
        reservations=(Reservation("r", node_list="n[1-2]", start_time=number(NOW), end_time=number(NOW + 1)),),
    )


def exporter_metrics() -> Iterator[Metric]:
    snapshot, observed, gpu_time = example_cluster(), ObservedMetrics(), GpuTime(100)
    pending, running = job("1", "PENDING", **TIMES), job("1", "RUNNING", **TIMES)
    jobs, nodes = JobHistory(observed), NodeHistory(observed)
    jobs.observe(pending, running, NOW)
    accuracy = ForecastAccuracy(observed)
    accuracy.remember({1: StartRange(1, int(NOW), int(NOW) + 60, StartSource.SIMULATION)})
    accuracy.observe(pending, running, NOW)
    jobs.observe(running, job("1", "COMPLETED", **ENDED), NOW)
    up, down = host("n1", "IDLE"), host("n1", "DOWN")
    nodes.observe(up, down, NOW)
    nodes.observe(down, up, NOW + 60)
    nodes.observe(host("n1", "IDLE", "DRAIN", reason="x", reason_changed_at=at(NOW - 600)), up, NOW)
    RequestCounts(observed).observe(RequestRecord("GET", "/slurm/v0.0.45/diag/", 200, 0.1, 10))
    gpu_time.add(snapshot, 10)
    yield from series.collect(snapshot, DETAILS, maximum=1000)
    yield from observed.collect("c1")
    yield gpu_time.collect("c1")
    yield token_expiry(MintedToken(lambda: b"k" * 32, "nobody"), "c1")


def process_metrics() -> Iterator[Metric]:
    """The metrics of an operator with one NodeSet, and of a bridge that has placed a pod."""
    node_set, controller = Key("ns", "example"), ("ns", "example")
    counts = dict.fromkeys(operator.WORKER_STATES, 2)
    operator.WorkerMetrics().publish(node_set, {**counts, "node_set_hash": "x"}, NOW)
    operator.DrainMetrics().publish(node_set, {operator.DrainWait("scale-in", "jobs"): 1}, 5.0, 0)
    gauges = (operator.SLURM_UP, operator.SLURM_AGE, operator.CONFIG_WANTED, operator.TOKEN_EXPIRY)
    for gauge in (*gauges, operator.WORKERS_WANTED, operator.WORKERS_NOT_GRANTED):
        gauge.labels(*controller).set(1)
    operator.SLURM_CALLS.labels(*controller, "GET", "200").observe(0.1)
    operator.WRITES.labels("apply", "Pod").inc()
    bridge.SUBMISSIONS.labels("allocate").inc()
    bridge.count_call(RequestRecord("GET", "/slurm/v0.0.45/diag/", 200, 0.1, 10))
    bridge.SUBMIT_SECONDS.observe(0.1)
    bridge.PLACE_SECONDS.observe(0.1)
    bridge.BINDS.inc()
    bridge.JOBS_ENDED.labels("succeeded").inc()
    bridge.EVICTIONS_LEFT.labels("lost").set(1)
    bridge.WAITING_PODS.set_function(lambda: {"Resources": bridge.WaitingPods(1, 5.0)})
    yield from REGISTRY.collect()


def input_series(metrics: Iterable[Metric]) -> list[dict[str, str]]:
    """Every sample as a series of five minutes: counters and histograms grow, gauges stay."""
    values = {}
    for metric in metrics:
        for sample in metric.samples:
            labels = ",".join(f'{name}="{text}"' for name, text in sample.labels.items())
            grows = metric.type in {"counter", "histogram"}
            text = f"0+{sample.value:g}x30" if grows else f"{sample.value:g}+0x30"
            values[f"{sample.name}{{{labels}}}"] = text
    return [{"series": name, "values": text} for name, text in values.items()]


def grafana_expression(query: Query) -> str:
    """The expression that Grafana sends for a query."""
    expression = query.expression
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def promtool(folder: Path, tests: list[dict[str, Any]]) -> None:
    """Run `promtool test rules` with all alerts of the charts."""
    inventory = ArtifactInventory.of()
    program = inventory.store.require(inventory.artifacts["prometheus"]) / "promtool"
    groups = [alerts.rule_group(chart) for chart in ("slurm", "slurm-operator", "slurm-bridge")]
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "30s", "tests": tests}
    (folder / "tests.yaml").write_text(yaml.safe_dump(document))
    done = subprocess.run(
        [program, "test", "rules", folder / "tests.yaml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_query_of_every_panel_has_data(tmp_path: Path) -> None:
    expressions = [
        grafana_expression(query)
        for board in BOARDS
        for panel in board.panels
        for query in panel.queries
        if not panel.optional
    ]
    # NaN is not equal to itself: a query that has no other value counts nothing.
    checks = [
        {
            "expr": f"count(({expression}) == ({expression})) > bool 0",
            "eval_time": "290s",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for expression in expressions
    ]
    reconciles = [{"series": 'controller_runtime_reconcile_total{controller="x"}', "values": "0+1x30"}]
    samples = [*input_series([*exporter_metrics(), *process_metrics()]), *reconciles]
    promtool(tmp_path, [{"interval": "10s", "input_series": samples, "promql_expr_test": checks}])


def test_an_alert_fires_after_its_time_and_resolves(tmp_path: Path) -> None:
    down = next(alert for alert in alerts.ALERTS if alert.name == "SlurmctldDown")
    firing = {
        "exp_labels": {"severity": down.severity, "cluster": "c1"},
        "exp_annotations": {
            "summary": "slurmctld of the cluster c1 has not answered for five minutes.",
            "description": down.meaning,
            "runbook": f"{alerts.GUIDE}#{down.anchor}",
        },
    }
    # Five minutes up, ten minutes down, up again; the alert waits five minutes.
    series_up = {"series": 'slinky_slurm_up{cluster="c1",source="statistics"}', "values": "1x9 0x19 1x20"}
    expected = {"4m": [], "9m": [], "11m": [firing], "16m": []}
    checks = [{"eval_time": at, "alertname": down.name, "exp_alerts": fired} for at, fired in expected.items()]
    promtool(tmp_path, [{"interval": "30s", "input_series": [series_up], "alert_rule_test": checks}])
