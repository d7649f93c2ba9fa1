# SPDX-License-Identifier: Apache-2.0
"""The metric families of a cluster, as pure functions of a snapshot.

`FAMILIES` is the table from which both the exporter and docs/exporter.md are made. A family with the type `counter`
passes a counter of slurmctld on; it may start again at zero, which Prometheus handles.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from slinky.exporter.snapshot import ClusterSnapshot
from slinky.insight.tres import ResourceAmounts, parse_gres, parse_tres
from slinky.slurm import Host, Job

PREFIX = "slinky_slurm_"
MEGABYTE = 2**20
#: slurmctld's statistics are in microseconds.
MICROSECOND = 1e-6

#: Values by label values.
Values = Mapping[tuple[str, ...], float]
Compute = Callable[[ClusterSnapshot], Values]

#: Drain owners by the beginning of the drain reason.
DRAIN_OWNERS = {
    "slurm-operator:": "operator",
    "slurm-bridge:": "bridge",
    "slinky:": "slinky",
    "Not responding": "slurmctld",
    "Low ": "slurmctld",
    "gres/": "slurmctld",
    "Kill task failed": "slurmd",
    "Prolog error": "slurmd",
    "Epilog error": "slurmd",
    "NHC": "health check",
}


class Family(NamedTuple):
    """One family of metrics."""

    name: str
    help: str
    labels: tuple[str, ...]
    compute: Compute
    type: str = "gauge"
    #: One series per node, user or account: left out unless the settings ask for it.
    detail: str = ""


# --- jobs


def _partitions(job: Job | None) -> list[str]:
    """The partitions of a job: a pending job may name several."""
    return job.partition.split(",") if job and job.partition else [""]


def _pending(snapshot: ClusterSnapshot) -> Iterator[tuple[Job, str]]:
    """Pending jobs that slurmctld may start, with the first partition of each: it counts once."""
    for record in snapshot.jobs:
        if record.state.pending and record.detail is not None:
            yield record.detail, _partitions(record.detail)[0]


def _jobs(snapshot: ClusterSnapshot) -> Values:
    return Counter((_partitions(record.detail)[0], record.state.base.lower()) for record in snapshot.jobs)


def _jobs_of_accounts(snapshot: ClusterSnapshot) -> Values:
    return Counter((job.account, record.state.base.lower()) for record in snapshot.jobs if (job := record.detail))


def _jobs_of_users(snapshot: ClusterSnapshot) -> Values:
    return Counter((job.user_name, record.state.base.lower()) for record in snapshot.jobs if (job := record.detail))


def _pending_by_reason(snapshot: ClusterSnapshot) -> Values:
    return Counter((partition, job.state_reason.partition(",")[0] or "None") for job, partition in _pending(snapshot))


def _request(job: Job) -> ResourceAmounts:
    return parse_tres(job.tres_req_str)


def _pending_sum(amount: Callable[[Job], float]) -> Compute:
    """The demand of pending jobs by partition. Held jobs count too: they are part of the queue."""

    def compute(snapshot: ClusterSnapshot) -> Values:
        sums: dict[tuple[str, ...], float] = defaultdict(float)
        for job, partition in _pending(snapshot):
            sums[partition,] += amount(job)
        return sums

    return compute


def _pending_nodes(job: Job) -> float:
    return _request(job).nodes or job.node_count.whole


def _pending_gres(snapshot: ClusterSnapshot) -> Values:
    sums: dict[tuple[str, ...], float] = defaultdict(float)
    for job, partition in _pending(snapshot):
        for (name, kind), count in _request(job).gres.items():
            sums[partition, name, kind] += count
    return sums


def _largest_pending(snapshot: ClusterSnapshot) -> Values:
    largest: dict[tuple[str, ...], float] = {}
    for job, partition in _pending(snapshot):
        if not job.hold and job.priority.whole:
            largest[partition,] = max(largest.get((partition,), 0), _pending_nodes(job))
    return largest


def _oldest_eligible(snapshot: ClusterSnapshot) -> Values:
    """Age of the job that has been eligible for longest, by partition; held and future jobs are not eligible."""
    ages: dict[tuple[str, ...], float] = {}
    for job, partition in _pending(snapshot):
        since = job.eligible_time.whole
        if since and since <= snapshot.now and job.priority.whole:
            ages[partition,] = max(ages.get((partition,), 0.0), snapshot.now - since)
    return ages


# --- nodes


def _by_partition(snapshot: ClusterSnapshot) -> Iterator[tuple[Host, str]]:
    for host in snapshot.hosts:
        for partition in host.partitions or ("",):
            yield host, partition


def _nodes(snapshot: ClusterSnapshot) -> Values:
    return Counter((partition, _node_state(host)) for host, partition in _by_partition(snapshot))


def _node_state(host: Host) -> str:
    """One state per node: the one that matters most to an administrator."""
    if host.state.draining:
        return "drained" if host.state.drained else "draining"
    return host.state.base.lower()


def _node_flags(snapshot: ClusterSnapshot) -> Values:
    return Counter(
        (partition, flag.lower()) for host, partition in _by_partition(snapshot) for flag in host.state.flags
    )


def _drain_owner(host: Host) -> str:
    reason = host.reason.strip()
    if not reason:
        return "unknown"
    known = next((owner for prefix, owner in DRAIN_OWNERS.items() if reason.startswith(prefix)), "")
    return known or "administrator"


def _drains(snapshot: ClusterSnapshot) -> Values:
    return Counter((_drain_owner(host),) for host in snapshot.hosts if host.state.draining)


def _oldest_drain(snapshot: ClusterSnapshot) -> Values:
    ages: dict[tuple[str, ...], float] = {}
    for host in snapshot.hosts:
        if host.state.draining and (since := host.reason_changed_at.whole):
            owner = (_drain_owner(host),)
            ages[owner] = max(ages.get(owner, 0.0), snapshot.now - since)
    return ages


class Capacity(NamedTuple):
    """How much of one resource of a node jobs use, could use now, and cannot use."""

    allocated: float
    idle: float
    unavailable: float


def _capacity(host: Host, total: float, allocated: float) -> Capacity:
    free = max(0.0, total - allocated)
    return Capacity(allocated, free, 0.0) if host.state.schedulable else Capacity(allocated, 0.0, free)


def _capacities(read: Callable[[Host], Mapping[tuple[str, ...], Capacity]]) -> Compute:
    """Sums of a resource by partition, further labels, and state."""

    def compute(snapshot: ClusterSnapshot) -> Values:
        sums: dict[tuple[str, ...], float] = defaultdict(float)
        for host, partition in _by_partition(snapshot):
            for labels, capacity in read(host).items():
                for state, amount in zip(Capacity._fields, capacity, strict=True):
                    sums[(partition, *labels, state)] += amount
        return sums

    return compute


def _cpus(host: Host) -> Mapping[tuple[str, ...], Capacity]:
    return {(): _capacity(host, host.effective_cpus or host.cpus, host.alloc_cpus)}


def _memory(host: Host) -> Mapping[tuple[str, ...], Capacity]:
    return {(): _capacity(host, host.real_memory * MEGABYTE, host.alloc_memory * MEGABYTE)}


def _gres(host: Host) -> Mapping[tuple[str, ...], Capacity]:
    used = parse_gres(host.gres_used)
    return {kind: _capacity(host, total, used.get(kind, 0)) for kind, total in parse_gres(host.gres).items()}


def _per_node(read: Callable[[Host], float]) -> Compute:
    return lambda snapshot: {(host.name,): read(host) for host in snapshot.hosts}


def _idle_blocks(snapshot: ClusterSnapshot) -> Values:
    """Idle nodes by unit of the topology, that is the block or the leaf switch."""
    idle: Counter[tuple[str, ...]] = Counter()
    for host in snapshot.hosts:
        for unit in filter(None, host.topology.split(",")):
            idle[unit,] += host.state.idle and host.state.schedulable
    return idle


# --- reservations, licences, slurmctld


def _licenses(snapshot: ClusterSnapshot) -> Values:
    return {
        (item.license_name, state): amount
        for item in snapshot.licenses
        for state, amount in (("used", item.used), ("free", item.free), ("reserved", item.reserved))
    }


def _statistic(field: str, factor: float = 1.0) -> Compute:
    return lambda snapshot: {(): getattr(snapshot.diag, field) * factor} if snapshot.diag else {}


def _requests(field: str, factor: float = 1.0) -> Compute:
    def compute(snapshot: ClusterSnapshot) -> Values:
        calls = snapshot.diag.rpcs_by_message_type if snapshot.diag else ()
        return {(call.message_type,): getattr(call, field) * factor for call in calls}

    return compute


def _allocated_gres(snapshot: ClusterSnapshot) -> Values:
    sums: dict[tuple[str, ...], float] = defaultdict(float)
    for record in snapshot.jobs:
        if record.state.holds_nodes and (job := record.detail) is not None:
            for (name, kind), count in parse_tres(job.tres_alloc_str).gres.items():
                sums[job.account, name, kind] += count
    return sums


PARTITION, NODE = ("partition",), ("node",)

FAMILIES: tuple[Family, ...] = (
    Family("jobs", "Jobs that slurmctld knows, by state.", ("partition", "state"), _jobs),
    Family("account_jobs", "Jobs of an account, by state.", ("account", "state"), _jobs_of_accounts, detail="accounts"),
    Family("user_jobs", "Jobs of a user, by state.", ("user", "state"), _jobs_of_users, detail="users"),
    Family("jobs_pending", "Pending jobs by Slurm's reason.", ("partition", "reason"), _pending_by_reason),
    Family("pending_nodes", "Nodes that pending jobs request.", PARTITION, _pending_sum(_pending_nodes)),
    Family(
        "pending_cpus",
        "CPUs that pending jobs request.",
        PARTITION,
        _pending_sum(lambda job: _request(job).cpus or job.cpus.whole),
    ),
    Family(
        "pending_memory_bytes",
        "Memory that pending jobs request.",
        PARTITION,
        _pending_sum(lambda job: _request(job).memory_bytes),
    ),
    Family(
        "pending_gres", "Generic resources that pending jobs request.", ("partition", "gres", "type"), _pending_gres
    ),
    Family(
        "pending_largest_job_nodes",
        "Nodes that the largest pending job requests, without held jobs.",
        PARTITION,
        _largest_pending,
    ),
    Family(
        "pending_oldest_eligible_seconds",
        "How long the job that was eligible first has been waiting.",
        PARTITION,
        _oldest_eligible,
    ),
    Family(
        "account_gres_allocated",
        "Generic resources that running jobs of an account hold.",
        ("account", "gres", "type"),
        _allocated_gres,
        detail="accounts",
    ),
    Family("nodes", "Nodes by state; a node counts in every partition that it is in.", ("partition", "state"), _nodes),
    Family("node_flags", "Nodes that have a flag of Slurm's node state.", ("partition", "flag"), _node_flags),
    Family("nodes_draining", "Draining and drained nodes, by who set the drain.", ("owner",), _drains),
    Family("node_drain_oldest_seconds", "Age of the oldest drain, by who set it.", ("owner",), _oldest_drain),
    Family("cpus", "CPUs of nodes by use.", ("partition", "state"), _capacities(_cpus)),
    Family("memory_bytes", "Memory of nodes by use.", ("partition", "state"), _capacities(_memory)),
    Family(
        "gres",
        "Generic resources of nodes by use.",
        ("partition", "gres", "type", "state"),
        _capacities(_gres),
    ),
    Family("topology_idle_nodes", "Idle nodes by block or leaf switch of the topology.", ("unit",), _idle_blocks),
    Family("node_cpus", "CPUs of a node.", NODE, _per_node(lambda host: host.cpus), detail="nodes"),
    Family(
        "node_cpus_allocated",
        "CPUs of a node that jobs hold.",
        NODE,
        _per_node(lambda host: host.alloc_cpus),
        detail="nodes",
    ),
    Family(
        "node_memory_bytes",
        "Memory of a node.",
        NODE,
        _per_node(lambda host: host.real_memory * MEGABYTE),
        detail="nodes",
    ),
    Family(
        "node_memory_allocated_bytes",
        "Memory of a node that jobs hold.",
        NODE,
        _per_node(lambda host: host.alloc_memory * MEGABYTE),
        detail="nodes",
    ),
    Family(
        "reservation_active",
        "1 while a reservation is active, otherwise 0.",
        ("reservation",),
        lambda snapshot: {(item.name,): float(item.active(snapshot.now)) for item in snapshot.reservations},
    ),
    Family(
        "reservation_nodes",
        "Nodes of a reservation.",
        ("reservation",),
        lambda snapshot: {(item.name,): item.node_count for item in snapshot.reservations},
    ),
    Family(
        "reservation_start_timestamp_seconds",
        "Start of a reservation.",
        ("reservation",),
        lambda snapshot: {(item.name,): item.start_time.whole for item in snapshot.reservations},
    ),
    Family(
        "reservation_end_timestamp_seconds",
        "End of a reservation.",
        ("reservation",),
        lambda snapshot: {(item.name,): item.end_time.whole for item in snapshot.reservations if item.end_time.whole},
    ),
    Family("licenses", "Licences by use.", ("license", "state"), _licenses),
    Family("controller_threads", "Threads of slurmctld that serve requests.", (), _statistic("server_thread_count")),
    Family("controller_agent_queue", "Messages that slurmctld has to send.", (), _statistic("agent_queue_size")),
    Family(
        "controller_database_queue",
        "Records that slurmctld has not sent to slurmdbd yet.",
        (),
        _statistic("dbd_agent_queue_size"),
    ),
    Family("jobs_submitted", "Jobs that were submitted.", (), _statistic("jobs_submitted"), "counter"),
    Family("jobs_started", "Jobs that were started.", (), _statistic("jobs_started"), "counter"),
    Family("jobs_backfilled", "Jobs that backfill started.", (), _statistic("bf_backfilled_jobs"), "counter"),
    Family("backfill_cycles", "Backfill cycles.", (), _statistic("bf_cycle_counter"), "counter"),
    Family(
        "backfill_last_cycle_seconds",
        "Duration of the last backfill cycle.",
        (),
        _statistic("bf_cycle_last", MICROSECOND),
    ),
    Family("backfill_queue_length", "Jobs that the last backfill cycle considered.", (), _statistic("bf_queue_len")),
    Family(
        "scheduler_cycle_seconds",
        "Time that main scheduling cycles took.",
        (),
        _statistic("schedule_cycle_total", MICROSECOND),
        "counter",
    ),
    Family(
        "scheduler_last_cycle_seconds",
        "Duration of the last main scheduling cycle.",
        (),
        _statistic("schedule_cycle_last", MICROSECOND),
    ),
    Family(
        "scheduler_queue_length",
        "Jobs that the last main scheduling cycle considered.",
        (),
        _statistic("schedule_queue_length"),
    ),
    Family("controller_requests", "Requests to slurmctld.", ("type",), _requests("count"), "counter"),
    Family(
        "controller_request_seconds",
        "Time that slurmctld worked on requests.",
        ("type",),
        _requests("total_time", MICROSECOND),
        "counter",
    ),
)
