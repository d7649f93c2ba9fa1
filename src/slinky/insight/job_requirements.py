# SPDX-License-Identifier: Apache-2.0
"""What a job needs on each of its nodes, and whether a node has it. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

from slinky.insight.feature_expression import satisfies
from slinky.insight.queue_snapshot import host_names
from slinky.insight.tres import GresKind, parse_gres, parse_tres
from slinky.slurm.model.array_tasks import count_tasks
from slinky.slurm.model.views import Host, Job

#: The limit of a job without one, in seconds: a year.
NO_TIME_LIMIT = 365 * 86400
#: A constraint whose missing features can be named one by one.
_SIMPLE_CONSTRAINT = re.compile(r"[\w.\-]+(?:[&,][\w.\-]+)*\Z")


@dataclass(frozen=True, slots=True)
class JobRequirements:
    """The needs of a job; memory is in megabytes."""

    nodes: int = 1
    cpus: int = 1
    memory: int = 0
    gres: Mapping[GresKind, int] = field(default_factory=dict)
    exclusive: bool = False
    seconds: int = NO_TIME_LIMIT


@dataclass(frozen=True, slots=True)
class HostResources:
    """What a node has, or has free; memory is in megabytes."""

    cpus: int
    memory: int
    gres: Mapping[GresKind, int]

    def shortages(self, need: JobRequirements) -> list[str]:
        """What is missing for one node of a job, in words; empty if the node suffices."""
        missing = []
        if self.cpus < need.cpus:
            missing.append(f"{need.cpus} CPUs ({self.cpus})")
        if self.memory < need.memory:
            missing.append(f"{need.memory} MB of memory ({self.memory})")
        for kind, count in need.gres.items():
            has = gres_count(self.gres, kind)
            if has < count:
                missing.append(f"{count} {':'.join(filter(None, kind))} ({has})")
        return missing


def requirements(job: Job, *, allocated: bool = False) -> JobRequirements:
    """The needs of a job on each of its nodes, from what it requested or, for a running job, what it has."""
    texts = (job.tres_alloc_str, job.tres_req_str) if allocated else (job.tres_req_str, job.tres_alloc_str)
    total = parse_tres(texts[0] or texts[1])
    nodes = max(job.node_count.whole, total.nodes, 1)
    memory = total.memory_bytes // 2**20
    gres = {kind: ceil(count / nodes) for kind, count in total.gres.items() if count}
    return JobRequirements(
        nodes=nodes,
        cpus=max(ceil((total.cpus or job.cpus.whole) / nodes), 1),
        memory=job.memory_per_node.whole or ceil(memory / nodes),
        gres=gres,
        exclusive="none" in job.shared,
        seconds=time_limit(job),
    )


def time_limit(job: Job) -> int:
    """The time limit of a job in seconds; a job without one counts as a year."""
    minutes = job.time_limit.value
    return NO_TIME_LIMIT if minutes is None or minutes > NO_TIME_LIMIT / 60 else int(minutes * 60)


def capacity(host: Host) -> HostResources:
    """Everything that a node has for jobs."""
    return HostResources(
        host.effective_cpus or host.cpus, max(host.real_memory - host.specialized_memory, 0), parse_gres(host.gres)
    )


def free(host: Host) -> HostResources:
    """What no job uses on a node now."""
    whole, used = capacity(host), parse_gres(host.gres_used)
    return HostResources(
        max(whole.cpus - host.alloc_cpus, 0),
        max(whole.memory - host.alloc_memory, 0),
        {kind: max(count - used.get(kind, 0), 0) for kind, count in whole.gres.items()},
    )


def gres_count(gres: Mapping[GresKind, int], kind: GresKind) -> int:
    """The devices of a kind; without a type, those of all types."""
    name, type_ = kind
    return gres.get(kind, 0) if type_ else sum(count for (other, _), count in gres.items() if other == name)


def missing_features(job: Job, host: Host) -> tuple[str, ...]:
    """The features that a node lacks; a constraint with alternatives counts as one."""
    have = {*host.features, *host.active_features}
    if not job.features or satisfies(have, job.features):
        return ()
    if not _SIMPLE_CONSTRAINT.match(job.features):
        return (job.features,)
    return tuple(name for name in re.split("[&,]", job.features) if name not in have)


def excluded_hosts(job: Job) -> frozenset[str]:
    """The nodes that a job excludes."""
    return frozenset(host_names(job.excluded_nodes)) if job.excluded_nodes else frozenset()


def pending_tasks(job: Job) -> int:
    """How many starts a pending record stands for: the tasks of an array that wait, else 1."""
    return 1 if job.array_task_id.set else max(count_tasks(job.array_task_string), 1)
