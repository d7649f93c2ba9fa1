# SPDX-License-Identifier: Apache-2.0
"""The names of SlinkyProject/slurm-exporter."""

from collections.abc import Callable, Iterator

from slinky.exporter.compat.compat_family import (
    ACCOUNTS,
    ALL_HOSTS,
    ALL_JOBS,
    EACH_HOST,
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
from slinky.exporter.families import Values
from slinky.exporter.snapshot import ClusterSnapshot
from slinky.insight.tres import MEGABYTE, parse_tres
from slinky.slurm import Host, JobRecord

JOB_BASES = {
    "bootfail": "BOOT_FAIL",
    "cancelled": "CANCELLED",
    "completed": "COMPLETED",
    "deadline": "DEADLINE",
    "failed": "FAILED",
    "pending": "PENDING",
    "preempted": "PREEMPTED",
    "running": "RUNNING",
    "suspended": "SUSPENDED",
    "timeout": "TIMEOUT",
    "nodefail": "NODE_FAIL",
    "outofmemory": "OUT_OF_MEMORY",
}
JOB_FLAGS = {
    "completing": "COMPLETING",
    "configuring": "CONFIGURING",
    "powerupnode": "POWER_UP_NODE",
    "stageout": "STAGE_OUT",
}
NODE_BASES = {
    "allocated": "ALLOCATED",
    "down": "DOWN",
    "error": "ERROR",
    "future": "FUTURE",
    "idle": "IDLE",
    "mixed": "MIXED",
    "unknown": "UNKNOWN",
}
NODE_FLAGS = {
    "completing": "COMPLETING",
    "drain": "DRAIN",
    "fail": "FAIL",
    "maintenance": "MAINTENANCE",
    "notresponding": "NOT_RESPONDING",
    "planned": "PLANNED",
    "rebootrequested": "REBOOT_REQUESTED",
    "reserved": "RESERVED",
}
USERS = JobScope(("userid", "username"), lambda job: (str(job.user_id) if job else "", job.user_name if job else ""))


def _job_families(prefix: str, scope: JobScope, ours: str, detail: str = "") -> Iterator[CompatFamily]:
    def family(name: str, compute: Callable[[ClusterSnapshot], Values], replacement: str) -> CompatFamily:
        return CompatFamily(f"{prefix}{name}", scope.labels, compute, replacement, detail)

    yield family("total", count_jobs(scope, lambda _: True), ours)
    for name, base in JOB_BASES.items():
        yield family(f"{name}_total", count_jobs(scope, _has_base(base)), f'{ours}{{state="{base.lower()}"}}')
    for name, flag in JOB_FLAGS.items():
        yield family(f"{name}_total", count_jobs(scope, _has_flag(flag)), f'{ours}{{state="running"}}')
    yield family("hold_total", count_jobs(scope, _is_held), 'slinky_slurm_jobs_pending{reason=~"JobHeld.*"}')
    yield family("cpus_alloc_total", sum_jobs(scope, allocated_cpus), 'slinky_slurm_cpus{state="allocated"}')
    memory = sum_jobs(scope, lambda job: parse_tres(job.tres_alloc_str).memory_bytes / MEGABYTE)
    yield family("memory_alloc_bytes", memory, 'slinky_slurm_memory_bytes{state="allocated"}')


def _has_base(base: str) -> Callable[[JobRecord], bool]:
    return lambda record: record.state.base == base


def _has_flag(flag: str) -> Callable[[JobRecord], bool]:
    return lambda record: flag in record.state.flags


def _is_held(record: JobRecord) -> bool:
    job = record.detail
    return job is not None and record.state.pending and (job.hold or not job.priority.whole)


def _largest_pending(snapshot: ClusterSnapshot) -> Values:
    largest: dict[tuple[str, ...], float] = {}
    for record in snapshot.jobs:
        if (job := record.detail) is not None and record.state.pending and not job.hold:
            labels = PARTITIONS.of(job)
            largest[labels] = max(largest.get(labels, 0.0), job.node_count.whole)
    return largest


def _node_families(prefix: str, scope: HostScope) -> Iterator[CompatFamily]:
    ours = "slinky_slurm_nodes"
    yield CompatFamily(f"{prefix}total", scope.labels, sum_hosts(scope, lambda _: 1), ours)
    for name, base in NODE_BASES.items():
        compute = sum_hosts(scope, _host_has_base(base))
        yield CompatFamily(f"{prefix}{name}_total", scope.labels, compute, f'{ours}{{state="{base.lower()}"}}')
    for name, flag in NODE_FLAGS.items():
        compute = sum_hosts(scope, _host_has_flag(flag))
        replacement = f'slinky_slurm_node_flags{{flag="{flag.lower()}"}}'
        yield CompatFamily(f"{prefix}{name}_total", scope.labels, compute, replacement)


def _host_has_base(base: str) -> Callable[[Host], float]:
    return lambda host: float(host.state.base == base)


def _host_has_flag(flag: str) -> Callable[[Host], float]:
    return lambda host: float(flag in host.state.flags)


def _resource_families(prefix: str, scope: HostScope, ours: str, detail: str = "") -> Iterator[CompatFamily]:
    """CPUs, and memory in megabytes although the names say bytes."""
    table: dict[str, tuple[Callable[[Host], float], str]] = {
        "cpus_total": (lambda host: host.cpus, f"{ours}cpus"),
        "cpus_effective_total": (lambda host: host.effective_cpus, f"{ours}cpus"),
        "cpus_alloc_total": (lambda host: host.alloc_cpus, f"{ours}cpus (allocated)"),
        "cpus_idle_total": (lambda host: max(0, host.effective_cpus - host.alloc_cpus), f"{ours}cpus (idle)"),
        "memory_bytes": (lambda host: host.real_memory, f"{ours}memory_bytes"),
        "memory_effective_bytes": (
            lambda host: max(0, host.real_memory - host.specialized_memory),
            f"{ours}memory_bytes",
        ),
        "memory_alloc_bytes": (lambda host: host.alloc_memory, f"{ours}memory_bytes (allocated)"),
        "memory_free_bytes": (lambda host: host.free_mem.whole, f"{ours}memory_bytes (idle)"),
    }
    for name, (amount, replacement) in table.items():
        yield CompatFamily(f"{prefix}{name}", scope.labels, sum_hosts(scope, amount), replacement, detail)


_CYCLES = "slinky_slurm_scheduler_cycle_seconds_total / slinky_slurm_scheduler_cycles_total"
_BACKFILL = "slinky_slurm_backfill_cycle_seconds_total / slinky_slurm_backfill_cycles_total"
SCHEDULER = {
    "cycle_depth_total": ("schedule_cycle_depth", "slinky_slurm_scheduler_queue_length"),
    "cycle_last_seconds": ("schedule_cycle_last", "slinky_slurm_scheduler_last_cycle_seconds"),
    "cycle_max_seconds": ("schedule_cycle_max", "max_over_time(slinky_slurm_scheduler_last_cycle_seconds[1d])"),
    "cycle_mean_seconds": ("schedule_cycle_mean", _CYCLES),
    "cycle_depth_mean_total": ("schedule_cycle_mean_depth", "slinky_slurm_scheduler_queue_length"),
    "cycle_perminute_total": ("schedule_cycle_per_minute", "60 * rate(slinky_slurm_scheduler_cycles_total[5m])"),
    "cycle_sum_seconds_total": ("schedule_cycle_sum", "slinky_slurm_scheduler_cycle_seconds_total"),
    "cycle_total": ("schedule_cycle_total", "slinky_slurm_scheduler_cycles_total"),
    "queue_total": ("schedule_queue_length", "slinky_slurm_scheduler_queue_length"),
    **{
        f"{name}_total": (f"schedule_exit.{field}", f'slinky_slurm_scheduler_exits_total{{reason="{field}"}}')
        for name, field in {
            "defaultqueuedepth": "default_queue_depth",
            "endjobqueue": "end_job_queue",
            "licenses": "licenses",
            "maxjobstart": "max_job_start",
            "maxrpc": "max_rpc_cnt",
            "maxschedtime": "max_sched_time",
        }.items()
    },
    "jobs_stats_timestamp": ("job_states_ts", "slinky_slurm_source_age_seconds"),
    "jobs_canceled_total": ("jobs_canceled", 'slinky_slurm_jobs_ended_total{state="cancelled"}'),
    "jobs_completed_total": ("jobs_completed", 'slinky_slurm_jobs_ended_total{state="completed"}'),
    "jobs_failed_total": ("jobs_failed", 'slinky_slurm_jobs_ended_total{state="failed"}'),
    "jobs_pending_total": ("jobs_pending", 'slinky_slurm_jobs{state="pending"}'),
    "jobs_running_total": ("jobs_running", 'slinky_slurm_jobs{state="running"}'),
    "jobs_started_total": ("jobs_started", "slinky_slurm_jobs_started_total"),
    "jobs_submitted_total": ("jobs_submitted", "slinky_slurm_jobs_submitted_total"),
    "agent_total": ("agent_count", "slinky_slurm_controller_agent_queue"),
    "agent_queue_total": ("agent_queue_size", "slinky_slurm_controller_agent_queue"),
    "agent_thread_total": ("agent_thread_count", "slinky_slurm_controller_threads"),
    "thread_total": ("server_thread_count", "slinky_slurm_controller_threads"),
    "dbdagentqueue_total": ("dbd_agent_queue_size", "slinky_slurm_controller_database_queue"),
}
BACKFILL = {
    "active_bool": ("bf_active", "rate(slinky_slurm_backfill_cycles_total[5m]) > 0"),
    "backfilledhetjobs_total": ("bf_backfilled_het_jobs", "slinky_slurm_jobs_backfilled_total"),
    "backfilledjobs_total": ("bf_backfilled_jobs", "slinky_slurm_jobs_backfilled_total"),
    "lastbackfilledjobs_total": ("bf_last_backfilled_jobs", "slinky_slurm_jobs_backfilled_total"),
    "cycle_total": ("bf_cycle_counter", "slinky_slurm_backfill_cycles_total"),
    "cycle_seconds": ("bf_cycle_last", "slinky_slurm_backfill_last_cycle_seconds"),
    "cycle_max_seconds": ("bf_cycle_max", "max_over_time(slinky_slurm_backfill_last_cycle_seconds[1d])"),
    "cycle_mean_seconds": ("bf_cycle_mean", _BACKFILL),
    "cycle_sum_seconds": ("bf_cycle_sum", "slinky_slurm_backfill_cycle_seconds_total"),
    "depth_mean_total": ("bf_depth_mean", "slinky_slurm_backfill_last_depth"),
    "depth_try_total": ("bf_depth_mean_try", "slinky_slurm_backfill_last_depth"),
    "depth_sum_total": ("bf_depth_sum", "slinky_slurm_backfill_last_depth"),
    "depth_trysum_total": ("bf_depth_try_sum", "slinky_slurm_backfill_last_depth"),
    "lastdepth_total": ("bf_last_depth", "slinky_slurm_backfill_queue_length"),
    "lastdepthtry_total": ("bf_last_depth_try", "slinky_slurm_backfill_last_depth"),
    "queue_total": ("bf_queue_len", "slinky_slurm_backfill_queue_length"),
    "queue_mean_total": ("bf_queue_len_mean", "avg_over_time(slinky_slurm_backfill_queue_length[1d])"),
    "queue_sum_total": ("bf_queue_len_sum", "slinky_slurm_backfill_queue_length"),
    "table_total": ("bf_table_size", "slinky_slurm_backfill_table_size"),
    "tablemean_total": ("bf_table_size_mean", "avg_over_time(slinky_slurm_backfill_table_size[1d])"),
    "tablesum_total": ("bf_table_size_sum", "slinky_slurm_backfill_table_size"),
    "lastcycle_timestamp": ("bf_when_last_cycle", "rate(slinky_slurm_backfill_cycles_total[10m])"),
    **{
        f"{name}_total": (f"bf_exit.{field}", f'slinky_slurm_backfill_exits_total{{reason="{field}"}}')
        for name, field in {
            "maxjobstart": "bf_max_job_start",
            "maxjobtest": "bf_max_job_test",
            "maxtime": "bf_max_time",
            "nodespace": "bf_node_space_size",
            "endjobqueue": "end_job_queue",
            "statechanged": "state_changed",
        }.items()
    },
}

FAMILIES: tuple[CompatFamily, ...] = (
    *_job_families("slurm_jobs_", ALL_JOBS, "slinky_slurm_jobs"),
    *_job_families("slurm_account_jobs_", ACCOUNTS, "slinky_slurm_account_jobs", "accounts"),
    *_job_families("slurm_user_jobs_", USERS, "slinky_slurm_user_jobs", "users"),
    *_job_families("slurm_partition_jobs_", PARTITIONS, "slinky_slurm_jobs"),
    CompatFamily(
        "slurm_partition_jobs_pending_maxnodecount_total",
        PARTITIONS.labels,
        _largest_pending,
        "slinky_slurm_pending_largest_job_nodes",
    ),
    *_node_families("slurm_nodes_", ALL_HOSTS),
    *_node_families("slurm_partition_nodes_", HOST_PARTITIONS),
    *_resource_families("slurm_partition_nodes_", HOST_PARTITIONS, "slinky_slurm_"),
    *_resource_families("slurm_node_", EACH_HOST, "slinky_slurm_node_", "nodes"),
    *fields(SCHEDULER, "slurm_scheduler_"),
    *fields(BACKFILL, "slurm_bfscheduler_"),
)
