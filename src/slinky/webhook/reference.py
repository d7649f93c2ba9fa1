# SPDX-License-Identifier: Apache-2.0
"""What is checked, in words, from the tables of rules.

`python -m slinky.webhook.reference docs/operator/admission.md` writes the part of that page below the mark.
"""

import sys
from collections.abc import Iterable
from inspect import cleandoc
from pathlib import Path
from typing import Any

from slinky.webhook.application import RULES
from slinky.webhook.evaluate import Rule, Rules

MARK = "<!-- From here on made by `python -m slinky.webhook.reference`. -->\n"


def page(text: str) -> str:
    """The page with every rule in it, below what a person wrote."""
    return text.partition(MARK)[0] + MARK + "".join(map(_kind, RULES.values()))


def _kind(rules: Rules[Any]) -> str:
    text = f"\n## {rules.view.__name__}\n\nRefused unless:\n\n{_listed(rules.refuse)}"
    return text + (f"\nA warning comes with:\n\n{_listed(rules.warn)}" if rules.warn else "")


def _listed(rules: Iterable[Rule[Any]]) -> str:
    return "".join(f"- {' '.join(cleandoc(rule.__doc__ or '').split())}\n" for rule in rules)


def main(path: Path) -> None:
    """Bring the page up to date."""
    path.write_text(page(path.read_text()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
