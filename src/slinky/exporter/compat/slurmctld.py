# SPDX-License-Identifier: Apache-2.0
"""The names of the metrics of the scheduler that slurmctld itself serves (`/metrics/scheduler`), and their meaning.

They are slurmctld's statistics under other names: one table serves to read them and to offer them. Durations are in
microseconds, and all are gauges, as there.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from slinky.exporter.compat import slurm_exporter
from slinky.exporter.compat.compat_family import CompatFamily, fields
from slinky.slurm import Diag

PREFIX = "slurm_"
#: Fields of the statistics by the rest of the name.
NATIVE_FIELDS = {
    "agent_cnt": "agent_count",
    "agent_queue_size": "agent_queue_size",
    "agent_thread_cnt": "agent_thread_count",
    "backfilled_het_jobs": "bf_backfilled_het_jobs",
    "backfilled_jobs": "bf_backfilled_jobs",
    "last_backfilled_jobs": "bf_last_backfilled_jobs",
    "bf_active": "bf_active",
    "bf_cycle_cnt": "bf_cycle_counter",
    "bf_cycle_last": "bf_cycle_last",
    "bf_cycle_max": "bf_cycle_max",
    "bf_cycle_tot": "bf_cycle_sum",
    "bf_depth_mean": "bf_depth_mean",
    "bf_depth_tot": "bf_depth_sum",
    "bf_depth_try_tot": "bf_depth_try_sum",
    "bf_last_depth": "bf_last_depth",
    "bf_last_depth_try": "bf_last_depth_try",
    "bf_mean_cycle": "bf_cycle_mean",
    "bf_mean_table_sz": "bf_table_size_mean",
    "bf_queue_len": "bf_queue_len",
    "bf_queue_len_mean": "bf_queue_len_mean",
    "bf_queue_len_tot": "bf_queue_len_sum",
    "bf_table_size": "bf_table_size",
    "bf_table_size_tot": "bf_table_size_sum",
    "bf_try_depth_mean": "bf_depth_mean_try",
    "bf_when_last_cycle": "bf_when_last_cycle",
    "bf_exit_end": "bf_exit.end_job_queue",
    "bf_exit_max_job_start": "bf_exit.bf_max_job_start",
    "bf_exit_max_job_test": "bf_exit.bf_max_job_test",
    "bf_exit_state_changed": "bf_exit.state_changed",
    "bf_exit_table_limit": "bf_exit.bf_node_space_size",
    "bf_exit_timeout": "bf_exit.bf_max_time",
    "sched_exit_end": "schedule_exit.end_job_queue",
    "sched_exit_lic": "schedule_exit.licenses",
    "sched_exit_max_depth": "schedule_exit.default_queue_depth",
    "sched_exit_max_job_start": "schedule_exit.max_job_start",
    "sched_exit_rpc_cnt": "schedule_exit.max_rpc_cnt",
    "sched_exit_timeout": "schedule_exit.max_sched_time",
    "sched_mean_cycle": "schedule_cycle_mean",
    "sched_mean_depth_cycle": "schedule_cycle_mean_depth",
    "schedule_cycle_cnt": "schedule_cycle_total",
    "schedule_cycle_depth": "schedule_cycle_depth",
    "schedule_cycle_last": "schedule_cycle_last",
    "schedule_cycle_max": "schedule_cycle_max",
    "schedule_cycle_tot": "schedule_cycle_sum",
    "schedule_queue_len": "schedule_queue_length",
    "sdiag_job_states_ts": "job_states_ts",
    "sdiag_jobs_canceled": "jobs_canceled",
    "sdiag_jobs_completed": "jobs_completed",
    "sdiag_jobs_failed": "jobs_failed",
    "sdiag_jobs_pending": "jobs_pending",
    "sdiag_jobs_running": "jobs_running",
    "sdiag_jobs_started": "jobs_started",
    "sdiag_jobs_submitted": "jobs_submitted",
    "sdiag_latency": "gettimeofday_latency",
    "server_thread_cnt": "server_thread_count",
    "slurmdbd_queue_size": "dbd_agent_queue_size",
}
_AGE = "slinky_slurm_source_age_seconds"
_REPLACEMENTS = dict([*slurm_exporter.SCHEDULER.values(), *slurm_exporter.BACKFILL.values()])

FAMILIES: tuple[CompatFamily, ...] = tuple(
    fields({name: (field, _REPLACEMENTS.get(field, _AGE)) for name, field in NATIVE_FIELDS.items()}, PREFIX)
)


def read_statistics(metrics: Mapping[str, float]) -> Diag:
    """The statistics of slurmctld from its own metrics, which have no figures of requests."""
    document: dict[str, Any] = {}
    for name, field in NATIVE_FIELDS.items():
        if (value := metrics.get(PREFIX + name)) is not None:
            group, _, member = field.rpartition(".")
            (document.setdefault(group, {}) if group else document)[member] = _convert(field, value)
    return msgspec.convert(document, Diag)


def _convert(field: str, value: float) -> object:
    whole = max(0, int(value))
    if field in {"bf_when_last_cycle", "job_states_ts"}:
        return {"set": True, "infinite": False, "number": whole}
    return bool(whole) if field == "bf_active" else whole
