# SPDX-License-Identifier: Apache-2.0
"""Copies the pages of the site into one folder, with the layout of the repository.

Pages link to each other by their paths in the repository, so the copies keep these paths. A link to a folder leads to
its page; a link to an example leads to the page that shows it; a link to a file that is not on the site becomes text.
"""

import re
import shutil
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).parents[2]
CONFIGURATION = Path(__file__).parent / "zensical.toml"
#: Every file here is shown in full on the page of its folder.
EXAMPLES = "examples"
PICTURES = (".svg", ".png")

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^(```.*?^```[^\n]*$)", re.MULTILINE | re.DOTALL)
LANGUAGES = {".py": "python", ".yaml": "yaml", ".sh": "sh", ".json": "json"}


def navigation() -> dict[str, Any]:
    """The entries of the navigation: titles with a page or with more entries."""
    nav = tomllib.loads(CONFIGURATION.read_text())["project"]["nav"]
    return {title: entry for item in nav for title, entry in item.items()}


def pages_in_navigation() -> list[str]:
    """The paths of the pages in the navigation, in its order."""
    return list(_pages_under(list(navigation().values())))


def _pages_under(entry: Any) -> Iterator[str]:
    match entry:
        case str():
            yield entry
        case dict():
            yield from _pages_under(list(entry.values()))
        case list():
            for part in entry:
                yield from _pages_under(part)


def repository_pages() -> list[str]:
    """Every page that the site has to show: those at the top of the repository, and those in `docs`."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(page.relative_to(ROOT).as_posix() for page in pages)


def example_folders() -> list[str]:
    """The folders of examples, outermost first."""
    files = (file for file in (ROOT / EXAMPLES).rglob("*") if file.suffix in LANGUAGES)
    return sorted({file.parent.relative_to(ROOT).as_posix() for file in files} | {EXAMPLES})


def example_page(folder: str) -> str:
    """The page of one folder of examples: each file under a heading with its name."""
    lines = [f"# {folder}", ""]
    below = [name for name in example_folders() if PurePosixPath(name).parent == PurePosixPath(folder)]
    lines += [f"- [{name}]({PurePosixPath(name).relative_to(folder)}/index.md)" for name in below]
    for file in sorted((ROOT / folder).iterdir()):
        if file.suffix in LANGUAGES:
            text = file.read_text().rstrip("\n")
            lines += ["", f"## {file.name}", "", f"```{LANGUAGES[file.suffix]}", text, "```"]
    return "\n".join(lines) + "\n"


def heading_anchor(title: str) -> str:
    """What a link names after `#`: a heading, as forges write it."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def write_stage(target: Path) -> list[str]:
    """Writes every page below `target`; returns their paths."""
    shutil.rmtree(target, ignore_errors=True)
    examples = {f"{folder}/index.md": example_page(folder) for folder in example_folders()}
    sources = sorted({*repository_pages(), *pages_in_navigation()} - examples.keys())
    pages = {page: (ROOT / page).read_text() for page in sources} | examples
    for page, text in pages.items():
        _write(target / page, rewrite_links(page, text, pages.keys()))
    for picture in (file for file in (ROOT / "docs").rglob("*") if file.suffix in PICTURES):
        copy = target / picture.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, copy)
    return sorted(pages)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def rewrite_links(page: str, text: str, pages: Collection[str]) -> str:
    """The text of a page with links that work on the site; code blocks stay as they are."""
    parts = FENCE.split(text)
    folder = PurePosixPath(page).parent
    return "".join(
        part if part.startswith("```") else LINK.sub(lambda link: _rewritten(link, folder, pages), part)
        for part in parts
    )


def _rewritten(link: re.Match[str], folder: PurePosixPath, pages: Collection[str]) -> str:
    picture, label, path, anchor = link.groups(default="")
    wanted = PurePosixPath(_normal(folder / path))
    for name in (wanted, wanted / "index.md", wanted / "README.md"):
        if name.as_posix() in pages:
            return f"{picture}[{label}]({_relative(name, folder)}{anchor})"
    if wanted.suffix in PICTURES and (ROOT / wanted).is_file():
        return link[0]
    page = wanted.parent / "index.md"
    if page.as_posix() in pages and wanted.parts[0] == EXAMPLES:
        return f"[{label}]({_relative(page, folder)}#{heading_anchor(wanted.name)})"
    if not (ROOT / wanted).exists():
        return link[0]  # Zensical reports it
    return label if wanted.as_posix() in label else f"{label} (`{wanted}`)"


def _normal(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _relative(target: PurePosixPath, folder: PurePosixPath) -> str:
    shared = 0
    for ours, theirs in zip(folder.parts, target.parts, strict=False):
        if ours != theirs:
            break
        shared += 1
    return "/".join([*[".."] * (len(folder.parts) - shared), *target.parts[shared:]])
