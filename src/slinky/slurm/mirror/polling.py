# SPDX-License-Identifier: Apache-2.0
"""When to ask slurmctld what: often while things move, seldom when they do not, and never more than it can
bear.

Nothing in Slurm pushes, so the mirror watches cheap tell-tales (the counters of `diag/`, the 304 of
`nodes/`) and reads states only when one of them stirs. `due` and `stirred` are pure; each source is also
held to a share of its own cost, so a server that needs longer is asked less often.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Annotated

from msgspec import Meta, Struct

from slinky.slurm.model.statistics import Diag


class Source(Enum):
    """What can be read."""

    TELLTALE = "diag"
    JOBS = "jobs"
    NODES = "nodes"
    PARTITIONS = "partitions"
    RESERVATIONS = "reservations"


#: Without these we are blind. A cluster whose accounting is down cannot tell its partitions, and works on.
VITAL = frozenset(Source) - {Source.PARTITIONS}


class Hurry(IntEnum):
    """How soon a source is wanted."""

    NONE = 0
    SOON = 1  # something has probably changed: as often as the weight of a full answer allows
    NOW = 2  # something has changed


def says(text: str) -> Meta:
    """What a setting means, for the reference."""
    return Meta(description=text)


class Rhythm(Struct, frozen=True):
    """The intervals, in seconds."""

    tick: Annotated[float, says("between readings of slurmctld's statistics, the tell-tale")] = 0.75
    urgent: Annotated[float, says("between readings of what is wanted now")] = 0.05
    lively: Annotated[float, says("between readings of job states while something moves")] = 0.5
    calm_after: Annotated[float, says("after the last change, until nothing counts as moving any more")] = 5.0
    aftermath: Annotated[float, says("after a stir of the tell-tale: job states are read as if something moved")] = 3.0
    sweep: Annotated[float, says("between readings of job states when nothing moves: what no tell-tale shows")] = 60.0
    nodes: Annotated[float, says("between questions for a light node list: a 304 when nothing has changed")] = 3.0
    heavy: Annotated[float, says("a full node list that takes longer is read only when there is a sign ...")] = 0.25
    node_sweep: Annotated[float, says("... or after this long")] = 300.0
    busy: Annotated[float, says("for which a heavy node list may be put off while jobs move")] = 60.0
    tables: Annotated[float, says("between readings of partitions and of reservations")] = 15.0
    pending: Annotated[float, says("between readings of one waiting job, for its reason and expected start")] = 1.5
    burden: Annotated[float, says("pause after a reading of job states, in units of what it cost")] = 1.5
    node_burden: Annotated[float, says("the same for full node lists, which weigh most")] = 20.0
    retry: Annotated[float, says("first pause after a failure; it doubles each time")] = 1.0
    retry_most: Annotated[float, says("longest pause after a failure")] = 10.0


class Last(Struct):
    """When a source was last read, what that cost, whether it failed, and how soon it is wanted again."""

    at: float = float("-inf")
    cost: float = 0.0
    #: What the last answer cost that was not just "nothing has changed".
    full: float = 0.0
    hurry: Hurry = Hurry.NONE
    failures: int = 0
    started: float = float("-inf")
    #: When the last reading that succeeded began: what happened before that is in it.
    began: float = float("-inf")

    def want(self, hurry: Hurry) -> None:
        """Ask for a reading, at least this soon."""
        self.hurry = max(self.hurry, hurry)


def due(source: Source, last: Last, *, moving: bool, astir: bool = False, rhythm: Rhythm) -> float:
    """The moment from which this source may be read again.

    `moving` is what was seen of jobs that somebody follows; `astir` is what the tell-tale says, which may be of others.
    """
    if last.failures:
        pause = backoff(last.failures, rhythm)
        # Partitions are read through the accounting database; one that hangs costs slurmrestd a thread each time.
        return last.at + (max(pause, rhythm.tables, rhythm.burden * last.cost) if source not in VITAL else pause)
    regular = {
        Source.TELLTALE: rhythm.tick,
        # slurmctld counts a request before it starts what that allows: one look is not enough.
        Source.JOBS: rhythm.lively if moving or astir else rhythm.sweep,
        Source.NODES: rhythm.nodes if last.full < rhythm.heavy else rhythm.node_sweep,
        Source.PARTITIONS: rhythm.tables,
        Source.RESERVATIONS: rhythm.tables,
    }[source]
    wanted = {
        Hurry.NONE: regular,
        # A heavy list slows down the very reads that tell what moves: it waits for calm, not for ever.
        Hurry.SOON: max(rhythm.node_burden * last.full, rhythm.busy if moving else 0.0),
        Hurry.NOW: rhythm.urgent,
    }[last.hurry]
    return last.at + max(min(regular, wanted), rhythm.burden * max(last.cost, last.full))


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


#: Requests that make, change or remove nodes.
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


class Telltale(Struct, frozen=True):
    """What slurmctld's statistics betray, and which start of slurmctld they belong to."""

    started_at: int
    jobs: frozenset[tuple[str, int]]
    nodes: frozenset[tuple[str, int]]
    #: How often slurmctld has planned ahead, which is when waiting jobs get an expected start.
    plans: int = 0

    @classmethod
    def of(cls, diag: Diag) -> Telltale:
        """The tell-tale part of the statistics."""
        counted = {rpc.message_type: rpc.count for rpc in diag.rpcs_by_message_type}
        nodes = frozenset((name, count) for name, count in counted.items() if name in NODE_REQUESTS)
        jobs = frozenset((name, count) for name, count in counted.items() if name not in IDLE_REQUESTS)
        progress = {
            ("submitted", diag.jobs_submitted),
            ("started", diag.jobs_started),
            ("completed", diag.jobs_completed),
            ("canceled", diag.jobs_canceled),
            ("failed", diag.jobs_failed),
        }
        return cls(diag.req_time_start.whole, jobs - nodes | progress, nodes, diag.bf_cycle_counter)


def stirred(before: Telltale | None, now: Telltale) -> dict[Source, Hurry]:
    """What may have changed between the two, and how soon that should be looked at."""
    if before is None:
        return {}
    if (before.started_at, before.nodes) != (now.started_at, now.nodes):
        return {Source.JOBS: Hurry.NOW, Source.NODES: Hurry.NOW}
    if before.jobs != now.jobs:
        return {Source.JOBS: Hurry.NOW, Source.NODES: Hurry.SOON}
    return {}


def replanned(before: Telltale | None, now: Telltale) -> bool:
    """Whether slurmctld has planned ahead since: reasons and expected starts of waiting jobs may be others."""
    return before is not None and before.plans != now.plans


def restarted(before: Telltale | None, now: Telltale) -> bool:
    """Whether slurmctld may have been restarted. Statistics also start anew at midnight: no harm."""
    return before is not None and before.started_at != now.started_at
