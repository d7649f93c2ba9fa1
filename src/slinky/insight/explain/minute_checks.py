# SPDX-License-Identifier: Apache-2.0
"""Checks of limits in minutes: an amount multiplied by time. Pure.

What running jobs may still use, and what one job may use, follow from their time limits. What was used in the past only
slurmctld knows, so a limit on past use is named when slurmctld reports it.
"""

from collections.abc import Iterable, Iterator

from slinky.insight.explain.explanation import Finding, Topic
from slinky.insight.explain.limit_scopes import (
    LimitScope,
    allocated,
    amount_noun,
    holders_text,
    is_limited,
    requested,
    tres_name,
)
from slinky.insight.job_requirements import NO_TIME_LIMIT, requirements
from slinky.insight.limit_reasons import Measure, Scope, parse_limit
from slinky.insight.pending_reasons import Remedy
from slinky.insight.plain_text import duration, plain
from slinky.slurm.model.values import Number, Tres
from slinky.slurm.model.views import Job


def check_run_minutes(job: Job, limits: Iterable[Tres], scope: LimitScope, now: float) -> Iterator[Finding]:
    """A limit of what running jobs may still use until the ends of their time limits."""
    for limit in filter(is_limited, limits):
        name = tres_name(limit)
        used = sum(allocated(other, name) * _minutes_left(other, now) for other in scope.jobs)
        wanted = _minutes_wanted(job, name)
        allowed = limit.count or 0
        if not wanted or used + wanted <= allowed:
            continue
        is_too_large = wanted > allowed
        yield Finding(
            Topic.LIMIT,
            f"The running jobs of the {scope.owner} may still use {allowed} {_noun(name)} minutes by their time "
            f"limits: {used} are taken by {holders_text(scope.jobs, name)}, and the job asks for {wanted}.",
            "" if is_too_large else "It can start when they have run for long enough, or end.",
            f"Request less or a shorter time limit{'; waiting does not help' if is_too_large else ''}.",
            Remedy.USER if is_too_large else Remedy.WAITING,
            (scope.blocker,),
        )


def check_job_minutes(job: Job, limits: Iterable[Tres], scope: LimitScope) -> Iterator[Finding]:
    """A limit of what one job may use until the end of its time limit."""
    for limit in filter(is_limited, limits):
        wanted, allowed = _minutes_wanted(job, tres_name(limit)), limit.count or 0
        if wanted > allowed:
            noun = _noun(tres_name(limit))
            yield Finding(
                Topic.LIMIT,
                f"The job asks for {wanted} {noun} minutes (its request multiplied by its time limit), and the "
                f"limits of the {scope.owner} allow a job at most {allowed}.",
                "",
                "Request less or a shorter time limit; waiting does not help.",
                Remedy.USER,
                (scope.blocker,),
            )


def check_past_minutes(job: Job, limits: Iterable[Tres], scope: LimitScope) -> Iterator[Finding]:
    """A limit of past use, if slurmctld reports that one is used up."""
    if not _reports_past_use(job) or job.state_reason.endswith("WallLimit"):
        return
    for limit in filter(is_limited, limits):
        wanted = _minutes_wanted(job, tres_name(limit))
        if wanted:
            noun = _noun(tres_name(limit))
            yield Finding(
                Topic.LIMIT,
                f"The {scope.owner} may use {limit.count} {noun} minutes in all, and fewer are left than the job asks "
                f"for ({wanted}).",
                "It can start when earlier use decays or is reset, or when an administrator raises the limit.",
                "A smaller request or a shorter time limit needs fewer minutes.",
                Remedy.ADMINISTRATOR,
                (scope.blocker,),
            )


def check_past_wall(job: Job, limit: Number, scope: LimitScope) -> Iterator[Finding]:
    """A limit of the wall-clock time of all jobs together, if slurmctld reports that it is used up."""
    if limit.value is None or not _reports_past_use(job) or not job.state_reason.endswith("WallLimit"):
        return
    yield Finding(
        Topic.LIMIT,
        f"The jobs of the {scope.owner} may run for {duration(limit.value * 60)} in all, and less is left than the "
        f"time limit of the job ({duration(requirements(job).seconds)}).",
        "It can start when earlier use decays or is reset, or when an administrator raises the limit.",
        "A shorter time limit needs less.",
        Remedy.ADMINISTRATOR,
        (scope.blocker,),
    )


def _reports_past_use(job: Job) -> bool:
    limit = parse_limit(job.state_reason)
    return limit is not None and limit.measure is Measure.MINUTES and limit.scope is Scope.GROUP


def _minutes_wanted(job: Job, name: str) -> int:
    seconds = requirements(job).seconds
    return requested(job, name) * (seconds // 60) if seconds < NO_TIME_LIMIT else 0


def _minutes_left(job: Job, now: float) -> int:
    left = job.end_time.whole - now
    return int(left // 60) if 0 < left < NO_TIME_LIMIT else 0


def _noun(name: str) -> str:
    return plain(amount_noun(name), 60).removesuffix("s")
