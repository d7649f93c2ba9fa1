# SPDX-License-Identifier: Apache-2.0
"""What a person may see, by the rules of Slurm. Pure.

Operators and administrators see everything. Others see what slurmctld would show them: everything, except the kinds of
objects that `PrivateData` in slurm.conf hides. Of those they see their own, and what belongs to accounts that they
coordinate. A configuration that cannot be read hides every kind.

NodeSets are objects of Kubernetes and not private; but if jobs are, a sentence about a NodeSet that names a job is
shown only to those who may see this job.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from msgspec import structs

from slinky.api.fields.autoscaling import AutoscalingStatus
from slinky.api.nodeset import NodeSet
from slinky.insight.queue_snapshot import names
from slinky.slurm.model.accounts import User
from slinky.slurm.model.views import Job, Reservation
from slinky.web.page_data import PageData

#: The kinds of objects that `PrivateData` can hide and that the page shows.
PRIVATE_KINDS = frozenset({"accounts", "jobs", "nodes", "partitions", "reservations", "usage", "users"})
#: Stands for a sentence that names a job which the viewer may not see.
UNSHOWN = "Not shown, because it names a job that you may not see."
_NAMED_JOB = re.compile(r"\bjobs?[\s#:]*(\d+)", re.IGNORECASE)
_OPERATOR_LEVELS = frozenset({"Operator", "Administrator"})


@dataclass(frozen=True)
class Viewer:
    """A person who is logged in. `operator` says that the login itself makes the person an operator."""

    user: str
    operator: bool = False


@dataclass(frozen=True)
class Visibility:
    """What one person may see. Equal for two persons if both see the same, so that they share rendered pages."""

    hidden: frozenset[str] = frozenset()
    user: str = ""
    accounts: frozenset[str] = frozenset()
    coordinated: frozenset[str] = frozenset()


#: Sees everything.
EVERYTHING = Visibility()


def visibility(viewer: Viewer, data: PageData) -> Visibility:
    """What a viewer may see in this data."""
    record = next((user for user in data.users if user.name == viewer.user), None)
    if viewer.operator or (record and _OPERATOR_LEVELS & set(record.administrator_level)):
        return EVERYTHING
    hidden = private_kinds(data.whole.conf)
    if not hidden:
        return EVERYTHING
    own = {entry.account for entry in data.whole.associations if entry.user == viewer.user}
    return Visibility(hidden, viewer.user, frozenset(own), _coordinated(record))


def private_kinds(conf: Mapping[str, object]) -> frozenset[str]:
    """What `PrivateData` hides; every kind if the configuration could not be read."""
    values = [value for key, value in conf.items() if key.lower() == "privatedata"]
    if not values:
        return PRIVATE_KINDS
    words = values[0] if isinstance(values[0], list | tuple) else str(values[0] or "").split(",")
    kinds = {str(word).strip().lower() for word in words} - {"", "none", "(null)"}
    return PRIVATE_KINDS if "all" in kinds else frozenset(kinds & PRIVATE_KINDS)


def restrict(data: PageData, sees: Visibility) -> PageData:
    """The data with only what a person may see."""
    if not sees.hidden:
        return data
    whole, hidden = data.whole, sees.hidden
    snapshot = replace(
        whole,
        jobs=tuple(job for job in whole.jobs if "jobs" not in hidden or sees_job(sees, job)),
        hosts=() if "nodes" in hidden else whole.hosts,
        partitions=() if "partitions" in hidden else whole.partitions,
        reservations=_reservations(whole.reservations, sees),
        associations=tuple(
            entry
            for entry in whole.associations
            if not hidden & {"accounts", "users"} or _is_own(sees, entry.account, entry.user)
        ),
        shares=tuple(
            share
            for share in whole.shares
            if "usage" not in hidden or share.name in {sees.user, *sees.accounts, *sees.coordinated}
        ),
        history=(),
        unknown=(*whole.unknown, f"what PrivateData hides ({', '.join(sorted(hidden))})"),
    )
    seen = data.with_snapshot(snapshot)
    if data.node_sets is None or "jobs" not in hidden:
        return seen
    jobs = frozenset(str(number) for job in snapshot.jobs for number in (job.job_id, job.array_job_id.whole))
    items = tuple(_restrict_node_set(item, jobs) for item in data.node_sets.items)
    return replace(seen, node_sets=replace(data.node_sets, items=items))


def sees_job(sees: Visibility, job: Job) -> bool:
    """Whether a person may see a job although jobs are private."""
    return job.user_name == sees.user or job.account in sees.coordinated


def names_only(text: str, jobs: frozenset[str]) -> bool:
    """Whether every job that a sentence names is among these."""
    return all(number in jobs for number in _NAMED_JOB.findall(text))


def _restrict_node_set(node_set: NodeSet, jobs: frozenset[str]) -> NodeSet:
    """The NodeSet without sentences that name other jobs."""
    status = node_set.status
    conditions = tuple(
        structs.replace(entry, message=_shown_sentence(entry.message, jobs)) for entry in status.conditions
    )
    scaling = _restrict_scaling(status.autoscaling, jobs) if status.autoscaling else None
    return structs.replace(node_set, status=structs.replace(status, conditions=conditions, autoscaling=scaling))


def _restrict_scaling(status: AutoscalingStatus, jobs: frozenset[str]) -> AutoscalingStatus:
    decisions = tuple(
        structs.replace(entry, message=_shown_sentence(entry.message, jobs)) for entry in status.decisions
    )
    # An entry that begins with no job is not shown either: every entry is about one.
    impossible = tuple(
        text for text in status.impossible_jobs if _NAMED_JOB.match(text) is not None and names_only(text, jobs)
    )
    message = _shown_sentence(status.message, jobs)
    return structs.replace(status, message=message, decisions=decisions, impossible_jobs=impossible)


def _shown_sentence(text: str, jobs: frozenset[str]) -> str:
    return text if names_only(text, jobs) else UNSHOWN


def _is_own(sees: Visibility, account: str, user: str) -> bool:
    return account in sees.coordinated or (account in sees.accounts and user in {"", sees.user})


def _reservations(entries: Iterable[Reservation], sees: Visibility) -> tuple[Reservation, ...]:
    if "reservations" not in sees.hidden:
        return tuple(entries)
    own = sees.accounts | sees.coordinated
    return tuple(entry for entry in entries if sees.user in names(entry.users) or own & set(names(entry.accounts)))


def _coordinated(record: User | None) -> frozenset[str]:
    return frozenset(entry.name for entry in record.coordinators) if record else frozenset()
