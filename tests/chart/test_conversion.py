# SPDX-License-Identifier: Apache-2.0
"""What `slinky convert` writes is accepted by the charts, with the schema of their values, and by the API server."""

from typing import Any

import pytest
import yaml
from tests.chart import incumbent_values
from tests.chart.helm import Helm, one
from tests.chart.test_migration import dry_run
from tests.integration.api.conftest import Kubectl
from tests.unit.cli.test_conversion import SITE

from slinky.cli.conversion.chart_values import convert_values
from slinky.cli.conversion.slurm_conf import convert_slurm_conf


async def test_a_slurm_conf_becomes_a_cluster(kubectl: Kubectl, helm: Helm, space: str) -> None:
    objects = helm.render("slurm", convert_slurm_conf(SITE, {}).values, space=space)
    dry_run(kubectl, objects, space)
    controller = one(objects, "Controller")["spec"]
    assert controller["clusterName"] == "alpine"
    assert "PartitionName=debug Nodes=" in controller["extraConf"]
    assert one(objects, "NodeSet", "slurm-worker-cpu-b")["spec"]["replicas"] == 3


@pytest.mark.parametrize("chart", ["slurm", "slurm-operator"])
async def test_every_value_of_slurm_operator_is_converted(kubectl: Kubectl, helm: Helm, space: str, chart: str) -> None:
    text = incumbent_values.CLUSTER if chart == "slurm" else incumbent_values.OPERATOR
    old: dict[str, Any] = yaml.safe_load(text)
    conversion = convert_values(old, chart)
    assert conversion.chart == chart
    assert [untaken for untaken in conversion.untaken if "no such value" in untaken.why] == []
    objects = helm.render(chart, conversion.values, chart, space)
    # Roles of the operator are in the namespaces that it watches, and these do not exist here.
    dry_run(kubectl, [item for item in objects if item["metadata"].get("namespace", space) == space], space)
