# SPDX-License-Identifier: Apache-2.0
"""The generated page about admission is up to date."""

from pathlib import Path

from slinky.webhook import reference
from slinky.webhook.application import RULES

PAGE = Path(__file__).parents[3] / "docs/operator/admission.md"


def test_the_page_is_up_to_date() -> None:
    assert reference.page(PAGE.read_text()) == PAGE.read_text(), "run: make generate"


def test_every_rule_has_a_description() -> None:
    assert [rule for rules in RULES.values() for rule in (*rules.refuse, *rules.warn) if not rule.__doc__] == []
