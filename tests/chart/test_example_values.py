# SPDX-License-Identifier: Apache-2.0
"""A working cluster needs few values."""

from pathlib import Path

import yaml
from tests.chart.helm import Helm, one
from tests.integration.api.conftest import Kubectl

VALUES = Path(__file__).parents[2] / "examples/operator/values.yaml"


async def test_a_whole_cluster_takes_less_than_forty_lines(kubectl: Kubectl, helm: Helm, space: str) -> None:
    assert len(VALUES.read_text().splitlines()) < 40
    objects = helm.render("slurm", yaml.safe_load(VALUES.read_text()), space=space)
    done = kubectl("apply", "--server-side", "--validate=strict", "-f", "-", given=yaml.safe_dump_all(objects))
    assert done.returncode == 0, done.stderr
    assert "PartitionName=all Nodes=ALL" in one(objects, "Controller")["spec"]["extraConf"]
