# SPDX-License-Identifier: Apache-2.0
"""Renders the list of admission rules from their docstrings.

`python -m slinky.webhook.reference docs/operator/admission.md` replaces the part of that page below the comment.
"""

import sys
from collections.abc import Iterable
from inspect import cleandoc
from pathlib import Path
from typing import Any

from slinky.webhook.application import RULES
from slinky.webhook.evaluate import Rule, Rules

GENERATED = "<!-- Generated below this line by `python -m slinky.webhook.reference`. -->\n"


def page(text: str) -> str:
    """Replace the generated part of the page."""
    return text.partition(GENERATED)[0] + GENERATED + "".join(map(_kind, RULES.values()))


def _kind(rules: Rules[Any]) -> str:
    text = f"\n## {rules.view.__name__}\n\nRequired:\n\n{_listed(rules.refuse)}"
    return text + (f"\nWarnings:\n\n{_listed(rules.warn)}" if rules.warn else "")


def _listed(rules: Iterable[Rule[Any]]) -> str:
    return "".join(f"- {' '.join(cleandoc(rule.__doc__ or '').split())}\n" for rule in rules)


def main(path: Path) -> None:
    """Update the page."""
    path.write_text(page(path.read_text()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
