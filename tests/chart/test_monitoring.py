# SPDX-License-Identifier: Apache-2.0
"""What the charts create for Prometheus: off by default, and consistent with Services and ports when it is on."""

from typing import Any

import pytest
from charts.monitoring.alerts import ALERTS
from tests.chart.helm import CHARTS as CHART_FOLDER
from tests.chart.helm import Helm, Objects, Refused, one

ON: dict[str, Any] = {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}}
#: Values that turn every ServiceMonitor of a chart on.
MONITORED: dict[str, dict[str, Any]] = {
    "slurm-operator": {"operator": ON, "webhook": {**ON, "metricsPort": 8080}},
    "slurm-bridge": {"scheduler": ON, "admission": {**ON, "metricsPort": 8080}},
    "slurm": {"exporter": {"enabled": True, "serviceMonitor": {"enabled": True, "compat": ["vpenso"]}}},
}


def of_kind(objects: Objects, kind: str) -> Objects:
    return [item for item in objects if item["kind"] == kind]


@pytest.mark.parametrize("chart", MONITORED)
def test_kinds_of_the_prometheus_operator_are_off_by_default(helm: Helm, chart: str) -> None:
    assert not [item for item in helm.render(chart) if item["apiVersion"].startswith("monitoring.coreos.com/")]


@pytest.mark.parametrize("chart", MONITORED)
def test_every_service_monitor_selects_one_service_with_its_port(helm: Helm, chart: str) -> None:
    objects = helm.render(chart, MONITORED[chart])
    monitors = of_kind(objects, "ServiceMonitor")
    assert len(monitors) == len(MONITORED[chart])
    for monitor in monitors:
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        ports = {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]}
        services = [
            service
            for service in of_kind(objects, "Service")
            if wanted <= service["metadata"]["labels"].items()
            and ports <= {port["name"] for port in service["spec"]["ports"]}
        ]
        assert len(services) == 1, monitor["metadata"]["name"]
        assert all(endpoint["honorLabels"] for endpoint in monitor["spec"]["endpoints"])
        assert services[0]["metadata"]["namespace"] == monitor["metadata"]["namespace"]
        (workload,) = [
            item
            for item in of_kind(objects, "Deployment")
            if services[0]["spec"]["selector"].items() <= item["spec"]["template"]["metadata"]["labels"].items()
        ]
        container_ports = {port["name"] for port in workload["spec"]["template"]["spec"]["containers"][0]["ports"]}
        assert ports <= container_ports


def test_a_service_monitor_needs_a_metrics_port(helm: Helm) -> None:
    with pytest.raises(Refused, match=r"webhook.metricsPort"):
        helm.render("slurm-operator", {"webhook": ON})
    with pytest.raises(Refused, match=r"scheduler.metricsPort"):
        helm.render("slurm-bridge", {"scheduler": {**ON, "metricsPort": 0}})


def test_secure_metrics_are_scraped_with_a_token(helm: Helm) -> None:
    objects = helm.render("slurm-operator", {"operator": {**ON, "metricsSecure": True}})
    (endpoint,) = one(objects, "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["bearerTokenFile"]


def test_pages_of_compatible_names_are_scraped_on_request(helm: Helm) -> None:
    endpoints = one(helm.render("slurm", MONITORED["slurm"]), "ServiceMonitor")["spec"]["endpoints"]
    assert [endpoint.get("path") for endpoint in endpoints] == [None, "/metrics/compat/vpenso"]


def boards_of(objects: Objects) -> Objects:
    return [item for item in of_kind(objects, "ConfigMap") if "grafana_dashboard" in item["metadata"]["labels"]]


CHARTS = ("slurm", "slurm-operator", "slurm-bridge")


@pytest.mark.parametrize("chart", CHARTS)
def test_dashboards_are_config_maps_with_the_label_of_the_sidecar(helm: Helm, chart: str) -> None:
    assert not boards_of(helm.render(chart))
    boards = boards_of(helm.render(chart, {"dashboards": {"enabled": True}}))
    delivered = {path.name: path.read_text() for path in (CHART_FOLDER / chart / "dashboards").glob("*.json")}
    assert {name: text for item in boards for name, text in item["data"].items()} == delivered
    assert len({item["metadata"]["name"] for item in boards}) == len(delivered) > 0
    assert all(len(text) < 1_000_000 for text in delivered.values()), "the limit of a ConfigMap"


@pytest.mark.parametrize("chart", CHARTS)
def test_rules_are_those_of_the_table_and_name_their_runbook(helm: Helm, chart: str) -> None:
    url = "https://wiki.example/alerts"
    objects = helm.render(chart, {"prometheusRule": {"enabled": True, "labels": {"a": "b"}, "runbookUrl": url}})
    rule = one(objects, "PrometheusRule")
    assert rule["metadata"]["labels"]["a"] == "b"
    (group,) = rule["spec"]["groups"]
    expected = {alert.name: alert.expression for alert in ALERTS if alert.chart == chart}
    assert {item["alert"]: item["expr"] for item in group["rules"]} == expected
    for item in group["rules"]:
        assert item["annotations"]["runbook_url"] == f"{url}#{item['alert'].lower()}"
    plain = one(helm.render(chart, {"prometheusRule": {"enabled": True}}), "PrometheusRule")
    assert "runbook_url" not in plain["spec"]["groups"][0]["rules"][0]["annotations"]
