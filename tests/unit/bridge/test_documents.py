# SPDX-License-Identifier: Apache-2.0
"""Pages that are printed from tables say what the tables say, and every proof that is named exists."""

import json
import re
from pathlib import Path

import pytest
import yaml
from tests.unit.bridge import failures

from slinky.bridge import config, reference
from slinky.bridge.status import reasons
from slinky.bridge.workload import annotations

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "bridge"


@pytest.mark.parametrize("page", reference.PAGES)
def test_the_generated_part_of_a_page_is_current(page: str) -> None:
    text = (DOCS / page).read_text()
    assert text == reference.render_page(page, text)


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("reasons.md", reasons.document()),
        ("failures.md", failures.document()),
    ],
)
def test_a_printed_page_is_current(page: str, text: str) -> None:
    assert text in (DOCS / page).read_text()


def written() -> str:
    """Every test of the bridge."""
    places = [ROOT / "tests" / kind / "bridge" for kind in ("unit", "integration", "e2e")]
    return "".join(file.read_text() for place in places for file in place.rglob("test_*.py"))


@pytest.mark.parametrize("line", failures.lines(), ids=lambda line: line.event)
def test_every_way_to_fail_has_a_proof_that_exists(line: failures.Line) -> None:
    tests = written()
    assert line.proofs
    for proof in line.proofs:
        name, _, case = proof.partition("[")
        assert f"def {name}(" in tests
        assert f'"{case.rstrip("]")}"' in tests


def test_no_known_way_to_fail_is_left_without_an_answer() -> None:
    assert {known for line in failures.lines() for known in line.of} == failures.demanded()


def test_every_word_of_ours_is_explained() -> None:
    code = "".join(file.read_text() for file in (ROOT / "src" / "slinky" / "bridge").rglob("*.py"))
    said = set(re.findall(r'ConditionText\(\s*(?:True|False|None),\s*"(\w+)"', code))
    assert said
    assert said <= reasons.OURS.keys()


@pytest.mark.parametrize("name", sorted(config.SETTING_NAMES))
def test_every_setting_has_a_chart_value_and_a_description(name: str) -> None:
    values = yaml.safe_load((ROOT / "charts" / "slurm-bridge" / "values.yaml").read_text())
    schema = json.loads((ROOT / "charts" / "slurm-bridge" / "values.schema.json").read_text())
    assert schema["properties"]["extraConfig"]["properties"][name]["description"]
    for key in reference.CHART_VALUES.get(name, "extraConfig").split("."):
        values = values[key]


@pytest.mark.parametrize("file", sorted((ROOT / "examples" / "bridge").glob("*.yaml")), ids=lambda file: file.name)
def test_examples_use_options_that_exist(file: Path) -> None:
    for document in yaml.safe_load_all(file.read_text()):
        given = document.get("metadata", {}).get("annotations", {})  # values of the chart have none
        annotations.parse_options(given)
        assert not annotations.unknown_options(given)
