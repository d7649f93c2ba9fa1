# SPDX-License-Identifier: Apache-2.0
"""Families of the queue: jobs by state, and what pending jobs wait for and request."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from slinky.exporter.families.family import PARTITION, Compute, Family, Values, node_names
from slinky.exporter.snapshot import ClusterSnapshot
from slinky.insight.job_shape import find_obstacle, limited_groups
from slinky.insight.tres import ResourceAmounts, parse_tres
from slinky.slurm import Job


def _partition(job: Job | None) -> str:
    """The first partition of a job: a pending job may name several, and counts once."""
    return job.partition.partition(",")[0] if job else ""


def _pending(snapshot: ClusterSnapshot) -> Iterator[tuple[Job, str]]:
    """Pending jobs that slurmctld may start, with the first partition of each: it counts once."""
    for record in snapshot.jobs:
        if record.state.pending and record.detail is not None:
            yield record.detail, _partition(record.detail)


def _jobs(snapshot: ClusterSnapshot) -> Values:
    return Counter((_partition(record.detail), record.state.base.lower()) for record in snapshot.jobs)


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


def _pending_extreme(choose: Callable[[float, float], float]) -> Compute:
    """The largest or smallest number of nodes that a pending job requests, without held jobs."""

    def compute(snapshot: ClusterSnapshot) -> Values:
        extreme: dict[tuple[str, ...], float] = {}
        for job, partition in _pending(snapshot):
            if not job.hold and job.priority.whole:
                nodes = _pending_nodes(job)
                extreme[partition,] = choose(extreme.get((partition,), nodes), nodes)
        return extreme

    return compute


def _curable(amount: Callable[[Job], float]) -> Compute:
    """Sums over pending jobs that more nodes would start: not those that are held, limited or wait for other jobs."""

    def compute(snapshot: ClusterSnapshot) -> Values:
        sums: dict[tuple[str, ...], float] = defaultdict(float)
        limited = limited_groups(job for job, _ in _pending(snapshot))
        for job, partition in _pending(snapshot):
            if not find_obstacle(job, now=snapshot.now, limited=limited):
                sums[partition,] += amount(job)
        return sums

    return compute


def _oldest_eligible(snapshot: ClusterSnapshot) -> Values:
    """Age of the job that has been eligible for longest, by partition; held and future jobs are not eligible."""
    ages: dict[tuple[str, ...], float] = {}
    for job, partition in _pending(snapshot):
        since = job.eligible_time.whole
        if since and since <= snapshot.now and job.priority.whole:
            ages[partition,] = max(ages.get((partition,), 0.0), snapshot.now - since)
    return ages


# --- single jobs, only if the settings ask for them


def _running(snapshot: ClusterSnapshot) -> Iterator[tuple[str, Job]]:
    for record in snapshot.jobs:
        if record.state.holds_nodes and record.detail is not None:
            yield record.job_id, record.detail


def _job_info(snapshot: ClusterSnapshot) -> Values:
    return {
        (job_id, job.name, job.partition, job.account, job.user_name, job.qos): 1 for job_id, job in _running(snapshot)
    }


def _of_running_jobs(amount: Callable[[ResourceAmounts], float]) -> Compute:
    return lambda snapshot: {(job_id,): amount(parse_tres(job.tres_alloc_str)) for job_id, job in _running(snapshot)}


def _job_seconds(snapshot: ClusterSnapshot) -> Values:
    return {
        (job_id,): max(0.0, snapshot.now - job.start_time.whole)
        for job_id, job in _running(snapshot)
        if job.start_time.whole
    }


def _node_jobs(snapshot: ClusterSnapshot) -> Values:
    return {(job_id, node): 1 for job_id, job in _running(snapshot) for node in node_names(job.nodes)}


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
        "pending_scalable_jobs",
        "Pending jobs that more nodes would start; not held, limited or dependent ones.",
        PARTITION,
        _curable(lambda _: 1),
    ),
    Family(
        "pending_scalable_nodes",
        "Nodes that these jobs request; a figure for autoscalers that know no shapes of jobs.",
        PARTITION,
        _curable(_pending_nodes),
    ),
    Family(
        "pending_largest_job_nodes",
        "Nodes that the largest pending job requests, without held jobs.",
        PARTITION,
        _pending_extreme(max),
    ),
    Family(
        "pending_smallest_job_nodes",
        "Nodes that the smallest pending job requests, without held jobs.",
        PARTITION,
        _pending_extreme(min),
    ),
    Family(
        "pending_oldest_eligible_seconds",
        "How long the job that was eligible first has been waiting.",
        PARTITION,
        _oldest_eligible,
    ),
    Family(
        "job_info",
        "1 for each running job.",
        ("job", "name", "partition", "account", "user", "qos"),
        _job_info,
        detail="jobs",
    ),
    Family(
        "job_node",
        "1 for each node of a running job; joins metrics of nodes, such as those of DCGM, with jobs.",
        ("job", "node"),
        _node_jobs,
        detail="jobs",
    ),
    Family("job_cpus", "CPUs of a running job.", ("job",), _of_running_jobs(lambda use: use.cpus), detail="jobs"),
    Family(
        "job_memory_bytes",
        "Memory of a running job.",
        ("job",),
        _of_running_jobs(lambda use: use.memory_bytes),
        detail="jobs",
    ),
    Family(
        "job_gpus",
        "GPUs of a running job.",
        ("job",),
        _of_running_jobs(lambda use: use.gres_count("gpu")),
        detail="jobs",
    ),
    Family("job_running_seconds", "Time since a running job started.", ("job",), _job_seconds, detail="jobs"),
)
