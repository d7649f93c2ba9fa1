# SPDX-License-Identifier: Apache-2.0
"""The workers of NodeSets as pools of the demand model, and what a NodeSet without workers would offer. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from types import MappingProxyType

from slinky.api.fields.autoscaling import Autoscaling, AutoscalingStatus, LearnedWorker, PendingPartition
from slinky.api.nodeset import NodeSet
from slinky.insight.demand import Outcome, QueueDemand
from slinky.insight.job_shape import MEGABYTE, PendingDemand
from slinky.insight.tres import parse_gres
from slinky.insight.worker_pool import WorkerPool, WorkerShape, free_workers, host_shape
from slinky.kube.timestamps import age_seconds, unix_seconds
from slinky.kube.views import Node
from slinky.operator.build.worker_description import declared_shape
from slinky.operator.nodeset.autoscaling.decision import (
    MAX_IMPOSSIBLE,
    MAX_RETRY_SECONDS,
    PoolDemand,
    ScalingReason,
    WorkerCounts,
)
from slinky.operator.nodeset.autoscaling.policy import duration
from slinky.operator.nodeset.autoscaling.reservations import missing_workers
from slinky.operator.nodeset.decisions.host_metadata import HostComment
from slinky.operator.nodeset.decisions.placement import node_fit
from slinky.operator.nodeset.decisions.scaling import is_replaced
from slinky.operator.nodeset.workers import Worker
from slinky.slurm import Host, Partition

#: Slurm's word for all nodes in the definition of a partition.
ALL_NODES = "ALL"
#: The memory of workers of which only the CPUs are known: enough for any job.
UNKNOWN_MEMORY = 2**60


def counted_workers(workers: Iterable[Worker]) -> list[Worker]:
    """The workers that count as replicas: not those that are scaled in and only finish their jobs."""
    return [worker for worker in workers if not worker.terminating and is_replaced(worker)]


def worker_counts(
    node_set: NodeSet,
    workers: Sequence[Worker],
    now: datetime,
    refusal: str = "",
    *,
    reserved_from: Mapping[str, float] = MappingProxyType({}),
    nodes: int | None = None,
) -> WorkerCounts:
    """Count the workers of a NodeSet with autoscaling; `nodes` is how many Kubernetes nodes there are for them."""
    policy, status = node_set.autoscaling, node_set.status.autoscaling or AutoscalingStatus()
    replicas, counted = node_set.spec.replicas, counted_workers(workers)
    registered = sum(worker.host is not None for worker in counted)
    limit = duration(policy.scale_out.ready_within) if policy else 0.0
    late = sum(worker.host is None and worker.age > limit for worker in counted)
    grown = status.last_scale_out_time
    missing = max(0, replicas - len(counted)) if grown and age_seconds(grown, now) > limit else 0
    return WorkerCounts(
        replicas,
        starting=max(0, replicas - registered),
        overdue=min(replicas, late + missing),
        idle_seconds=tuple(idle_seconds(worker, now) for worker in counted if worker.removable),
        refusal=refusal,
        reserved=max(0, missing_workers(node_set, workers, reserved_from, now) - max(0, replicas - len(counted))),
        nodes=nodes,
    )


def nodes_for_workers(
    node_set: NodeSet, nodes: Iterable[Node], own: Collection[str], taken: Collection[str]
) -> set[str]:
    """The Kubernetes nodes that have a worker of the NodeSet or could get one: `taken` have one of another NodeSet."""
    return {
        node.metadata.name
        for node in nodes
        if node.metadata.name in own
        or (node.metadata.name not in taken and not node.spec.unschedulable and node_fit(node_set, node).start)
    }


def idle_seconds(worker: Worker, now: datetime) -> float:
    """For how long no job has used an idle worker."""
    busy_at = worker.host.last_busy.whole if worker.host else 0
    since_job = max(0.0, now.timestamp() - busy_at) if busy_at else worker.ready_seconds
    return min(since_job, worker.ready_seconds)


def build_pool(
    node_set: NodeSet,
    workers: Sequence[Worker],
    partitions: Mapping[str, Partition],
    now: datetime,
    *,
    held: Mapping[str, frozenset[str]] | None = None,
    nodes: int | None = None,
    by_block: bool = False,
) -> WorkerPool:
    """The pool of a NodeSet. Only one with autoscaling grows, and not while it waits after a failure.

    `held` has the hosts of running jobs by account. With `by_block`, workers of different blocks are kept apart.
    """
    policy, status = node_set.autoscaling, node_set.status.autoscaling or AutoscalingStatus()
    counted = counted_workers(workers)
    hosts = [worker.host for worker in counted if worker.host is not None]
    counts = worker_counts(node_set, workers, now, nodes=nodes)
    free_hosts = [worker.host for worker in counted if worker.host is not None and not worker.reserved]
    size = len(counted) if node_set.per_node else node_set.spec.replicas
    shape = worker_shape(node_set, hosts, status.worker)
    return WorkerPool(
        node_set.metadata.name,
        frozenset(partitions_of(node_set, hosts, partitions, status.worker, shape)),
        shape,
        free_workers(
            free_hosts, 0 if node_set.per_node else counts.starting - counts.overdue, shape, by_block=by_block
        ),
        size,
        _growth(policy, status, counts, now) if policy else 0,
        policy.weight if policy else 0,
        duration(policy.expected_wait) if policy else 0.0,
        counts.limits(policy, now).max_replicas if policy else 0,
        growth_pause(node_set, counts, now) if policy else "",
        account_growth(policy, hosts, held) if policy else {},
    )


def account_growth(
    policy: Autoscaling, hosts: Iterable[Host], held: Mapping[str, frozenset[str]] | None
) -> dict[str, int]:
    """How many more workers the jobs of each limited account may bring; none while their hosts are not known."""
    names = {host.name for host in hosts} if policy.account_limits else set()
    return {
        limit.account: 0
        if held is None
        else max(0, limit.max_workers - len(names & held.get(limit.account, frozenset())))
        for limit in policy.account_limits
    }


def _growth(policy: Autoscaling, status: AutoscalingStatus, counts: WorkerCounts, now: datetime) -> int:
    if counts.overdue or _is_backing_off(status, now):
        return 0
    return max(0, counts.limits(policy, now).max_replicas - counts.replicas)


def _is_backing_off(status: AutoscalingStatus, now: datetime) -> bool:
    return 0 < unix_seconds(status.retry_time) - now.timestamp() <= MAX_RETRY_SECONDS


def growth_pause(node_set: NodeSet, counts: WorkerCounts, now: datetime) -> str:
    """Why a NodeSet may not grow now, as a clause for the jobs that wait for it; empty if it may."""
    status = node_set.status.autoscaling or AutoscalingStatus()
    if not counts.overdue and not _is_backing_off(status, now):
        return ""
    failure = next((item for item in status.decisions if item.reason == ScalingReason.CAPACITY_MISSING.value), None)
    cause = f"NodeSet {node_set.metadata.name}: {failure.message if failure else 'new workers did not come'}"
    return f"{cause}; next attempt at {status.retry_time}" if status.retry_time else cause


def other_pools(hosts: Iterable[Host], *, by_block: bool = False) -> list[WorkerPool]:
    """Pools of hosts that belong to no NodeSet; they never grow. Slurm also keeps hosts whose worker was scaled in."""
    groups: dict[tuple[WorkerShape, frozenset[str]], list[Host]] = defaultdict(list)
    for host in hosts:
        if HostComment.parse(host.comment) is None:
            groups[host_shape(host), frozenset(host.partitions)].append(host)
    return [
        WorkerPool(
            f"hosts such as {group[0].name}",
            partitions,
            shape,
            free_workers(group, 0, shape, by_block=by_block),
            len(group),
            0,
            0,
        )
        for (shape, partitions), group in groups.items()
    ]


def pool_demands(
    pending: Sequence[PendingDemand],
    demand: QueueDemand,
    pools: Sequence[WorkerPool],
    partitions: Mapping[str, PendingPartition],
) -> dict[str, PoolDemand]:
    """What pending jobs need of each pool; `partitions` has the pending jobs by partition."""
    impossible = impossible_jobs(pending, demand, pools)
    return {
        pool.name: PoolDemand(
            demand.new_workers.get(pool.name, 0),
            demand.claimed_idle.get(pool.name, 0),
            demand.jobs.get(pool.name, 0),
            impossible.get(pool.name, ()),
            tuple(partitions.get(name, PendingPartition(name)) for name in sorted(pool.partitions)),
        )
        for pool in pools
    }


def impossible_jobs(
    pending: Iterable[PendingDemand], demand: QueueDemand, pools: Iterable[WorkerPool]
) -> dict[str, tuple[str, ...]]:
    """Jobs that no worker can ever run, by the pools whose partitions they name."""
    texts = {verdict.job_id: verdict.text for verdict in demand.of(Outcome.IMPOSSIBLE)}
    jobs = [job for job in pending if job.job_id in texts]
    found: dict[str, tuple[str, ...]] = {}
    for pool in pools if jobs else ():
        own = (job for job in jobs if any(name in pool.partitions for shape in job.shapes for name in shape.partitions))
        found[pool.name] = tuple(f"Job {job.job_id}: {texts[job.job_id]}" for job in islice(own, MAX_IMPOSSIBLE))
    return found


def partitions_of(
    node_set: NodeSet,
    hosts: Iterable[Host],
    partitions: Mapping[str, Partition],
    learned: LearnedWorker,
    shape: WorkerShape | None = None,
) -> set[str]:
    """The partitions that a worker of the NodeSet joins.

    These are the partitions of its hosts or of earlier hosts, and those that name its node set, all nodes, or a node
    set with the name of one of its features, as is usual.
    """
    names = {name for host in hosts for name in host.partitions} or set(learned.partitions)
    if node_set.spec.partition.enabled:
        names.add(node_set.slurm_name)
    for name, partition in partitions.items():
        members = {*partition.node_sets.split(","), *partition.nodes.configured.split(",")}
        if members & {node_set.slurm_name, ALL_NODES, *(shape.features if shape else ())}:
            names.add(name)
    return names


def worker_shape(node_set: NodeSet, hosts: Sequence[Host], learned: LearnedWorker) -> WorkerShape | None:
    """What a worker offers: as registered, as registered earlier, or as the spec says; None if nothing tells it."""
    if hosts:
        return host_shape(hosts[0])
    configured = declared_shape(node_set)
    if configured.cpus:
        memory = configured.memory_bytes or learned.memory * MEGABYTE or UNKNOWN_MEMORY
        return replace(configured, memory_bytes=memory)
    if not learned.cpus:
        return None
    return WorkerShape(
        learned.cpus,
        learned.memory * MEGABYTE,
        tuple(sorted(parse_gres(learned.gres).items())),
        frozenset(learned.features),
    )


def learn_worker(hosts: Sequence[Host]) -> LearnedWorker | None:
    """What to remember of registered workers."""
    if not hosts:
        return None
    host = hosts[0]
    return LearnedWorker(
        host.effective_cpus or host.cpus,
        max(0, host.real_memory - host.specialized_memory),
        host.gres,
        tuple(sorted(host.features)),
        tuple(sorted(host.partitions)),
    )
