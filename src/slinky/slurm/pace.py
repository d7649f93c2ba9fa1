# SPDX-License-Identifier: Apache-2.0
"""When to ask slurmctld what: often while things move, seldom when they do not, and never more than it can
bear.

Nothing in Slurm pushes, so the mirror watches cheap tell-tales (the counters of `diag/`, the 304 of
`nodes/`) and reads states only when one of them stirs. `due` and `stirred` are pure; each source is also
held to a share of its own cost, so a server that needs longer is asked less often.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from msgspec import Struct

from .views import Diag


class Source(Enum):
    """What can be read."""

    TELLTALE = "diag"
    JOBS = "jobs"
    NODES = "nodes"
    PARTITIONS = "partitions"
    RESERVATIONS = "reservations"


class Rhythm(Struct, frozen=True):
    """The intervals, in seconds."""

    tick: float = 1.0  # the tell-tale, always
    urgent: float = 0.05  # anything that is wanted now
    lively: float = 0.5  # job states while something moves
    calm_after: float = 5.0  # how long after the last change something still counts as moving
    sweep: float = 60.0  # job states when nothing moves: what no tell-tale shows
    nodes: float = 2.0  # a 304 when nothing changed
    tables: float = 10.0  # partitions and reservations
    pending: float = 30.0  # reason and expected start of one waiting job
    burden: float = 3.0  # pause after a read of job states, in units of what it cost
    node_burden: float = 20.0  # the same for full node lists, which weigh most
    retry: float = 1.0  # first pause after a failure; doubles
    retry_most: float = 10.0


class Last(Struct):
    """When a source was last read, what that cost, whether it failed, and whether it is wanted before its
    time.
    """

    at: float = float("-inf")
    cost: float = 0.0
    wanted: bool = False
    failures: int = 0
    #: When the last reading that succeeded began: what happened before that is in it.
    began: float = float("-inf")


def due(source: Source, last: Last, *, moving: bool, rhythm: Rhythm) -> float:
    """The moment from which this source may be read again."""
    if last.failures:
        return last.at + backoff(last.failures, rhythm)
    match source:
        case Source.TELLTALE:
            wait = max(rhythm.tick, rhythm.burden * last.cost)
        case Source.JOBS:
            lively = max(rhythm.lively, rhythm.burden * last.cost)
            wait = lively if moving else max(lively, rhythm.sweep)
        case Source.NODES:
            wait = max(rhythm.nodes, rhythm.node_burden * last.cost)
        case Source.PARTITIONS | Source.RESERVATIONS:
            wait = max(rhythm.tables, rhythm.node_burden * last.cost)
    if last.wanted:
        wait = min(wait, max(rhythm.urgent, rhythm.burden * last.cost))
    return last.at + wait


def backoff(failures: int, rhythm: Rhythm) -> float:
    """How long to leave a server alone after so many failures in a row."""
    return min(rhythm.retry_most, rhythm.retry * 2.0 ** min(failures - 1, 16)) if failures > 0 else 0.0


#: Requests that change nothing about jobs. Every other kind that slurmctld counts may have.
IDLE_REQUESTS = frozenset(
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


class Telltale(Struct, frozen=True):
    """What slurmctld's statistics betray about jobs, and which start of slurmctld they belong to."""

    started_at: int
    counts: tuple[int, ...]
    requests: frozenset[tuple[str, int]]

    @classmethod
    def of(cls, diag: Diag) -> Telltale:
        """The tell-tale part of the statistics."""
        counts = (
            diag.jobs_submitted,
            diag.jobs_started,
            diag.jobs_completed,
            diag.jobs_canceled,
            diag.jobs_failed,
        )
        requests = frozenset(
            (rpc.message_type, rpc.count)
            for rpc in diag.rpcs_by_message_type
            if rpc.message_type not in IDLE_REQUESTS
        )
        return cls(diag.req_time_start.whole, counts, requests)


def stirred(before: Telltale | None, now: Telltale) -> bool:
    """Whether jobs may have changed between the two."""
    return before != now


def restarted(before: Telltale | None, now: Telltale) -> bool:
    """Whether slurmctld may have been restarted between the two. Statistics also start anew at midnight: no
    harm.
    """
    return before is not None and before.started_at != now.started_at


def earliest(moments: Iterable[float], now: float) -> float:
    """Seconds from now until the first of these moments."""
    return max(0.0, min(moments, default=now) - now)
