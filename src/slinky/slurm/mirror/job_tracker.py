# SPDX-License-Identifier: Apache-2.0
"""The jobs of the mirror: the states of all or some jobs, and every detail of tracked jobs.

`read` lists job states, which is cheap, and then reads singly what a state does not contain: the identity of a job, its
resources and its end. A single read that fails changes nothing and is repeated. A job counts as departed only when
slurmctld answers that it does not know the job, and then the tracker reads the job's end from accounting.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import structs

from slinky.bounds import JOB_ID_MAX, parse_integer
from slinky.observe import Log
from slinky.slurm.client import SlurmClient
from slinky.slurm.errors import SlurmError, SlurmNotFound, Unsupported
from slinky.slurm.mirror import job_record
from slinky.slurm.mirror.feed import Change, ObjectKind
from slinky.slurm.mirror.job_record import JobRead, JobRecord
from slinky.slurm.mirror.observed_table import FRESH_SECONDS, ObservedTable, Presence
from slinky.slurm.mirror.pending_refresh import PendingJob, RefreshBudget, awaits_reason
from slinky.slurm.model.accounting_jobs import AccountingJob
from slinky.slurm.model.states import JobState
from slinky.slurm.model.views import Job, JobStatus, NodeResources

log = Log("slinky.slurm.job_tracker")

#: `jobs/state/` takes job ids in the URL; this many keep the URL within the length that servers accept.
IDS_PER_REQUEST = 500
#: For jobs that would need more requests than this, the states of all jobs are read instead: 0.3 s at 10,000 jobs.
MAX_STATE_REQUESTS = 4
#: Number of recent state reads from which the cost of a read is estimated.
COST_SAMPLES = 4
#: Concurrent single reads: slurmrestd has few threads, and other clients use them too.
CONCURRENCY = 4
#: Number of records that are updated before other tasks get a turn.
RECORDS_PER_SLICE = 1000
#: Single reads in one pass. Further jobs wait for the next pass, so that states are read again in between.
READS_PER_PASS = 100
#: Single reads of ended jobs in one pass: their state is already known, and their details are less urgent.
ENDED_READS_PER_PASS = 25
#: Up to this many ended jobs are read before they are reported; of more, the state is reported first.
MANY_ENDS = 8


#: Reads the resources of a job whose detail was just read.
ResourceReader = Callable[[JobRecord], Awaitable[tuple[NodeResources, ...] | None]]


async def _named_nodes(record: JobRecord) -> tuple[NodeResources, ...]:
    return job_record.resources_by_node_name(record) or ()


class JobLookup(NamedTuple):
    """What the mirror knows of one job. ABSENT only if slurmctld does not know the job; it then has the last record."""

    presence: Presence
    record: JobRecord | None


@dataclass(slots=True)
class TrackedJob:
    """What the tracker remembers of one tracked job, besides its record in the table."""

    sluid: str = ""
    #: When the job first appeared in the table.
    first_seen: float | None = None
    #: When the full job was last read.
    read_at: float | None = None
    #: The job's identity must be read again: its id may belong to another job.
    verify: bool = False
    #: `read_job` is reading the job, so a pass leaves it alone.
    reading: bool = False
    #: The job has ended and slurmctld has purged it: nothing more can be read.
    purged: bool = False
    #: The last record of a job that slurmctld does not know any more.
    departed: JobRecord | None = None


class JobTracker:
    """Every job that the mirror knows."""

    def __init__(
        self,
        client: SlurmClient,
        *,
        all_jobs: bool,
        exact_resources: bool = True,
        pending_interval: float,
        clock: Callable[[], float],
        notify: Callable[[Change], None],
    ) -> None:
        # A job that was just submitted is in no list yet, so only `lookup` reports absence, not the table.
        self.table: ObservedTable[JobRecord] = ObservedTable(clock, complete=False)
        self._client = client
        #: Whether the table has every job, or only tracked ones.
        self.all_jobs = all_jobs
        self._exact_resources = exact_resources
        self._pending_interval = pending_interval
        self._clock = clock
        self._notify = notify
        self._tracked: dict[str, TrackedJob] = {}
        self._state_read_seconds: deque[float] = deque(maxlen=COST_SAMPLES)
        self._single_reads = asyncio.Semaphore(CONCURRENCY)
        self._incomplete = False
        self._refresh_budget = RefreshBudget(clock())
        #: A young pending job has no reason yet: job states are worth another read soon.
        self.awaits_reason = False
        #: `read_pending` reads the reasons of pending jobs: single reads are only for jobs without a reason.
        self.lists_pending = False
        #: Ended jobs were reported whose details are still to be read: another pass is needed soon.
        self.has_unread_ends = False
        self._pass = asyncio.Lock()

    def track(self, job_id: str, sluid: str) -> None:
        """Read every detail of this job from now on."""
        tracked = self._tracked.setdefault(job_id, TrackedJob())
        tracked.sluid = sluid or tracked.sluid

    def forget(self, job_id: str) -> None:
        """Stop tracking this job."""
        self._tracked.pop(job_id, None)
        if not self.all_jobs:
            self.table.drop(job_id)

    def follow_all_jobs(self, follow: bool) -> None:
        """Keep the state of every job from now on, or only of tracked jobs."""
        self.all_jobs = follow
        if not follow:
            for key in [key for key in self.table if key not in self._tracked]:
                self.table.drop(key)

    def lookup(self, job_id: str, sluid: str = "", within: float = FRESH_SECONDS) -> JobLookup:
        """What is known of a job; see `Mirror.lookup_job`."""
        departed = self._departed(job_id)
        if departed is not None and sluid in {"", departed.sluid}:
            return JobLookup(Presence.ABSENT, departed)
        record = self.table.get(job_id)
        if record is not None and sluid and record.sluid and record.sluid != sluid:
            record = None
        if record is not None and record.state.ended:
            return JobLookup(Presence.PRESENT, record)  # an end is final, however old the record is
        if record is None or not self.table.is_fresh(within):
            return JobLookup(Presence.UNKNOWN, record)
        return JobLookup(Presence.PRESENT, record)

    def verify_since(self, since: float) -> None:
        """Verify the identity of jobs first seen since then: a crash may have lost them and given their ids away."""
        for tracked in self._tracked.values():
            if tracked.first_seen is None or tracked.first_seen >= since:
                tracked.verify = True

    @property
    def cost(self) -> float:
        """Seconds that Slurm works for a read of states.

        This is the minimum of a few reads, since a read may also wait for slurmctld's scheduler, which is no work.
        """
        return min(self._state_read_seconds, default=0.0)

    async def read(self) -> bool:
        """One pass over every job. False if something could not be read and should be read soon."""
        async with self._pass:
            return await self._read()

    async def refresh_pending(self) -> None:
        """Read pending jobs again after a backfill cycle. A pass that is under way does so anyway."""
        if not self._pass.locked():
            async with self._pass:
                await self._refresh_pending()

    @property
    def pending_count(self) -> int:
        """The number of tracked jobs that are pending."""
        return sum(1 for key in self._tracked if (record := self.table.get(key)) and record.state.pending)

    async def read_pending(self, *, since: int | None) -> int:
        """Read reason and expected start of all pending jobs by one list; returns the time of the list.

        The list may take seconds. A record that changes meanwhile is newer than the list and stays as it is.
        """
        pending = {key: record for key in self._tracked if (record := self.table.get(key)) and record.state.pending}
        listing = await self._client.jobs(since=since)
        if listing is None:
            return since or 0
        for count, job in enumerate(listing.items, 1):
            if count % RECORDS_PER_SLICE == 0:
                await asyncio.sleep(0)
            key = str(job.job_id)
            record, tracked = pending.get(key), self._tracked.get(key)
            if record is None or tracked is None or self.table.get(key) is not record or not job.state.pending:
                continue
            if job_record.is_same_job(record, job):
                tracked.read_at = self._clock()
                self._put(job_record.with_detail(record, job))
        return listing.at

    async def _read(self) -> bool:
        began = self._clock()
        if self.all_jobs:
            states = job_record.states_by_key(await self._client.job_states(), self._tracked)
            keys: Collection[str] = {*self.table, *self._tracked}
        else:
            keys = [key for key in self._tracked if not self._is_finished(key)]
            states = await self._read_states(keys)
        self._state_read_seconds.append(self._clock() - began)
        self._incomplete = False
        await self._update_records(states, keys)
        if self.table.unconfirmed_loss is None:
            self.table.confirm()
        await self._refresh_pending()
        return not self._incomplete

    async def read_job(self, key: str, *, exact_resources: bool = True) -> bool:
        """Read one job that was just created. False if that failed; the next pass then reads it.

        The job probably runs already, so its exact resources, if requested, are read at the same time.
        """
        tracked = self._tracked.setdefault(key, TrackedJob())
        tracked.reading = True
        task = asyncio.create_task(self._read_resources(key)) if exact_resources else None
        if task is not None:
            # A job that does not run yet has no resources: the error of an unused read must not be reported.
            task.add_done_callback(lambda task: task.cancelled() or task.exception())

        async def resources(record: JobRecord) -> tuple[NodeResources, ...] | None:
            return job_record.resources_by_node_name(record) if task is None else await task

        reads, no_limit = JobRead.DETAIL | JobRead.RESOURCES, contextlib.nullcontext()
        try:
            return await self._update_record(key, None, reads, limit=no_limit, read_resources=resources)
        finally:
            tracked.reading = False
            if task is not None:
                task.cancel()

    async def _read_states(self, keys: Iterable[str]) -> dict[str, JobState]:
        ids = list(keys)
        statuses: list[JobStatus] = []
        if len(ids) > MAX_STATE_REQUESTS * IDS_PER_REQUEST:
            statuses += await self._client.job_states()
            ids = []
        for start in range(0, len(ids), IDS_PER_REQUEST):
            statuses += await self._client.job_states(ids[start : start + IDS_PER_REQUEST])
        states = job_record.states_by_key(statuses, self._tracked)
        return {key: state for key, state in states.items() if key in self._tracked}

    def _departed(self, key: str) -> JobRecord | None:
        tracked = self._tracked.get(key)
        return None if tracked is None else tracked.departed

    def _is_followed(self, key: str) -> bool:
        """Whether the job with this id is tracked and has not departed."""
        tracked = self._tracked.get(key)
        return tracked is not None and tracked.departed is None

    def _is_finished(self, key: str) -> bool:
        """Whether nothing more can change for this tracked job."""
        record, tracked = self.table.get(key), self._tracked[key]
        known = record is not None and record.state.ended and job_record.has_final_detail(record)
        return known or tracked.purged or tracked.departed is not None

    async def _update_records(self, states: dict[str, JobState], keys: Collection[str]) -> None:
        """Update every record from these states, and read singly what a state does not contain."""
        singles: dict[str, tuple[JobState | None, JobRead]] = {}
        for count, (key, state) in enumerate(states.items(), 1):
            if count % RECORDS_PER_SLICE == 0:
                await asyncio.sleep(0)  # ten thousand new jobs must not block the event loop
            record, tracked = self.table.get(key), self._tracked.get(key)
            reads = JobRead.NOTHING
            if tracked is not None:
                if tracked.reading:
                    continue
                if tracked.departed is None:
                    reads = job_record.required_reads(record, state, verify=tracked.verify)
            if reads:
                singles[key] = state, reads
            elif record is None:
                self._put(JobRecord(key, state))
            elif record.state != state:
                self._put(structs.replace(record, state=state))
        for key in self._accepted_missing(states, keys):
            if not self._is_followed(key):
                self._drop(key)
            elif not self._is_finished(key):
                singles[key] = None, JobRead.DETAIL
        unlisted = (self._tracked.keys() & keys) - states.keys()
        singles.update((key, (None, JobRead.DETAIL)) for key in unlisted if self._is_unknown(key))
        await self._read_singly(singles)

    def _is_unknown(self, key: str) -> bool:
        """Whether a tracked job is not in the table, has not departed, and is not being read."""
        tracked = self._tracked[key]
        return key not in self.table and tracked.departed is None and not tracked.reading

    async def _read_singly(self, singles: dict[str, tuple[JobState | None, JobRead]]) -> None:
        """Read these jobs, as many as one pass may; started jobs first, since callers wait for their nodes."""
        ended = {key: state for key, (state, _) in singles.items() if state is not None and state.ended}
        reported: set[str] = set()
        if len(ended) > MANY_ENDS:
            reported = self._report_ends({key: state for key, state in ended.items() if not self._must_verify(key)})
        # The listeners can act on the reported ends; the next passes read the details, a few at a time.
        ends = [key for key in singles if key in ended and key not in reported]
        live = sorted(singles.keys() - ended, key=lambda key: JobRead.RESOURCES not in singles[key][1])
        self._incomplete |= len(live) > READS_PER_PASS
        self.has_unread_ends = bool(reported) or len(ends) > ENDED_READS_PER_PASS
        async with asyncio.TaskGroup() as group:
            for key in (*live[:READS_PER_PASS], *ends[:ENDED_READS_PER_PASS]):
                state, reads = singles[key]
                group.create_task(self._update_record(key, state, reads))

    def _must_verify(self, key: str) -> bool:
        tracked = self._tracked.get(key)
        return tracked is not None and tracked.verify

    def _report_ends(self, ended: dict[str, JobState]) -> set[str]:
        """Report the end of jobs before their details are read; returns the jobs whose end was new."""
        reported: set[str] = set()
        for key, state in ended.items():
            if (record := self.table.get(key)) is not None and record.detail is not None and record.state != state:
                self._put(structs.replace(record, state=state))
                reported.add(key)
        return reported

    def _accepted_missing(self, states: dict[str, JobState], keys: Collection[str]) -> list[str]:
        """Known jobs that the list lacks; none of them while suspiciously many live jobs are missing."""
        missing = [key for key in keys if key in self.table and key not in states]
        missing_live = frozenset(key for key in missing if not self.table[key].over)
        live = sum(not record.over for record in self.table.values()) if missing_live else 0
        suspect = job_record.is_suspect_loss(len(missing_live), live)
        return missing if self.table.accepts_loss(missing_live, suspect=suspect) else []

    async def _update_record(
        self,
        key: str,
        state: JobState | None,
        reads: JobRead,
        *,
        limit: contextlib.AbstractAsyncContextManager[None] | None = None,
        read_resources: ResourceReader | None = None,
    ) -> bool:
        """Read one tracked job within the limit of concurrent reads, and update its record. False if a read failed."""
        before, tracked = self.table.get(key), self._tracked.get(key)
        if tracked is None:
            return False  # forgotten since the list was read
        record = before or JobRecord(key, state or JobState.of(()), tracked.sluid)
        try:
            async with limit or self._single_reads:
                record = await self._read_facts(record, tracked, state, reads, read_resources)
        except SlurmError as error:
            log.info("job could not be read; the next pass reads it again", job=key, error=error)
            self._incomplete = True
            return False
        if self._tracked.get(key) is not tracked or self.table.get(key) is not before:
            # The job was forgotten meanwhile, or another job got its id after a loss: this response is outdated.
            self._incomplete |= key in self._tracked
            return False
        tracked.verify = False
        if record.lost or record.outcome is not None:
            self._depart(record, tracked)
        else:
            self._put(record)
        return True

    async def _read_facts(
        self,
        record: JobRecord,
        tracked: TrackedJob,
        state: JobState | None,
        reads: JobRead,
        read_resources: ResourceReader | None,
    ) -> JobRecord:
        """The record with the facts that must be read."""
        if JobRead.RESOURCES in reads and not self._exact_resources:
            reads, read_resources = reads | JobRead.DETAIL, _named_nodes
        if JobRead.DETAIL in reads:
            record = await self._read_detail(record.job_id, record, tracked)
        elif state is not None:
            record = structs.replace(record, state=state)
        if JobRead.RESOURCES in reads and record.state.running and not record.lost:
            reading = self._read_resources(record.job_id) if read_resources is None else read_resources(record)
            record = structs.replace(record, resources=await reading)
        return record

    async def _read_detail(self, key: str, record: JobRecord, tracked: TrackedJob) -> JobRecord:
        """The record with the full job; departed if slurmctld does not know the job or another job has its id."""
        try:
            job: Job | None = await self._client.job(key)
        except SlurmNotFound:
            job = None
        tracked.read_at = self._clock()
        if job is not None and job_record.is_same_job(record, job):
            tracked.sluid = job.sluid or tracked.sluid
            return job_record.with_detail(record, job)
        if record.state.ended and record.detail is not None:
            tracked.purged = True
            return record
        return job_record.with_departure(record, await self._read_accounting(key, record))

    async def _read_accounting(self, key: str, record: JobRecord) -> AccountingJob | None:
        """The accounting record of a job that slurmctld does not know, if there is one."""
        try:
            job = await self._client.accounting.job(key)
        except SlurmError as error:
            log.info("accounting has no record of the job", job=key, error=error)
            return None
        return job if job_record.is_same_accounting_job(record, job) else None

    async def _read_resources(self, key: str) -> tuple[NodeResources, ...]:
        """The allocated resources of a job; empty with a data parser that does not have them."""
        job_id = parse_integer(key, 1, JOB_ID_MAX)  # the id of an array or of a step has further characters
        if job_id is None:
            return ()
        try:
            return await self._client.resources(job_id)
        except Unsupported:
            return ()

    async def _refresh_pending(self) -> None:
        """Read reason and expected start of pending jobs again, as many as the budget allows."""
        now = self._clock()
        pending = [
            PendingJob(
                record.has_reason, tracked.read_at, key, now if tracked.first_seen is None else tracked.first_seen
            )
            for key, tracked in self._tracked.items()
            if tracked.read_at is not None
            and (record := self.table.get(key))
            and record.state.pending
            and not (self.lists_pending and record.has_reason)
        ]
        self.awaits_reason = awaits_reason(pending, now)
        async with asyncio.TaskGroup() as group:
            for key in self._refresh_budget.choose(pending, now, self._pending_interval):
                group.create_task(self._update_record(key, self.table[key].state, JobRead.DETAIL))

    def _put(self, record: JobRecord) -> None:
        tracked = self._tracked.get(record.job_id)
        if tracked is not None and tracked.first_seen is None:
            tracked.first_seen = self._clock()
        before = self.table.put(record.job_id, record)
        if before != record:
            self._notify(Change(ObjectKind.JOB, record.job_id, before, record))

    def _drop(self, key: str) -> None:
        before = self.table.drop(key)
        if (tracked := self._tracked.get(key)) is not None:
            tracked.first_seen = None
        if before is not None:
            self._notify(Change(ObjectKind.JOB, key, before, None))

    def _depart(self, record: JobRecord, tracked: TrackedJob) -> None:
        """Keep the last record of a tracked job until it is forgotten; another job may have its id by now."""
        before = self.table.drop(record.job_id)
        tracked.departed = record
        self._notify(Change(ObjectKind.JOB, record.job_id, before, record))
