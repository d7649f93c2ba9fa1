# SPDX-License-Identifier: Apache-2.0
"""The README of each chart: what it installs, how, and a table of its values from the comments of values.yaml."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import yaml

HERE = Path(__file__).parent
#: The options of the first `helm install` of each chart, and the pages to read.
INSTALL = {
    "slurm-operator-crds": "-n slinky --create-namespace",
    "slurm-operator": "-n slinky --create-namespace --wait",
    "slurm": "-n slurm --create-namespace --values values.yaml",
    "slurm-bridge": "-n slurm --values values.yaml",
}
PAGES = {
    "slurm-operator-crds": ("operator/install.md", "reference/README.md"),
    "slurm-operator": ("operator/install.md", "operator/images.md", "operator/upgrade-and-uninstall.md"),
    "slurm": ("operator/install.md", "operator/configuration.md", "operator/workers.md", "operator/login.md"),
    "slurm-bridge": ("bridge/install.md", "bridge/configuration.md", "bridge/migration.md"),
}
TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
#: Longer defaults are shown as an ellipsis: the file has them.
LONGEST = 60


@dataclass(frozen=True)
class ChartValue:
    """One value of a chart with the comment above it."""

    path: str
    default: str
    text: str


def read_values(text: str) -> list[ChartValue]:
    """The values of a values.yaml in their order, the innermost of each block."""
    root = yaml.compose(text)
    lines = text.splitlines()
    return _flatten(root, "", lines) if isinstance(root, yaml.MappingNode) else []


def _flatten(node: yaml.MappingNode, prefix: str, lines: list[str]) -> list[ChartValue]:
    found: list[ChartValue] = []
    for key, value in node.value:
        path = f"{prefix}{key.value}"
        comment = _comment(lines, key.start_mark.line)
        if isinstance(value, yaml.MappingNode) and not value.flow_style and value.value:
            if comment:
                found.append(ChartValue(path, "", comment))
            found += _flatten(value, f"{path}.", lines)
        else:
            found.append(ChartValue(path, _default(value), comment))
    return found


def _comment(lines: list[str], line: int) -> str:
    """The comment directly above a line, as one text."""
    above: list[str] = []
    while line and lines[line - 1].lstrip().startswith("#"):
        line -= 1
        above.insert(0, lines[line].lstrip().removeprefix("#").strip())
    return " ".join(above)


def _default(node: yaml.Node) -> str:
    text = json.dumps(yaml.safe_load(yaml.serialize(node)))
    return text if len(text) <= LONGEST else "..."


def render(chart: str) -> str:
    """The README of a chart."""
    facts = yaml.safe_load((HERE / chart / "Chart.yaml").read_text())
    docs = HERE.parent / "docs"
    links = [f"[{_title(docs / page)}](../../docs/{page})" for page in PAGES[chart]]
    rows = [value for value in read_values((HERE / chart / "values.yaml").read_text()) if value.path]
    table = [f"| `{row.path}` | {_code(row.default)} | {_cell(row.text)} |" for row in rows]
    values = ["## Values", "", "| value | default | meaning |", "| --- | --- | --- |", *table] if rows else []
    parts = [
        "<!-- Made by `make generate` from Chart.yaml and values.yaml. -->",
        f"# {chart}",
        "",
        facts["description"],
        "",
        f"Version {facts['version']}; Kubernetes {facts['kubeVersion'].removesuffix('-0')}; Apache-2.0.",
        "",
        "```sh",
        f"helm install {chart} oci://registry.example/slinky/charts/{chart} {INSTALL[chart]}",
        "```",
        "",
        "`registry.example/slinky` is a registry of yours, see [images](../../docs/operator/images.md).",
        f"Read on: {', '.join(links)}.",
        "",
        *values,
    ]
    return "\n".join(parts).rstrip() + "\n"


def _title(page: Path) -> str:
    title = TITLE.search(page.read_text())
    return title[1].lower() if title else page.stem


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
