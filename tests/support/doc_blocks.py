# SPDX-License-Identifier: Apache-2.0
"""The shell blocks, sessions and manifests in README.md and docs, each with a key that names its page and heading."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docs.site.stage import heading_anchor

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
#: Languages of blocks that readers copy. Samples in Python have tests of their own beside the libraries.
LANGUAGES = ("sh", "yaml")

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_SLINKY = re.compile(r"(?:^|\$\(|&& |; |\| )(?:\.venv/bin/)?slinky ([^\n|;)#&>]*)", re.MULTILINE)
_INLINE = re.compile(r"(?<!`)`slinky ([^`]+)`(?!`)")


@dataclass(frozen=True)
class Block:
    """One block of a page. A session is a block with prompts (`$ `) and output; its language is empty."""

    key: str
    language: str
    text: str

    @property
    def page(self) -> str:
        """The path of its page."""
        return self.key.partition("#")[0]

    @property
    def is_shell(self) -> bool:
        """Return whether it contains commands."""
        return self.language != "yaml"

    def commands(self) -> str:
        """The commands, without the output of a session, continued lines joined."""
        lines = self.text.splitlines()
        if not self.language:
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        return "\n".join(lines).replace("\\\n", " ")


def page_blocks(page: str, text: str) -> Iterator[Block]:
    """The blocks of a page; the second block under a heading has `:2` at the end of its key, and so on."""
    seen: Counter[str] = Counter()
    for fence in _FENCE.finditer(text):
        language, content = fence[1].strip(), fence[2]
        if language not in LANGUAGES and not (not language and content.startswith("$ ")):
            continue
        headings = _HEADING.findall(_FENCE.sub("", text[: fence.start()]))
        name = f"{page}#{heading_anchor(headings[-1]) if headings else ''}"
        seen[name] += 1
        yield Block(name if seen[name] == 1 else f"{name}:{seen[name]}", language, content)


def all_blocks() -> dict[str, Block]:
    """Every block of every page, by key, in the order of the pages."""
    found = (block for page in PAGES for block in page_blocks(page.relative_to(ROOT).as_posix(), page.read_text()))
    return {block.key: block for block in found}


def slinky_commands(commands: str) -> list[list[str]]:
    """The arguments of every `slinky` command in a piece of shell."""
    return [shlex.split(match, comments=True) for match in _SLINKY.findall(commands)]


def inline_commands() -> list[tuple[str, list[str]]]:
    """Every `slinky` command that prose names, with its page."""
    found = []
    for page in PAGES:
        text = _FENCE.sub("", page.read_text())
        found += [(page.relative_to(ROOT).as_posix(), shlex.split(match)) for match in _INLINE.findall(text)]
    return found
