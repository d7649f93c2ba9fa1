# SPDX-License-Identifier: Apache-2.0
"""Checks of the limits of QOS and associations, with their use. Pure.

slurmrestd does not serve the use of limits, so it is summed over the running jobs of the snapshot.
"""

from collections.abc import Iterable, Iterator

from slinky.insight.explain.explanation import Finding, Topic
from slinky.insight.explain.limit_scopes import (
    LimitScope,
    allocated,
    amount_text,
    holders_text,
    is_limited,
    requested,
    tres_name,
)
from slinky.insight.explain.minute_checks import (
    check_job_minutes,
    check_past_minutes,
    check_past_wall,
    check_run_minutes,
)
from slinky.insight.job_requirements import requirements
from slinky.insight.pending_reasons import Remedy
from slinky.insight.plain_text import counted, duration, listed, plain
from slinky.insight.queue_snapshot import QueueSnapshot, names
from slinky.slurm.model.accounts import Association
from slinky.slurm.model.qos import Qos
from slinky.slurm.model.values import Number, Tres
from slinky.slurm.model.views import Job


def check_limits(job: Job, snapshot: QueueSnapshot) -> Iterator[Finding]:
    """Limits of the job's QOS, of the QOS of its partition, and of its associations up to the root."""
    for qos in _qos_of(job, snapshot):
        yield from _qos_findings(job, qos, snapshot)
    for association in _association_chain(job, snapshot):
        yield from _association_findings(job, association, snapshot)


def _qos_of(job: Job, snapshot: QueueSnapshot) -> Iterator[Qos]:
    assigned = [p.qos.assigned for name in names(job.partition) if (p := snapshot.partitions_by_name.get(name))]
    # A job keeps the name as its user wrote it; slurmdbd stores it in lower case.
    wanted = {name.lower() for name in (job.qos, *assigned)}
    return (qos for qos in snapshot.qos if qos.name.lower() in wanted)


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
    mine = tuple(other for other in snapshot.running if other.qos.lower() == qos.name.lower())
    all_jobs = LimitScope(f"QOS {name}", f"qos {name}", mine)
    user = all_jobs.part(f"user {plain(job.user_name, 40)}", lambda other: other.user_name == job.user_name)
    account = all_jobs.part(f"account {plain(job.account, 40)}", lambda other: other.account == job.account)
    yield from _tres_findings(job, limits.tres.total, all_jobs)
    yield from _tres_findings(job, limits.tres.per.user, user)
    yield from _tres_findings(job, limits.tres.per.account, account)
    yield from _count_finding(job, limits.active_jobs.count, all_jobs)
    yield from _count_finding(job, limits.jobs.active_jobs.per.user, user)
    yield from _count_finding(job, limits.jobs.active_jobs.per.account, account)
    yield from _request_findings(job, limits.tres.per.job, all_jobs)
    yield from _node_findings(job, limits.tres.per.node, all_jobs)
    yield from _wall_finding(job, limits.wall_clock.per.job, all_jobs)
    yield from _qos_minutes(job, qos, (all_jobs, user, account), snapshot.now)
    yield from _threshold_finding(job, qos, snapshot)
    for limit in qos.limits.min.tres.per.job:
        if limit.count and limit.count > 0 and requested(job, tres_name(limit)) < limit.count:
            yield Finding(
                Topic.LIMIT,
                f"The job requests {amount_text(limit, requested(job, tres_name(limit)))}, and the QOS {name} requires "
                f"at least {amount_text(limit, limit.count)}.",
                "",
                "Request more, or use another QOS.",
                Remedy.USER,
                (f"qos {name}",),
            )


def _qos_minutes(
    job: Job, qos: Qos, scopes: tuple[LimitScope, LimitScope, LimitScope], now: float
) -> Iterator[Finding]:
    everyone, user, account = scopes
    minutes = qos.limits.max.tres.minutes
    yield from check_run_minutes(job, minutes.per.qos, everyone, now)
    yield from check_run_minutes(job, minutes.per.user, user, now)
    yield from check_run_minutes(job, minutes.per.account, account, now)
    yield from check_job_minutes(job, minutes.per.job, everyone)
    yield from check_past_minutes(job, minutes.total, everyone)
    yield from check_past_wall(job, qos.limits.max.wall_clock.per.qos, everyone)


def _threshold_finding(job: Job, qos: Qos, snapshot: QueueSnapshot) -> Iterator[Finding]:
    """A QOS that only users with a sufficient fair share may use, if slurmctld reports it."""
    threshold = qos.usage_threshold.value
    if job.state_reason != "QOSUsageThreshold" or threshold is None:
        return
    mine = [share for share in snapshot.shares if share.name == job.user_name and share.parent == job.account]
    factor = mine[0].fairshare.factor.value if mine else None
    shown = f" of {factor:.3f}" if factor is not None else ""
    name = plain(qos.name, 80)
    yield Finding(
        Topic.LIMIT,
        f"The fair-share factor{shown} of user {plain(job.user_name, 40)} in account {plain(job.account, 40)} is below "
        f"{threshold:g}, the usage threshold of the QOS {name}.",
        "It can start when earlier use has decayed.",
        "Another QOS may start it now.",
        Remedy.WAITING,
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
        yield from _node_findings(job, limits.tres.per.node, scope)
        yield from _wall_finding(job, limits.jobs.per.wall_clock, scope)
        yield from check_job_minutes(job, limits.tres.minutes.per.job, scope)
        yield from check_run_minutes(job, limits.tres.minutes.total, scope, snapshot.now)
    yield from check_run_minutes(job, limits.tres.group.active, scope, snapshot.now)
    yield from check_past_minutes(job, limits.tres.group.minutes, scope)


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
            f"The {scope.owner} has a limit of {amount_text(limit, limit.count)}: {amount_text(limit, used)} in use by "
            f"{holders_text(scope.jobs, name)}, and the job needs {amount_text(limit, wanted)}.",
            cure,
            step,
            remedy,
            (scope.blocker,),
        )


def _count_finding(job: Job, limit: Number, scope: LimitScope) -> Iterator[Finding]:
    allowed = limit.value
    if allowed == 0:
        sentence, step = f"The {scope.owner} may run no job.", "Ask an administrator; waiting does not help."
        yield Finding(Topic.LIMIT, sentence, "", step, Remedy.ADMINISTRATOR, (scope.blocker,))
    elif allowed is not None and allowed != float("inf") and len(scope.jobs) >= allowed:
        yield Finding(
            Topic.LIMIT,
            f"The {scope.owner} may run {counted(int(allowed), 'job')} at the same time, and "
            f"{len(scope.jobs)} {'runs' if len(scope.jobs) == 1 else 'run'} "
            f"({listed(f'job {other.job_id}' for other in scope.jobs)}).",
            "It can start when one of them ends.",
            blockers=(scope.blocker,),
        )


def _request_findings(job: Job, limits: Iterable[Tres], scope: LimitScope) -> Iterator[Finding]:
    for limit in limits:
        wanted = requested(job, tres_name(limit))
        if limit.count is not None and 0 <= limit.count < wanted:
            yield Finding(
                Topic.LIMIT,
                f"The job requests {amount_text(limit, wanted)}, and the limits of the {scope.owner} allow "
                f"a job at most {amount_text(limit, limit.count)}.",
                "",
                "Request less; waiting does not help.",
                Remedy.USER,
                (scope.blocker,),
            )


def _node_findings(job: Job, limits: Iterable[Tres], scope: LimitScope) -> Iterator[Finding]:
    nodes = max(requirements(job).nodes, 1)
    for limit in filter(is_limited, limits):
        wanted, allowed = -(-requested(job, tres_name(limit)) // nodes), limit.count or 0
        if wanted > allowed:
            yield Finding(
                Topic.LIMIT,
                f"The job requests {amount_text(limit, wanted)} on a node, and the limits of the {scope.owner} "
                f"allow a job at most {amount_text(limit, allowed)} on each.",
                "",
                "Request less per node; waiting does not help.",
                Remedy.USER,
                (scope.blocker,),
            )


def _wall_finding(job: Job, limit: Number, scope: LimitScope) -> Iterator[Finding]:
    minutes, need = limit.value, requirements(job)
    if minutes is not None and need.seconds > minutes * 60:
        yield Finding(
            Topic.LIMIT,
            f"The time limit of {duration(need.seconds)} exceeds the {duration(minutes * 60)} that the limits of the "
            f"{scope.owner} allow.",
            "",
            f"Run `scontrol update JobId={job.job_id} TimeLimit={int(minutes)}`.",
            Remedy.USER,
            (scope.blocker,),
        )


def _ends_text(jobs: Iterable[Job], name: str) -> str:
    holders = sorted((job for job in jobs if allocated(job, name)), key=lambda job: job.end_time.whole or 2**40)
    return f"It can start when some of them end, the first of which is job {holders[0].job_id}." if holders else ""
