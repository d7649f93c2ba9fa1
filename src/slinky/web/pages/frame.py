# SPDX-License-Identifier: Apache-2.0
"""What every page has: head, navigation, the age of the data, and the region that is updated live. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from slinky.insight.plain_text import duration
from slinky.web.markup import Child, Html, document, join, tag
from slinky.web.page_data import PageData
from slinky.web.views.job_row import shown_name, shown_text

#: Data that is older than this many seconds is called old.
OLD_SECONDS = 120
NAVIGATION = (("/", "Overview"), ("/queue", "Queue"), ("/nodes", "Nodes"), ("/nodesets", "NodeSets"),
              ("/accounts", "Accounts"), ("/whatif", "What if"))  # fmt: skip
_WITHOUT_NODE_SETS = tuple(link for link in NAVIGATION if link[0] != "/nodesets")
Links = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class PageContext:
    """Where a page is, who looks at it, and the names of the static files with their versions."""

    path: str
    user: str = ""
    can_log_out: bool = False
    style: str = "/static/style.css"
    script: str = "/static/live.js"


def whole_page(title: str, form: Html | None, region: Html, data: PageData, context: PageContext) -> Html:
    """A page with its frame. Live updates replace `region` and leave `form` alone."""
    live = tag("div", region, id="live")
    main = tag("main", tag("h1", title), form, live, id="main", tabindex="-1")
    links = NAVIGATION if data.node_sets is not None else _WITHOUT_NODE_SETS
    return _document(title, data.cluster, main, context, links, live=True)


def live_region(content: Html, data: PageData) -> Html:
    """The part of a page that live updates replace: the age of the data and the content."""
    return join(_notices(data), content)


def message_page(title: str, text: str, context: PageContext, *more: Child) -> Html:
    """A page without data of the cluster: an error, or a login."""
    main = tag("main", tag("h1", title), tag("p", text), *more, id="main", tabindex="-1")
    return _document(title, "", main, context, _WITHOUT_NODE_SETS, live=False)


def moment(at: float) -> Html:
    """A time for people and programs."""
    when = datetime.fromtimestamp(at, UTC)
    return tag("time", f"{when:%Y-%m-%d %H:%M:%S} UTC", datetime=f"{when:%Y-%m-%dT%H:%M:%SZ}")


def table(caption: str, columns: Iterable[str], rows: Iterable[Html], *, empty: str = "") -> Html:
    """A table in a region that scrolls on a narrow screen; `rows` are `tr` elements."""
    body = list(rows)
    if not body and empty:
        return tag("p", empty, class_="empty")
    head = tag("thead", tag("tr", (tag("th", name, scope="col") for name in columns)))
    content = tag("table", tag("caption", caption), head, tag("tbody", body))
    return tag("div", content, class_="scroll", tabindex="0", role="region", aria_label=caption)


def row(name: Child, *cells: Child) -> Html:
    """A row whose first cell names it."""
    return tag("tr", tag("th", name, scope="row"), (tag("td", cell) for cell in cells))


def definitions(facts: Iterable[tuple[str, Child]]) -> Html:
    """Names with their values."""
    return tag("dl", (tag("div", tag("dt", name), tag("dd", value)) for name, value in facts))


def pager(number: int, pages: int, total: int, noun: str, addresses: tuple[str, str]) -> Html:
    """Links to the page before and the page after."""
    text = tag("span", f"Page {number} of {pages}, {total} {noun}")
    before = tag("a", "Previous", href=addresses[0], rel="prev") if number > 1 else None
    after = tag("a", "Next", href=addresses[1], rel="next") if number < pages else None
    return tag("nav", before, text, after, class_="pager", aria_label="Pages")


def options(choices: Iterable[str], chosen: str, anything: str) -> list[Html]:
    """The options of a select; a chosen value that is not among the choices is kept."""
    known = list(choices)
    extra = [shown_name(chosen)] if chosen and chosen not in known else []
    values = [tag("option", anything, value="", selected=not chosen)]
    return values + [tag("option", value, value=value, selected=value == chosen) for value in (*extra, *known)]


def _notices(data: PageData) -> Html:
    taken = data.now - data.age
    age = tag("p", "Data of ", moment(taken), tag("span", data_age=int(taken)), class_="age")
    if data.fault:
        text = f"Slurm cannot be reached. What follows is {duration(data.age)} old. {shown_text(data.fault)}"
        return join(tag("p", text, class_="notice bad", role="alert"), age)
    if data.age > OLD_SECONDS:
        return join(tag("p", f"Slurm has not confirmed this data for {duration(data.age)}.", class_="notice"), age)
    return age


def _document(title: str, cluster: str, main: Html, context: PageContext, links: Links, *, live: bool) -> Html:
    name = shown_name(cluster)
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} · {name}" if name else title),
        tag("link", rel="icon", href="data:,"),
        tag("link", rel="stylesheet", href=context.style),
        tag("script", src=context.script, defer=True) if live else None,
    )
    return document(head, tag("body", _banner(name, context, links, live=live), main, _footer(context)))


def _banner(cluster: str, context: PageContext, links: Links, *, live: bool) -> Html:
    current = {path: context.path == path or context.path.startswith(f"{path}/") for path, _ in links}
    current["/queue"] = current["/queue"] or context.path.startswith("/jobs/")
    items = (
        tag("li", tag("a", name, href=path, aria_current="page" if current[path] else None)) for path, name in links
    )
    status = (
        tag("span", id="live-status", role="status"),
        tag("button", "Pause updates", id="live-pause", type="button", aria_pressed="false", hidden=True),
    )
    return join(
        tag("a", "Skip to content", href="#main", class_="skip"),
        tag(
            "header",
            tag("p", cluster or "slinky", class_="cluster"),
            tag("nav", tag("ul", items), aria_label="Pages of the cluster"),
            tag("div", *status, class_="live") if live else None,
        ),
    )


def _footer(context: PageContext) -> Html:
    who = tag("p", f"Logged in as {shown_name(context.user)}. ") if context.user else None
    leave = tag("form", tag("button", "Log out", type="submit"), method="post", action="/logout")
    return tag("footer", who, leave if context.can_log_out else None, tag("p", "This page is read-only."))
