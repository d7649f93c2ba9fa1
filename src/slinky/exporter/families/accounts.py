# SPDX-License-Identifier: Apache-2.0
"""Families of accounts and QOS: devices in use, fair share, group limits and how much of them is used."""

from collections import defaultdict
from collections.abc import Callable, Iterator

from slinky.exporter.families.family import ACCOUNT, Compute, Family, Values
from slinky.exporter.snapshot import ClusterSnapshot
from slinky.insight.group_limits import LimitKey, LimitOwner, limit_use
from slinky.insight.tres import parse_tres
from slinky.slurm import Number, Share


def allocated_gres(snapshot: ClusterSnapshot) -> Values:
    """Generic resources that jobs hold, by account, name and type."""
    sums: dict[tuple[str, ...], float] = defaultdict(float)
    for record in snapshot.jobs:
        if record.state.holds_nodes and (job := record.detail) is not None:
            for (name, kind), count in parse_tres(job.tres_alloc_str).gres.items():
                sums[job.account, name, kind] += count
    return sums


# --- fair share


def _account_shares(snapshot: ClusterSnapshot, *, users: bool) -> Iterator[tuple[tuple[str, ...], Share]]:
    for share in snapshot.shares:
        if ("USER" in share.type) is users and not share.partition:
            yield ((share.parent, share.name) if users else (share.name,)), share


def _share(read: Callable[[Share], Number], *, users: bool = False) -> Compute:
    """A figure of each account or user; one that is unset or infinite is left out."""
    return lambda snapshot: {
        labels: float(figure.number)
        for labels, share in _account_shares(snapshot, users=users)
        if (figure := read(share)).set and not figure.infinite
    }


# --- limits


def _is_shown(key: LimitKey, *, users: bool) -> bool:
    return (key.owner is LimitOwner.USER) is users


def _limits(snapshot: ClusterSnapshot, *, users: bool = False) -> Values:
    amounts = snapshot.limits.amounts if snapshot.limits else {}
    return {_labels(key): amount for key, amount in amounts.items() if _is_shown(key, users=users)}


def _limits_used(snapshot: ClusterSnapshot, *, users: bool = False) -> Values:
    if snapshot.limits is None or not snapshot.jobs_known:
        return {}
    use = limit_use(snapshot.limits, snapshot.jobs)
    return {_labels(key): amount for key, amount in use.items() if _is_shown(key, users=users)}


def _labels(key: LimitKey) -> tuple[str, ...]:
    return key.owner.value, key.name, key.resource


LIMIT = ("kind", "name", "resource")

FAMILIES: tuple[Family, ...] = (
    Family(
        "account_gres_allocated",
        "Generic resources that running jobs of an account hold.",
        ("account", "gres", "type"),
        allocated_gres,
        detail="accounts",
    ),
    Family(
        "account_shares_ratio",
        "Share of the cluster that an account is entitled to, within its parent.",
        ACCOUNT,
        _share(lambda share: share.shares_normalized),
        detail="accounts",
    ),
    Family(
        "account_usage_ratio",
        "Share of the decayed usage that an account has, within its parent.",
        ACCOUNT,
        _share(lambda share: share.effective_usage),
        detail="accounts",
    ),
    Family(
        "account_fairshare_level",
        "Fair-share level of an account: above 1, it has used less than its share.",
        ACCOUNT,
        _share(lambda share: share.fairshare.level),
        detail="accounts",
    ),
    Family(
        "user_fairshare_factor",
        "Fair-share factor of a user in an account, from 0 to 1.",
        ("account", "user"),
        _share(lambda share: share.fairshare.factor, users=True),
        detail="users",
    ),
    Family(
        "limit",
        "Group limit of a QOS or an account; `mem` is in bytes.",
        LIMIT,
        _limits,
    ),
    Family(
        "limit_used",
        "How much of a group limit the jobs of a QOS, or of an account and the accounts below it, use.",
        LIMIT,
        _limits_used,
    ),
    Family(
        "user_limit",
        "Group limit of a user in an account.",
        LIMIT,
        lambda snapshot: _limits(snapshot, users=True),
        detail="users",
    ),
    Family(
        "user_limit_used",
        "How much of a group limit the jobs of a user in an account use.",
        LIMIT,
        lambda snapshot: _limits_used(snapshot, users=True),
        detail="users",
    ),
)
