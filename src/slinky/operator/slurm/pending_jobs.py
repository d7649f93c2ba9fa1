# SPDX-License-Identifier: Apache-2.0
"""The pending jobs of a cluster, for the autoscaler.

The mirror follows the states of all jobs and reads the details of each pending job when it appears; of an array once
for all of its tasks. A decision therefore causes no request to Slurm. While no NodeSet has autoscaling, no job is read.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from slinky.api.fields.autoscaling import PendingPartition
from slinky.insight.job_shape import PendingDemand, array_tasks, is_shortened, job_demand, limited_groups
from slinky.operator.slurm.held_hosts import HeldHosts
from slinky.slurm import Change, Job, JobRecord, Mirror, ObjectKind, Partition

#: Key of the change that tells listeners that pending jobs have changed.
PENDING = "pending"
#: Minimum seconds between two notifications: many jobs that change at once are one event.
MIN_INTERVAL = 1.0
#: Older data, in seconds, count as unknown. Slurm's counters confirm jobs every few seconds.
FRESH_JOBS = 30.0


class PendingQueue(NamedTuple):
    """The pending jobs as slurmctld reports them, with the number of tasks of each, and the partitions.

    `held` has the hosts of running jobs by account; None if they are not known or not needed.
    """

    jobs: tuple[tuple[Job, int], ...]
    partitions: Mapping[str, Partition]
    now: float
    held: Mapping[str, frozenset[str]] | None = None

    def demands(self, lead_seconds: float = 0.0) -> list[PendingDemand]:
        """The demand of each job; the components of a heterogeneous job are one demand."""
        single: list[PendingDemand] = []
        components: dict[int, list[tuple[int, PendingDemand]]] = defaultdict(list)
        limited = limited_groups(job for job, _ in self.jobs)
        for job, tasks in self.jobs:
            demand = job_demand(job, now=self.now, lead_seconds=lead_seconds, tasks=tasks, limited=limited)
            if leader := job.het_job_id.whole:
                components[leader].append((job.het_job_offset.whole, demand))
            else:
                single.append(demand)
        return [
            *single,
            *(_joined(leader, [item for _, item in sorted(parts)]) for leader, parts in components.items()),
        ]

    def by_partition(self) -> dict[str, PendingPartition]:
        """How many jobs each partition has, and the nodes of the largest that is not held."""
        jobs: Counter[str] = Counter()
        largest: Counter[str] = Counter()
        for job, tasks in self.jobs:
            nodes = 0 if job.hold else max(1, job.node_count.whole)
            for name in filter(None, job.partition.split(",")):
                jobs[name] += tasks
                largest[name] = max(largest[name], nodes)
        return {name: PendingPartition(name, jobs[name], largest[name]) for name in jobs}


def _joined(leader: int, parts: list[PendingDemand]) -> PendingDemand:
    shapes = tuple(shape for part in parts for shape in part.shapes)
    obstacle = next((part.obstacle for part in parts if part.obstacle), "")
    return replace(parts[0], job_id=leader, shapes=shapes, tasks=1, obstacle=obstacle)


class PendingJobs:
    """Follows the pending jobs of one cluster while that is requested."""

    def __init__(self, mirror: Mirror, on_change: Callable[[], None]) -> None:
        self._mirror = mirror
        self._on_change = on_change
        self._held = HeldHosts(mirror)
        self._following = False
        self._tracked: set[str] = set()
        self._pending: Counter[str] = Counter()  # pending tasks by job
        self._changed = asyncio.Event()

    def follow(self, follow: bool, *, holders: bool = False) -> None:
        """Begin or stop to read pending jobs, and with `holders` also the hosts of running jobs."""
        self._held.follow(follow and holders)
        if follow is self._following:
            return
        self._following = follow
        if not follow:
            for job in self._tracked:
                self._mirror.forget(job)
            self._tracked.clear()
            self._pending.clear()
        self._mirror.follow_all_jobs(follow)

    async def run(self) -> None:
        """Report changes, many at once as one."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._on_change()
            await asyncio.sleep(MIN_INTERVAL)

    def observe(self, change: Change) -> None:
        """Track jobs that become pending, and forget those that are not pending any more."""
        if not self._following or change.kind not in {ObjectKind.JOB, ObjectKind.PARTITION}:
            return
        if change.kind is ObjectKind.JOB:
            self._count(change.key, change.before, change.after)
            self._held.observe(change)
        self._changed.set()

    def _count(self, key: str, before: JobRecord | None, after: JobRecord | None) -> None:
        job, _, task = key.partition("_")
        was, now = _is_pending(before), _is_pending(after)
        # A tracked array is in the table by its plain id too; only its tasks are counted.
        if task or job not in self._tracked:
            self._pending[job] += now - was
        if now and job not in self._tracked:
            self._tracked.add(job)
            self._mirror.track(job)
        elif was and not now and job in self._tracked and self._pending[job] <= (0 if task else 1):
            self._forget(job)

    def _forget(self, job: str) -> None:
        self._tracked.discard(job)
        self._pending.pop(job, None)
        self._mirror.forget(job)

    def snapshot(self, now: float) -> PendingQueue | None:
        """The pending jobs; None while they are not known."""
        if not self._following or not self._mirror.jobs.is_fresh(FRESH_JOBS):
            return None
        return PendingQueue(tuple(self._jobs()), dict(self._mirror.partitions), now, self._held.by_account())

    def _jobs(self) -> Iterable[tuple[Job, int]]:
        for key in self._tracked:
            record = self._mirror.jobs.get(key)
            if record is None or record.detail is None or not record.detail.state.pending:
                continue
            if tasks := self._tasks(key, record.detail, record.running_tasks):
                yield record.detail, tasks

    def _tasks(self, key: str, job: Job, running: int) -> int:
        """How many tasks of the job could start: an array may limit how many run at the same time."""
        tasks = self._pending[key] if is_shortened(job) else array_tasks(job)
        throttle = job.array_max_tasks.whole
        return max(0, min(tasks, throttle - running)) if throttle else tasks


def _is_pending(record: JobRecord | None) -> bool:
    return record is not None and not record.over and record.state.pending
