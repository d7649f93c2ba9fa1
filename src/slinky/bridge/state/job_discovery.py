# SPDX-License-Identifier: Apache-2.0
"""Finds live jobs of this bridge in Slurm that the registry does not know, and registers them.

A job can become unknown in many ways: the bridge restarts, a request is carried out after its response was given up, a
former leader submits late, or slurmctld restarts with an older state in which an ended job runs again. Every search
lists the ids and states of all jobs, which is cheap, and reads each unknown job once, a few at a time. It never reads
the full list of jobs. The reconcile of the workload then adopts a job or ends it.

Searches run one at a time in a task of their own: after a start, after a submission with an unknown outcome, when
slurmctld has restarted, and otherwise one submit deadline after the last search.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from slinky.bridge import metrics
from slinky.bridge.state.job_registry import JobEntry, JobRegistry
from slinky.bridge.workload import identity
from slinky.bridge.workload.grouping import parse_workload
from slinky.kube import Later
from slinky.observe import Clock, Log
from slinky.slurm import (
    Change,
    Denied,
    Job,
    JobState,
    JobStatus,
    Mirror,
    ObjectKind,
    SlurmClient,
    SlurmError,
    SlurmNotFound,
)
from slinky.slurm.mirror.job_record import UNSAVED_SECONDS
from slinky.slurm.transport.endpoints import Slurmctld

log = Log("slinky.bridge.state.job_discovery")

#: Seconds from the end of one search to the next. slurmrestd may carry out a submission until its deadline, so this
#: search finds the jobs of requests that were in flight during the last one.
SEARCH_INTERVAL = max(Slurmctld.SUBMIT.deadline, Slurmctld.ALLOCATE.deadline)
#: Pause between two searches that were requested, and the same as a multiple of the duration of the last list.
MIN_PAUSE, COST_FACTOR = 0.5, 2.0
#: First and longest pause after a search that failed.
RETRY_MIN, RETRY_MAX = 1.0, 10.0
#: Jobs that are read before the results are recorded, and reads at the same time: slurmrestd has few threads.
BATCH, CONCURRENCY = 100, 4
#: States that are examined before other tasks get a turn.
STATES_PER_SLICE = 2000
#: Seconds for which a caller waits for a search; well below the deadline of a reconcile.
WAIT_SECONDS = 20.0
LATER_SECONDS = 5.0


class JobListing(NamedTuple):
    """The ids of the live jobs in Slurm, and the highest id of any job."""

    live: set[str]
    highest: int


class JobDiscovery:
    """Searches Slurm for jobs of this bridge."""

    def __init__(
        self,
        client: SlurmClient,
        mirror: Mirror,
        registry: JobRegistry,
        is_labelled: Callable[[str], bool],
        clock: Clock,
    ) -> None:
        """`is_labelled` tells whether a pod that is not finished has this job in its label: its reconcile reads it."""
        self._client, self._mirror, self._registry = client, mirror, registry
        self._is_labelled, self._clock = is_labelled, clock
        self._foreign: dict[str, float] = {}  # when each live job of others was read, by id
        self._signers: dict[str, str] = {}  # the bridge that signed a job of others, by id, if it is of this cluster
        self._reported_signers: set[str] = set()
        self._leaders: dict[str, str] = {}  # the leader of each later component that was read, by id
        self._highest = 0
        self._restarted = False
        self._wake = asyncio.Event()
        self._next = _search_result()
        self._searched_at = float("-inf")  # when the last complete search began

    # --- requests

    @property
    def searched(self) -> asyncio.Event:
        """Set once a search is complete; before that, see `JobRegistry.is_searched_for`."""
        return self._registry.searched

    async def search(self, since: float | None = None) -> None:
        """Wait for a complete search that began after this call, or after `since` (in monotonic time).

        Concurrent callers share one search. Raises errors of Slurm, and `Later` if the search takes long; it goes on.
        """
        if since is not None and self._searched_at >= since:
            return
        self._wake.set()
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await asyncio.shield(self._next)
        except TimeoutError:
            raise Later("the search of Slurm for jobs of this bridge is not complete yet", LATER_SECONDS) from None

    def handle_change(self, change: Change) -> None:
        """Search again when slurmctld has restarted or is reachable again: it may have an older state."""
        if change.kind is ObjectKind.MIRROR and change.after is None:
            self._restarted = True
            self._wake.set()

    async def run(self) -> None:
        """Search until cancelled. Only the leader runs this."""
        self.searched.clear()
        self._registry.searched_since = float("inf")
        failures = 0
        while True:
            self._wake.clear()
            result, self._next = self._next, _search_result()
            began = self._clock.monotonic()
            try:
                cost = await self._search()
            except (SlurmError, TimeoutError) as error:
                result.set_exception(error)
                log.info("Slurm cannot be searched for jobs of this bridge", error=error)
                await self._clock.sleep(min(RETRY_MAX, RETRY_MIN * 2.0**failures))
                failures = min(failures + 1, 8)
                continue
            failures, self._searched_at = 0, began
            self.searched.set()
            result.set_result(None)
            await self._clock.sleep(max(MIN_PAUSE, COST_FACTOR * cost))
            timer = self._clock.call_later(SEARCH_INTERVAL, self._wake.set)
            try:
                await self._wake.wait()
            finally:
                timer.cancel()

    # --- one search

    async def _search(self) -> float:
        """Search once; the seconds that Slurm needed for the list."""
        await self._mirror.synced()
        began, self._restarted, restarted = self._clock.monotonic(), False, self._restarted
        try:
            listing = await list_jobs(await self._client.job_states())
            cost = self._clock.monotonic() - began
            self._forget_ended(listing, restarted=restarted)
            jobs = await self._jobs_to_read(listing.live)
            adopted = 0
            for start in range(0, len(jobs), BATCH):
                batch = await self._read_jobs(jobs[start : start + BATCH])
                adopted += sum(self._record(job, listing.live) for job in batch)
                # Later batches have lower ids, and were submitted before.
                times = [job.submit_time.whole for job in batch if job.submit_time.whole]
                self._registry.searched_since = min((self._registry.searched_since, *times))
        except BaseException:
            self._restarted |= restarted
            raise
        self._report_signers(listing.live)
        if adopted or not self.searched.is_set():
            log.info("searched Slurm for jobs of this bridge", live=len(listing.live), read=len(jobs), adopted=adopted)
        return cost

    def _forget_ended(self, listing: JobListing, *, restarted: bool) -> None:
        """Forget jobs of others that have ended. After a restart of slurmctld, other jobs may have their ids."""
        lost_since = self._clock.monotonic() - UNSAVED_SECONDS if restarted else float("inf")
        if restarted and listing.highest < self._highest:
            lost_since = float("-inf")  # slurmctld lost more than the last seconds, and counts from a lower id
        self._foreign = {job: at for job, at in self._foreign.items() if job in listing.live and at < lost_since}
        self._leaders = {job: leader for job, leader in self._leaders.items() if job in listing.live and not restarted}
        self._highest = listing.highest

    def _report_signers(self, live: set[str]) -> None:
        """Report other bridges of this cluster that have live jobs: one may be this bridge under a former name."""
        self._signers = {job: bridge for job, bridge in self._signers.items() if job in live and job in self._foreign}
        counts = Counter(self._signers.values())
        for bridge in counts.keys() - self._reported_signers:
            log.warning(
                "Slurm has jobs of another bridge of this cluster; if this bridge had that name before, add it to "
                "formerBridgeIds, so that its jobs are adopted or ended",
                bridge=bridge,
                jobs=counts[bridge],
            )
        self._reported_signers |= counts.keys()
        for bridge in self._reported_signers:
            metrics.OTHER_BRIDGE_JOBS.labels(bridge).set(counts[bridge])

    async def _jobs_to_read(self, live: set[str]) -> list[str]:
        """Live jobs that were not read yet, and registered jobs that count as ended; the newest first."""
        jobs: list[str] = []
        for count, job in enumerate(live, 1):
            if count % STATES_PER_SLICE == 0:
                await asyncio.sleep(0)
            if job in self._foreign:
                continue
            if job in self._registry:
                if not self._registry.is_live(job):
                    jobs.append(job)
            elif self._leaders.get(job) not in live and not self._is_labelled(job):
                jobs.append(job)
        return sorted(jobs, key=int, reverse=True)

    async def _read_jobs(self, jobs: Sequence[str]) -> list[Job]:
        """These jobs, without those that Slurm does not show to this bridge."""
        limit = asyncio.Semaphore(CONCURRENCY)
        failures: list[SlurmError] = []

        async def read(job: str) -> Job | None:
            async with limit:
                try:
                    return None if failures else await self._client.job(job)
                except (SlurmNotFound, Denied):
                    return None  # it has ended, or is hidden from this user and therefore not of this bridge
                except SlurmError as error:
                    failures.append(error)
                    return None

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(read(job)) for job in jobs]
        if failures:
            raise failures[0]
        return [job for task in tasks if (job := task.result()) is not None]

    def _record(self, job: Job, live: set[str]) -> bool:
        """Record what a job is that was just read; whether it was registered."""
        key = str(job.job_id)
        if not _may_run(job.state):
            return False
        comment = identity.parse_comment(job.admin_comment)
        workload = parse_workload(comment.slinky.workload) if comment else None
        if comment is None or workload is None or not identity.is_ours(comment, self._registry.bridge):
            self._foreign[key] = self._clock.monotonic()
            if comment is not None and identity.is_of_cluster(comment, self._registry.bridge):
                self._signers[key] = comment.slinky.bridge
            return False
        if key in self._registry:
            if self._registry.is_live(key):
                return False  # registered while it was read
            if self._registry.sluid(key) in {"", job.sluid}:
                log.warning("a job that has ended is in Slurm again", job=key, workload=str(workload))
                metrics.JOBS_FOUND.labels("returned").inc()
                self._registry.revive(key)
                return True
            self._registry.forget(key)  # slurmctld has given the id to another job
        leader = str(job.het_job_id.whole)
        if leader not in {"0", key} and leader in live:
            self._leaders[key] = leader
            return False
        metrics.JOBS_FOUND.labels("adopted").inc()
        self._registry.track(JobEntry(key, workload, comment.slinky, frozenset(comment.pods)))
        return True


async def list_jobs(states: Sequence[JobStatus]) -> JobListing:
    """The live jobs among these. Tasks of arrays are left out: an external job cannot be an array."""
    live: set[str] = set()
    highest = 0
    for count, status in enumerate(states, 1):
        if count % STATES_PER_SLICE == 0:
            await asyncio.sleep(0)
        # Slurm lists a component of a heterogeneous job as `id+offset`; the id is the component's own.
        job = status.job_id.partition("+")[0]
        if job.isascii() and job.isdigit():
            highest = max(highest, int(job))
            if _may_run(status.state):
                live.add(job)
    return JobListing(live, highest)


def _may_run(state: JobState) -> bool:
    """Whether a job is in the queue or has nodes, and is not ending already."""
    return state.live and "COMPLETING" not in state.flags


def _search_result() -> asyncio.Future[None]:
    """The result of a search for its callers; a failure that no caller awaits is not reported as forgotten."""
    result: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    result.add_done_callback(lambda done: done.cancelled() or done.exception())
    return result
