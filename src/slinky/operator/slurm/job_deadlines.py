# SPDX-License-Identifier: Apache-2.0
"""When the work on each host ends at the latest.

Slurm has no list of jobs by host, and its list of whole jobs is dear. So states are read, which are cheap, and each job
that has begun is read once, and again now and then because its limit may change. While no host is busy nothing is
asked at all.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from slinky.observe import Log
from slinky.slurm import Host, HostlistError, Job, SlurmClient, SlurmError, SlurmNotFound, expand

log = Log("slinky.operator.slurm.job_deadlines")

#: Jobs read at once, and jobs read again in one round.
ABREAST = 4
AGAIN = 20
#: Seconds between rounds: after a sign, without one, and as a multiple of what the last one cost.
SOONEST = 1.0
REFRESH = 60.0
BURDEN = 10.0


class Ending(NamedTuple):
    """Where a job runs and when it is over at the latest, in seconds since 1970."""

    hosts: tuple[str, ...]
    at: float


def ending(job: Job) -> Ending | None:
    """A job's end; None unless it runs."""
    if not job.state.holds_nodes or not job.nodes:
        return None
    try:
        hosts = tuple(expand(job.nodes))
    except HostlistError:
        return None
    if job.time_limit.infinite or not job.time_limit.set:
        return Ending(hosts, math.inf)
    return Ending(hosts, job.start_time.whole + 60 * job.time_limit.whole)


def latest(endings: Iterable[Ending]) -> dict[str, float]:
    """The last end on every host."""
    found: dict[str, float] = {}
    for one in endings:
        for host in one.hosts:
            found[host] = max(one.at, found.get(host, 0.0))
    return found


class JobDeadlines:
    """The ends of one cluster's jobs, kept up to date while `run` runs."""

    def __init__(self, client: SlurmClient, nodes: Mapping[str, Host], told: Callable[[], None]) -> None:
        """`nodes` is the mirror's table; `told` is called after every change."""
        self.of_host: Mapping[str, float] = {}
        self._client = client
        self._nodes = nodes
        self._told = told
        self._endings: dict[str, Ending | None] = {}  # in the order in which they were read
        self._wake = asyncio.Event()

    def stir(self) -> None:
        """A host has changed: a job may have begun or ended there."""
        self._wake.set()

    async def run(self) -> None:
        """Look whenever there is a sign, never more often than Slurm can bear."""
        clock = asyncio.get_running_loop().time
        while True:
            started = clock()
            with contextlib.suppress(SlurmError):
                await self.look()
            await asyncio.sleep(max(SOONEST, BURDEN * (clock() - started)))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REFRESH):
                    await self._wake.wait()
            self._wake.clear()

    async def look(self) -> None:
        """One round."""
        if any(node.state.busy for node in self._nodes.values()):
            states = await self._client.job_states()
            # The parts of a heterogeneous job have ids of their own, with an offset behind a plus.
            await self._read({status.job_id.partition("+")[0] for status in states if status.state.holds_nodes})
        else:
            self._endings.clear()
        found = latest(one for one in self._endings.values() if one)
        if found != self.of_host:
            self.of_host = found
            self._told()

    async def _read(self, running: set[str]) -> None:
        known = {key: one for key, one in self._endings.items() if key in running}
        new = [key for key in running if key not in known]
        self._endings = known
        limit = asyncio.Semaphore(ABREAST)

        async def read(key: str) -> None:
            async with limit:
                try:
                    found = ending(await self._client.job(key))
                except SlurmNotFound:
                    found = None
                except SlurmError as error:  # whatever was known of it stays
                    log.info("a job could not be read", job=key, why=str(error))
                    return
                self._endings.pop(key, None)
                self._endings[key] = found

        async with asyncio.TaskGroup() as family:
            for key in [*new, *list(known)[:AGAIN]]:
                family.create_task(read(key))
