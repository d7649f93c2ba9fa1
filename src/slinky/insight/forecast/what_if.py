# SPDX-License-Identifier: Apache-2.0
"""What would start earlier or later if the cluster or a job were different. Pure.

A change is applied to a copy of the snapshot, both are forecast, and the late ends of the ranges are compared.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from msgspec import structs

from slinky.insight.explain.priority import conf_number
from slinky.insight.forecast.simulation import simulate
from slinky.insight.job_requirements import time_limit
from slinky.insight.limit_reasons import RESOURCES, Measure, parse_limit
from slinky.insight.plain_text import counted, listed, plain
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.slurm.hostlist import natural_sort_key
from slinky.slurm.model.values import number
from slinky.slurm.model.views import Host, Job

#: Nodes that a what-if adds at most.
MAX_ADDED = 10_000
TIME_LIMIT = RESOURCES["wallduration"]


class WhatIfError(ValueError):
    """A change that cannot be applied to this cluster; the text says why."""


@dataclass(frozen=True, slots=True)
class QueueChange:
    """What would be different. `added` counts further nodes by partition or by a node that they are like."""

    added: tuple[tuple[str, int], ...] = ()
    drained: tuple[str, ...] = ()
    job_id: int | None = None
    qos: str = ""
    partition: str = ""
    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Shift:
    """How the start of one job changes; `before` and `after` are None if it is not known when, or if, it starts."""

    job_id: int
    name: str
    user: str
    before: int | None
    after: int | None

    @property
    def seconds(self) -> int:
        """By how much the start changes; negative is earlier. 0 if only one of the starts is known."""
        return self.after - self.before if self.before is not None and self.after is not None else 0


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The jobs whose starts change, largest change first, and how many do not."""

    earlier: tuple[Shift, ...] = ()
    later: tuple[Shift, ...] = ()
    unchanged: int = 0
    notes: tuple[str, ...] = field(default=())


def what_if(snapshot: QueueSnapshot, change: QueueChange) -> WhatIf:
    """Compare the queue as it is with the queue after a change. Raises `WhatIfError`."""
    changed, notes = apply_change(snapshot, change)
    before, after = simulate(snapshot), simulate(changed)
    shifts = [
        Shift(
            job.job_id, plain(job.name, 60), plain(job.user_name, 40), before[job.job_id].begin, after[job.job_id].begin
        )
        for job in snapshot.pending
    ]
    earlier = [s for s in shifts if s.seconds < 0 or (s.before is None and s.after is not None)]
    later = [s for s in shifts if s.seconds > 0 or (s.after is None and s.before is not None)]
    return WhatIf(
        tuple(sorted(earlier, key=lambda s: s.seconds)),
        tuple(sorted(later, key=lambda s: -s.seconds)),
        len(shifts) - len(earlier) - len(later),
        notes,
    )


def apply_change(snapshot: QueueSnapshot, change: QueueChange) -> tuple[QueueSnapshot, tuple[str, ...]]:
    """The snapshot after a change, and what is assumed about it. Raises `WhatIfError`."""
    hosts = {host.name: host for host in snapshot.hosts}
    notes: list[str] = []
    for name in change.drained:
        if name not in hosts:
            raise WhatIfError(f"there is no node {plain(name, 80)}")
        hosts[name] = structs.replace(hosts[name], words=(*hosts[name].words, "DRAIN"))
    for like, count in change.added:
        new, model = _new_hosts(snapshot, like, count)
        notes.append(f"Added {counted(count, 'node')} like {plain(model, 80)}.")
        hosts.update((host.name, host) for host in new)
    jobs = list(snapshot.jobs)
    if change.job_id is not None:
        jobs = [_changed_job(job, change, snapshot) if job.job_id == change.job_id else job for job in jobs]
        if change.qos:
            notes.append("The priority with the other QOS is computed from the weights of slurm.conf.")
        if any(job.job_id == change.job_id and _is_removed(job, change) for job in snapshot.jobs):
            notes.append("The job no longer waits for its present reason; limits that hold then are not simulated.")
    return replace(snapshot, hosts=tuple(hosts.values()), jobs=tuple(jobs)), tuple(notes)


def _new_hosts(snapshot: QueueSnapshot, like: str, count: int) -> tuple[Iterable[Host], str]:
    if not 0 < count <= MAX_ADDED:
        raise WhatIfError(f"{count} is not a number of nodes between 1 and {MAX_ADDED}")
    members = [host for host in snapshot.hosts if like in (host.name, *host.partitions, *host.features)]
    model = min(members, key=lambda host: natural_sort_key(host.name), default=None)
    if model is None:
        known = listed(sorted(snapshot.partitions_by_name))
        raise WhatIfError(f"{plain(like, 80)} is no node, feature or partition with nodes; partitions: {known}")
    empty = structs.replace(
        model, words=("IDLE",), alloc_cpus=0, alloc_memory=0, gres_used="", tres_used="", reason="", reservation=""
    )
    # A name that no node has: angle brackets are not allowed in Slurm.
    return [structs.replace(empty, name=f"<{like}+{index}>") for index in range(1, count + 1)], model.name


def _changed_job(job: Job, change: QueueChange, snapshot: QueueSnapshot) -> Job:
    if not job.state.pending:
        raise WhatIfError(f"job {job.job_id} is not pending")
    fields: dict[str, object] = {}
    if change.seconds is not None:
        fields["time_limit"] = number(max(change.seconds // 60, 1))
    if change.partition:
        if change.partition not in snapshot.partitions_by_name:
            raise WhatIfError(f"there is no partition {plain(change.partition, 80)}")
        fields["partition"] = change.partition
    if change.qos:
        fields |= {"qos": change.qos, "priority": number(_priority_with_qos(job, change.qos, snapshot))}
    if _is_removed(job, change):
        fields |= {"state_reason": "None", "state_description": ""}
    return structs.replace(job, **fields)


def _is_removed(job: Job, change: QueueChange) -> bool:
    """Whether slurmctld gave the reason for something that the change replaces; the new value may have its own."""
    reason, limit = job.state_reason, parse_limit(job.state_reason)
    is_shorter = change.seconds is not None and change.seconds < time_limit(job)
    if limit is not None:
        is_of_time = limit.resource == TIME_LIMIT or limit.measure is not Measure.AMOUNT
        return (bool(change.qos) and limit.of_qos) or (is_shorter and is_of_time)
    return (
        (bool(change.qos) and reason in ("QOSNotAllowed", "InvalidQOS"))
        or (is_shorter and reason == "PartitionTimeLimit")
        or (bool(change.partition) and reason in _OF_PARTITION)
    )


#: Reasons that another partition removes.
_OF_PARTITION = frozenset(
    ["PartitionDown", "PartitionInactive", "PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit",
     "MaxMemPerLimit", "AccountNotAllowed", "QOSNotAllowed", "BadConstraints"]
)  # fmt: skip


def _priority_with_qos(job: Job, name: str, snapshot: QueueSnapshot) -> int:
    priorities = {qos.name.lower(): qos.priority.whole for qos in snapshot.qos}
    if name.lower() not in priorities:
        known = f"; known: {listed(sorted(priorities))}" if priorities else ""
        raise WhatIfError(f"there is no QOS {plain(name, 80)}{known}")
    step = conf_number(snapshot, "priorityweightqos") / (max(priorities.values()) or 1)
    return max(int(job.priority.whole + (priorities[name.lower()] - priorities.get(job.qos.lower(), 0)) * step), 1)
