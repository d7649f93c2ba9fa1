# SPDX-License-Identifier: Apache-2.0
"""Checks of what a job itself says: hold, begin time, dependencies, array limit, partition, access. Pure.

Each check returns what keeps the job from starting; Slurm reports only one reason although several may hold.
"""

import re
from collections.abc import Iterator

from slinky.insight.explain.explanation import Finding, Topic
from slinky.insight.job_pods import pods_of_job
from slinky.insight.job_requirements import NO_TIME_LIMIT, requirements
from slinky.insight.pending_reasons import Remedy
from slinky.insight.plain_text import counted, duration, listed, megabytes, plain
from slinky.insight.queue_snapshot import QueueSnapshot, names
from slinky.slurm.model.partitions import Partition
from slinky.slurm.model.states import JobState
from slinky.slurm.model.views import Job

#: One condition of a dependency: `afterok:12(unfulfilled)`, `singleton(unfulfilled)`.
_DEPENDENCY = re.compile(
    r"(?P<kind>[a-z]+)(?::(?P<job>\d{1,10})(?:_(?P<task>\d{1,10}|\*))?)?(?:\((?P<state>[a-z]+)\))?"
)


def check_hold(job: Job, snapshot: QueueSnapshot) -> Iterator[Finding]:
    """A job that is held."""
    if not job.hold and job.priority.value != 0 and not job.state_reason.startswith(("JobHeld", "JobHold")):
        return
    release = f"`scontrol release {job.job_id}`"
    if not job.hold and job.state_reason == "BadConstraints":
        sentence = "Slurm holds the job, because no node can ever run it as it is."
        step = f"After the change run {release}."
        yield Finding(Topic.HOLD, sentence, "It can start when it is released.", step, Remedy.USER)
        return
    # The bridge names the pods of its jobs in this field, which says nothing about a hold.
    written = "" if pods_of_job(job) else job.admin_comment
    comment = f" An administrator wrote: {plain(written)}." if written else ""
    if job.state_reason == "JobHeldAdmin":
        sentence, who, remedy = "An administrator holds the job.", "the administrator releases it", Remedy.ADMINISTRATOR
        step = f"Ask an administrator to run {release}."
    elif job.state_reason == "JobHoldMaxRequeue" or job.restart_cnt:
        runs = counted(job.restart_cnt, "time")
        sentence, who, remedy = f"The job is held after it was requeued {runs}.", "it is released", Remedy.USER
        step = f"Find out why it failed (`sacct -D -j {job.job_id}`), then run {release}."
    else:
        sentence, who, remedy = "The job is held by its user.", "it is released", Remedy.USER
        step = f"Run {release}."
    if job.state_description:
        sentence += f" Slurm adds: {plain(job.state_description)}."
    yield Finding(Topic.HOLD, sentence + comment, f"It can start when {who}.", step, remedy)


def check_begin_time(job: Job, snapshot: QueueSnapshot) -> Iterator[Finding]:
    """A job that may not start before a time."""
    wait = job.eligible_time.whole - snapshot.now
    if wait <= 0:
        return
    requeued = f", because it was requeued {counted(job.restart_cnt, 'time')}" if job.restart_cnt else ""
    sentence = f"The job may not start before its begin time in {duration(wait)}{requeued}."
    step = f"To start earlier, run `scontrol update JobId={job.job_id} StartTime=now`."
    yield Finding(Topic.BEGIN_TIME, sentence, f"It can start in {duration(wait)}.", step)


def check_dependency(job: Job, snapshot: QueueSnapshot) -> Iterator[Finding]:
    """A job that depends on others: each of them with its state."""
    if not job.dependency:
        return
    parts, blockers = [], []
    for match in _DEPENDENCY.finditer(job.dependency[:2000]):
        kind, number, state = match["kind"], match["job"], match["state"]
        if state == "fulfilled":
            continue
        if number is None:
            parts.append(f"{kind}: an earlier job of the same name and user")
            continue
        blockers.append(f"job {number}")
        parts.append(f"{kind} of job {number}, which {_dependency_state(int(number), snapshot)}")
    never = job.state_reason == "DependencyNeverSatisfied"
    conditions = "; ".join(parts[:5]) or plain(job.dependency)
    if len(parts) > 5:
        conditions += f"; and {len(parts) - 5} more"
    sentence = f"The job depends on {conditions}."
    if never:
        step = f"Cancel it with `scancel {job.job_id}`, or run `scontrol update JobId={job.job_id} Dependency=`."
        sentence += " This can no longer come true."
        yield Finding(Topic.DEPENDENCY, sentence, "", step, Remedy.USER, tuple(blockers))
        return
    cure = "It can start when the dependency is satisfied."
    yield Finding(Topic.DEPENDENCY, sentence, cure, blockers=tuple(blockers))


def _dependency_state(number: int, snapshot: QueueSnapshot) -> str:
    job = snapshot.jobs_by_id.get(number)
    if job is not None:
        owner = f" (of {plain(job.user_name, 40)})" if job.user_name else ""
        return f"is {state_word(job.state)}{owner}" + _expected_end(job, snapshot)
    record = next((record for record in snapshot.history if record.job_id == number), None)
    if record is not None:
        return f"ended as {state_word(record.state)}"
    return "slurmctld no longer knows"


def _expected_end(job: Job, snapshot: QueueSnapshot) -> str:
    left = job.end_time.whole - snapshot.now
    return f" and ends within {duration(left)}" if job.state.running and 0 < left < NO_TIME_LIMIT else ""


def state_word(state: JobState) -> str:
    """The base state in lower case, with the flags that matter to a person."""
    shown = [word for word in ("COMPLETING", "CONFIGURING", "REQUEUED") if word in state.flags]
    return plain("+".join([state.base or str(state), *shown]).lower(), 60)


def check_array(job: Job, snapshot: QueueSnapshot) -> Iterator[Finding]:
    """An array of which as many tasks run as it allows."""
    allowed, array = job.array_max_tasks.whole, job.array_job_id.whole
    if not allowed or not array:
        return
    running = [other.job_id for other in snapshot.running if other.array_job_id.whole == array]
    if len(running) < allowed:
        return
    yield Finding(
        Topic.ARRAY,
        f"{counted(len(running), 'task')} of the array {'runs' if len(running) == 1 else 'run'}, and the array allows "
        f"{allowed} at the same time.",
        "The next task starts when one of them ends.",
        f"To run more at once, run `scontrol update JobId={array} ArrayTaskThrottle={allowed * 2}`.",
        blockers=tuple(f"job {number}" for number in running[:20]),
    )


def check_partition(job: Job, snapshot: QueueSnapshot) -> Iterator[Finding]:
    """Partitions that are closed, too small, or whose limits the job exceeds; one partition that fits suffices."""
    found = [list(_partition_findings(job, name, snapshot)) for name in names(job.partition)]
    if found and all(found):
        for findings in found:
            yield from findings


def _partition_findings(job: Job, name: str, snapshot: QueueSnapshot) -> Iterator[Finding]:
    partition, shown = snapshot.partitions_by_name.get(name), plain(name, 80)
    blockers = (f"partition {shown}",)
    if partition is None:
        if snapshot.partitions:
            known = listed(sorted(snapshot.partitions_by_name))
            yield Finding(
                Topic.PARTITION,
                f"There is no partition {shown}.",
                "",
                f"Use one of {known}.",
                Remedy.USER,
                blockers,
            )
        return
    if not partition.up:
        state = plain("+".join(partition.partition.state).lower(), 40) or "not up"
        yield Finding(
            Topic.PARTITION,
            f"The partition {shown} is {state}.",
            "It can start when the partition is up.",
            f"Ask an administrator, who can run `scontrol update PartitionName={shown} State=UP`.",
            Remedy.ADMINISTRATOR,
            blockers,
        )
    yield from _size_findings(job, partition, snapshot)


def _size_findings(job: Job, partition: Partition, snapshot: QueueSnapshot) -> Iterator[Finding]:
    need, shown = requirements(job), plain(partition.name, 80)
    blockers = (f"partition {shown}",)
    longest, largest = partition.maximums.time.value, partition.maximums.nodes.value
    if longest is not None and need.seconds > longest * 60:
        yield Finding(
            Topic.PARTITION,
            f"The time limit of {duration(need.seconds)} exceeds the {duration(longest * 60)} that the partition "
            f"{shown} allows.",
            "",
            f"Run `scontrol update JobId={job.job_id} TimeLimit={int(longest)}`, or use another partition.",
            Remedy.USER,
            blockers,
        )
    if largest is not None and need.nodes > largest:
        yield Finding(
            Topic.PARTITION,
            f"The job requests {counted(need.nodes, 'node')}; the partition {shown} allows at most {int(largest)}.",
            "",
            "Request fewer nodes, or use another partition.",
            Remedy.USER,
            blockers,
        )
    if need.nodes < partition.minimums.nodes:
        yield Finding(
            Topic.PARTITION,
            f"The job requests {counted(need.nodes, 'node')}; the partition {shown} requires at least "
            f"{partition.minimums.nodes}.",
            "",
            "Request more nodes, or use another partition.",
            Remedy.USER,
            blockers,
        )
    yield from _memory_finding(job, partition)
    members = snapshot.hosts_by_partition.get(partition.name, ())
    if snapshot.hosts and need.nodes > len(members):
        yield Finding(
            Topic.PARTITION,
            f"The job requests {counted(need.nodes, 'node')}, and the partition {shown} has "
            f"{len(members) if members else 'none'}.",
            "It can start when the partition has enough nodes.",
            "Scale the NodeSet of the partition up, or request fewer nodes.",
            Remedy.WORKERS,
            blockers,
        )


def _memory_finding(job: Job, partition: Partition) -> Iterator[Finding]:
    need, maximums, shown = requirements(job), partition.maximums, plain(partition.name, 80)
    limits = (
        (need.memory, maximums.partition_memory_per_node.value, "node"),
        (need.memory // max(need.cpus, 1), maximums.partition_memory_per_cpu.value, "CPU"),
    )
    for wanted, allowed, noun in limits:
        if allowed and wanted > allowed:
            yield Finding(
                Topic.PARTITION,
                f"The job requests {megabytes(wanted)} of memory per {noun}; the partition {shown} allows at most "
                f"{megabytes(allowed)}.",
                "",
                "Request less memory, or use another partition.",
                Remedy.USER,
                (f"partition {shown}",),
            )


def check_access(job: Job, snapshot: QueueSnapshot) -> Iterator[Finding]:
    """An account or QOS that none of the job's partitions allows."""
    partitions = [
        snapshot.partitions_by_name[name] for name in names(job.partition) if name in snapshot.partitions_by_name
    ]
    found = [list(_access_findings(job, partition)) for partition in partitions]
    if found and all(found):
        for findings in found:
            yield from findings
    yield from _association_findings(job, snapshot)


def _association_findings(job: Job, snapshot: QueueSnapshot) -> Iterator[Finding]:
    """A QOS or an account that the user may not use, if slurmctld reports it."""
    mine = [entry for entry in snapshot.associations if entry.user == job.user_name and job.user_name]
    user = plain(job.user_name, 40)
    if job.state_reason == "InvalidQOS":
        choices = sorted({name for entry in mine if entry.account == job.account for name in entry.qos})
        sentence = f"The user {user} in account {plain(job.account, 40)} may not use the QOS {plain(job.qos, 80)}."
        option, blocker = "QOS", f"qos {plain(job.qos, 80)}"
    elif job.state_reason == "InvalidAccount":
        choices = sorted({entry.account for entry in mine} - {job.account})
        sentence = f"The user {user} may not use the account {plain(job.account, 80)}."
        option, blocker = "Account", f"account {plain(job.account, 80)}"
    else:
        return
    change = f"`scontrol update JobId={job.job_id} {option}=NAME`"
    step = f"Run {change} with one of {listed(choices)}." if choices else f"Run {change} with another one."
    yield Finding(Topic.ACCESS, sentence, "", step, Remedy.USER, (blocker,))


def _access_findings(job: Job, partition: Partition) -> Iterator[Finding]:
    rules = (
        ("account", job.account, partition.accounts.allowed, partition.accounts.deny),
        ("QOS", job.qos, partition.qos.allowed, partition.qos.deny),
    )
    for noun, value, allowed, denied in rules:
        choices, name = names(allowed), value.lower()
        is_denied = name in names(denied.lower())
        is_refused = is_denied or (bool(choices) and choices != ("ALL",) and name not in names(allowed.lower()))
        if value and is_refused:
            step = f"Use one of {listed(choices)}, or another partition." if choices else "Use another partition."
            yield Finding(
                Topic.ACCESS,
                f"The partition {plain(partition.name, 80)} does not allow the {noun} {plain(value, 80)}.",
                "",
                step,
                Remedy.USER,
                (f"partition {plain(partition.name, 80)}",),
            )
