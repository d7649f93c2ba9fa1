# SPDX-License-Identifier: Apache-2.0
"""The pages of the site by their addresses. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from urllib.parse import parse_qsl, unquote, urlsplit

from slinky.bounds import PAGE_QUERY_MAX
from slinky.web.markup import Html
from slinky.web.page_data import PageData
from slinky.web.pages.accounts import accounts_page
from slinky.web.pages.job import job_page
from slinky.web.pages.nodes import node_page, nodes_form, nodes_page
from slinky.web.pages.nodesets import nodesets_page
from slinky.web.pages.overview import overview_page
from slinky.web.pages.queue import queue_form, queue_page
from slinky.web.pages.what_if import what_if_form, what_if_page
from slinky.web.views.accounts import accounts_view
from slinky.web.views.job import job_view
from slinky.web.views.job_row import shown_name
from slinky.web.views.nodes import node_view, nodes_view
from slinky.web.views.nodesets import nodesets_view
from slinky.web.views.overview import overview
from slinky.web.views.queue import queue_view
from slinky.web.views.what_if import what_if_view

Query = Mapping[str, str]


class PageNotFound(Exception):  # noqa: N818 -- an answer, not a failure
    """There is no such page; the message is for a person."""


@dataclass(frozen=True)
class RenderedPage:
    """A page: its title, a form that live updates leave alone, and the content that they replace."""

    title: str
    content: Html
    form: Html | None = None


def render_page(data: PageData, address: str) -> RenderedPage:
    """The page with this path and query. Raises `PageNotFound`."""
    parts = urlsplit(address)
    query: Query = dict(parse_qsl(parts.query, max_num_fields=50))
    folder, _, name = parts.path.strip("/").partition("/")
    if name:
        return _object_page(data, folder, unquote(name)[:PAGE_QUERY_MAX])
    page = _PAGES.get(folder)
    if page is None:
        raise PageNotFound("There is no such page.")
    return page(data, query)


def _overview(data: PageData, _query: Query) -> RenderedPage:
    return RenderedPage("Overview", overview_page(overview(data)))


def _queue(data: PageData, query: Query) -> RenderedPage:
    view = queue_view(data, query)
    return RenderedPage("Queue", queue_page(view), queue_form(view))


def _nodes(data: PageData, query: Query) -> RenderedPage:
    view = nodes_view(data, query)
    return RenderedPage("Nodes", nodes_page(view), nodes_form(view))


def _nodesets(data: PageData, query: Query) -> RenderedPage:
    if data.node_sets is None:
        raise PageNotFound("NodeSets are not shown: the page was started without --nodesets.")
    return RenderedPage("NodeSets", nodesets_page(nodesets_view(data.node_sets, data.now, query)))


def _accounts(data: PageData, _query: Query) -> RenderedPage:
    return RenderedPage("Accounts", accounts_page(accounts_view(data)))


def _what_if(data: PageData, query: Query) -> RenderedPage:
    view = what_if_view(data, query)
    return RenderedPage("What if", what_if_page(view), what_if_form(view))


#: The pages by the first part of their path.
_PAGES: Mapping[str, Callable[[PageData, Query], RenderedPage]] = {
    "": _overview,
    "queue": _queue,
    "nodes": _nodes,
    "nodesets": _nodesets,
    "accounts": _accounts,
    "whatif": _what_if,
}


def _object_page(data: PageData, folder: str, name: str) -> RenderedPage:
    if folder == "jobs":
        job = data.find_job(name)
        if job is None:
            raise PageNotFound(f"There is no job {shown_name(name)} that you may see; it may have ended some time ago.")
        return RenderedPage(f"Job {shown_name(name)}", job_page(job_view(job, data)))
    if folder == "nodes":
        host = data.snapshot.hosts_by_name.get(name)
        if host is None:
            near = get_close_matches(name, list(data.snapshot.hosts_by_name), n=3)
            hint = f" Did you mean {' or '.join(map(shown_name, near))}?" if near else ""
            raise PageNotFound(f"There is no node {shown_name(name)}.{hint}")
        return RenderedPage(f"Node {shown_name(name)}", node_page(node_view(host, data)))
    raise PageNotFound("There is no such page.")
