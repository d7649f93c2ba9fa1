# SPDX-License-Identifier: Apache-2.0
"""The page of accounts and QOS. Pure."""

from slinky.web.markup import Html, join, tag
from slinky.web.pages.charts import use_bar
from slinky.web.pages.frame import row, table
from slinky.web.views.accounts import AccountsView, LimitRow
from slinky.web.views.paging import address


def accounts_page(view: AccountsView) -> Html:
    """Limits with their use, and fair shares."""
    if not view.known:
        return tag("p", "This cluster has no accounting, or it cannot be read.", class_="empty")
    columns = ("Limit of", "Name", "Resource", "In use", "Limit", "Share of the limit")
    limits = table("Group limits, the most used first", columns, map(_limit, view.limits), empty="No limit is set.")
    share_columns = ("Account", "User", "Share", "Use", "Fair-share factor")
    shares = (
        row(
            tag("a", entry.account, href=address("/queue", account=entry.account)),
            entry.user, entry.shares, entry.usage, entry.factor,
        )
        for entry in view.shares
    )  # fmt: skip
    return join(
        tag("h2", "Limits"),
        limits,
        tag("h2", "Fair shares"),
        table("Fair shares", share_columns, shares, empty="There are no fair shares."),
    )


def _limit(entry: LimitRow) -> Html:
    bar = use_bar(entry.ratio, 1, f"{entry.resource} of {entry.owner} {entry.name}")
    return row(entry.owner, entry.name, entry.resource, entry.used, entry.limit, bar)
