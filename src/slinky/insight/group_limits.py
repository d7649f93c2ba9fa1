# SPDX-License-Identifier: Apache-2.0
"""The group limits of QOS and accounts, and how much of each the jobs of a cluster use. Pure.

A group limit (`GrpTRES`, `GrpJobs`, `GrpSubmitJobs`) bounds all jobs of a QOS, of an account with the accounts below
it, or of a user in an account. slurmrestd shows limits but not their use, so the use is added up from the jobs.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from slinky.insight.tres import MEGABYTE, parse_amounts
from slinky.slurm import JobRecord, Number, Tres
from slinky.slurm.model.accounts import Association
from slinky.slurm.model.qos import Qos

#: Resources of limits on the number of jobs.
RUNNING_JOBS, SUBMITTED_JOBS = "jobs", "submitted_jobs"


class LimitOwner(Enum):
    """What a group limit belongs to."""

    QOS = "qos"
    ACCOUNT = "account"
    USER = "user"


class LimitKey(NamedTuple):
    """What is limited. The name of a user's limit is `account/user`."""

    owner: LimitOwner
    name: str
    #: A TRES such as `cpu`, `mem` (in bytes) or `gres/gpu`, or `jobs`, or `submitted_jobs`.
    resource: str


@dataclass(frozen=True)
class GroupLimits:
    """The group limits of a cluster, and the parent of each account."""

    amounts: Mapping[LimitKey, float] = field(default_factory=dict)
    parents: Mapping[str, str] = field(default_factory=dict)


def group_limits(qos: Iterable[Qos], associations: Iterable[Association], cluster: str) -> GroupLimits:
    """Every group limit that is set on this cluster. Limits of single partitions are left out."""
    amounts: dict[LimitKey, float] = {}
    parents: dict[str, str] = {}
    for item in qos:
        upper = item.limits.max
        jobs = {RUNNING_JOBS: upper.active_jobs.count, SUBMITTED_JOBS: upper.jobs.count}
        amounts |= _limits(LimitOwner.QOS, item.name, upper.tres.total, jobs)
    for association in associations:
        if association.cluster not in {"", cluster} or association.partition:
            continue
        if not association.user:
            parents[association.account] = association.parent_account
        owner = LimitOwner.USER if association.user else LimitOwner.ACCOUNT
        name = f"{association.account}/{association.user}" if association.user else association.account
        jobs = {RUNNING_JOBS: association.max.jobs.per.count, SUBMITTED_JOBS: association.max.jobs.per.submitted}
        amounts |= _limits(owner, name, association.max.tres.total, jobs)
    return GroupLimits(amounts, parents)


def _limits(
    owner: LimitOwner, name: str, tres: Iterable[Tres], jobs: Mapping[str, Number]
) -> Iterator[tuple[LimitKey, float]]:
    for item in tres:
        if item.count is not None and item.count >= 0:
            resource = f"{item.type}/{item.name}" if item.name else item.type
            yield LimitKey(owner, name, resource), item.count * (MEGABYTE if resource == "mem" else 1)
    for resource, limit in jobs.items():
        if limit.set and not limit.infinite:
            yield LimitKey(owner, name, resource), limit.whole


def limit_use(limits: GroupLimits, jobs: Iterable[JobRecord]) -> Mapping[LimitKey, float]:
    """How much of each limit is in use; 0 for a limit of which nothing is used."""
    limited: dict[tuple[LimitOwner, str], list[str]] = defaultdict(list)
    for key in limits.amounts:
        limited[key.owner, key.name].append(key.resource)
    used = dict.fromkeys(limits.amounts, 0.0)
    # A job keeps the name of its QOS as its user wrote it; slurmdbd stores it in lower case.
    stored = {key.name.lower(): key.name for key in limits.amounts if key.owner is LimitOwner.QOS}
    ancestors = {account: list(_ancestors(account, limits.parents)) for account in limits.parents}
    for record in jobs:
        job = record.detail
        if job is None or not (record.state.pending or record.state.holds_nodes):
            continue
        owners = [
            (LimitOwner.QOS, stored.get(job.qos.lower(), job.qos)),
            (LimitOwner.USER, f"{job.account}/{job.user_name}"),
            *((LimitOwner.ACCOUNT, account) for account in ancestors.get(job.account, [job.account])),
        ]
        for owner, name in owners:
            for resource in limited.get((owner, name), ()):
                used[LimitKey(owner, name, resource)] += _use(record, resource)
    return used


def _use(record: JobRecord, resource: str) -> float:
    if resource == SUBMITTED_JOBS:
        return 1
    if not record.state.holds_nodes or record.detail is None:
        return 0
    return 1 if resource == RUNNING_JOBS else parse_amounts(record.detail.tres_alloc_str).get(resource, 0)


def _ancestors(account: str, parents: Mapping[str, str]) -> Iterator[str]:
    """The account and every account above it; a loop in the data ends the chain."""
    seen: set[str] = set()
    while account and account not in seen:
        seen.add(account)
        yield account
        account = parents.get(account, "")
