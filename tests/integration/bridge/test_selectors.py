# SPDX-License-Identifier: Apache-2.0
"""Device selectors have the result and about the cost that Kubernetes' own evaluator finds."""

import io
import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.selector_expressions import DEVICE, OWN, SelectorGenerator

from slinky.bridge.devices import cel
from slinky.bridge.devices.cel_values import CostExceeded, Evaluation, EvaluationError
from slinky.bridge.devices.cores import DeviceId
from slinky.bridge.devices.inventory import InventoryDevice, cel_device
from slinky.bridge.views import Device
from slinky.lab.prepare import golang
from slinky.lab.prepare.inventory import ArtifactInventory
from slinky.lab.progress import Progress

PROGRAM = Path(__file__).parents[2] / "support" / "cel_go" / "main.go"
RANDOM_SELECTORS = 5000
MANY = ", ".join(["1"] * 60)
SELECTORS = [
    'semver("1.0.0-alpha.10").isGreaterThan(semver("1.0.0-alpha.9"))',
    f'{OWN}.exists(key, key == "model") && !{OWN}.all(key, key == "model")',
    '"\u00c4B".lowerAscii() == "\u00c4b"',
    f"{OWN}.driver == 'x' || [1, 2].exists(x, {OWN}.absent == x || x == 2)",
    f"cel.bind(a, [{MANY}], a.all(x, a.all(y, x == y)))",
    f"cel.bind(a, [{MANY}], a.all(x, a.all(y, a.all(z, a.all(u, x == y)))))",
    f"[{MANY}].all(x, x in [{OWN}.index, {OWN}.index])",
]


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program around the evaluator of Kubernetes, built like the programs of the lab."""
    folder = tmp_path_factory.mktemp("cel_go")
    toolchain = golang.go(ArtifactInventory.of().store, Progress(io.StringIO()))
    toolchain.build([str(PROGRAM)], folder, [])
    return folder / "main"


def _kubernetes(evaluator: Path, expressions: list[str]) -> list[dict[str, Any]]:
    lines = "\n".join(json.dumps({"expression": text, **DEVICE}) for text in expressions)
    result = subprocess.run([evaluator], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


def _bridge(expression: str) -> tuple[str, int]:
    view = {name: value for name, value in DEVICE.items() if name != "driver"}
    device = InventoryDevice(
        DeviceId(DEVICE["driver"], "n1", "gpu-1"), msgspec.convert({"name": "gpu-1", **view}, Device)
    )
    run = Evaluation({"device": cel_device(device)})
    try:
        return str(cel.compile_expression(expression).evaluate(run)), run.cost
    except CostExceeded:
        return "too expensive", run.cost
    except EvaluationError:
        return "failed", run.cost


def test_selectors_have_the_result_of_kubernetes(evaluator: Path) -> None:
    expressions = SELECTORS + [SelectorGenerator(seed).expression() for seed in range(RANDOM_SELECTORS)]
    answers = _kubernetes(evaluator, expressions)
    accepted = [(text, answer) for text, answer in zip(expressions, answers, strict=True) if "rejected" not in answer]
    assert len(accepted) > 0.8 * len(expressions)
    differences = []
    for text, answer in accepted:
        failure = "too expensive" if "cost limit exceeded" in answer.get("failed", "") else "failed"
        expected = failure if "failed" in answer else str(answer["selected"])
        result, cost = _bridge(text)
        # A map has no order, so the cost of a macro over a map differs from one evaluation to the next.
        is_similar = answer["cost"] / 3 - 10 <= cost <= answer["cost"] * 3 + 10
        if result != expected or (not is_similar and expected in ("True", "False")):
            differences.append((text, answer, result, cost))
    assert differences == []
