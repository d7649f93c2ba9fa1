# SPDX-License-Identifier: Apache-2.0
"""Builds HTML from elements. Every text is escaped unless it is `Html`, which only this module makes. Pure.

    tag("a", job.name, href=job_link(job))  ->  <a href="/jobs/12">&lt;b&gt;</a>

An attribute is named as in HTML with `_` for `-`; `class_` and `for_` end with `_` because Python has these words.
"""

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

#: Elements without content and end tag.
_VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})
_NAMES: dict[str, str] = {}


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


Child: TypeAlias = "str | int | Iterable[Child] | None"
Attribute = str | int | float | bool | None


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element. A child that is None is left out; an attribute that is None or False is left out."""
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        parts.append(f" {_attribute_name(key)}" if value is True else f' {_attribute_name(key)}="{escape(str(value))}"')
    parts.append(">")
    if name not in _VOID:
        _add(parts, children)
        parts.append(f"</{name}>")
    return Html("".join(parts))


def join(*children: Child) -> Html:
    """Children without an element around them."""
    parts: list[str] = []
    _add(parts, children)
    return Html("".join(parts))


def document(head: Html, body: Html) -> Html:
    """A whole page."""
    return Html(f'<!doctype html>\n<html lang="en">{head}{body}</html>\n')


def _add(parts: list[str], children: Iterable[Child]) -> None:
    for child in children:
        if isinstance(child, Html):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(escape(child))
        elif child is None:
            continue
        elif isinstance(child, int):
            parts.append(str(child))
        else:
            _add(parts, child)


def _attribute_name(key: str) -> str:
    name = _NAMES.get(key)
    if name is None:
        name = _NAMES[key] = key.removesuffix("_").replace("_", "-")
    return name
