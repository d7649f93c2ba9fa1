# SPDX-License-Identifier: Apache-2.0
"""What slurmctld reports about itself: whether it answers, its statistics, and the configuration that it runs with."""

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
        """Whether it answered; before v0.0.45 only the text `pinged` says so."""
        return self.responding or self.pinged == "UP"

    @property
    def refused(self) -> bool:
        """Whether it is probably up but refused the token (reported since v0.0.45)."""
        return not self.up and "authentication" in self.status.lower()


class RpcCount(Value, frozen=True, gc=False):
    """How often slurmctld received one kind of request, and how long it worked on them (microseconds)."""

    message_type: str = ""
    count: int = 0
    total_time: int = 0


class UserRpcCount(Value, frozen=True, gc=False):
    """How many requests of one user slurmctld received, and how long it worked on them (microseconds)."""

    user: str = ""
    count: int = 0
    total_time: int = 0


class ScheduleExits(Value, frozen=True, gc=False):
    """How often the main scheduler ended a cycle for each reason."""

    end_job_queue: int = 0
    default_queue_depth: int = 0
    max_job_start: int = 0
    max_rpc_cnt: int = 0
    max_sched_time: int = 0
    licenses: int = 0


class BackfillExits(Value, frozen=True, gc=False):
    """How often backfill ended a cycle for each reason; only `end_job_queue` means that it saw the whole queue."""

    end_job_queue: int = 0
    bf_max_job_start: int = 0
    bf_max_job_test: int = 0
    bf_max_time: int = 0
    bf_node_space_size: int = 0
    state_changed: int = 0


class Diag(Value, frozen=True, gc=False):
    """slurmctld's statistics. Counters are reset at midnight UTC, by a reset and by a restart."""

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
    #: Number of cycles, and their duration in microseconds.
    schedule_cycle_total: int = 0
    schedule_cycle_sum: int = 0
    schedule_cycle_mean_depth: int = 0
    schedule_cycle_depth: int = 0
    job_states_ts: Number = UNSET
    schedule_exit: ScheduleExits = ScheduleExits()
    schedule_cycle_per_minute: int = 0
    schedule_queue_length: int = 0
    bf_active: bool = False
    bf_backfilled_jobs: int = 0
    bf_cycle_counter: int = 0
    bf_cycle_last: int = 0
    bf_cycle_mean: int = 0
    bf_cycle_max: int = 0
    bf_cycle_sum: int = 0
    bf_exit: BackfillExits = BackfillExits()
    bf_last_depth: int = 0
    bf_last_depth_try: int = 0
    bf_queue_len: int = 0
    bf_queue_len_mean: int = 0
    bf_depth_mean: int = 0
    bf_depth_mean_try: int = 0
    bf_depth_sum: int = 0
    bf_depth_try_sum: int = 0
    bf_queue_len_sum: int = 0
    bf_table_size_sum: int = 0
    bf_table_size_mean: int = 0
    bf_last_backfilled_jobs: int = 0
    bf_backfilled_het_jobs: int = 0
    bf_table_size: int = 0
    bf_when_last_cycle: Number = UNSET
    agent_thread_count: int = 0
    gettimeofday_latency: int = 0
    rpcs_by_message_type: tuple[RpcCount, ...] = ()
    rpcs_by_user: tuple[UserRpcCount, ...] = ()


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
    """The start time and the configuration of the running slurmctld."""

    boot_time: int = 0
    hash_value: int = 0
    last_update: int = 0
    next_job_id: Number = UNSET
    slurm_version: str = ""
    slurm_conf: str = ""
