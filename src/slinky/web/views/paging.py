# SPDX-License-Identifier: Apache-2.0
"""Pages of a long list, and addresses of pages. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import quote, urlencode

from slinky.bounds import INT32_MAX, PAGE_QUERY_MAX, parse_integer

T = TypeVar("T")


@dataclass(frozen=True)
class ListPage(Generic[T]):
    """The items of one page of a list; `number` counts from 1."""

    items: tuple[T, ...]
    number: int
    pages: int
    total: int


def cut_page(items: Sequence[T], number: int, size: int) -> ListPage[T]:
    """One page; a number beyond the last page is the last page."""
    pages = max((len(items) + size - 1) // size, 1)
    chosen = min(max(number, 1), pages)
    return ListPage(tuple(items[(chosen - 1) * size : chosen * size]), chosen, pages, len(items))


def page_number(query: Mapping[str, str]) -> int:
    """The number of the page that an address names; 1 if it names none."""
    return parse_integer(query.get("page", ""), 1, INT32_MAX) or 1


def query_text(query: Mapping[str, str], name: str) -> str:
    """One value of an address, cut to a bounded length."""
    return query.get(name, "")[:PAGE_QUERY_MAX].strip()


def address(path: str, **query: str | int) -> str:
    """The address of a page; empty values are left out."""
    values = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(values)}" if values else path


def job_address(label: str) -> str:
    """The address of a job's page."""
    return f"/jobs/{quote(label, safe='')}"


def node_address(name: str) -> str:
    """The address of a node's page."""
    return f"/nodes/{quote(name, safe='')}"
