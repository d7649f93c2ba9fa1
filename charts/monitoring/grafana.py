# SPDX-License-Identifier: Apache-2.0
"""Renders a dashboard as the JSON that Grafana 9 and newer import."""

import json
from collections.abc import Iterator
from typing import Any

from charts.monitoring.description import Board, Panel, PanelKind, Variable

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24
HEIGHTS = {PanelKind.NUMBER: 4, PanelKind.TABLE: 4}
GRAPH_HEIGHT = 8


def render_board(board: Board) -> str:
    """The JSON of a dashboard."""
    document = {
        "uid": board.uid,
        "title": board.title,
        "description": board.description,
        "tags": ["slinky", "slurm"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "",
        "annotations": {"list": []},
        "links": [],
        "templating": {"list": [_datasource(), *map(_variable, board.variables)]},
        "panels": list(_panels(board)),
    }
    return json.dumps(document, indent=1) + "\n"


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variable(variable: Variable) -> dict[str, Any]:
    return {
        "name": variable.name,
        "label": variable.name.capitalize(),
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": f"label_values({variable.metric}, {variable.label})", "refId": "values"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels(board: Board) -> Iterator[dict[str, Any]]:
    """The panels from left to right and from top to bottom."""
    left = top = row_height = 0
    for number, panel in enumerate(board.panels, 1):
        height = HEIGHTS.get(panel.kind, GRAPH_HEIGHT)
        if left + panel.width > COLUMNS:
            left, top, row_height = 0, top + row_height, 0
        yield _panel(panel, number, {"x": left, "y": top, "w": panel.width, "h": height})
        left, row_height = left + panel.width, max(row_height, height)


def _panel(panel: Panel, number: int, position: dict[str, int]) -> dict[str, Any]:
    table = panel.kind is PanelKind.TABLE
    instant = panel.kind is not PanelKind.GRAPH
    targets = [
        {
            "refId": chr(ord("A") + index),
            "datasource": DATASOURCE,
            "expr": query.expression,
            "legendFormat": query.legend or "__auto",
            "instant": instant,
            "range": not instant,
            "format": "table" if table else "time_series",
        }
        for index, query in enumerate(panel.queries)
    ]
    custom = {"fillOpacity": 10, "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"}}
    defaults = {"unit": panel.unit, "custom": custom if panel.kind is PanelKind.GRAPH else {}}
    return {
        "id": number,
        "type": panel.kind.value,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "gridPos": position,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {},
    }
