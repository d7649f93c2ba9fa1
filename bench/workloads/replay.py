# SPDX-License-Identifier: Apache-2.0
"""Replays a workload on a simulated cluster, and records what is forecast for each job while it waits. Pure.

Whenever a job arrives or ends, the backfill simulation, whose order is that of slurmctld on a frozen queue, starts the
jobs that fit; jobs then run as long as the workload says, not as long as their limits. The start that this simulation
plans for the others is what slurmctld shows as `start_time`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from heapq import heappop, heappush

from bench.workloads.swf import WorkloadJob
from slinky.insight.forecast import forecast
from slinky.insight.forecast.simulation import simulate
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.slurm import Host, Job, number
from slinky.slurm.hostlist import fold
from slinky.slurm.model.accounting_jobs import AccountingJob, AccountingJobState, AccountingJobTime
from slinky.slurm.model.partitions import Partition, PartitionMode

#: The replay begins at this time, in seconds since the epoch.
EPOCH = 1_800_000_000
#: Seconds between two looks at every pending job.
LOOK_SECONDS = 1800
#: Ended jobs from which forecasts learn.
HISTORY_JOBS = 1000
_PARTITION = Partition(name="work", partition=PartitionMode(state=("UP",)))


@dataclass(frozen=True, slots=True)
class Look:
    """What was forecast at a time: our range, and slurmctld's planned start."""

    at: int
    earliest: int
    latest: int
    plan: int


@dataclass(slots=True)
class ReplayedJob:
    """A job with its real start and all looks at it while it waited; a job that started at once has none."""

    job: WorkloadJob
    start: int = 0
    looks: list[Look] = field(default_factory=list)


class Replay:
    """One replay; `run` returns the jobs that have waited."""

    def __init__(self, workload: Sequence[WorkloadJob], nodes: int) -> None:
        self._names = [f"n{index:04}" for index in range(nodes)]
        self._free = list(reversed(self._names))
        self._jobs = {job.job_id: ReplayedJob(job) for job in workload if job.nodes <= nodes}
        self._arrivals = sorted(self._jobs.values(), key=lambda entry: entry.job.submit)
        self._pending: dict[int, Job] = {}
        self._running: dict[int, tuple[Job, list[str]]] = {}
        self._ends: list[tuple[int, int]] = []
        self._history: list[AccountingJob] = []

    def run(self) -> list[ReplayedJob]:
        """Replay the workload to its end."""
        next_look = EPOCH
        for now in self._times():
            arrived = self._advance(now)
            plans = self._start(now)
            is_look = now >= next_look
            if is_look:
                next_look = now + LOOK_SECONDS
            waiting = set(self._pending) if is_look else arrived & self._pending.keys()
            if waiting:
                self._look(now, waiting, plans)
        return [entry for entry in self._jobs.values() if entry.looks]

    def _times(self) -> Iterator[int]:
        while self._arrivals or self._ends:
            times = [EPOCH + self._arrivals[0].job.submit] if self._arrivals else []
            yield min([*times, *(self._ends[0][:1] if self._ends else ())])

    def _advance(self, now: int) -> set[int]:
        """End and submit what is due; returns the jobs that arrived."""
        while self._ends and self._ends[0][0] <= now:
            _, job_id = heappop(self._ends)
            _, hosts = self._running.pop(job_id)
            self._free += hosts
            self._remember(self._jobs[job_id].job)
        arrived = set()
        while self._arrivals and EPOCH + self._arrivals[0].job.submit <= now:
            job = self._arrivals.pop(0).job
            self._pending[job.job_id] = _pending_job(job)
            arrived.add(job.job_id)
        return arrived

    def _remember(self, job: WorkloadJob) -> None:
        record = AccountingJob(
            job_id=job.job_id,
            user=job.user,
            state_record=AccountingJobState(current=("COMPLETED",)),
            time=AccountingJobTime(elapsed=job.run, limit=number(job.limit // 60)),
        )
        self._history = [*self._history[-HISTORY_JOBS:], record]

    def _start(self, now: int) -> dict[int, int]:
        """Start the jobs that fit now; returns the planned starts of the others."""
        plans: dict[int, int] = {}
        if not self._pending:
            return plans
        for job_id, planned in simulate(self._snapshot(now), name_hosts=False).items():
            job = self._jobs[job_id].job
            if planned.begin is not None and planned.begin <= now and job.nodes <= len(self._free):
                self._run_job(job, now)
            elif planned.begin is not None:
                plans[job_id] = planned.begin
        return plans

    def _run_job(self, job: WorkloadJob, now: int) -> None:
        hosts = [self._free.pop() for _ in range(job.nodes)]
        pending = self._pending.pop(job.job_id)
        self._running[job.job_id] = _running_job(pending, job, hosts, now), hosts
        self._jobs[job.job_id].start = now
        heappush(self._ends, (now + min(job.run, job.limit), job.job_id))

    def _look(self, now: int, waiting: set[int], plans: dict[int, int]) -> None:
        ranges = forecast(self._snapshot(now))
        for job_id in waiting:
            start, plan = ranges[job_id], plans.get(job_id)
            if start.earliest is not None and start.latest is not None and plan is not None:
                self._jobs[job_id].looks.append(Look(now, start.earliest, start.latest, plan))

    def _snapshot(self, now: int) -> QueueSnapshot:
        free = set(self._free)
        hosts = tuple(_host(name, free=name in free) for name in self._names)
        jobs = (*(job for job, _ in self._running.values()), *self._pending.values())
        return QueueSnapshot(now, jobs, hosts, (_PARTITION,), history=tuple(self._history))


@cache
def _host(name: str, *, free: bool) -> Host:
    words = ("IDLE",) if free else ("ALLOCATED",)
    return Host(name=name, words=words, partitions=("work",), cpus=1, effective_cpus=1, alloc_cpus=0 if free else 1)


def _pending_job(job: WorkloadJob) -> Job:
    return Job(
        job_id=job.job_id,
        user_name=job.user,
        partition="work",
        job_state=("PENDING",),
        state_reason="Priority",
        node_count=number(job.nodes),
        tres_req_str=f"cpu={job.nodes},node={job.nodes}",
        priority=number(10**6 * (1 + job.priority) - job.submit // 60),
        submit_time=number(EPOCH + job.submit),
        eligible_time=number(EPOCH + job.submit),
        time_limit=number(job.limit // 60),
    )


def _running_job(pending: Job, job: WorkloadJob, hosts: list[str], now: int) -> Job:
    fields = {name: getattr(pending, name) for name in pending.__struct_fields__}
    return Job(**fields | {
        "job_state": ("RUNNING",),
        "nodes": fold(hosts),
        "tres_alloc_str": pending.tres_req_str,
        "start_time": number(now),
        "end_time": number(now + job.limit),
    })  # fmt: skip
