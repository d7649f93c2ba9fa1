# SPDX-License-Identifier: Apache-2.0
"""A shared, continuously refreshed copy of a cluster's jobs, nodes, partitions and reservations, with a change feed.

    async with Mirror(client) as mirror:
        await mirror.synced()
        async for change in mirror.changes(ObjectKind.JOB, ObjectKind.NODE): ...

The mirror polls according to cost (see `polling`), can be asked to read at once by `request_refresh`, and reads
everything again after each loss of the connection. It never reports an absence that slurmctld has not confirmed: what
it cannot read is UNKNOWN. It reads the full list of jobs only for the reasons of many pending jobs.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from msgspec import structs

from slinky.observe import Log
from slinky.slurm.client import SlurmClient
from slinky.slurm.errors import SlurmError, UntrustedServer
from slinky.slurm.mirror.feed import Change, ChangeSource, ObjectKind, is_activity
from slinky.slurm.mirror.job_record import UNSAVED_SECONDS, JobRecord
from slinky.slurm.mirror.job_tracker import JobLookup, JobTracker
from slinky.slurm.mirror.observed_table import FRESH_SECONDS, ObservedTable
from slinky.slurm.mirror.pending_refresh import prefers_list
from slinky.slurm.mirror.polling import (
    REQUIRED_SOURCES,
    ActivityCounters,
    PollingIntervals,
    PollState,
    Source,
    Urgency,
    backfill_has_run,
    has_restarted,
    next_read_at,
    sources_to_read,
)
from slinky.slurm.model.partitions import Partition
from slinky.slurm.model.results import Listing
from slinky.slurm.model.statistics import Diag
from slinky.slurm.model.views import Host, Reservation

log = Log("slinky.slurm.mirror")

#: Changes of one list that are reported before the event loop serves others.
CHANGES_PER_SLICE = 200
N = TypeVar("N", Host, Partition, Reservation)


def is_same_host(before: Host, after: Host) -> bool:
    """Whether two reads of a Slurm node differ at most in gauges that every ping of its slurmd changes."""
    gauges = {"free_mem": before.free_mem, "cpu_load": before.cpu_load, "last_busy": before.last_busy}
    return before == structs.replace(after, **gauges)


#: By kind of object, when a difference does not count as a change.
EQUIVALENT: dict[ObjectKind, Callable[[Any, Any], bool]] = {ObjectKind.NODE: is_same_host}


class Mirror(ChangeSource):
    """A live copy of one cluster."""

    def __init__(
        self,
        client: SlurmClient,
        *,
        all_jobs: bool = True,
        exact_resources: bool = True,
        intervals: PollingIntervals | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """With `all_jobs` the mirror keeps the state of every job, otherwise only of tracked jobs.

        With `exact_resources` it reads the cores and devices of tracked jobs that start, which Slurm shows only to the
        owner of a job and to operators; otherwise the whole job, with the names of its nodes.
        """
        super().__init__()
        self._client = client
        self._intervals = intervals or PollingIntervals()
        self._clock = clock
        self._tracker = JobTracker(
            client,
            all_jobs=all_jobs,
            exact_resources=exact_resources,
            pending_interval=self._intervals.pending_job,
            clock=clock,
            notify=self._notify,
        )
        self.jobs: ObservedTable[JobRecord] = self._tracker.table
        self.nodes: ObservedTable[Host] = ObservedTable(clock)
        self.partitions: ObservedTable[Partition] = ObservedTable(clock)
        self.reservations: ObservedTable[Reservation] = ObservedTable(clock, confirm_losses=False)
        #: Read nodes at once whenever jobs change. Set this while something waits for jobs to leave a node.
        self.read_nodes_eagerly = False
        #: The error that keeps the mirror from reading, or None.
        self.fault: SlurmError | None = None
        #: slurmctld's statistics as last read.
        self.diag: Diag | None = None
        self._synced = False
        self._counters: ActivityCounters | None = None
        self._list_times: dict[Source, int] = {}
        self._poll = {source: PollState() for source in Source}
        self._changed_at = self._counted_at = self._nodes_changed_at = float("-inf")
        self._jobs_complete = False  # whether the last read of jobs left nothing for the next one
        # slurmctld counts a request before it carries it out: one read of nodes after the count is not enough.
        self._read_nodes_again = False
        self._wake = {source: asyncio.Event() for source in Source}
        self._read_done = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        #: Whether `run` keeps the copy up to date.
        self.running = False

    # Queries

    @property
    def age(self) -> float:
        """Seconds since slurmctld last confirmed jobs and nodes, whichever is older."""
        return max(self.jobs.age, self.nodes.age)

    @property
    def diag_age(self) -> float:
        """Seconds since the statistics were read."""
        return self._clock() - self._poll[Source.STATISTICS].success_started_at

    @property
    def jobs_follow_nodes(self) -> bool:
        """Whether all jobs were read after the last change of a node: a job that started there is not pending here."""
        return self._jobs_complete and self._poll[Source.JOBS].success_started_at >= self._nodes_changed_at

    def lookup_job(self, job_id: int | str, sluid: str = "", *, within: float = FRESH_SECONDS) -> JobLookup:
        """What is known of a job. Pass the SLUID if you have it, since slurmctld reuses ids after a crash."""
        return self._tracker.lookup(str(job_id), sluid, within)

    # Hints

    def track(self, job_id: int | str, sluid: str = "") -> None:
        """Read every detail of this job: its identity, its resources when it starts, its outcome when it ends."""
        self._tracker.track(str(job_id), sluid)
        self.request_refresh()

    def follow_all_jobs(self, follow: bool) -> None:
        """Keep the state of every job from now on, or only of tracked jobs; see `all_jobs` of the constructor."""
        self._tracker.follow_all_jobs(follow)
        self.request_refresh()

    async def read_job(self, job_id: int | str, *, exact_resources: bool = True) -> None:
        """Track a job that was just created and read it now.

        Without `exact_resources` one request is saved: the job's nodes are known, but not its cores and devices.
        """
        self._tracker.track(str(job_id), "")
        if not await self._tracker.read_job(str(job_id), exact_resources=exact_resources):
            self.request_refresh()

    def forget(self, job_id: int | str) -> None:
        """Stop tracking this job."""
        self._tracker.forget(str(job_id))

    def request_refresh(self, *, nodes: bool = False) -> None:
        """Read jobs, and nodes if requested, as soon as the cost of the reads allows."""
        self._expect_changes()
        self._request(Source.JOBS, Urgency.NOW)
        if nodes:
            self._request(Source.NODES, Urgency.NOW)

    # Running

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.run(), name="slurm-mirror")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def run(self) -> None:
        """Keep the copy up to date until cancelled. A failure of the cluster sets `fault` and is never raised."""
        self.running = True
        try:
            async with asyncio.TaskGroup() as group:
                for source in Source:
                    group.create_task(self._follow(source), name=f"slurm-mirror-{source.value}")
        finally:
            self.running = False

    async def _follow(self, source: Source) -> None:
        """Read one source whenever it is due. Each source has its own task, so a slow one does not delay the others."""
        while True:
            wait = self._next_read_at(source) - self._clock()
            if wait > 0:
                self._wake[source].clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._wake[source].wait()
                continue
            await self._read_source(source)
            async with self._read_done:
                self._read_done.notify_all()

    async def synced(self, *, deadline: float = 60.0) -> None:
        """Wait until every source was read once; partitions only if possible, see `REQUIRED_SOURCES`.

        Raises the fault, or TimeoutError, after the deadline.
        """
        await self._wait_for(self._is_complete, deadline)

    async def refresh(self, *, deadline: float = 15.0) -> None:
        """Read jobs and nodes now; returns when both were read by requests that began after this call."""
        called_at = self._clock()
        self.request_refresh(nodes=True)
        states = (self._poll[Source.JOBS], self._poll[Source.NODES])
        await self._wait_for(lambda: all(state.success_started_at >= called_at for state in states), deadline)

    async def _wait_for(self, condition: Callable[[], bool], deadline: float) -> None:
        try:
            async with asyncio.timeout(deadline), self._read_done:
                await self._read_done.wait_for(condition)
        except TimeoutError:
            if self.fault is not None:
                raise self.fault from None
            raise

    def _is_complete(self) -> bool:
        partitions_done = self.partitions.synced or self._poll[Source.PARTITIONS].failures > 0
        return partitions_done and all(table.synced for table in (self.jobs, self.nodes, self.reservations))

    def _next_read_at(self, source: Source) -> float:
        now = self._clock()
        return next_read_at(
            source,
            self._poll[source],
            jobs_change=now - self._changed_at < self._intervals.active_after_change
            or self._tracker.awaits_reason
            or self._tracker.has_unread_ends,
            counters_rose=now - self._counted_at < self._intervals.active_after_count,
            changes_expected=self.read_nodes_eagerly or self._tracker.tracks_jobs,
            intervals=self._intervals,
        )

    def _request(self, source: Source, urgency: Urgency) -> None:
        self._poll[source].request(urgency)
        self._wake[source].set()

    # One read

    async def _read_source(self, source: Source) -> None:
        """Read one source and record what that cost and whether it failed."""
        state = self._poll[source]
        state.urgency = Urgency.NONE
        started_at = state.started_at = self._clock()
        try:
            await self._fetch(source)
        except SlurmError as error:
            state.failures += 1
            if source in REQUIRED_SOURCES:
                self._connection_failed(error)
            elif state.failures == 1:
                log.warning("source cannot be read; the last known objects are kept", source=source.value, error=error)
        else:
            recovered, state.failures, state.success_started_at = state.failures > 0, 0, started_at
            if recovered and source in REQUIRED_SOURCES:
                self._source_recovered()
            if not self._synced and self._is_complete():
                self._synced = True
                self._notify(Change(ObjectKind.MIRROR, "", None, None))
        state.at = self._clock()
        # Single reads of jobs have their own limit, so their duration does not make reads of states less frequent.
        state.cost = self._tracker.cost if source is Source.JOBS else state.at - started_at

    async def _fetch(self, source: Source) -> None:
        match source:
            case Source.STATISTICS:
                await self._fetch_statistics()
            case Source.JOBS:
                self._jobs_complete = await self._tracker.read()
                if not self._jobs_complete:
                    self._request(source, Urgency.NOW)
            case Source.NODES:
                nodes = await self._client.nodes(since=self._list_times.get(source))
                await self._update_table(ObjectKind.NODE, source, self.nodes, nodes)
            case Source.PARTITIONS:
                partitions = await self._client.partitions(since=self._list_times.get(source))
                await self._update_table(ObjectKind.PARTITION, source, self.partitions, partitions)
            case Source.PENDING_JOBS:
                await self._fetch_pending_jobs()
            case Source.RESERVATIONS:
                reservations = await self._client.reservations(since=self._list_times.get(source))
                await self._update_table(ObjectKind.RESERVATION, source, self.reservations, reservations)
        # Another cluster behind the same address would look like the loss of every object in this one.
        session = self._client.session
        session.expected_cluster = session.expected_cluster or session.server.cluster

    def _connection_failed(self, error: SlurmError) -> None:
        before, self.fault = self.fault, error
        if before is None:
            self._tracker.verify_since(self._clock() - UNSAVED_SECONDS)
        # Other causes may alternate from request to request; a certificate that is not accepted asks for a person.
        if before is None or isinstance(before, UntrustedServer) is not isinstance(error, UntrustedServer):
            log.warning("connection to Slurm lost", error=error)
            self._notify(Change(ObjectKind.MIRROR, "", before, error))

    def _source_recovered(self) -> None:
        """Retry the sources that still fail at once; the connection is restored when every required source is read."""
        failing = [source for source, state in self._poll.items() if state.failures]
        for source in failing:
            self._poll[source].at = float("-inf")
            self._wake[source].set()
        if not REQUIRED_SOURCES & set(failing):
            self._connection_restored()

    def _connection_restored(self) -> None:
        """Read everything again: slurmctld may have restarted with another state."""
        before, self.fault = self.fault, None
        log.info("connection to Slurm restored")
        self._request_all()
        self._changed_at = self._clock()
        self._notify(Change(ObjectKind.MIRROR, "", before, None))

    def _request_all(self) -> None:
        """Request full lists of every source: after a restart of slurmctld the times of earlier lists mean nothing."""
        self._list_times.clear()
        for source in Source:
            self._request(source, Urgency.NOW)

    async def _fetch_pending_jobs(self) -> None:
        """Read reasons and expected starts by one list, unless few jobs are pending or the list would be too long."""
        source, diag = Source.PENDING_JOBS, self.diag or Diag()
        total = diag.jobs_pending + diag.jobs_running
        self._tracker.lists_pending = prefers_list(self._tracker.pending_count, total)
        if self._tracker.lists_pending:
            self._list_times[source] = await self._tracker.read_pending(since=self._list_times.get(source))
            self._poll[source].full_cost = self._clock() - self._poll[source].started_at

    async def _fetch_statistics(self) -> None:
        self.diag = await self._client.diag()
        counters = ActivityCounters.from_diag(self.diag)
        if self._counters is not None and has_restarted(self._counters, counters):
            log.info("slurmctld restarted; the identity of young jobs is verified")
            self._tracker.verify_since(self._clock() - UNSAVED_SECONDS)
            self._request_all()
            self._notify(Change(ObjectKind.MIRROR, "", self._counters.started_at, None))
        urgencies = sources_to_read(self._counters, counters)
        if urgencies:
            self._counted_at = self._clock()
        for source, urgency in urgencies.items():
            self._request(source, Urgency.NOW if self.read_nodes_eagerly else urgency)
        if self._read_nodes_again:
            self._request(Source.NODES, Urgency.NOW)
        self._read_nodes_again = urgencies.get(Source.NODES) is Urgency.NOW
        for source, table in ((Source.JOBS, self.jobs), (Source.NODES, self.nodes)):
            if source not in urgencies and table.synced and not self._poll[source].urgency:
                table.confirm()
        before, self._counters = self._counters, counters
        if backfill_has_run(before, counters):
            await self._tracker.refresh_pending()

    async def _update_table(
        self, kind: ObjectKind, source: Source, table: ObservedTable[N], listing: Listing[N] | None
    ) -> None:
        """Update one table from a list; None confirms the table as it is."""
        if listing is None:
            table.confirm()
            return
        self._poll[source].full_cost = self._clock() - self._poll[source].started_at
        loss = table.unconfirmed_loss
        changes = table.replace({item.name: item for item in listing.items}, is_same=EQUIVALENT.get(kind))
        if (loss is None) is not (table.unconfirmed_loss is None):
            self._notify(Change(ObjectKind.MIRROR, "", loss, table.unconfirmed_loss))
        for count, (key, before, after) in enumerate(changes, 1):
            self._notify(Change(kind, key, before, after))
            if count % CHANGES_PER_SLICE == 0:
                await asyncio.sleep(0)
        if changes and kind is ObjectKind.NODE:
            self._nodes_changed_at = self._clock()
            self._request(Source.JOBS, Urgency.NOW)  # a job may have started or ended on the node
        if table.unconfirmed_loss is None:
            self._list_times[source] = listing.at
        else:
            self._list_times.pop(source, None)

    def _expect_changes(self) -> None:
        """Read often from now on: a change rarely comes alone."""
        self._changed_at = self._clock()
        for source in (Source.JOBS, Source.STATISTICS):
            self._wake[source].set()

    def _notify(self, change: Change) -> None:
        if is_activity(change):
            self._expect_changes()
        self._publish(change)
