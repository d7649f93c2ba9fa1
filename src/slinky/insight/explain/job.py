# SPDX-License-Identifier: Apache-2.0
"""Explains a job: what it waits for, everything else that also keeps it waiting, its rank, the next step. Pure."""

from collections.abc import Callable, Iterator

from slinky.insight import pending_reasons
from slinky.insight.explain.explanation import Finding, QueueExplanation, Topic, topic_of
from slinky.insight.explain.limit_checks import check_limits
from slinky.insight.explain.priority import queue_rank
from slinky.insight.explain.request_checks import (
    check_access,
    check_array,
    check_begin_time,
    check_dependency,
    check_hold,
    check_partition,
    state_word,
)
from slinky.insight.explain.resource_checks import (
    check_features,
    check_licenses,
    check_nodes,
    check_priority,
    check_reservation,
)
from slinky.insight.explain.topology_check import check_topology
from slinky.insight.job_requirements import pending_tasks
from slinky.insight.plain_text import counted, duration, plain
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.slurm.model.views import Job

#: Every check, in the order in which a person would remove the obstacles.
CHECKS: tuple[Callable[[Job, QueueSnapshot], Iterator[Finding]], ...] = (
    check_hold,
    check_dependency,
    check_begin_time,
    check_partition,
    check_access,
    check_features,
    check_reservation,
    check_limits,
    check_array,
    check_licenses,
    check_nodes,
    check_topology,
    check_priority,
)

#: A reservation of others is one of the causes that Slurm reports as unavailable nodes, and an account that the
#: partition denies is one of the causes that it reports as the configuration of the partition.
_ALSO_ANSWERED_BY = {Topic.NODES: (Topic.RESERVATION,), Topic.PARTITION: (Topic.ACCESS,)}


def explain_job(job: Job, snapshot: QueueSnapshot) -> QueueExplanation:
    """Why a job is in its state; for a pending job, what it waits for."""
    components = _components(job, snapshot)
    if not any(component.state.pending for component in components):
        return _explain_started(job, snapshot)
    blocked = [component for component in components if component.state.pending]
    findings: list[Finding] = []
    for component in blocked:
        findings += (finding for finding in _findings(component, snapshot) if finding not in findings)
    notes = [*_component_note(components), *_array_note(job, snapshot)]
    return QueueExplanation(
        subject=subject(job),
        state="pending",
        reason=plain(job.state_reason or "None"),
        findings=tuple(findings),
        rank=queue_rank(job, snapshot) if snapshot.is_eligible(job) else None,
        notes=tuple(notes),
        unknown=snapshot.unknown,
    )


def subject(job: Job) -> str:
    """The job by id, name and owner."""
    name = f" ({plain(job.name, 60)})" if job.name else ""
    owner = f" of {plain(job.user_name, 40)}" if job.user_name else ""
    array, task = job.array_job_id.whole, job.array_task_id
    number = f"{array}_{task.whole}" if array and task.set else str(job.job_id)
    return f"Job {number}{name}{owner}"


def _findings(job: Job, snapshot: QueueSnapshot) -> list[Finding]:
    """What keeps the job from starting: first what Slurm reports, then what else is true."""
    found = [finding for check in CHECKS for finding in check(job, snapshot)]
    reported = topic_of(job.state_reason.partition(",")[0].strip())
    topics = {reported, *_ALSO_ANSWERED_BY.get(reported, ())}
    first = [finding for finding in found if finding.topic in topics]
    others = [finding for finding in found if finding.topic not in topics]
    if first and _is_refined(job):
        return [*first, *_described(job), *others]
    return [*first, *others] if first else [_reported(job), *others]


def _is_refined(job: Job) -> bool:
    return bool(job.state_description) and topic_of(job.state_reason) is not Topic.HOLD


def _described(job: Job) -> list[Finding]:
    """What slurmctld adds to its reason."""
    return [Finding(Topic.OTHER, f"Slurm adds: {plain(job.state_description)}.")]


def _reported(job: Job) -> Finding:
    """Slurm's own reason, with the object that it is about."""
    reason = pending_reasons.explain(job.state_reason, job.state_description)
    named = str(getattr(job, reason.blocking_field)) if reason.blocking_field else ""
    blockers = (f"{reason.blocking_field} {plain(named, 80)}",) if named else ()
    about = f" ({reason.blocking_field}: {plain(named, 80)})" if named else ""
    sentence = plain(reason.sentence, 400).removesuffix(".")
    adds = f" Slurm adds: {plain(job.state_description)}." if job.state_description else ""
    return Finding(
        topic_of(job.state_reason),
        f"{sentence}{about}.{adds}",
        step=reason.step,
        remedy=reason.remedy,
        blockers=blockers,
    )


def _components(job: Job, snapshot: QueueSnapshot) -> list[Job]:
    """The components of a heterogeneous job, as which a gang of different pods is submitted; else the job."""
    leader = job.het_job_id.whole
    if not leader:
        return [job]
    members = [other for other in snapshot.jobs if other.het_job_id.whole == leader]
    return sorted(members, key=lambda other: other.het_job_offset.whole) or [job]


def _component_note(components: list[Job]) -> Iterator[str]:
    if len(components) > 1:
        numbers = ", ".join(str(component.job_id) for component in components[:8])
        more = f" and {len(components) - 8} more" if len(components) > 8 else ""
        yield f"It is a gang of {len(components)} components (jobs {numbers}{more}) that start together or not at all."


def _array_note(job: Job, snapshot: QueueSnapshot) -> Iterator[str]:
    array = job.array_job_id.whole
    if not array:
        return
    tasks = [other for other in snapshot.jobs if other.array_job_id.whole == array]
    waiting = sum(pending_tasks(task) for task in tasks if task.state.pending)
    running = sum(1 for task in tasks if task.state.running)
    ended = sum(1 for task in tasks if task.state.ended)
    yield f"Of the array {array}, {counted(waiting, 'task')} wait, {running} run and {ended} have ended."


def _explain_started(job: Job, snapshot: QueueSnapshot) -> QueueExplanation:
    notes = []
    if job.state.holds_nodes:
        since, left = snapshot.now - job.start_time.whole, job.end_time.whole - snapshot.now
        notes.append(f"It has been on {plain(job.nodes, 120) or 'its nodes'} for {duration(since)}.")
        if 0 < left < 365 * 86400:
            notes.append(f"It ends in {duration(left)} at the latest, by its time limit.")
    elif job.state.ended:
        code = job.exit_code.code
        notes.append(f"It ended {duration(snapshot.now - job.end_time.whole)} ago with exit code {code}.")
        if job.state_reason not in ("", "None"):
            notes.append(str(pending_reasons.explain(plain(job.state_reason), job.state_description)))
    return QueueExplanation(subject(job), state_word(job.state), plain(job.state_reason), notes=tuple(notes))
