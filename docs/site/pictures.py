# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of the documentation: `python -m docs.site.pictures docs/pictures`.

The architecture is described by the tables below; the plots come from `bench/results`.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from docs.site.drawing import Drawing

RESULTS = Path(__file__).parents[2] / "bench" / "results"


@dataclass(frozen=True)
class Part:
    """A box: a process with what it does. `ours` are processes of this project."""

    name: str
    x: int
    y: int
    lines: tuple[str, ...]
    ours: bool = True
    width: int = 176

    @property
    def height(self) -> int:
        """The height of the box."""
        return 30 + 15 * len(self.lines)


AREAS = (
    ("Kubernetes", 16, 44, 420, 420),
    ("Slurm cluster: pods of the operator, or machines outside", 468, 44, 416, 420),
)
PARTS = {
    "users": Part("users", 24, 490, ("kubectl, sbatch, slinky explain",), ours=False, width=240),
    "api": Part(
        "API server", 216, 76, ("pods, nodes, groups, claims", "kinds of slinky.slurm.net"), ours=False, width=204
    ),
    "webhook": Part("webhooks", 32, 76, ("check new objects",), width=168),
    "operator": Part("operator", 32, 168, ("runs clusters: scaling, drains,", "updates, keys, upgrades"), width=204),
    "bridge": Part(
        "bridge",
        32,
        262,
        ("one job for each workload, binds", "pods where Slurm placed the job;", "completer beside it: true job ends"),
        width=204,
    ),
    "exporter": Part("exporter and page", 32, 372, ("metrics, slinky web",), width=204),
    "kubelet": Part("kubelet, each node", 256, 372, ("runs the containers of pods",), ours=False, width=168),
    "restd": Part("slurmrestd", 488, 168, ("REST API, JSON Web Tokens",), ours=False),
    "ctld": Part("slurmctld", 692, 168, ("queue, priorities, backfill",), ours=False),
    "dbd": Part("slurmdbd", 692, 76, ("accounts, limits, history",), ours=False),
    "login": Part("login hosts", 488, 76, ("ssh, sbatch, srun",), ours=False),
    "slurmd": Part("slurmd, each worker", 692, 290, ("runs the steps of jobs",), ours=False),
}
ARROWS: tuple[tuple[tuple[int, int], ...], ...] = (
    ((236, 196), (300, 196), (300, 136)),  # operator to API server
    ((236, 284), (320, 284), (320, 136)),  # bridge to API server
    ((216, 98), (200, 98)),  # API server to webhooks
    ((340, 136), (340, 372)),  # API server to kubelets
    ((236, 184), (488, 184)),  # operator to slurmrestd
    ((236, 296), (452, 296), (452, 200), (488, 200)),  # bridge to slurmrestd
    ((236, 394), (246, 394), (246, 340), (460, 340), (460, 208), (488, 208)),  # exporter to slurmrestd
    ((664, 190), (692, 190)),  # slurmrestd to slurmctld
    ((780, 168), (780, 121)),  # slurmctld to slurmdbd
    ((780, 213), (780, 290)),  # slurmctld to slurmd
    ((664, 98), (678, 98), (678, 180), (692, 180)),  # login hosts to slurmctld
    ((144, 490), (144, 464)),  # users to Kubernetes
    ((264, 512), (576, 512), (576, 464)),  # users to Slurm
)


def draw_architecture() -> str:
    """The processes and their connections."""
    drawing = Drawing(900, 552, "Operator and bridge talk to the API server and to slurmrestd")
    drawing.text(16, 28, "Processes and their connections", "strong")
    drawing.text(884, 28, "green: slinky", "small", "end")
    for title, x, y, width, height in AREAS:
        drawing.box(x, y, width, height, "area")
        drawing.text(x + 12, y + 20, title, "small")
    for points in ARROWS:
        drawing.arrow(*points)
    for part in PARTS.values():
        drawing.box(part.x, part.y, part.width, part.height, "ours" if part.ours else "other")
        drawing.text(part.x + 10, part.y + 19, part.name, "strong")
        for number, line in enumerate(part.lines):
            drawing.text(part.x + 10, part.y + 36 + 15 * number, line, "small")
    return drawing.render()


@dataclass(frozen=True)
class Figure:
    """A measured figure and its limit."""

    what: str
    value: float
    limit: float
    unit: str

    @property
    def label(self) -> str:
        """The value and the limit, with their unit."""
        return f"{_number(self.value)} of {_number(self.limit)} {self.unit}".strip()


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def bridge_figures(results: Path = RESULTS) -> list[Figure]:
    """The figures of `make bench-bridge` that have a limit."""
    lines = json.loads((results / "bridge.json").read_text())["lines"]
    return [Figure(line["what"], line["value"], line["limit"], line["unit"]) for line in lines if line["limit"]]


def operator_figures(results: Path = RESULTS) -> list[Figure]:
    """The figures of `make bench-operator` that have a limit above 0."""
    parts = json.loads((results / "operator.json").read_text()).values()
    figures = [figure for part in parts for figure in part["figures"]]
    return [Figure(item["what"], item["found"], item["limit"], item["unit"]) for item in figures if item["limit"]]


def draw_figures(title: str, figures: list[Figure]) -> str:
    """A bar for each figure, as a share of its limit, which is the red line."""
    left, full, row = 20, 620, 44
    drawing = Drawing(900, 60 + row * len(figures), f"{title}: measured values as shares of their limits")
    drawing.text(left, 28, title, "strong")
    drawing.text(left + full, 28, "limit", "small", "middle")
    for number, figure in enumerate(figures):
        y = 44 + row * number
        share = figure.value / figure.limit
        drawing.text(left, y + 14, figure.what.replace(" -> ", " to "))
        drawing.box(left, y + 20, max(2, round(full * min(share, 1.3))), 12, "bar")
        drawing.text(left + full + 16, y + 31, figure.label, "small")
    drawing.line(left + full, 36, 44 + row * len(figures), "limit")
    return drawing.render()


def pictures() -> dict[str, str]:
    """Every picture by the name of its file."""
    return {
        "architecture.svg": draw_architecture(),
        "bench-bridge.svg": draw_figures("make bench-bridge", bridge_figures()),
        "bench-operator.svg": draw_figures("make bench-operator", operator_figures()),
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    for name, text in pictures().items():
        (folder / name).write_text(text)
