# SPDX-License-Identifier: Apache-2.0
"""Writes the parts of the charts that come from the code: CRDs, value schemas, versions, image references, alerts.

`python -m charts.generate` writes the files; a test fails while they are out of date.
"""

import json
import re
from pathlib import Path
from typing import Any

import yaml
from charts import metadata, readme
from charts.monitoring import alerts, grafana, process_boards, slurm_boards
from charts.schemas import values
from charts.schemas.bridge import BRIDGE

from slinky import __version__
from slinky.api import crds

HERE = Path(__file__).parent
HEAD = "# SPDX-License-Identifier: Apache-2.0\n# Made by `python -m charts.generate`.\n"
#: `helm uninstall` of the CRDs would delete every Slurm cluster.
KEEP = {"helm.sh/resource-policy": "keep"}
#: The lines of a Chart.yaml that carry the version of slinky; `appVersion` of the chart `slurm` is Slurm's.
VERSION = re.compile(r"^((?:  )?version: ).*$", re.MULTILINE)
APP_VERSION = re.compile(r"^(appVersion: ).*$", re.MULTILINE)

#: The lines of the examples for GitOps tools that name the version of a chart.
CHART_VERSION = re.compile(r"(targetRevision: |chart: slurm[a-z-]*, version: )[^,\n]+")

#: Charts whose pods have images; Helm cannot share a template between charts that are installed alone.
WITH_IMAGES = ("slurm-operator", "slurm", "slurm-bridge")
WITH_API_CLIENTS = ("slurm-operator", "slurm-bridge")

GUIDE_MARKER = "<!-- The rest of this page is generated from charts/monitoring/alerts.py by `make generate`. -->\n"


def files() -> dict[Path, str]:
    """Every generated file and its content."""
    schemas = {
        "slurm-operator": values.OPERATOR,
        "slurm-operator-crds": values.DEFINITIONS,
        "slurm": values.CLUSTER,
        "slurm-bridge": BRIDGE,
    }
    contents = {
        HERE / chart / "values.schema.json": json.dumps(schema, indent=1) + "\n" for chart, schema in schemas.items()
    }
    for definition in crds.DEFINITIONS:
        path = HERE / "slurm-operator-crds/templates" / f"{definition['metadata']['name']}.yaml"
        contents[path] = HEAD + crds.text([_kept(definition)])
    for chart in schemas:
        contents[HERE / chart / "Chart.yaml"] = _versioned(chart)
        contents[HERE / chart / "README.md"] = readme.render(chart)
    for path in sorted((HERE.parent / "examples/gitops").glob("*.yaml")):
        contents[path] = CHART_VERSION.sub(rf"\g<1>{__version__}", path.read_text())
    for chart in WITH_IMAGES:
        contents[HERE / chart / "templates/_images.tpl"] = (HERE / "images.tpl").read_text()
    for chart in WITH_API_CLIENTS:
        contents[HERE / chart / "templates/_flow-control.tpl"] = (HERE / "flow-control.tpl").read_text()
    return contents | monitoring_files()


def monitoring_files() -> dict[Path, str]:
    """Dashboards and rules of the charts, and the guide to the alerts."""
    boards = (*slurm_boards.BOARDS, *process_boards.BOARDS)
    contents = {
        HERE / board.chart / "dashboards" / f"{board.uid}.json": grafana.render_board(board) for board in boards
    }
    for chart in sorted({alert.chart for alert in alerts.ALERTS}):
        rules = yaml.safe_dump(alerts.rule_group(chart), sort_keys=False, width=120)
        contents[HERE / chart / "rules.yaml"] = HEAD + rules
    guide = HERE.parent / alerts.GUIDE
    introduction = guide.read_text().partition(GUIDE_MARKER)[0]
    contents[guide] = introduction + GUIDE_MARKER + "\n" + "\n".join(alerts.guide_sections())
    return contents


def _versioned(chart: str) -> str:
    """The Chart.yaml of a chart with its metadata and the version in `slinky/__init__.py`."""
    text = metadata.with_metadata(chart, (HERE / chart / "Chart.yaml").read_text())
    text = VERSION.sub(rf"\g<1>{__version__}", text)
    return text if chart == "slurm" else APP_VERSION.sub(rf"\g<1>{__version__}", text)


def _kept(definition: dict[str, Any]) -> dict[str, Any]:
    return {**definition, "metadata": {**definition["metadata"], "annotations": KEEP}}


def main() -> None:
    """Write every generated file."""
    for path, text in files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
