# SPDX-License-Identifier: Apache-2.0
"""The latest end of the jobs on each host.

Slurm has no list of jobs by host, and its list of complete jobs is expensive. So the cheap list of job states is read;
each running job is read once in full, and a few known ones again in every round because a time limit may change. While
no host is busy nothing is read.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from slinky.observe import Log
from slinky.slurm import Host, HostlistError, Job, SlurmClient, SlurmError, SlurmNotFound, expand

log = Log("slinky.operator.slurm.job_deadlines")

#: Jobs that are read at the same time.
CONCURRENT_READS = 4
#: Known jobs that are read again in one round.
REREAD_PER_ROUND = 20
#: Minimum seconds between rounds.
MIN_INTERVAL = 1.0
#: Seconds until the next round if no host changes.
MAX_INTERVAL = 60.0
#: A round that took long is followed by a pause of this multiple of its duration.
PAUSE_FACTOR = 10.0


class ExpectedJobEnd(NamedTuple):
    """The hosts of a job and the time when it ends at the latest, in seconds since 1970."""

    hosts: tuple[str, ...]
    time: float


def job_end(job: Job) -> ExpectedJobEnd | None:
    """Return when a running job ends; None for other jobs."""
    if not job.state.holds_nodes or not job.nodes:
        return None
    try:
        hosts = tuple(expand(job.nodes))
    except HostlistError:
        return None
    if job.time_limit.infinite or not job.time_limit.set:
        return ExpectedJobEnd(hosts, math.inf)
    return ExpectedJobEnd(hosts, job.start_time.whole + 60 * job.time_limit.whole)


def latest_ends(ends: Iterable[ExpectedJobEnd]) -> dict[str, float]:
    """Return the latest end on every host."""
    latest: dict[str, float] = {}
    for end in ends:
        for host in end.hosts:
            latest[host] = max(end.time, latest.get(host, 0.0))
    return latest


class JobDeadlines:
    """The job ends of one cluster, kept up to date while `run` runs."""

    def __init__(self, client: SlurmClient, nodes: Mapping[str, Host], on_change: Callable[[], None]) -> None:
        """`nodes` is the mirror's table of hosts; `on_change` is called after every change."""
        self.by_host: Mapping[str, float] = {}
        self._client = client
        self._nodes = nodes
        self._on_change = on_change
        self._ends: dict[str, ExpectedJobEnd | None] = {}  # by job id, in the order in which the jobs were read
        self._requested = asyncio.Event()

    def request_read(self) -> None:
        """Read again soon: a host has changed, so a job may have started or ended."""
        self._requested.set()

    async def run(self) -> None:
        """Read after every request, with pauses that limit the load on slurmctld."""
        clock = asyncio.get_running_loop().time
        while True:
            started = clock()
            with contextlib.suppress(SlurmError):
                await self.read()
            await asyncio.sleep(max(MIN_INTERVAL, PAUSE_FACTOR * (clock() - started)))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(MAX_INTERVAL):
                    await self._requested.wait()
            self._requested.clear()

    async def read(self) -> None:
        """Read the running jobs once."""
        if any(node.state.busy for node in self._nodes.values()):
            states = await self._client.job_states()
            # The components of a heterogeneous job have ids such as 7+1.
            await self._read_jobs({status.job_id.partition("+")[0] for status in states if status.state.holds_nodes})
        else:
            self._ends.clear()
        latest = latest_ends(end for end in self._ends.values() if end)
        if latest != self.by_host:
            self.by_host = latest
            self._on_change()

    async def _read_jobs(self, running: set[str]) -> None:
        known = {job_id: end for job_id, end in self._ends.items() if job_id in running}
        new = [job_id for job_id in running if job_id not in known]
        self._ends = known
        limit = asyncio.Semaphore(CONCURRENT_READS)

        async def read_job(job_id: str) -> None:
            async with limit:
                try:
                    end = job_end(await self._client.job(job_id))
                except SlurmNotFound:
                    end = None
                except SlurmError as error:  # keep what is known of the job
                    log.info("cannot read job", job=job_id, error=str(error))
                    return
                self._ends.pop(job_id, None)
                self._ends[job_id] = end

        async with asyncio.TaskGroup() as tasks:
            for job_id in [*new, *list(known)[:REREAD_PER_ROUND]]:
                tasks.create_task(read_job(job_id))
