# SPDX-License-Identifier: Apache-2.0
"""Decides when the mirror reads what from slurmctld. Pure.

Slurm has no watch, so the mirror polls two cheap indicators: the request counters of `diag/`, often while a change is
expected, and the 304 response of `nodes/`. It reads job states and node lists only after an indicator shows activity,
and at long intervals otherwise. Slurm changes the reasons and expected starts of pending jobs without any indicator:
many of them are read by one list. The pause after each read is also at least a multiple of what the read cost, so a
slow server is polled less often.
"""

from enum import Enum, IntEnum
from typing import Annotated, Self

from msgspec import Meta, Struct

from slinky.slurm.model.statistics import Diag


class Source(Enum):
    """What the mirror reads."""

    STATISTICS = "diag"
    JOBS = "jobs"
    NODES = "nodes"
    PARTITIONS = "partitions"
    RESERVATIONS = "reservations"
    PENDING_JOBS = "pending jobs"


#: Sources whose failure means that the connection to Slurm is lost. slurmrestd reads partitions through the accounting
#: database, so a cluster whose accounting is down cannot list its partitions but still schedules jobs. The list of
#: pending jobs is long and may fail alone.
REQUIRED_SOURCES = frozenset(Source) - {Source.PARTITIONS, Source.PENDING_JOBS}


class Urgency(IntEnum):
    """How soon a source should be read."""

    NONE = 0
    SOON = 1  # the source has probably changed: read it as often as the cost of a full response allows
    NOW = 2  # the source has changed


def describe(text: str) -> Meta:
    """The description of a setting, for the reference page."""
    return Meta(description=text)


class PollingIntervals(Struct, frozen=True):
    """The intervals, in seconds."""

    statistics: Annotated[
        float, describe("between reads of slurmctld's statistics (`diag/`) while changes are expected")
    ] = 0.75
    idle_statistics: Annotated[float, describe("the same while no change is expected, if that is longer")] = 2.0
    urgent: Annotated[float, describe("before a read that was requested because something changed")] = 0.05
    active_jobs: Annotated[float, describe("between reads of job states while jobs change")] = 0.5
    idle_jobs: Annotated[float, describe("between reads of job states otherwise: finds what no counter shows")] = 60.0
    active_after_change: Annotated[float, describe("after a change, during which jobs count as changing")] = 5.0
    active_after_count: Annotated[float, describe("after a counter rose, during which job states are read often")] = 3.0
    nodes: Annotated[float, describe("between reads of a cheap node list; a 304 when nothing has changed")] = 3.0
    expensive_nodes: Annotated[float, describe("duration of a full read above which a node list is expensive")] = 0.25
    idle_nodes: Annotated[float, describe("between reads of an expensive node list without a sign of a change")] = 300.0
    nodes_delay: Annotated[float, describe("maximum delay of an expensive node list while jobs change")] = 60.0
    partitions: Annotated[float, describe("between reads of partitions, and between reads of reservations")] = 15.0
    pending_job: Annotated[float, describe("between reads of one pending job, for its reason and expected start")] = 1.5
    pending_jobs: Annotated[float, describe("between lists of all jobs, for the reasons of many pending jobs")] = 45.0
    pending_cost_factor: Annotated[float, describe("pause after such a list, as a multiple of its duration")] = 4.0
    cost_factor: Annotated[float, describe("pause after a read, as a multiple of the read's duration")] = 1.5
    node_cost_factor: Annotated[float, describe("the same for full node lists, the most expensive reads")] = 20.0
    retry_min: Annotated[float, describe("first pause after a failure; the pause doubles with each failure")] = 1.0
    retry_max: Annotated[float, describe("longest pause after a failure")] = 10.0


class PollState(Struct):
    """When a source was last read, what that cost, whether it failed, and how soon it should be read again."""

    #: When the last read ended.
    at: float = float("-inf")
    #: Seconds that the last read took.
    cost: float = 0.0
    #: Seconds that the last full response took; a 304 does not count.
    full_cost: float = 0.0
    urgency: Urgency = Urgency.NONE
    failures: int = 0
    #: When the last read began.
    started_at: float = float("-inf")
    #: When the last successful read began: it contains everything that happened before.
    success_started_at: float = float("-inf")

    def request(self, urgency: Urgency) -> None:
        """Request a read that is at least this urgent."""
        self.urgency = max(self.urgency, urgency)


def next_read_at(
    source: Source,
    state: PollState,
    *,
    jobs_change: bool,
    counters_rose: bool = False,
    changes_expected: bool = True,
    intervals: PollingIntervals,
) -> float:
    """The time from which this source may be read again.

    `jobs_change` says that the mirror has observed changes of jobs; `counters_rose` says that slurmctld's counters show
    activity, which may concern jobs that the mirror does not follow; `changes_expected` says that a user of the mirror
    waits for a change, such as the start or the end of a tracked job.
    """
    if state.failures:
        return state.at + _pause_after_failure(source, state, intervals)
    prompt = changes_expected or jobs_change or counters_rose
    regular = {
        Source.STATISTICS: intervals.statistics if prompt else max(intervals.statistics, intervals.idle_statistics),
        # slurmctld counts a request before it starts what the request allows: one read after the count is not enough.
        Source.JOBS: intervals.active_jobs if jobs_change or counters_rose else intervals.idle_jobs,
        Source.NODES: intervals.nodes if state.full_cost < intervals.expensive_nodes else intervals.idle_nodes,
        Source.PARTITIONS: intervals.partitions,
        Source.RESERVATIONS: intervals.partitions,
        Source.PENDING_JOBS: max(intervals.pending_jobs, intervals.pending_cost_factor * state.full_cost),
    }[source]
    requested = {
        Urgency.NONE: regular,
        # An expensive list slows down the reads of job states, so it waits until jobs are quiet, up to a maximum.
        Urgency.SOON: max(intervals.node_cost_factor * state.full_cost, intervals.nodes_delay if jobs_change else 0.0),
        Urgency.NOW: intervals.urgent,
    }[state.urgency]
    return state.at + max(min(regular, requested), intervals.cost_factor * max(state.cost, state.full_cost))


def _pause_after_failure(source: Source, state: PollState, intervals: PollingIntervals) -> float:
    pause = backoff(state.failures, intervals)
    if source in REQUIRED_SOURCES:
        return pause
    if source is Source.PENDING_JOBS:
        return max(pause, intervals.pending_jobs, intervals.pending_cost_factor * state.cost)
    # Each read of partitions that waits for a hung accounting database blocks a thread of slurmrestd.
    return max(pause, intervals.partitions, intervals.cost_factor * state.cost)


def backoff(failures: int, intervals: PollingIntervals) -> float:
    """Seconds to wait after this many failures in a row."""
    return min(intervals.retry_max, intervals.retry_min * 2.0 ** min(failures - 1, 16)) if failures > 0 else 0.0


#: Requests that change no job. Every other kind of request that slurmctld counts may have changed one.
READ_ONLY_REQUESTS = frozenset(
    {
        "REQUEST_ASSOC_MGR_INFO",
        "REQUEST_BATCH_SCRIPT",
        "REQUEST_BUILD_INFO",
        "REQUEST_BURST_BUFFER_INFO",
        "REQUEST_CONFIG",
        "REQUEST_CONTROL_STATUS",
        "REQUEST_FED_INFO",
        "REQUEST_HEALTH_CHECK",
        "REQUEST_HET_JOB_ALLOC_INFO",
        "REQUEST_JOB_ALLOCATION_INFO",
        "REQUEST_JOB_END_TIME",
        "REQUEST_JOB_INFO",
        "REQUEST_JOB_INFO_SINGLE",
        "REQUEST_JOB_READY",
        "REQUEST_JOB_STATE",
        "REQUEST_JOB_STEP_INFO",
        "REQUEST_JOB_USER_INFO",
        "REQUEST_JOB_WILL_RUN",
        "REQUEST_LICENSE_INFO",
        "REQUEST_NODE_INFO",
        "REQUEST_NODE_INFO_SINGLE",
        "REQUEST_PARTITION_INFO",
        "REQUEST_PERSIST_INIT",
        "REQUEST_PING",
        "REQUEST_PRIORITY_FACTORS",
        "REQUEST_RESERVATION_INFO",
        "REQUEST_RESOURCE_LAYOUT",
        "REQUEST_SHARE_INFO",
        "REQUEST_STATS_INFO",
        "REQUEST_STEP_LAYOUT",
        "REQUEST_TOPO_CONFIG",
        "REQUEST_TOPO_INFO",
        "REQUEST_TRIGGER_GET",
        "MESSAGE_NODE_REGISTRATION_STATUS",
        "MESSAGE_JWT_TOKEN",
        "REQUEST_AUTH_TOKEN",
        "ACCOUNTING_REGISTER_CTLD",
    }
)


#: Requests that create, change or delete nodes.
NODE_REQUESTS = frozenset(
    {
        "REQUEST_CREATE_NODE",
        "REQUEST_DELETE_NODE",
        "REQUEST_REBOOT_NODES",
        "REQUEST_RECONFIGURE",
        "REQUEST_RUN_POWER_ACTION",
        "REQUEST_UPDATE_NODE",
    }
)


class ActivityCounters(Struct, frozen=True):
    """The counters of slurmctld's statistics that show activity, and the start of slurmctld that they belong to."""

    started_at: int
    jobs: frozenset[tuple[str, int]]
    nodes: frozenset[tuple[str, int]]
    #: Number of backfill cycles; a cycle gives pending jobs an expected start.
    backfill_cycles: int = 0

    @classmethod
    def from_diag(cls, diag: Diag) -> Self:
        """The activity counters of the statistics."""
        counts = {rpc.message_type: rpc.count for rpc in diag.rpcs_by_message_type}
        nodes = frozenset((name, count) for name, count in counts.items() if name in NODE_REQUESTS)
        jobs = frozenset((name, count) for name, count in counts.items() if name not in READ_ONLY_REQUESTS)
        progress = {
            ("submitted", diag.jobs_submitted),
            ("started", diag.jobs_started),
            ("completed", diag.jobs_completed),
            ("canceled", diag.jobs_canceled),
            ("failed", diag.jobs_failed),
        }
        return cls(diag.req_time_start.whole, jobs - nodes | progress, nodes, diag.bf_cycle_counter)


def sources_to_read(before: ActivityCounters | None, after: ActivityCounters) -> dict[Source, Urgency]:
    """The sources that may have changed between two readings of the counters, with the urgency of reading each."""
    if before is None:
        return {}
    if (before.started_at, before.nodes) != (after.started_at, after.nodes):
        return {Source.JOBS: Urgency.NOW, Source.NODES: Urgency.NOW}
    if before.jobs != after.jobs:
        return {Source.JOBS: Urgency.NOW, Source.NODES: Urgency.SOON}
    return {}


def backfill_has_run(before: ActivityCounters | None, after: ActivityCounters) -> bool:
    """Whether a backfill cycle has run since: it may have changed reasons and expected starts of pending jobs."""
    return before is not None and before.backfill_cycles != after.backfill_cycles


def has_restarted(before: ActivityCounters | None, after: ActivityCounters) -> bool:
    """Whether slurmctld may have restarted. Its statistics also start anew at midnight, which only costs some reads."""
    return before is not None and before.started_at != after.started_at
