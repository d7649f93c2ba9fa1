# SPDX-License-Identifier: Apache-2.0
"""Every example works as it is written."""

from pathlib import Path

import msgspec
import pytest
import yaml
from tests.integration.api.conftest import Kubectl

from slinky.webhook.application import RULES
from slinky.webhook.evaluate import AdmissionChange, RuleContext, evaluate

EXAMPLES = Path(__file__).parents[3] / "examples/operator"
#: Values of charts are tested in tests/chart/test_example_values.py.
MANIFESTS = sorted(path for path in EXAMPLES.glob("*.yaml") if not path.name.endswith("values.yaml"))


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
async def test_an_example_applies(kubectl: Kubectl, space: str, path: Path) -> None:
    done = kubectl("apply", "--validate=strict", "-n", space, "-f", str(path))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_an_example_causes_no_warning(path: Path) -> None:
    items = list(yaml.safe_load_all(path.read_text()))
    maps = {item["metadata"]["name"]: frozenset(item["data"]) for item in items if item["kind"] == "ConfigMap"}
    for item in items:
        rules = RULES.get(item["kind"].lower())
        if rules:
            item["metadata"]["namespace"] = "slurm"
            change = AdmissionChange(msgspec.convert(item, rules.view), context=RuleContext(config_maps=maps))
            reply = evaluate(rules, change)
            assert (reply.allowed, reply.warnings) == (True, ()), reply.message
