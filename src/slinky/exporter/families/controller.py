# SPDX-License-Identifier: Apache-2.0
"""Families of slurmctld itself: threads, queues, scheduling cycles, requests."""

from msgspec import structs

from slinky.exporter.families.family import Compute, Family, Values
from slinky.exporter.snapshot import ClusterSnapshot

#: slurmctld's statistics are in microseconds.
MICROSECOND = 1e-6


def _statistic(field: str, factor: float = 1.0) -> Compute:
    return lambda snapshot: {(): getattr(snapshot.diag, field) * factor} if snapshot.diag else {}


def _requests(field: str, factor: float = 1.0) -> Compute:
    def compute(snapshot: ClusterSnapshot) -> Values:
        calls = snapshot.diag.rpcs_by_message_type if snapshot.diag else ()
        return {(call.message_type,): getattr(call, field) * factor for call in calls}

    return compute


def _user_requests(field: str, factor: float = 1.0) -> Compute:
    def compute(snapshot: ClusterSnapshot) -> Values:
        calls = snapshot.diag.rpcs_by_user if snapshot.diag else ()
        return {(call.user,): getattr(call, field) * factor for call in calls}

    return compute


def _exits(field: str) -> Compute:
    """How often a scheduler ended its cycle for each reason."""

    def compute(snapshot: ClusterSnapshot) -> Values:
        if snapshot.diag is None:
            return {}
        return {(reason,): count for reason, count in structs.asdict(getattr(snapshot.diag, field)).items()}

    return compute


FAMILIES: tuple[Family, ...] = (
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
        "backfill_cycle_seconds",
        "Time that backfill cycles took.",
        (),
        _statistic("bf_cycle_sum", MICROSECOND),
        "counter",
    ),
    Family(
        "backfill_exits",
        "Ends of backfill cycles by reason; only `end_job_queue` means that the whole queue was considered.",
        ("reason",),
        _exits("bf_exit"),
        "counter",
    ),
    Family(
        "backfill_last_depth",
        "Jobs that the last backfill cycle tried to start.",
        (),
        _statistic("bf_last_depth_try"),
    ),
    Family(
        "backfill_table_size", "Entries of the table of future starts of backfill.", (), _statistic("bf_table_size")
    ),
    Family(
        "backfill_last_cycle_seconds",
        "Duration of the last backfill cycle.",
        (),
        _statistic("bf_cycle_last", MICROSECOND),
    ),
    Family("backfill_queue_length", "Jobs that the last backfill cycle considered.", (), _statistic("bf_queue_len")),
    Family("scheduler_cycles", "Main scheduling cycles.", (), _statistic("schedule_cycle_total"), "counter"),
    Family(
        "scheduler_exits", "Ends of main scheduling cycles by reason.", ("reason",), _exits("schedule_exit"), "counter"
    ),
    Family(
        "scheduler_cycle_seconds",
        "Time that main scheduling cycles took.",
        (),
        _statistic("schedule_cycle_sum", MICROSECOND),
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
    Family(
        "controller_user_requests",
        "Requests of a user to slurmctld.",
        ("user",),
        _user_requests("count"),
        "counter",
        detail="users",
    ),
    Family(
        "controller_user_request_seconds",
        "Time that slurmctld worked on requests of a user.",
        ("user",),
        _user_requests("total_time", MICROSECOND),
        "counter",
        detail="users",
    ),
)
