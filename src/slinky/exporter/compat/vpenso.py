# SPDX-License-Identifier: Apache-2.0
"""The names of vpenso/prometheus-slurm-exporter and its forks."""

from collections.abc import Callable, Iterator

from slinky.exporter.compat.compat_family import (
    ACCOUNTS,
    ALL_HOSTS,
    ALL_JOBS,
    HOST_PARTITIONS,
    PARTITIONS,
    CompatFamily,
    HostScope,
    JobScope,
    allocated_cpus,
    count_jobs,
    fields,
    sum_hosts,
    sum_jobs,
)
from slinky.exporter.families import Compute, Values
from slinky.exporter.families.resources import gres_of
from slinky.exporter.snapshot import ClusterSnapshot
from slinky.slurm import Host, JobRecord

#: Node states as `sinfo` abbreviates them: a flag of the node counts before its base state.
NODE_STATES: dict[str, Callable[[Host], bool]] = {
    "drain": lambda host: host.state.draining,
    "comp": lambda host: "COMPLETING" in host.state.flags,
    "maint": lambda host: "MAINTENANCE" in host.state.flags,
    "fail": lambda host: "FAIL" in host.state.flags,
    "down": lambda host: host.state.base == "DOWN",
    "err": lambda host: host.state.base == "ERROR",
    "plnd": lambda host: "PLANNED" in host.state.flags,
    "resv": lambda host: "RESERVED" in host.state.flags and host.state.base == "IDLE",
    "alloc": lambda host: host.state.base == "ALLOCATED",
    "mix": lambda host: host.state.base == "MIXED",
    "idle": lambda host: host.state.base == "IDLE",
}
QUEUE_STATES = (
    "pending", "running", "suspended", "cancelled", "completing", "completed", "configuring", "failed", "timeout",
    "preempted", "node_fail", "out_of_memory",
)  # fmt: skip
USERS = JobScope(("user",), lambda job: (job.user_name if job else "",))
EACH_HOST = HostScope(("node", "status"), lambda host: ((host.name, node_state(host)),))


def node_state(host: Host) -> str:
    """The state of a node as `sinfo` abbreviates it."""
    return next((name for name, applies in NODE_STATES.items() if applies(host)), "unknown")


def queue_state(record: JobRecord) -> str:
    """The state of a job as `squeue` shows it: a flag such as completing before the base state."""
    for flag in ("COMPLETING", "CONFIGURING"):
        if flag in record.state.flags:
            return flag.lower()
    return record.state.base.lower()


def _queue() -> Iterator[CompatFamily]:
    for state in QUEUE_STATES:
        yield CompatFamily(
            f"slurm_queue_{state}", (), count_jobs(ALL_JOBS, _in_state(state)), f'slinky_slurm_jobs{{state="{state}"}}'
        )
    yield CompatFamily(
        "slurm_queue_pending_dependency",
        (),
        count_jobs(ALL_JOBS, _waits_for_dependency),
        'slinky_slurm_jobs_pending{reason="Dependency"}',
    )


def _in_state(state: str) -> Callable[[JobRecord], bool]:
    return lambda record: queue_state(record) == state


def _waits_for_dependency(record: JobRecord) -> bool:
    return record.state.pending and record.detail is not None and record.detail.state_reason == "Dependency"


def _nodes() -> Iterator[CompatFamily]:
    for state in NODE_STATES:
        compute = sum_hosts(ALL_HOSTS, _host_in_state(state))
        yield CompatFamily(f"slurm_nodes_{state}", (), compute, "slinky_slurm_nodes, slinky_slurm_node_flags")


def _host_in_state(state: str) -> Callable[[Host], float]:
    return lambda host: float(node_state(host) == state)


def _cpus(prefix: str, scope: HostScope, ours: str, words: dict[str, str], detail: str = "") -> Iterator[CompatFamily]:
    """CPUs by use; `words` are the last words of the names."""
    amounts: dict[str, Callable[[Host], float]] = {
        "allocated": lambda host: host.alloc_cpus,
        "idle": lambda host: host.cpus - host.alloc_cpus if host.state.schedulable else 0,
        "other": lambda host: 0 if host.state.schedulable else host.cpus - host.alloc_cpus,
        "total": lambda host: host.cpus,
    }
    for use, word in words.items():
        yield CompatFamily(f"{prefix}{word}", scope.labels, sum_hosts(scope, amounts[use]), ours, detail)


def _states(prefix: str, scope: JobScope, ours: str, detail: str) -> Iterator[CompatFamily]:
    for state in ("pending", "running", "suspended"):
        compute = _without_zeros(count_jobs(scope, _in_state(state)))
        replacement = f'{ours}_jobs{{state="{state}"}}'
        yield CompatFamily(f"{prefix}_jobs_{state}", scope.labels, compute, replacement, detail)
    cpus = sum_jobs(scope, allocated_cpus)
    yield CompatFamily(f"{prefix}_cpus_running", scope.labels, cpus, 'slinky_slurm_cpus{state="allocated"}', detail)


def _without_zeros(compute: Compute) -> Compute:
    return lambda snapshot: {labels: count for labels, count in compute(snapshot).items() if count}


def _gpus(host: Host, state: str) -> float:
    uses = [use for (name, *_), use in gres_of(host).items() if name == "gpu"]
    return sum(sum(use) if state == "total" else getattr(use, state) for use in uses)


def _gpu_utilization(snapshot: ClusterSnapshot) -> Values:
    total = sum(_gpus(host, "total") for host in snapshot.hosts)
    return {(): sum(_gpus(host, "allocated") for host in snapshot.hosts) / total} if total else {}


def _fair_shares(snapshot: ClusterSnapshot) -> Values:
    return {
        (share.name,): float(share.fairshare.factor.number)
        for share in snapshot.shares
        if "USER" not in share.type and share.fairshare.factor.set
    }


_USES = {"allocated": "alloc", "idle": "idle", "other": "other", "total": "total"}
_GRES = 'slinky_slurm_gres{gres="gpu"}'
FAMILIES: tuple[CompatFamily, ...] = (
    *_queue(),
    *_nodes(),
    *_cpus("slurm_cpus_", ALL_HOSTS, "slinky_slurm_cpus", _USES),
    CompatFamily("slurm_gpus_alloc", (), sum_hosts(ALL_HOSTS, lambda host: _gpus(host, "allocated")), _GRES),
    CompatFamily("slurm_gpus_idle", (), sum_hosts(ALL_HOSTS, lambda host: _gpus(host, "idle")), _GRES),
    CompatFamily("slurm_gpus_other", (), sum_hosts(ALL_HOSTS, lambda host: _gpus(host, "unavailable")), _GRES),
    CompatFamily("slurm_gpus_total", (), sum_hosts(ALL_HOSTS, lambda host: _gpus(host, "total")), _GRES),
    CompatFamily("slurm_gpus_utilization", (), _gpu_utilization, _GRES),
    *_cpus("slurm_partition_cpus_", HOST_PARTITIONS, "slinky_slurm_cpus", {**_USES, "allocated": "allocated"}),
    CompatFamily(
        "slurm_partition_jobs_pending",
        PARTITIONS.labels,
        _without_zeros(count_jobs(PARTITIONS, _in_state("pending"))),
        'slinky_slurm_jobs{state="pending"}',
    ),
    *_states("slurm_account", ACCOUNTS, "slinky_slurm_account", "accounts"),
    *_states("slurm_user", USERS, "slinky_slurm_user", "users"),
    CompatFamily(
        "slurm_account_fairshare", ("account",), _fair_shares, "slinky_slurm_account_fairshare_level", "accounts"
    ),
    *_cpus("slurm_node_cpu_", EACH_HOST, "slinky_slurm_node_cpus", _USES, "nodes"),
    CompatFamily(
        "slurm_node_mem_alloc",
        EACH_HOST.labels,
        sum_hosts(EACH_HOST, lambda host: host.alloc_memory),
        "slinky_slurm_node_memory_allocated_bytes",
        "nodes",
    ),
    CompatFamily(
        "slurm_node_mem_total",
        EACH_HOST.labels,
        sum_hosts(EACH_HOST, lambda host: host.real_memory),
        "slinky_slurm_node_memory_bytes",
        "nodes",
    ),
    *fields(
        {
            "scheduler_threads": ("server_thread_count", "slinky_slurm_controller_threads"),
            "scheduler_queue_size": ("agent_queue_size", "slinky_slurm_controller_agent_queue"),
            "scheduler_last_cycle": ("schedule_cycle_last", "slinky_slurm_scheduler_last_cycle_seconds"),
            "scheduler_mean_cycle": ("schedule_cycle_mean", "slinky_slurm_scheduler_cycle_seconds_total"),
            "scheduler_cycle_per_minute": ("schedule_cycle_per_minute", "slinky_slurm_scheduler_cycles_total"),
            "scheduler_backfill_last_cycle": ("bf_cycle_last", "slinky_slurm_backfill_last_cycle_seconds"),
            "scheduler_backfill_mean_cycle": ("bf_cycle_mean", "slinky_slurm_backfill_cycle_seconds_total"),
            "scheduler_backfill_depth_mean": ("bf_depth_mean", "slinky_slurm_backfill_last_depth"),
            "total_backfilled_jobs_since_start": ("bf_backfilled_jobs", "slinky_slurm_jobs_backfilled_total"),
            "total_backfilled_jobs_since_cycle": ("bf_last_backfilled_jobs", "slinky_slurm_jobs_backfilled_total"),
            "total_backfilled_heterogeneous": ("bf_backfilled_het_jobs", "slinky_slurm_jobs_backfilled_total"),
        },
        "slurm_",
    ),
)
