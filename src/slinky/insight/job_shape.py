# SPDX-License-Identifier: Apache-2.0
"""The shape of a pending job: how many nodes of which size it needs, in which partitions, and how often. Pure.

An array is one job with a number of tasks, however many they are. slurmrestd does not show whether a pending job is
exclusive; such a job counts with what it requests, and its node shows no free CPU once it runs.
"""

import math
import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from functools import lru_cache

from slinky.insight.limit_reasons import Scope, parse_limit
from slinky.insight.pending_reasons import REASONS, Remedy, explain
from slinky.insight.tres import GresKind, parse_tres
from slinky.slurm import Job
from slinky.slurm.model.array_tasks import SHORTENED, count_tasks

MEGABYTE = 2**20
_TEXTS_CACHED = 4096
_GRES_REQUEST = re.compile(r"(?:gres/)?(?P<name>[^:=,()]+)(?::(?P<type>[^:=,()]+))?[:=](?P<count>\d{1,12})\Z")
#: How slurmctld marks a dependency that is not satisfied yet.
UNFULFILLED = "(unfulfilled)"
#: Reasons of a job that slurmctld has not evaluated since it was released, or since its begin time has come.
UNEVALUATED = frozenset({"", "None"})
_LIMITED = "Slurm has not evaluated the job yet; other jobs of its user, account or QOS wait at a limit."


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """What a job needs on one node; `whole` asks for a node without other jobs."""

    cpus: int = 1
    memory_bytes: int = 0
    gres: tuple[tuple[GresKind, int], ...] = ()
    whole: bool = False


@dataclass(frozen=True, slots=True)
class JobShape:
    """What a job needs altogether. `max_nodes` is 0 if the job sets no maximum.

    `gres_per_node` counts on each node; `gres` is the total of requests per job and per task.
    """

    partitions: tuple[str, ...]
    min_nodes: int = 1
    max_nodes: int = 0
    cpus: int = 1
    cpus_per_task: int = 1
    min_cpus_per_node: int = 1
    tasks_per_node: int = 0
    memory_per_node: int = 0
    memory_per_cpu: int = 0
    gres_per_node: tuple[tuple[GresKind, int], ...] = ()
    gres: tuple[tuple[GresKind, int], ...] = ()
    features: str = ""
    exclusive: bool = False
    segment: int = 0

    def per_node(self, nodes: int) -> NodeRequest:
        """What each node must have if the job gets this many nodes."""
        tasks = -(-self.cpus // (self.cpus_per_task * nodes))
        cpus = max(self.min_cpus_per_node, tasks * self.cpus_per_task)
        gres = self.gres_per_node
        if self.gres:
            counts = dict(gres)
            for kind, count in self.gres:
                counts[kind] = counts.get(kind, 0) + -(-count // nodes)
            gres = _sorted(counts)
        return NodeRequest(cpus, self.memory_per_node or self.memory_per_cpu * cpus, gres, self.exclusive)

    @property
    def least_nodes(self) -> int:
        """The least number of nodes that the job's own limits allow."""
        if not self.tasks_per_node:
            return self.min_nodes
        tasks = math.ceil(self.cpus / self.cpus_per_task)
        return max(self.min_nodes, math.ceil(tasks / self.tasks_per_node))


@dataclass(frozen=True, slots=True)
class PendingDemand:
    """A pending job, an array, or a heterogeneous job, whose shapes must all be satisfied at the same time.

    `tasks` is how many of them could run at the same time. `expected_start` is the time for which Slurm has planned
    the job, in seconds since 1970, or 0. `obstacle` says why more workers do not start the job; empty if they do.
    """

    job_id: int
    shapes: tuple[JobShape, ...]
    tasks: int = 1
    priority: int = 0
    expected_start: int = 0
    account: str = ""
    obstacle: str = ""


#: Whose use counts against a limit: user, account and QOS, of which those that do not matter are empty.
LimitedGroup = tuple[str, str, str]


def job_demand(
    job: Job,
    *,
    now: float,
    lead_seconds: float = 0.0,
    tasks: int | None = None,
    limited: Set[LimitedGroup] = frozenset(),
) -> PendingDemand:
    """The demand of one pending job; `tasks` overrides the number of tasks of an array.

    A job that begins within `lead_seconds` counts already, so that its workers are there in time. `limited` has the
    groups of jobs that wait at a limit; see `limited_groups`.
    """
    return PendingDemand(
        job_id=job.job_id,
        shapes=(job_shape(job),),
        tasks=array_tasks(job) if tasks is None else tasks,
        priority=job.priority.whole,
        expected_start=job.start_time.whole,
        account=job.account,
        obstacle=find_obstacle(job, now=now, lead_seconds=lead_seconds, limited=limited),
    )


def job_shape(job: Job) -> JobShape:
    """The shape of a job as slurmctld reports it."""
    requested = parse_tres(job.tres_req_str)
    min_nodes = max(1, requested.nodes or job.node_count.whole)
    cpus_per_task = max(1, job.cpus_per_task.whole)
    per_task = _scaled(parse_gres_request(job.tres_per_task), math.ceil(max(1, job.tasks.whole)))
    return JobShape(
        partitions=tuple(name for name in job.partition.split(",") if name),
        min_nodes=min_nodes,
        max_nodes=job.max_nodes.whole,
        cpus=max(min_nodes, requested.cpus, job.cpus.whole),
        cpus_per_task=cpus_per_task,
        min_cpus_per_node=max(1, job.minimum_cpus_per_node.whole),
        tasks_per_node=job.tasks_per_node.whole,
        memory_per_node=job.memory_per_node.whole * MEGABYTE,
        memory_per_cpu=job.memory_per_cpu.whole * MEGABYTE,
        gres_per_node=_sorted(parse_gres_request(job.tres_per_node)),
        gres=_sorted(_merged(parse_gres_request(job.tres_per_job), per_task)),
        features=job.features,
        segment=job.segment_size,
    )


def find_obstacle(job: Job, *, now: float, lead_seconds: float = 0.0, limited: Set[LimitedGroup] = frozenset()) -> str:
    """Why more workers do not start this job; empty if they do.

    Until its next scheduling cycle, slurmctld shows a reason of nodes also for a job with a dependency or a begin time,
    and none for a job that was just released. The latter counts unless it belongs to one of the `limited` groups.
    """
    if obstacle := _own_obstacle(job, now + lead_seconds):
        return obstacle
    if job.state_reason == "BeginTime" and job.eligible_time.whole:
        return ""
    if job.state_reason in UNEVALUATED:
        return "" if limited.isdisjoint(_groups(job)) else _LIMITED
    reason = explain(job.state_reason, job.state_description)
    return "" if reason.remedy is Remedy.WORKERS else str(reason)


def _own_obstacle(job: Job, soon: float) -> str:
    """What the job itself waits for, whatever reason slurmctld shows; empty if it waits for nothing."""
    if job.hold:
        return "The job is held."
    if job.resv_name:
        return f"The job runs only in the reservation {job.resv_name}."
    if job.required_nodes:
        return f"The job runs only on {job.required_nodes}."
    if UNFULFILLED in job.dependency:
        return str(REASONS["Dependency"])
    # A job without a begin time is eligible when it is submitted, on a clock that may be ahead of this one.
    return str(REASONS["BeginTime"]) if job.eligible_time.whole > max(soon, job.submit_time.whole) else ""


def limited_groups(jobs: Iterable[Job]) -> frozenset[LimitedGroup]:
    """The groups of users, accounts and QOS of which a job waits at a limit: other jobs of them will wait there too."""
    groups: set[LimitedGroup] = set()
    for job in jobs:
        limit = parse_limit(job.state_reason)
        if limit is not None and limit.depends_on_other_jobs:
            user = job.user_name if limit.scope is Scope.USER else ""
            account = "" if limit.of_qos and limit.scope is not Scope.ACCOUNT else job.account
            groups.add((user, account, job.qos if limit.of_qos else ""))
    return frozenset(groups)


def _groups(job: Job) -> Iterable[LimitedGroup]:
    """Every group that limits of a QOS or an association may count together with the job."""
    user, account, qos = job.user_name, job.account, job.qos
    return (("", "", qos), (user, "", qos), ("", account, qos), ("", account, ""), (user, account, ""))


def array_tasks(job: Job) -> int:
    """How many tasks a job stands for; 1 if it is no array.

    A throttle (`--array=0-99%4`) limits them. The number is too small if Slurm has shortened the list of tasks; see
    `is_shortened`.
    """
    count = count_tasks(job.array_task_string)
    throttle = job.array_max_tasks.whole
    return max(1, min(count, throttle) if throttle else count)


def is_shortened(job: Job) -> bool:
    """Whether Slurm's text names only some of the array's tasks."""
    return SHORTENED in job.array_task_string


@lru_cache(maxsize=_TEXTS_CACHED)
def parse_gres_request(text: str) -> Mapping[GresKind, int]:
    """The devices in a request such as `gres/gpu:a100:2`, `gres/gpu=1` or `gres/gpu`."""
    counts: dict[GresKind, int] = {}
    for part in text.split(","):
        if not part.strip().startswith("gres/"):
            continue
        match = _GRES_REQUEST.match(part.strip())
        if match:
            kind = match["name"], match["type"] or ""
            counts[kind] = counts.get(kind, 0) + int(match["count"])
        else:
            name, _, kind_name = part.strip().removeprefix("gres/").partition(":")
            counts[name, kind_name] = counts.get((name, kind_name), 0) + 1
    return counts


def _scaled(gres: Mapping[GresKind, int], factor: int) -> Mapping[GresKind, int]:
    return {kind: count * factor for kind, count in gres.items()}


def _merged(first: Mapping[GresKind, int], second: Mapping[GresKind, int]) -> Mapping[GresKind, int]:
    return {kind: first.get(kind, 0) + second.get(kind, 0) for kind in {*first, *second}}


def _sorted(gres: Mapping[GresKind, int]) -> tuple[tuple[GresKind, int], ...]:
    return tuple(sorted(gres.items()))
