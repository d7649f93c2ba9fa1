# SPDX-License-Identifier: Apache-2.0
"""Every setting of the operator is a flag of `slinky operator` and a value of its chart."""

from pathlib import Path

import msgspec
import pytest
import yaml
from typer.core import TyperOption
from typer.testing import CliRunner

from slinky.cli.main import SlinkyGroup, app
from slinky.operator.settings import OperatorSettings

CHART = Path(__file__).parents[3] / "charts/slurm-operator"
TEMPLATE = (CHART / "templates/operator.yaml").read_text()
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
FIELDS = {field.name: field for field in msgspec.structs.fields(OperatorSettings)}
#: Settings of an operator that runs outside the cluster, where no chart starts it.
OUTSIDE = {"kubeconfig", "pod_addresses"}
#: Values with another name than their flag; the namespace of the Lease is the namespace of the release.
OTHER_NAMES = {"image": "daemonImage", "leader_elect": "leaderElection", "leader_elect_namespace": "leaderElection"}


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def options() -> dict[str, TyperOption]:
    params = SlinkyGroup.load("operator").params
    return {name: param for param in params if isinstance(param, TyperOption) for name in param.opts}


@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_has_a_flag_with_its_default_and_a_help_text(name: str) -> None:
    option = options()[f"--{name.replace('_', '-')}"]
    default = FIELDS[name].default
    assert option.default == (",".join(default) if isinstance(default, tuple) else default)
    assert option.help


@pytest.mark.parametrize("name", sorted(FIELDS.keys() - OUTSIDE))
def test_every_setting_has_a_chart_value(name: str) -> None:
    flag, value = name.replace("_", "-"), OTHER_NAMES.get(name, camel_case(name))
    assert f"--{flag}" in TEMPLATE or f'"{flag}"' in TEMPLATE
    assert value in VALUES or value in VALUES["operator"]


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        ("--deletion-limit-share=2", "Invalid value"),
        ("--deletion-limit-minimum=0", "Invalid value"),
        ("--deletion-limit-window=0", "deletion_limit_window"),
        ("--nodeset-workers=0", "Invalid value"),
    ],
)
def test_a_value_outside_its_limits_is_a_usage_error(argument: str, problem: str) -> None:
    result = CliRunner().invoke(app, ["operator", argument])
    assert result.exit_code == 2
    assert problem in result.output
