# SPDX-License-Identifier: Apache-2.0
"""What a dashboard consists of."""

from dataclasses import dataclass
from enum import Enum


class PanelKind(Enum):
    """The panel types of Grafana that the dashboards use."""

    GRAPH = "timeseries"
    NUMBER = "stat"
    BARS = "bargauge"
    TABLE = "table"


@dataclass(frozen=True)
class Query:
    """One PromQL expression; the legend may name labels as `{{label}}`."""

    expression: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """One panel. `optional` panels need metrics of other programs and may be empty."""

    title: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: PanelKind = PanelKind.GRAPH
    description: str = ""
    width: int = 12
    stacked: bool = False
    optional: bool = False


@dataclass(frozen=True)
class Variable:
    """A choice at the top of a dashboard: the values of a label of a metric."""

    name: str
    metric: str
    label: str


@dataclass(frozen=True)
class Board:
    """One dashboard and the chart that delivers it."""

    uid: str
    title: str
    description: str
    chart: str
    panels: tuple[Panel, ...]
    variables: tuple[Variable, ...] = ()


#: Values that a query may contain, with what a test puts in their place.
CLUSTER = Variable("cluster", "slinky_slurm_up", "cluster")
NAMESPACE = Variable("namespace", "slinky_operator_slurm_up", "namespace")
JOB = Variable("job", "slinky_slurm_job_info", "job")


def graph(title: str, expression: str, legend: str = "", unit: str = "short", **more: object) -> Panel:
    """A graph of one expression."""
    return Panel(title, (Query(expression, legend),), unit, **more)  # type: ignore[arg-type]


def number(title: str, expression: str, unit: str = "short", description: str = "") -> Panel:
    """One number."""
    return Panel(title, (Query(expression),), unit, PanelKind.NUMBER, description, width=4)
