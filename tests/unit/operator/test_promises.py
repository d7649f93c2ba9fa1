# SPDX-License-Identifier: Apache-2.0
"""Every test that docs/operator/promises.md and the laws of the autoscaler cite exists."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = (ROOT / "docs/operator/promises.md", ROOT / "docs/operator/autoscaling.md")
FOLDERS = {"u": "tests/unit/operator", "i": "tests/integration/operator", "e": "tests/e2e/operator"}


def cited_tests() -> Iterable[str]:
    """The tests in the last column of the tables."""
    for line in (line for page in PAGES for line in page.read_text().splitlines()):
        if line.startswith("| ") and not line.startswith("| ---"):
            yield from re.findall(r"`((?:[uie]/|tests/)?[\w/.]*test_?[^`]*)`", line.rstrip("| ").rpartition(" | ")[2])


def matching_files(name: str) -> list[Path]:
    """The files that a cited name may refer to."""
    path = name.partition("::")[0]
    folder, _, rest = path.partition("/")
    if folder == "tests":
        return [file for file in (ROOT / path, ROOT / f"{path}.py") if file.exists()]
    if not rest:
        return list((ROOT / "tests").rglob(f"{path.removesuffix('.py')}.py"))
    return list((ROOT / FOLDERS[folder]).rglob(f"{rest.removesuffix('.py')}.py"))


@pytest.mark.parametrize("name", sorted(set(cited_tests())))
def test_every_test_that_is_promised_exists(name: str) -> None:
    files = matching_files(name)
    assert files, f"no file for {name}"
    function = name.partition("::")[2].removesuffix("...")
    assert any(f"def {function}" in file.read_text() for file in files if file.is_file()) or not function, name
