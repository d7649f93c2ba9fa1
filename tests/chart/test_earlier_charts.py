# SPDX-License-Identifier: Apache-2.0
"""`helm upgrade --reuse-values` from a chart that lacks many of our values: nothing fails, and no object is lost.

Helm then renders the new templates with the values of the old chart alone, without the defaults of the new chart. The
old chart here has the values that the charts of slurm-operator and slurm-bridge have; ours had them from the start.
"""

import secrets
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.chart import incumbent_values
from tests.chart.helm import CHARTS, Helm, Objects, one
from tests.integration.api.conftest import Kubectl

from slinky.lab.kubernetes.bare_plane import BarePlane

FIRST = {
    "slurm-operator": incumbent_values.OPERATOR,
    "slurm": incumbent_values.CLUSTER,
    "slurm-bridge": incumbent_values.BRIDGE,
}
#: Values of a site, with everything that these charts could install then.
SITE: dict[str, dict[str, Any]] = {
    "slurm-operator": {},
    "slurm": {"nodesets": {"a": {}}, "loginsets": {"a": {}}, "accounting": {"enabled": True}},
    "slurm-bridge": {},
}


def restrict(values: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """The values whose paths are known too."""
    return {
        name: restrict(value, known[name]) if isinstance(value, dict) and isinstance(known[name], dict) else value
        for name, value in values.items()
        if name in known
    }


def earlier_chart(chart: str, folder: Path) -> Path:
    """A copy of a chart as it was before values were added."""
    copied = folder / chart
    shutil.copytree(CHARTS / chart, copied)
    values = yaml.safe_load((copied / "values.yaml").read_text())
    first = restrict(values, yaml.safe_load(FIRST[chart]))
    assert first != values
    (copied / "values.yaml").write_text(yaml.safe_dump(first))
    return copied


def identities(objects: Objects) -> set[tuple[str, str]]:
    return {(item["kind"], item["metadata"]["name"]) for item in objects}


@pytest.mark.parametrize("chart", FIRST)
def test_the_templates_need_no_value_that_was_added_later(helm: Helm, tmp_path: Path, chart: str) -> None:
    objects = helm.render(str(earlier_chart(chart, tmp_path)), SITE[chart])
    assert identities(objects) == identities(helm.render(chart, SITE[chart]))


def test_an_exporter_needs_no_flag_that_was_added_later(helm: Helm, tmp_path: Path) -> None:
    values = {"exporter": {"enabled": True}, "restapi": {"tls": {"enabled": False}}}
    new, old = (
        one(helm.render(chart, values), "Deployment", "slurm-exporter")["spec"]["template"]["spec"]["containers"]
        for chart in ("slurm", str(earlier_chart("slurm", tmp_path)))
    )
    assert new[0]["args"] == old[0]["args"]


@pytest.mark.parametrize("chart", FIRST)
async def test_a_release_is_upgraded_with_its_old_values(
    plane: BarePlane, kubectl: Kubectl, helm: Helm, space: str, tmp_path: Path, chart: str
) -> None:
    release = f"r-{secrets.token_hex(3)}"
    before = str(earlier_chart(chart, tmp_path))
    site = tmp_path / "site.yaml"
    site.write_text(yaml.safe_dump(SITE[chart]))
    try:
        helm.into(plane.kubeconfig, "install", before, "--values", str(site), release=release, space=space)
        helm.into(plane.kubeconfig, "upgrade", chart, "--reuse-values", release=release, space=space)
    finally:
        # No webhook and no policy may stay: the API server is shared.
        helm.remove(plane.kubeconfig, release, space)
