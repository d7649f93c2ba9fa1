# SPDX-License-Identifier: Apache-2.0
"""The descriptions of dashboards and alerts: whole, unambiguous, and about metrics that exist."""

import json
import re

import pytest
from charts.monitoring import alerts, grafana, process_boards, slurm_boards
from charts.monitoring.alerts import Alert
from charts.monitoring.description import Board
from prometheus_client.metrics import MetricWrapperBase

from slinky.bridge import metrics as bridge_metrics
from slinky.exporter.families import FAMILIES, PREFIX
from slinky.exporter.reference import OWN_LABELS
from slinky.kube import metrics as kube_metrics
from slinky.operator import metrics as operator_metrics

BOARDS = (*slurm_boards.BOARDS, *process_boards.BOARDS)
NAME = re.compile(r"\b(?:slinky|controller_runtime|workqueue)_[a-z0-9_]+")
#: Endings of the series of counters and histograms.
SUFFIXES = ("_total", "_bucket", "_count", "_sum")


def known_metrics() -> set[str]:
    names = {PREFIX + family.name for family in FAMILIES} | {PREFIX + name for name in OWN_LABELS}
    names |= {metric.name for metric in bridge_metrics.WAITING_PODS.collect()}
    for module in (bridge_metrics, operator_metrics, kube_metrics):
        wrapped = (value for value in vars(module).values() if isinstance(value, MetricWrapperBase))
        names |= {metric._name for metric in wrapped}
    return names | {f"{PREFIX}token_expiry_timestamp_seconds"}


def unknown_metrics(expression: str) -> set[str]:
    known = known_metrics()
    used = set(NAME.findall(re.sub(r"__name__=~\"[^\"]*\"", "", expression)))
    return {name for name in used if name not in known and not any(name.removesuffix(end) in known for end in SUFFIXES)}


def test_there_are_ten_boards_with_names_of_their_own() -> None:
    assert len({board.uid for board in BOARDS}) == len({board.title for board in BOARDS}) == len(BOARDS) == 10


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_a_board_is_laid_out_without_overlap(board: Board) -> None:
    document = json.loads(grafana.render_board(board))
    cells: set[tuple[int, int]] = set()
    for panel in document["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= grafana.COLUMNS
        own = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not own & cells
        cells |= own
        assert panel["targets"]
        assert all(target["datasource"] == grafana.DATASOURCE for target in panel["targets"])
    assert len({panel["id"] for panel in document["panels"]}) == len(board.panels)
    assert len({panel["title"] for panel in document["panels"]}) == len(board.panels)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_every_query_uses_metrics_and_variables_that_exist(board: Board) -> None:
    variables = {variable.name for variable in board.variables} | {"__rate_interval"}
    for panel in board.panels:
        for query in panel.queries:
            assert not unknown_metrics(query.expression), panel.title
            assert set(re.findall(r"\$(\w+)", query.expression)) <= variables, panel.title


@pytest.mark.parametrize("alert", alerts.ALERTS, ids=lambda alert: alert.name)
def test_every_alert_says_what_it_means_and_what_to_do(alert: Alert) -> None:
    assert not unknown_metrics(alert.expression)
    assert alert.severity in {"info", "warning", "critical"}
    assert alert.summary.endswith(".")
    assert alert.meaning.endswith(".")
    assert alert.steps


def test_alerts_have_names_of_their_own() -> None:
    assert len({alert.name for alert in alerts.ALERTS}) == len(alerts.ALERTS)
