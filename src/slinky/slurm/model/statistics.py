# SPDX-License-Identifier: Apache-2.0
"""What slurmctld tells about itself: whether it answers, how busy it is, with which configuration it runs."""

from __future__ import annotations

from slinky.slurm.model.values import UNSET, Number, Value


class ControllerPing(Value, frozen=True, gc=False):
    """Whether one slurmctld answers."""

    hostname: str = ""
    responding: bool = False
    latency: int = 0
    primary: bool = False
    status: str = ""
    pinged: str = ""

    @property
    def up(self) -> bool:
        """True when it answered; before v0.0.45 only the word tells."""
        return self.responding or self.pinged == "UP"

    @property
    def refused(self) -> bool:
        """It may well be up: it did not like our token (v0.0.45 tells)."""
        return not self.up and "authentication" in self.status.lower()


class RpcCount(Value, frozen=True, gc=False):
    """How often one kind of request reached slurmctld, and what it cost (microseconds)."""

    message_type: str = ""
    count: int = 0
    total_time: int = 0


class Diag(Value, frozen=True, gc=False):
    """slurmctld's statistics. Counters restart at midnight UTC, at a reset and at a restart."""

    req_time: Number = UNSET
    req_time_start: Number = UNSET
    server_thread_count: int = 0
    agent_queue_size: int = 0
    agent_count: int = 0
    dbd_agent_queue_size: int = 0
    jobs_submitted: int = 0
    jobs_started: int = 0
    jobs_completed: int = 0
    jobs_canceled: int = 0
    jobs_failed: int = 0
    jobs_pending: int = 0
    jobs_running: int = 0
    schedule_cycle_last: int = 0
    schedule_cycle_max: int = 0
    schedule_cycle_mean: int = 0
    schedule_cycle_total: int = 0
    schedule_cycle_per_minute: int = 0
    schedule_queue_length: int = 0
    bf_active: bool = False
    bf_backfilled_jobs: int = 0
    bf_cycle_counter: int = 0
    bf_cycle_last: int = 0
    bf_cycle_mean: int = 0
    bf_queue_len: int = 0
    rpcs_by_message_type: tuple[RpcCount, ...] = ()


class ConfMeta(
    Value,
    frozen=True,
    gc=False,
    rename={
        "boot_time": "BOOT_TIME",
        "hash_value": "HashValue",
        "last_update": "LastUpdate",
        "next_job_id": "NEXT_JOB_ID",
        "slurm_version": "SLURM_VERSION",
        "slurm_conf": "SLURM_CONF",
    },
):
    """Of which start and which configuration the running slurmctld is."""

    boot_time: int = 0
    hash_value: int = 0
    last_update: int = 0
    next_job_id: Number = UNSET
    slurm_version: str = ""
    slurm_conf: str = ""
