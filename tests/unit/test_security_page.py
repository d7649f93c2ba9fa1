# SPDX-License-Identifier: Apache-2.0
"""Every claim of docs/security.md names a test that exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/security.md").read_text()
TESTS = {name for file in (ROOT / "tests").rglob("*.py") for name in re.findall(r"def (test_\w+)", file.read_text())}


def threats() -> list[str]:
    table = PAGE.split("## Threat model", 1)[1].split("What does not hold", 1)[0]
    return [line for line in table.splitlines() if line.startswith("| ")][2:]


def test_every_threat_names_an_existing_test() -> None:
    rows = threats()
    assert len(rows) >= 20
    for row in rows:
        names = re.findall(r"`(test_\w+)`", row)
        assert names, row
        assert set(names) <= TESTS, set(names) - TESTS
