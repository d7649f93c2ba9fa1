# SPDX-License-Identifier: Apache-2.0
"""Accounts and QOS: group limits with their use, and fair shares. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from slinky.insight.group_limits import LimitOwner, group_limits, limit_use
from slinky.insight.plain_text import megabytes
from slinky.insight.tres import MEGABYTE
from slinky.slurm import JobRecord
from slinky.web.page_data import PageData
from slinky.web.views.job_row import shown_name

#: Rows of one table.
ROWS_MAX = 500


@dataclass(frozen=True)
class LimitRow:
    """A group limit and how much of it is in use."""

    owner: str
    name: str
    resource: str
    used: str
    limit: str
    #: 1 is the whole limit.
    ratio: float


@dataclass(frozen=True)
class ShareRow:
    """The fair share of an account or of a user in an account."""

    account: str
    user: str
    shares: str
    usage: str
    factor: str


@dataclass(frozen=True)
class AccountsView:
    """What the page of the accounts shows. `known` is false on a cluster without accounting."""

    known: bool
    limits: tuple[LimitRow, ...]
    shares: tuple[ShareRow, ...]


def accounts_view(data: PageData) -> AccountsView:
    """What the page of the accounts shows."""
    snapshot = data.snapshot
    return AccountsView(
        known=bool(snapshot.qos or snapshot.associations or snapshot.shares),
        limits=tuple(sorted(_limits(data), key=lambda row: -row.ratio))[:ROWS_MAX],
        shares=tuple(_shares(data))[:ROWS_MAX],
    )


def _limits(data: PageData) -> Iterator[LimitRow]:
    limits = group_limits(data.snapshot.qos, data.snapshot.associations, data.cluster)
    # The use of a limit counts every job, also those that this viewer may not see.
    records = (JobRecord(str(job.job_id), job.state, detail=job) for job in data.whole.jobs)
    used = limit_use(limits, records)
    words = {LimitOwner.QOS: "QOS", LimitOwner.ACCOUNT: "account", LimitOwner.USER: "user"}
    for key, limit in limits.amounts.items():
        use = used[key]
        ratio = use / limit if limit else float(use > 0)
        texts = (_amount(use, key.resource), _amount(limit, key.resource))
        yield LimitRow(words[key.owner], shown_name(key.name), shown_name(key.resource), *texts, ratio)


def _amount(amount: float, resource: str) -> str:
    return megabytes(amount / MEGABYTE) if resource == "mem" else f"{amount:g}" if amount < 10**6 else f"{amount:.0f}"


def _shares(data: PageData) -> Iterator[ShareRow]:
    for share in data.snapshot.shares:
        is_user = "USER" in {word.upper() for word in share.type}
        factor = share.fairshare.factor.value
        yield ShareRow(
            account=shown_name(share.parent if is_user else share.name),
            user=shown_name(share.name) if is_user else "",
            shares=_ratio(share.shares_normalized.value),
            usage=_ratio(share.effective_usage.value),
            factor="" if factor is None else f"{factor:.3f}",
        )


def _ratio(value: float | None) -> str:
    return "" if value is None or not value < 10**6 else f"{100 * value:.1f} %"
