# SPDX-License-Identifier: Apache-2.0
"""Pages that are printed from tables say what the tables say, and every proof that is named exists."""

import re
from pathlib import Path

import pytest
import yaml

from slinky.bridge import annotations, config, reasons

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "bridge"


@pytest.mark.parametrize(
    ("page", "text"), [("annotations.md", annotations.document()), ("reasons.md", reasons.document())]
)
def test_a_printed_page_is_current(page: str, text: str) -> None:
    assert text in (DOCS / page).read_text()


def test_every_named_proof_exists() -> None:
    named = set(re.findall(r"`(test_\w+)", (DOCS / "failures.md").read_text()))
    places = [ROOT / "tests" / kind / "bridge" for kind in ("unit", "integration", "e2e")]
    written = "".join(file.read_text() for place in places for file in place.glob("test_*.py"))
    assert named
    assert not [name for name in named if f"def {name}(" not in written]


def test_every_setting_is_documented() -> None:
    text = (DOCS / "configuration.md").read_text()
    assert not [name for name in config.KNOWN if f"`{name}`" not in text]


@pytest.mark.parametrize("file", sorted((ROOT / "examples" / "bridge").glob("*.yaml")), ids=lambda file: file.name)
def test_examples_use_options_that_exist(file: Path) -> None:
    for document in yaml.safe_load_all(file.read_text()):
        given = document.get("metadata", {}).get("annotations", {})  # values of the chart have none
        annotations.read(given)
        assert not annotations.unknown(given)
