# SPDX-License-Identifier: Apache-2.0
"""Simulates slurmctld's backfill scheduler on a snapshot: when each pending job starts, and on which nodes. Pure.

Jobs are placed in the order of the queue, each at the earliest time at which it fits without delaying a job before it;
that is what slurmctld's backfill does. slurmctld plans later starts with whole nodes (`whole_nodes`); in the end, jobs
share the nodes, so a simulation without it is the optimistic one.

Not simulated: limits of QOS and associations, preemption, topology, power saving, and jobs that are not submitted yet.
Large queues are simulated with a coarser clock.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import ceil

from slinky.insight.explain.resource_checks import license_counts
from slinky.insight.forecast.availability import Availability, Placement
from slinky.insight.forecast.slurmctld_plan import required_outage
from slinky.insight.job_requirements import (
    JobRequirements,
    capacity,
    excluded_hosts,
    missing_features,
    pending_tasks,
    requirements,
)
from slinky.insight.limit_reasons import parse_limit
from slinky.insight.pending_reasons import explain
from slinky.insight.queue_snapshot import QueueSnapshot, host_names, is_usable, names
from slinky.slurm.model.views import Job

#: Starts that a simulation plans at most; the tasks of an array are starts of their own.
MAX_STARTS = 20_000
#: Seconds to which slurmctld's backfill rounds the ends of planned jobs (`bf_resolution`).
RESOLUTION = 60
#: Starts and running jobs up to which the simulation has this resolution; the work grows with both.
EXACT_STARTS = 500
EXACT_RUNNING = 150
#: Steps of the clock for larger queues.
CLOCK_STEPS = 90
#: Nodes of a planned job that are named.
SHOWN_HOSTS = 8
_AFTER = re.compile(r"after(?:any|ok|notok|corr)?:(\d{1,10})")


@dataclass(frozen=True, slots=True)
class UseRatios:
    """Which shares of their time limits earlier jobs used, sorted, by user; 1 is the whole limit.

    `quantile` of the jobs ended no later than a forecast assumes. Without earlier jobs it assumes the whole limit.
    """

    by_user: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    everyone: tuple[float, ...] = ()
    quantile: float = 0.5

    def seconds(self, job: Job, limit: int, elapsed: int = 0) -> int:
        """The expected run time of a job that has run for `elapsed` seconds."""
        shares = self.by_user.get(job.user_name, self.everyone)
        if not shares:
            return limit
        # Jobs that ended earlier say nothing about a job that still runs.
        longer = bisect_right(shares, elapsed / limit) if elapsed else 0
        left = len(shares) - longer
        if not left:
            return max((elapsed + limit) // 2, 1)
        return max(int(limit * shares[longer + min(int(left * self.quantile), left - 1)]), elapsed, 1)


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """The simulated start of a job, or why there is none. `last` is the start of the last task of an array."""

    begin: int | None
    end: int = 0
    hosts: tuple[str, ...] = ()
    last: int | None = None
    why: str = ""


#: Every job runs as long as its time limit allows.
WHOLE_LIMIT = UseRatios()


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A pending job as a simulation sees it. `obstacle` says why it cannot be simulated."""

    job: Job
    need: JobRequirements
    tasks: int
    obstacle: str


@dataclass(frozen=True, slots=True)
class StartedJob:
    """A job that has nodes, as a simulation sees it."""

    job: Job
    need: JobRequirements
    hosts: tuple[str, ...]
    licenses: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PreparedQueue:
    """The pending jobs in the order of the queue and the jobs that have nodes, read once for several simulations."""

    pending: tuple[QueuedJob, ...]
    started: tuple[StartedJob, ...]


def prepare_queue(snapshot: QueueSnapshot) -> PreparedQueue:
    """The jobs of a snapshot as simulations read them."""
    return PreparedQueue(
        tuple(
            QueuedJob(job, _needs(job, snapshot), pending_tasks(job), find_obstacle(job)) for job in snapshot.pending
        ),
        tuple(
            StartedJob(job, requirements(job, allocated=True), host_names(job.nodes), license_counts(job.licenses))
            for job in snapshot.running
            if job.nodes
        ),
    )


def simulate(
    snapshot: QueueSnapshot,
    ratios: UseRatios = WHOLE_LIMIT,
    *,
    queue: PreparedQueue | None = None,
    whole_nodes: bool = True,
    name_hosts: bool = True,
    until: Collection[int] | None = None,
) -> dict[int, PlannedStart]:
    """When each pending job starts, by job id, in the order of the queue; on which nodes only with `name_hosts`.

    With `until`, jobs behind the last of these jobs are left out: they do not delay it.
    """
    prepared = prepare_queue(snapshot) if queue is None else queue
    return _Simulation(snapshot, ratios, prepared, whole_nodes=whole_nodes, name_hosts=name_hosts).run(until)


class _Simulation:
    """One run; the snapshot is not changed."""

    def __init__(
        self,
        snapshot: QueueSnapshot,
        ratios: UseRatios,
        queue: PreparedQueue,
        *,
        whole_nodes: bool,
        name_hosts: bool,
    ) -> None:
        self._snapshot, self._ratios, self._whole_nodes = snapshot, ratios, whole_nodes
        self._name_hosts = name_hosts
        self._now = int(snapshot.now)
        self._hosts = tuple(sorted(filter(is_usable, snapshot.hosts), key=lambda host: (host.weight, host.name)))
        self._bits = {host.name: 1 << index for index, host in enumerate(self._hosts)}
        self._queue = queue.pending
        self._step = self._clock_step()
        self._masks: dict[tuple[str, str, str], int] = {}
        self._reservations: dict[str, tuple[int, int, int]] = {}
        self._ends: dict[int, int] = {}
        #: The last start of a shape by run time: an equal job behind it that runs as long cannot start earlier.
        self._hints: dict[tuple[object, ...], dict[int, int]] = {}
        self._availability = Availability(
            [capacity(host) for host in self._hosts],
            self._now,
            {pool.license_name: pool.total for pool in snapshot.licenses},
        )
        self._occupy(queue.started)
        self._reserve()

    def run(self, until: Collection[int] | None = None) -> dict[int, PlannedStart]:
        """Plan every pending job in the order of the queue, or those up to the last of `until`."""
        left = None if until is None else set(until)
        planned: dict[int, PlannedStart] = {}
        starts = 0
        for entry in self._queue:
            if left is not None:
                if not left:
                    break
                left.discard(entry.job.job_id)
            obstacle = entry.obstacle
            if not obstacle and starts >= MAX_STARTS:
                obstacle = f"more than {MAX_STARTS} starts are ahead of it"
            if obstacle:
                planned[entry.job.job_id] = PlannedStart(None, why=obstacle)
                continue
            tasks = min(entry.tasks, MAX_STARTS - starts)
            planned[entry.job.job_id] = self._plan(entry.job, entry.need, tasks)
            starts += tasks
        return planned

    # --- what is there already

    def _occupy(self, started: tuple[StartedJob, ...]) -> None:
        known = 0
        jobs = []
        for entry in started:
            nodes = self._bitmap(entry.hosts)
            known |= nodes
            if nodes:
                end = self._rounded_running(self._end(entry.job, entry.need))
                jobs.append((end, entry.need, nodes, entry.licenses))
        # A busy node whose jobs are hidden from this user is free at an unknown time.
        hidden = self._bitmap(tuple(host.name for host in self._hosts if host.state.busy)) & ~known
        self._hidden = hidden
        self._availability.occupy(jobs)

    def _end(self, job: Job, need: JobRequirements) -> int:
        limit = job.end_time.whole or self._now + need.seconds
        if job.state.suspended:
            return self._now + need.seconds
        begin = job.start_time.whole or self._now
        elapsed = max(self._now - begin, 0)
        return max(begin + self._ratios.seconds(job, max(limit - begin, 1), elapsed), self._now + 1)

    def _reserve(self) -> None:
        for entry in self._snapshot.reservations:
            nodes = self._bitmap(host_names(entry.node_list)) if entry.node_list else 0
            begin, end = entry.start_time.whole, entry.end_time.whole
            self._reservations[entry.name] = (nodes, begin, end)
            if nodes and end > self._now:
                self._availability.reserve(nodes, begin, self._rounded_running(end))

    def _bitmap(self, hosts: tuple[str, ...]) -> int:
        bits = 0
        for name in hosts:
            bits |= self._bits.get(name, 0)
        return bits

    # --- one job

    def _plan(self, job: Job, need: JobRequirements, tasks: int) -> PlannedStart:
        not_before = max(self._now, job.eligible_time.whole)
        for number in _AFTER.findall(job.dependency):
            end = self._ends.get(int(number)) or self._running_end(int(number))
            if end is None:
                return PlannedStart(None, why=f"the end of job {number}, on which it depends, is not known")
            not_before = max(not_before, end)
        if outage := required_outage(job, self._snapshot):
            return PlannedStart(None, why=outage)
        placement, not_before = self._placement(job, need, not_before)
        if placement is None:
            return PlannedStart(None, why="its reservation does not exist")
        return self._place(job, placement, not_before, tasks)

    def _running_end(self, number: int) -> int | None:
        job = self._snapshot.jobs_by_id.get(number)
        if job is None:
            return self._now
        return self._end(job, requirements(job)) if job.state.holds_nodes else self._now if job.state.ended else None

    def _placement(self, job: Job, need: JobRequirements, not_before: int) -> tuple[Placement | None, int]:
        mask, reservation_end = self._mask(job) & ~self._hidden, None
        if job.resv_name:
            if job.resv_name not in self._reservations:
                return None, not_before
            nodes, begin, reservation_end = self._reservations[job.resv_name]
            mask &= nodes or mask
            not_before = max(not_before, begin)
        required = self._bitmap(host_names(job.required_nodes)) if job.required_nodes else 0
        table = self._availability.transitions(need)
        return Placement(need, mask, table, required, license_counts(job.licenses), reservation_end), not_before

    def _place(self, job: Job, placement: Placement, not_before: int, tasks: int) -> PlannedStart:
        need, throttle = placement.need, job.array_max_tasks.whole
        seconds = self._stepped(self._ratios.seconds(job, need.seconds))
        hints = self._hints.setdefault(
            (id(placement.table), need.nodes, placement.mask, placement.required,
             tuple(placement.licenses.items()), placement.reservation_end), {}
        )  # fmt: skip
        first: PlannedStart | None = None
        ends: list[int] = []
        begin = end = 0
        for _ in range(tasks):
            earliest = heappop(ends) if throttle and len(ends) >= throttle else not_before
            found = self._availability.earliest(placement, seconds, max(earliest, _bound(hints, seconds)))
            if found is None:
                return first or PlannedStart(None, why=self._shortage(job, placement))
            begin, nodes = found
            end = self._rounded(begin + seconds)
            self._availability.allocate(placement, nodes, begin, end, whole=self._whole_nodes and begin > self._now)
            hints[seconds] = begin
            heappush(ends, end)
            if first is None:
                first = PlannedStart(begin, begin + seconds, self._names(nodes) if self._name_hosts else ())
        self._ends[job.job_id] = end
        return replace(first, last=begin) if first and tasks > 1 else first or PlannedStart(None)

    def _shortage(self, job: Job, placement: Placement) -> str:
        if placement.reservation_end is not None:
            return "it does not fit into its reservation"
        return f"no {placement.need.nodes} nodes that are up have what it needs"

    def _mask(self, job: Job) -> int:
        key = job.partition, job.features, job.excluded_nodes
        if key not in self._masks:
            excluded = excluded_hosts(job)
            wanted = set(names(job.partition))
            self._masks[key] = self._bitmap(
                tuple(
                    host.name
                    for host in self._hosts
                    if not wanted.isdisjoint(host.partitions)
                    and host.name not in excluded
                    and not missing_features(job, host)
                )
            )
        return self._masks[key]

    def _names(self, nodes: int) -> tuple[str, ...]:
        chosen: list[str] = []
        while nodes and len(chosen) < SHOWN_HOSTS:
            bit = nodes & -nodes
            chosen.append(self._hosts[bit.bit_length() - 1].name)
            nodes ^= bit
        return tuple(chosen)

    # --- the clock

    def _clock_step(self) -> int:
        """The resolution of slurmctld, or for a large cluster a share of the time in which the queue is worked off."""
        starts = sum(entry.tasks for entry in self._queue)
        is_small = starts <= EXACT_STARTS and len(self._snapshot.running) <= EXACT_RUNNING
        if is_small or not starts or not self._hosts:
            return RESOLUTION
        work = sum(entry.need.nodes * entry.need.seconds * entry.tasks for entry in self._queue)
        longest = max(entry.need.seconds for entry in self._queue)
        return max(int((work / len(self._hosts) + longest) / CLOCK_STEPS), RESOLUTION)

    def _stepped(self, seconds: int) -> int:
        """A run time; whole steps in a large queue, so that more jobs are equal."""
        return seconds if self._step == RESOLUTION else ceil(seconds / self._step) * self._step

    def _rounded(self, end: int) -> int:
        """The end of a planned job: slurmctld's backfill rounds it up."""
        return ceil(end / self._step) * self._step

    def _rounded_running(self, end: int) -> int:
        """The end of a running job or a reservation, which slurmctld does not round."""
        return end if self._step == RESOLUTION else self._rounded(end)


def _bound(hints: Mapping[int, int], seconds: int) -> int:
    """The latest start of an equal job that runs no longer: a job that runs longer cannot start before it."""
    return max((begin for other, begin in hints.items() if other <= seconds), default=0)


def find_obstacle(job: Job) -> str:
    """Why a job cannot be simulated; empty if it can."""
    reason = job.state_reason.partition(",")[0].strip()
    if job.hold or job.priority.value == 0:
        return "the job is held"
    if reason == "Dependency":
        return "" if _AFTER.search(job.dependency) else "its dependency is not one that ends at a known time"
    if reason == "DependencyNeverSatisfied":
        return "its dependency can no longer be satisfied"
    if parse_limit(reason) is not None or reason in _LIMITS:
        return f"it waits for a limit ({reason}), and limits are not simulated"
    if reason in _PEOPLE:
        return f"a person must act ({reason}): {explain(reason).sentence}"
    return ""


_LIMITS = frozenset(
    f"{owner}{kind}Limit" for owner in ("Association", "QOS") for kind in ("Job", "Resource", "Time")
) | {"QOSUsageThreshold", "AccountingPolicy"}
_PEOPLE = frozenset(
    ["InvalidAccount", "InvalidQOS", "AccountNotAllowed", "QOSNotAllowed", "PartitionDown", "PartitionInactive",
     "PartitionTimeLimit", "PartitionConfig", "PartitionNodeLimit", "MaxMemPerLimit", "ReservationDeleted",
     "ReservationInvalid", "BadConstraints"]
)  # fmt: skip


def _needs(job: Job, snapshot: QueueSnapshot) -> JobRequirements:
    need = requirements(job)
    partitions = [
        snapshot.partitions_by_name[name] for name in names(job.partition) if name in snapshot.partitions_by_name
    ]
    is_whole = any("EXCLUSIVE" in p.partition.oversubscribe.upper() for p in partitions)
    return replace(need, exclusive=True) if is_whole else need
