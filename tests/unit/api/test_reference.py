# SPDX-License-Identifier: Apache-2.0
"""The generated reference is up to date."""

from pathlib import Path

import pytest

from slinky.api import reference
from slinky.api.names import events

FOLDER = Path(__file__).parents[3] / "docs/reference"
OPERATOR = Path(__file__).parents[3] / "src/slinky/operator"


@pytest.mark.parametrize("name", reference.pages())
def test_the_reference_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text() == reference.pages()[name], "run: python -m slinky.api.reference docs/reference"


def test_no_page_is_left_over() -> None:
    assert {path.name for path in FOLDER.glob("*.md")} == set(reference.pages())


def test_every_documented_event_is_recorded_somewhere() -> None:
    source = "".join(path.read_text() for path in OPERATOR.rglob("*.py"))
    assert [row.reason for row in events.EVENTS if f'"{row.reason}"' not in source] == []
