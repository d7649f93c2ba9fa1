# SPDX-License-Identifier: Apache-2.0
"""What the charts take from the code is what the code says."""

from pathlib import Path

import pytest
import yaml
from charts import generate
from tests.chart.helm import CHARTS, Helm

NAMES = ("slurm-operator-crds", "slurm-operator", "slurm", "slurm-bridge")


@pytest.mark.parametrize("path", generate.files(), ids=lambda path: str(path.relative_to(CHARTS.parent)))
def test_generated_files_are_up_to_date(path: Path) -> None:
    assert path.read_text() == generate.files()[path], "run: python -m charts.generate"


@pytest.mark.parametrize("chart", NAMES)
def test_charts_lint(helm: Helm, chart: str) -> None:
    assert helm.lint(chart) == ""


def test_charts_have_one_version() -> None:
    read = [yaml.safe_load((CHARTS / name / "Chart.yaml").read_text()) for name in NAMES]
    assert len({chart["version"] for chart in read}) == 1
    assert read[1]["dependencies"][0]["version"] == read[0]["version"]


@pytest.mark.parametrize("chart", NAMES)
def test_templates_use_no_lookup_and_no_random_values(chart: str) -> None:
    for path in (CHARTS / chart / "templates").rglob("*.*"):
        text = path.read_text()
        for word in ("lookup ", "randAlpha", "randAscii", "genCA", "genSignedCert", "now |"):
            assert word not in text, path


@pytest.mark.parametrize("chart", ["slurm-operator", "slurm", "slurm-bridge"])
def test_rendering_twice_gives_the_same_text(helm: Helm, chart: str) -> None:
    assert helm.text(chart, "{}") == helm.text(chart, "{}")
