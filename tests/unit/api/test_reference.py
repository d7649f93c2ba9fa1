# SPDX-License-Identifier: Apache-2.0
"""The reference is what the code says."""

from pathlib import Path

import pytest

from slinky.api import reference

FOLDER = Path(__file__).parents[3] / "docs/reference"


@pytest.mark.parametrize("name", reference.pages())
def test_the_reference_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text() == reference.pages()[name], "run: python -m slinky.api.reference docs/reference"


def test_no_page_is_left_over() -> None:
    assert {path.name for path in FOLDER.glob("*.md")} == set(reference.pages())
