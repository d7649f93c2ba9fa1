# SPDX-License-Identifier: Apache-2.0
"""Every link from one page to another leads somewhere."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(page for folder in ("docs", "images", "src") for page in (ROOT / folder).rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)")


@cache
def anchors(page: Path) -> frozenset[str]:
    """What a link may name after `#`: headings, as forges write them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_pages_are_found() -> None:
    assert {"README.md", "index.md", "install.md"} <= {page.name for page in PAGES}


def named_files() -> list[str]:
    """The paths in the second column of docs/where.md."""
    rows = [line for line in (ROOT / "docs/where.md").read_text().splitlines() if line.startswith("| ")][2:]
    return sorted({path for row in rows for path in re.findall(r"`([\w./-]+/[\w./-]+)`", row.split(" | ")[1])})


@pytest.mark.parametrize("path", named_files())
def test_every_file_of_the_guide_exists(path: str) -> None:
    top = ("charts/", "images/", "tests/", "docs/", "examples/", "bench/", "release/")
    assert (ROOT / path if path.startswith(top) else ROOT / "src/slinky" / path).is_file()


def test_the_guide_covers_thirty_changes() -> None:
    rows = [line for line in (ROOT / "docs/where.md").read_text().splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= 30
