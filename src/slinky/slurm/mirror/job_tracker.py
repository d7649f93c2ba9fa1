# SPDX-License-Identifier: Apache-2.0
"""The jobs of the mirror: the states of all or some jobs, and every detail of tracked jobs.

`read` lists job states, which is cheap, and then reads singly what a state does not contain: the identity of a job, its
resources and its end. A single read that fails changes nothing and is repeated. A job counts as departed only when
slurmctld answers that it does not know the job, and then the tracker reads the job's end from accounting.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from msgspec import structs

from slinky.observe import Log
from slinky.slurm.client import SlurmClient
from slinky.slurm.errors import SlurmError
from slinky.slurm.mirror import job_record
from slinky.slurm.mirror.feed import Change, ObjectKind
from slinky.slurm.mirror.job_reader import JobReader, ResourceReader
from slinky.slurm.mirror.job_record import JobRead, JobRecord
from slinky.slurm.mirror.observed_table import FRESH_SECONDS, ObservedTable, Presence
from slinky.slurm.mirror.pending_refresh import PendingJob, RefreshBudget, awaits_reason
from slinky.slurm.mirror.tracked_jobs import TrackedJob, TrackedJobs
from slinky.slurm.model.states import JobState
from slinky.slurm.model.views import JobStatus, NodeResources

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


class JobLookup(NamedTuple):
    """What the mirror knows of one job. ABSENT only if slurmctld does not know the job; it then has the last record."""

    presence: Presence
    record: JobRecord | None


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
        self._reader = JobReader(client, clock, exact_resources=exact_resources)
        self._pending_interval = pending_interval
        self._clock = clock
        self._notify = notify
        self._tracked = TrackedJobs()
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
        tracked = self._tracked.add(job_id, self.table.get(job_id))
        tracked.sluid = sluid or tracked.sluid

    def forget(self, job_id: str) -> None:
        """Stop tracking this job."""
        self._tracked.remove(job_id)
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
        """Read jobs again that appeared or changed since then.

        A crash may have lost them and given their ids away, or may have lost their start, so that they start anew.
        """
        for tracked in self._tracked:
            if tracked.changed_at is None or tracked.changed_at >= since:
                tracked.verify, tracked.settled = True, None

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
    def tracks_jobs(self) -> bool:
        """Whether a job is tracked: its start or its end is awaited."""
        return bool(self._tracked)

    @property
    def pending_count(self) -> int:
        """The number of tracked jobs that are pending."""
        return len(self._tracked.pending)

    async def read_pending(self, *, since: int | None) -> int:
        """Read reason and expected start of all pending jobs by one list; returns the time of the list.

        The list may take seconds. A record that changes meanwhile is newer than the list and stays as it is.
        """
        pending = {key: self.table[key] for key in self._tracked.pending}
        listing = await self._client.jobs(since=since)
        if listing is None:
            return since or 0
        running_tasks = job_record.count_running_tasks(listing.items)
        for count, job in enumerate(listing.items, 1):
            if count % RECORDS_PER_SLICE == 0:
                await asyncio.sleep(0)
            key = str(job.job_id)
            record, tracked = pending.get(key), self._tracked.get(key)
            if record is None or tracked is None or self.table.get(key) is not record or not job.state.pending:
                continue
            if job_record.is_same_job(record, job):
                tracked.read_at = self._clock()
                self._put(job_record.with_detail(record, job, running_tasks[job.job_id]))
        return listing.at

    async def _read(self) -> bool:
        began = self._clock()
        # Jobs that are tracked from now on may be missing from the list.
        keys: Collection[str] = {*self.table, *self._tracked.keys()} if self.all_jobs else self._tracked.unfinished()
        statuses = await self._read_statuses(keys)
        self._state_read_seconds.append(self._clock() - began)
        self._incomplete = False
        await self._update_records(job_record.states_by_key(statuses, self._tracked.keys()), keys)
        if self.table.unconfirmed_loss is None:
            self.table.confirm()
        await self._refresh_pending()
        return not self._incomplete

    async def read_job(self, key: str, *, exact_resources: bool = True) -> bool:
        """Read one job that was just created. False if that failed; the next pass then reads it.

        The job probably runs already, so its exact resources, if requested, are read at the same time.
        """
        tracked = self._tracked.add(key, self.table.get(key))
        tracked.reading = True
        task = asyncio.create_task(self._reader.read_resources(key)) if exact_resources else None
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

    async def _read_statuses(self, keys: Collection[str]) -> Sequence[JobStatus]:
        """The states of all jobs, or of these if only tracked jobs are kept and they are few."""
        if self.all_jobs or len(keys) > MAX_STATE_REQUESTS * IDS_PER_REQUEST:
            return await self._client.job_states()
        ids, statuses = list(keys), list[JobStatus]()
        for start in range(0, len(ids), IDS_PER_REQUEST):
            statuses += await self._client.job_states(ids[start : start + IDS_PER_REQUEST])
        return statuses

    def _departed(self, key: str) -> JobRecord | None:
        tracked = self._tracked.get(key)
        return None if tracked is None else tracked.departed

    def _is_followed(self, key: str) -> bool:
        """Whether the job with this id is tracked and has not departed."""
        tracked = self._tracked.get(key)
        return tracked is not None and tracked.departed is None

    async def _update_records(self, states: dict[str, JobState], keys: Collection[str]) -> None:
        """Update every record from these states, and read singly what a state does not contain."""
        singles: dict[str, tuple[JobState | None, JobRead]] = {}
        for count, (key, state) in enumerate(states.items(), 1):
            if count % RECORDS_PER_SLICE == 0:
                await asyncio.sleep(0)  # ten thousand new jobs must not block the event loop
            tracked = self._tracked.get(key)
            if tracked is None:
                if self.all_jobs:
                    self._put_state(key, state)
            elif tracked.settled is not state and not tracked.reading:
                self._update_tracked(key, tracked, state, singles)
        unlisted = [key for key in keys if key not in states]
        for key in self._accepted_missing(unlisted):
            if not self._is_followed(key):
                self._drop(key)
            elif not self._tracked[key].finished:
                singles[key] = None, JobRead.DETAIL
        singles.update((key, (None, JobRead.DETAIL)) for key in unlisted if self._is_unknown(key))
        await self._read_singly(singles)

    def _update_tracked(
        self, key: str, tracked: TrackedJob, state: JobState, singles: dict[str, tuple[JobState | None, JobRead]]
    ) -> None:
        """Update the record of a tracked job from its state, or note what must be read singly."""
        reads = JobRead.NOTHING
        if tracked.departed is None:
            reads = job_record.required_reads(self.table.get(key), state, verify=tracked.verify)
        if reads:
            singles[key] = state, reads
        else:
            self._put_state(key, state)
            tracked.settled = state

    def _put_state(self, key: str, state: JobState) -> None:
        record = self.table.get(key)
        if record is None:
            self._put(JobRecord(key, state))
        elif record.state != state:
            self._put(structs.replace(record, state=state))

    def _is_unknown(self, key: str) -> bool:
        """Whether a tracked job is not in the table, has not departed, and is not being read."""
        return key not in self.table and self._is_followed(key) and not self._tracked[key].reading

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

    def _accepted_missing(self, unlisted: Collection[str]) -> list[str]:
        """Known jobs that the list lacks; none of them while suspiciously many live jobs are missing."""
        missing = [key for key in unlisted if key in self.table]
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
                record = await self._reader.read(record, tracked, state, reads, read_resources)
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

    async def _refresh_pending(self) -> None:
        """Read reason and expected start of pending jobs again, as many as the budget allows."""
        now = self._clock()
        keys = self._tracked.without_reason if self.lists_pending else self._tracked.pending
        pending = [
            PendingJob(
                key not in self._tracked.without_reason,
                tracked.read_at,
                key,
                now if tracked.first_seen is None else tracked.first_seen,
            )
            for key in keys
            if (tracked := self._tracked[key]).read_at is not None
        ]
        self.awaits_reason = awaits_reason(pending, now)
        async with asyncio.TaskGroup() as group:
            for key in self._refresh_budget.choose(pending, now, self._pending_interval):
                group.create_task(self._update_record(key, self.table[key].state, JobRead.DETAIL))

    def _put(self, record: JobRecord) -> None:
        before = self.table.put(record.job_id, record)
        if (tracked := self._tracked.get(record.job_id)) is not None:
            self._tracked.update(record.job_id, record)
            if tracked.first_seen is None:
                tracked.first_seen = self._clock()
            if before is None or before.state is not record.state:
                tracked.settled, tracked.changed_at = None, self._clock()
        if before != record:
            self._notify(Change(ObjectKind.JOB, record.job_id, before, record))

    def _drop(self, key: str) -> None:
        before = self.table.drop(key)
        if (tracked := self._tracked.get(key)) is not None:
            tracked.first_seen = tracked.settled = None
            self._tracked.update(key, None)
        if before is not None:
            self._notify(Change(ObjectKind.JOB, key, before, None))

    def _depart(self, record: JobRecord, tracked: TrackedJob) -> None:
        """Keep the last record of a tracked job until it is forgotten; another job may have its id by now."""
        before = self.table.drop(record.job_id)
        tracked.departed, tracked.settled = record, None
        self._tracked.update(record.job_id, None)
        self._notify(Change(ObjectKind.JOB, record.job_id, before, record))
