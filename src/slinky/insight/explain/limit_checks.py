# SPDX-License-Identifier: Apache-2.0
"""Checks of the limits of QOS and associations, with their use. Pure.

slurmrestd does not serve the use of limits, so it is summed over the running jobs of the snapshot. Limits in minutes
depend on past use, which only slurmctld knows; they are reported by Slurm's own reason.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from slinky.insight.explain.explanation import Finding, Topic
from slinky.insight.job_requirements import requirements
from slinky.insight.pending_reasons import Remedy
from slinky.insight.plain_text import counted, duration, listed, megabytes, plain
from slinky.insight.queue_snapshot import QueueSnapshot, names
from slinky.insight.tres import parse_tres
from slinky.slurm.model.accounts import Association
from slinky.slurm.model.qos import Qos
from slinky.slurm.model.values import Number, Tres
from slinky.slurm.model.views import Job

#: Names of resources in sentences; others are shown as Slurm names them.
_NOUNS = {"cpu": "CPUs", "mem": "memory", "node": "nodes", "gres/gpu": "GPUs"}


@dataclass(frozen=True, slots=True)
class LimitScope:
    """Whose running jobs count against a limit, and how a sentence names the limit."""

    owner: str
    blocker: str
    jobs: tuple[Job, ...]


def check_limits(job: Job, snapshot: QueueSnapshot) -> Iterator[Finding]:
    """Limits of the job's QOS, of the QOS of its partition, and of its associations up to the root."""
    for qos in _qos_of(job, snapshot):
        yield from _qos_findings(job, qos, snapshot)
    for association in _association_chain(job, snapshot):
        yield from _association_findings(job, association, snapshot)


def _qos_of(job: Job, snapshot: QueueSnapshot) -> Iterator[Qos]:
    assigned = [p.qos.assigned for name in names(job.partition) if (p := snapshot.partitions_by_name.get(name))]
    wanted = {job.qos, *assigned}
    return (qos for qos in snapshot.qos if qos.name in wanted)


def _association_chain(job: Job, snapshot: QueueSnapshot) -> Iterator[Association]:
    """The association of the user, then those of its account and of every account above."""
    mine = [a for a in snapshot.associations if a.user == job.user_name and a.account == job.account and job.user_name]
    yield from (a for a in mine if not a.partition or a.partition in names(job.partition))
    accounts = {a.account: a for a in snapshot.associations if not a.user}
    account, visited = job.account, set[str]()
    while account in accounts and account not in visited:
        visited.add(account)
        yield accounts[account]
        account = accounts[account].parent_account


def _qos_findings(job: Job, qos: Qos, snapshot: QueueSnapshot) -> Iterator[Finding]:
    limits, name = qos.limits.max, plain(qos.name, 80)
    mine = tuple(other for other in snapshot.running if other.qos == qos.name)
    all_jobs = LimitScope(f"QOS {name}", f"qos {name}", mine)
    user = _part(all_jobs, f"user {plain(job.user_name, 40)}", lambda other: other.user_name == job.user_name)
    account = _part(all_jobs, f"account {plain(job.account, 40)}", lambda other: other.account == job.account)
    yield from _tres_findings(job, limits.tres.total, all_jobs)
    yield from _tres_findings(job, limits.tres.per.user, user)
    yield from _tres_findings(job, limits.tres.per.account, account)
    yield from _count_finding(job, limits.active_jobs.count, all_jobs)
    yield from _count_finding(job, limits.jobs.active_jobs.per.user, user)
    yield from _count_finding(job, limits.jobs.active_jobs.per.account, account)
    yield from _request_findings(job, limits.tres.per.job, all_jobs)
    yield from _wall_finding(job, limits.wall_clock.per.job, all_jobs)
    for limit in qos.limits.min.tres.per.job:
        if limit.count and limit.count > 0 and requested(job, tres_name(limit)) < limit.count:
            yield Finding(
                Topic.LIMIT,
                f"The job requests {_amount(limit, requested(job, tres_name(limit)))}, and the QOS {name} requires at "
                f"least {_amount(limit, limit.count)}.",
                "",
                "Request more, or use another QOS.",
                Remedy.USER,
                (f"qos {name}",),
            )


def _association_findings(job: Job, association: Association, snapshot: QueueSnapshot) -> Iterator[Finding]:
    if association.user:
        noun, members = f"user {plain(association.user, 40)} in account {plain(association.account, 40)}", None
    else:
        noun, members = f"account {plain(association.account, 80)}", _accounts_below(association.account, snapshot)
    jobs = tuple(
        other
        for other in snapshot.running
        if (other.account in members if members is not None else _is_of(other, association))
    )
    scope = LimitScope(noun, noun if members is not None else f"user {plain(association.user, 40)}", jobs)
    limits = association.max
    yield from _tres_findings(job, limits.tres.total, scope)
    yield from _count_finding(job, limits.jobs.per.count, scope)
    if association.user:
        # The limits per job and per user of an account are inherited by its users, whose associations have them.
        yield from _count_finding(job, limits.jobs.active, scope)
        yield from _request_findings(job, limits.tres.per.job, scope)
        yield from _wall_finding(job, limits.jobs.per.wall_clock, scope)


def _is_of(job: Job, association: Association) -> bool:
    return job.user_name == association.user and job.account == association.account


def _accounts_below(account: str, snapshot: QueueSnapshot) -> frozenset[str]:
    children: dict[str, list[str]] = {}
    for association in snapshot.associations:
        if not association.user:
            children.setdefault(association.parent_account, []).append(association.account)
    found, rest = {account}, [account]
    while rest:
        new = [child for child in children.get(rest.pop(), ()) if child not in found]
        found.update(new)
        rest += new
    return frozenset(found)


def _part(scope: LimitScope, noun: str, counts: Callable[[Job], bool]) -> LimitScope:
    jobs = tuple(job for job in scope.jobs if counts(job))
    return LimitScope(f"{scope.owner} for the {noun}", scope.blocker, jobs)


def _tres_findings(job: Job, limits: Iterable[Tres], scope: LimitScope) -> Iterator[Finding]:
    for limit in limits:
        if limit.count is None or limit.count < 0:
            continue
        name = tres_name(limit)
        used, wanted = sum(allocated(other, name) for other in scope.jobs), requested(job, name)
        if not wanted or used + wanted <= limit.count:
            continue
        if wanted > limit.count:
            cure, step, remedy = "", "Request less; waiting does not help.", Remedy.USER
        else:
            cure, step, remedy = _ends_text(scope.jobs, name), "", Remedy.WAITING
        yield Finding(
            Topic.LIMIT,
            f"The {scope.owner} has a limit of {_amount(limit, limit.count)}: {_amount(limit, used)} in use by "
            f"{_holders(scope.jobs, name)}, and the job needs {_amount(limit, wanted)}.",
            cure,
            step,
            remedy,
            (scope.blocker,),
        )


def _count_finding(job: Job, limit: Number, scope: LimitScope) -> Iterator[Finding]:
    allowed = limit.value
    if allowed is not None and allowed != float("inf") and len(scope.jobs) >= allowed:
        yield Finding(
            Topic.LIMIT,
            f"The {scope.owner} may run {counted(int(allowed), 'job')} at the same time, and "
            f"{len(scope.jobs)} run ({listed(f'job {other.job_id}' for other in scope.jobs)}).",
            "It can start when one of them ends.",
            blockers=(scope.blocker,),
        )


def _request_findings(job: Job, limits: Iterable[Tres], scope: LimitScope) -> Iterator[Finding]:
    for limit in limits:
        wanted = requested(job, tres_name(limit))
        if limit.count is not None and 0 <= limit.count < wanted:
            yield Finding(
                Topic.LIMIT,
                f"The job requests {_amount(limit, wanted)}, and the {scope.owner} allows a job at most "
                f"{_amount(limit, limit.count)}.",
                "",
                "Request less; waiting does not help.",
                Remedy.USER,
                (scope.blocker,),
            )


def _wall_finding(job: Job, limit: Number, scope: LimitScope) -> Iterator[Finding]:
    minutes, need = limit.value, requirements(job)
    if minutes is not None and need.seconds > minutes * 60:
        yield Finding(
            Topic.LIMIT,
            f"The time limit of {duration(need.seconds)} exceeds the {duration(minutes * 60)} that the {scope.owner} "
            "allows.",
            "",
            f"Run `scontrol update JobId={job.job_id} TimeLimit={int(minutes)}`.",
            Remedy.USER,
            (scope.blocker,),
        )


def _holders(jobs: Iterable[Job], name: str) -> str:
    users = sorted({job.user_name or "hidden" for job in jobs if allocated(job, name)})
    count = sum(1 for job in jobs if allocated(job, name))
    return f"{counted(count, 'job')} of {listed(users)}" if count else "no job"


def _ends_text(jobs: Iterable[Job], name: str) -> str:
    holders = sorted((job for job in jobs if allocated(job, name)), key=lambda job: job.end_time.whole or 2**40)
    return f"It can start when some of them end, the first of which is job {holders[0].job_id}." if holders else ""


def tres_name(limit: Tres) -> str:
    """The name of a resource as in Slurm's texts: `cpu`, `gres/gpu:a100`."""
    return f"{limit.type}/{limit.name}" if limit.name else limit.type


def requested(job: Job, name: str) -> int:
    """How much of a resource a job requests; memory in megabytes."""
    return tres_amount(job.tres_req_str, name)


def allocated(job: Job, name: str) -> int:
    """How much of a resource a running job has; memory in megabytes."""
    return tres_amount(job.tres_alloc_str or job.tres_req_str, name)


def tres_amount(text: str, name: str) -> int:
    """One amount of a TRES text; memory in megabytes."""
    amounts = parse_tres(text)
    if name in ("cpu", "node"):
        return amounts.cpus if name == "cpu" else amounts.nodes
    if name == "mem":
        return amounts.memory_bytes // 2**20
    if name.startswith("gres/"):
        kind, _, type_ = name.removeprefix("gres/").partition(":")
        return amounts.gres.get((kind, type_), 0) if type_ else amounts.gres_count(kind)
    values = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    value = values.get(name, "")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else 0


def _amount(limit: Tres, count: int) -> str:
    name = tres_name(limit)
    return f"{megabytes(count)} of memory" if name == "mem" else f"{count} {_NOUNS.get(name, plain(name, 60))}"
