# SPDX-License-Identifier: Apache-2.0
"""The page of the exporter shows every family and flag."""

from pathlib import Path

from slinky.exporter.reference import render_page

PAGE = Path(__file__).parents[3] / "docs/exporter.md"


def test_the_page_is_up_to_date() -> None:
    assert render_page(PAGE.read_text()) == PAGE.read_text(), "run make generate"
