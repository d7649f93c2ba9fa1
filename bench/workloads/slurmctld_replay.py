# SPDX-License-Identifier: Apache-2.0
"""Replays a workload on a real slurmctld, and records what is forecast for each job while it waits.

slurmctld starts the jobs; the replay submits them and ends them when the workload says. Between two events the clock
of slurmctld is set forward, so that days pass in minutes. After each event the replay waits for a complete backfill
cycle, so that slurmctld's plan knows of the event.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

from bench.workloads.replay import HISTORY_JOBS, LOOK_SECONDS, Look, ReplayedJob
from bench.workloads.swf import WorkloadJob
from slinky.insight.forecast import forecast
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.slurm import Job, JobRequest, JobSelection, SlurmClient, number
from slinky.slurm.model.accounting_jobs import AccountingJob, AccountingJobState, AccountingJobTime
from slinky.slurm.model.statistics import Diag

#: Seconds between two questions whether slurmctld's backfill has ended its cycle, and how long it may take.
POLL_SECONDS, CYCLE_DEADLINE = 0.02, 60.0
#: The priority of jobs with priority 0 at the beginning of the workload; it falls by one in a minute.
BASE_PRIORITY = 10**6


class Clock(Protocol):
    """The clock of a slurmctld that can be set forward."""

    def forward(self, seconds: float) -> None:
        """Set the clock forward."""


class SlurmctldReplay:
    """One replay; `run` returns the jobs that have waited. The users of the workload exist on the cluster."""

    def __init__(self, client: SlurmClient, clock: Clock, workload: Sequence[WorkloadJob], partition: str) -> None:
        self._client, self._clock, self._partition = client, clock, partition
        self._arrivals = deque(sorted(workload, key=lambda job: (job.submit, job.job_id)))
        self._jobs: dict[int, ReplayedJob] = {}
        self._pending: set[int] = set()
        self._ends: dict[int, int] = {}
        self._history: deque[AccountingJob] = deque(maxlen=HISTORY_JOBS)
        self._epoch = 0
        #: Looks at which slurmctld had no plan, or our forecast no range.
        self.without_plan = 0
        self.without_range = 0

    async def run(self) -> list[ReplayedJob]:
        """Replay the workload to its end."""
        partitions = await self._client.partitions()
        rest = QueueSnapshot(0, partitions=partitions.items if partitions else ())
        self._epoch = next_look = (await self._client.diag()).req_time.whole
        while self._arrivals or self._ends or self._pending:
            arrived = await self._advance()
            snapshot = await self._settle(rest)
            self._follow(snapshot.jobs)
            is_look = snapshot.now >= next_look
            if is_look:
                next_look = int(snapshot.now) + LOOK_SECONDS
            self._look(snapshot, self._pending if is_look else arrived & self._pending)
        return [entry for entry in self._jobs.values() if entry.looks]

    async def _advance(self) -> set[int]:
        """Go to the next event; end and submit what is due. Returns the jobs that were submitted."""
        times = [self._epoch + self._arrivals[0].submit] if self._arrivals else []
        due = min([*times, *self._ends.values()], default=None)
        if due is None:
            raise RuntimeError(f"slurmctld starts none of {len(self._pending)} jobs on an empty cluster")
        now = (await self._client.diag()).req_time.whole
        if due > now:
            self._clock.forward(due - now)
            now = due
        ended = [job_id for job_id, end in self._ends.items() if end <= now]
        if ended:
            await self._client.cancel_many(JobSelection(jobs=[str(job_id) for job_id in ended]))
        for job_id in ended:
            del self._ends[job_id]
            self._remember(self._jobs[job_id].job)
        arrived = set()
        while self._arrivals and self._epoch + self._arrivals[0].submit <= now:
            arrived.add(await self._submit(self._arrivals.popleft()))
        return arrived

    async def _submit(self, job: WorkloadJob) -> int:
        request = JobRequest(
            name=f"job-{job.job_id}",
            user_id=job.user,
            partition=self._partition,
            flags=["EXTERNAL_JOB"],
            current_working_directory="/",
            nodes=str(job.nodes),
            tasks=job.nodes,
            memory_per_node=number(1),
            time_limit=number(job.limit // 60),
            priority=number(BASE_PRIORITY * (1 + job.priority) - job.submit // 60),
        )
        job_id = (await self._client.submit(request)).job_id
        self._jobs[job_id] = ReplayedJob(job)
        self._pending.add(job_id)
        return job_id

    def _remember(self, job: WorkloadJob) -> None:
        self._history.append(
            AccountingJob(
                job_id=job.job_id,
                user=job.user,
                state_record=AccountingJobState(current=("COMPLETED",)),
                time=AccountingJobTime(elapsed=job.run, limit=number(job.limit // 60)),
            )
        )

    async def _settle(self, rest: QueueSnapshot) -> QueueSnapshot:
        """The cluster once a backfill cycle has looked at the whole queue after all changes."""
        before = await self._client.diag()
        async with asyncio.timeout(CYCLE_DEADLINE):
            while await self._is_waiting():
                if has_new_cycle(before, await self._client.diag()):
                    break
                await asyncio.sleep(POLL_SECONDS)
        jobs, hosts = await asyncio.gather(self._client.jobs(), self._client.nodes())
        diag = await self._client.diag()
        return QueueSnapshot(
            diag.req_time.whole,
            jobs.items if jobs else (),
            hosts.items if hosts else (),
            rest.partitions,
            history=tuple(self._history),
            diag=diag,
        )

    async def _is_waiting(self) -> bool:
        """Whether a job waits; slurmctld's backfill does not run without one."""
        if not self._pending:
            return False
        return any(status.state.pending for status in await self._client.job_states(self._pending))

    def _follow(self, jobs: Iterable[Job]) -> None:
        """Notice which jobs slurmctld has started."""
        for job in jobs:
            if job.job_id in self._pending and not job.state.pending:
                self._pending.discard(job.job_id)
                entry = self._jobs[job.job_id]
                entry.start = job.start_time.whole
                self._ends[job.job_id] = entry.start + min(entry.job.run, entry.job.limit)

    def _look(self, snapshot: QueueSnapshot, waiting: set[int]) -> None:
        if not waiting:
            return
        ranges = forecast(snapshot)
        for job_id in waiting:
            start, plan = ranges[job_id], snapshot.jobs_by_id[job_id].start_time.whole
            if plan <= snapshot.now:
                self.without_plan += 1
            elif start.earliest is None or start.latest is None:
                self.without_range += 1
            else:
                self._jobs[job_id].looks.append(Look(int(snapshot.now), start.earliest, start.latest, plan))


def has_new_cycle(before: Diag, after: Diag) -> bool:
    """Whether a backfill cycle began after `before` and has ended; its length is in microseconds."""
    return after.bf_when_last_cycle.whole - after.bf_cycle_last / 1e6 > before.req_time.whole
