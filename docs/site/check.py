# SPDX-License-Identifier: Apache-2.0
"""Checks a built site: links and headings resolve, and nothing is loaded from another host."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: The attribute by which an element loads a file. `a` is not here: a link to another host is only followed by a reader.
LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "embed": "src"}
#: The values of `rel` with which `link` loads nothing.
PASSIVE_RELATIONS = frozenset({"canonical", "prev", "next", "alternate"})
#: Classes of elements for which the theme's script loads a library from another host.
REMOTE_CLASSES = frozenset({"mermaid", "glightbox", "pyodide", "arithmatex"})
STYLE_URL = re.compile(r"(?:url\(|@import\s+)['\"]?((?:https?:)?//[^'\")\s]+)")


@dataclass
class Document:
    """What one HTML page contains."""

    loads: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.document = Document()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.document.anchors.update(found[name] for name in ("id", "name") if name in found)
        self.document.classes.update(found.get("class", "").split())
        if tag in LOADING and found.get(LOADING[tag]):
            self.document.loads.append(found[LOADING[tag]])
        if tag == "link" and found.get("rel") not in PASSIVE_RELATIONS and "href" in found:
            self.document.loads.append(found["href"])
        if tag == "a" and "href" in found:
            self.document.links.append(found["href"])


def read_document(text: str) -> Document:
    """The links, anchors and loaded files of an HTML page."""
    reader = _Reader()
    reader.feed(text)
    return reader.document


@cache
def _document(page: Path) -> Document:
    return read_document(page.read_text())


def problems(site: Path) -> list[str]:
    """Every problem of the site below this folder, with the page that has it."""
    _document.cache_clear()
    site = site.resolve()
    pages = sorted(page for page in site.rglob("*.html") if page.name != "404.html")
    found = [f"{page.relative_to(site)}: {text}" for page in pages for text in _page_problems(site, page)]
    for sheet in sorted(site.rglob("*.css")):
        found += [f"{sheet.relative_to(site)}: loads {url}" for url in STYLE_URL.findall(sheet.read_text())]
    return found


def _page_problems(site: Path, page: Path) -> Iterator[str]:
    document = _document(page)
    for name in sorted(document.classes & REMOTE_CLASSES):
        yield f"the class {name} makes the theme load a library from another host"
    for url in document.loads:
        if _is_remote(url):
            yield f"loads {url} from another host"
        else:
            yield from _target_problems(site, page, url)
    for url in document.links:
        if not _is_remote(url) and not url.startswith("mailto:"):
            yield from _target_problems(site, page, url)


def _is_remote(url: str) -> bool:
    parts = urlsplit(url)
    return bool(parts.netloc) or parts.scheme in {"http", "https"}


def _target_problems(site: Path, page: Path, url: str) -> Iterator[str]:
    parts = urlsplit(url)
    if parts.scheme == "data":
        return
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if target.is_dir():
        target /= "index.html"
    if not target.is_relative_to(site) or not target.is_file():
        yield f"links to {url}, which is not on the site"
    elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in _document(target).anchors:
        yield f"links to {url}, but that page has no such heading"
