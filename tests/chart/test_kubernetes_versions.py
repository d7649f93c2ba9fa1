# SPDX-License-Identifier: Apache-2.0
"""The charts refuse a Kubernetes that is too old, and `slinky doctor` names the same versions."""

import pytest
from tests.chart.helm import CHARTS, Helm, Refused

from slinky.cli.doctor.installation_checks import BRIDGE_MINOR, OPERATOR_MINOR


@pytest.mark.parametrize(
    ("chart", "minor"),
    [
        ("slurm-operator-crds", OPERATOR_MINOR),
        ("slurm-operator", OPERATOR_MINOR),
        ("slurm", OPERATOR_MINOR),
        ("slurm-bridge", BRIDGE_MINOR),
    ],
)
def test_a_kubernetes_that_is_too_old_is_refused_by_its_version(helm: Helm, chart: str, minor: int) -> None:
    def render(version: str) -> str:
        words = ("--kube-version", version, "--set=global.registry=registry.example/slinky")
        return helm.template("x", str(CHARTS / chart), *words, folder=CHARTS)

    assert render(f"1.{minor}.0")
    with pytest.raises(Refused, match=rf"requires kubeVersion: >= 1\.{minor}\.0-0 .* Kubernetes v1\.{minor - 1}\.9"):
        render(f"1.{minor - 1}.9")
