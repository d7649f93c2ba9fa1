# SPDX-License-Identifier: Apache-2.0
"""One shared view of a cluster: jobs, nodes, partitions and reservations, each with an age, and a feed of
changes.

    async with Mirror(client) as mirror:
        await mirror.synced()
        async for change in mirror.changes(Kind.JOB, Kind.NODE): ...

It polls by cost (see `pace`), may be woken by `poke`, and resyncs after every loss of contact. What it
cannot see is UNKNOWN: it never reports an absence that slurmctld has not confirmed, and it never reads the
full list of jobs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from msgspec import structs

from slinky.slurm.client import SlurmClient
from slinky.slurm.errors import SlurmError
from slinky.slurm.mirror.feed import Change, Feed, Listener, ObjectKind, moves
from slinky.slurm.mirror.job_record import YOUNG, JobRecord
from slinky.slurm.mirror.job_tracker import JobTracker, Whereabouts
from slinky.slurm.mirror.observed_table import FRESH, Doubt, ObservedTable
from slinky.slurm.mirror.polling import (
    VITAL,
    Hurry,
    Last,
    Rhythm,
    Source,
    Telltale,
    due,
    replanned,
    restarted,
    stirred,
)
from slinky.slurm.model.partitions import Partition
from slinky.slurm.model.results import Listing
from slinky.slurm.model.views import Host, Reservation

log = logging.getLogger(__name__)

N = TypeVar("N", Host, Partition, Reservation)


def same_node(before: Host, after: Host) -> bool:
    """Whether two views of a node differ at most in gauges that every ping of its slurmd moves."""
    gauges = {"free_mem": before.free_mem, "cpu_load": before.cpu_load, "last_busy": before.last_busy}
    return before == structs.replace(after, **gauges)


#: When a difference is no change.
SAME: dict[ObjectKind, Callable[[Any, Any], bool]] = {ObjectKind.NODE: same_node}


class Mirror:
    """A live view of one cluster."""

    def __init__(
        self,
        client: SlurmClient,
        *,
        all_jobs: bool = True,
        rhythm: Rhythm | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """With `all_jobs` the state of every job is kept, otherwise only of those that are tracked."""
        self._client = client
        self._rhythm = rhythm or Rhythm()
        self._clock = clock
        self._book = JobTracker(
            client, everything=all_jobs, patience=self._rhythm.pending, clock=clock, tell=self._tell
        )
        self.jobs: ObservedTable[JobRecord] = self._book.table
        self.nodes: ObservedTable[Host] = ObservedTable(clock)
        self.partitions: ObservedTable[Partition] = ObservedTable(clock)
        self.reservations: ObservedTable[Reservation] = ObservedTable(clock, cautious=False)
        #: Somebody waits for work to leave a node: whenever jobs move, nodes are read at once.
        self.attentive = False
        #: The error that keeps the mirror from seeing, or None.
        self.fault: SlurmError | None = None
        self._whole = False
        self._telltale: Telltale | None = None
        self._since: dict[Source, int] = {}
        self._last = {source: Last() for source in Source}
        self._moved_at = self._stirred_at = float("-inf")
        self._nodes_again = False  # slurmctld counts a request before it is done: one look is not enough
        self._listeners: dict[object, Listener] = {}
        self._wake = {source: asyncio.Event() for source in Source}
        self._turned = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    # For readers

    @property
    def age(self) -> float:
        """Seconds since the older of jobs and nodes was last confirmed."""
        return max(self.jobs.age, self.nodes.age)

    @property
    def doubts(self) -> dict[ObjectKind, Doubt]:
        """Lists that are not believed, and why."""
        tables = {
            ObjectKind.JOB: self.jobs.doubt,
            ObjectKind.NODE: self.nodes.doubt,
            ObjectKind.PARTITION: self.partitions.doubt,
        }
        return {kind: doubt for kind, doubt in tables.items() if doubt is not None}

    def whereabouts(self, job_id: int | str, sluid: str = "", *, within: float = FRESH) -> Whereabouts:
        """What is known of a job; name the SLUID, if you have it, since ids are used again after a crash."""
        return self._book.whereabouts(str(job_id), sluid, within)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener`, which must not block, for every change from now on; returns what ends that."""
        token = object()
        self._listeners[token] = listener

        def stop() -> None:
            self._listeners.pop(token, None)

        return stop

    @contextlib.contextmanager
    def subscribe(self, *kinds: ObjectKind) -> Iterator[Feed]:
        """A feed of changes from now on, of these kinds or of all."""
        feed = Feed(kinds)
        stop = self.listen(feed.put)
        try:
            yield feed
        finally:
            stop()

    async def changes(self, *kinds: ObjectKind) -> AsyncIterator[Change]:
        """Changes as they come, of these kinds or of all."""
        with self.subscribe(*kinds) as feed:
            async for change in feed:
                yield change

    # For those who know something

    def track(self, job_id: int | str, sluid: str = "") -> None:
        """Follow this job closely: identity, placement when it starts, outcome when it ends."""
        self._book.track(str(job_id), sluid)
        self.poke()

    async def look(self, job_id: int | str, *, exact: bool = True) -> None:
        """Follow this job closely, and read all about it now: for one that was just made.

        Unless `exact`, its nodes are known, but not which of their cores and devices it has: one question less.
        """
        self._book.track(str(job_id), "")
        if not await self._book.look(str(job_id), exact=exact):
            self.poke()

    def forget(self, job_id: int | str) -> None:
        """Follow this job no more."""
        self._book.forget(str(job_id))

    def poke(self, *, nodes: bool = False) -> None:
        """Something has happened to jobs, or to nodes as well: look as soon as the server can bear it."""
        self._moved_at = self._clock()
        self._want(Source.JOBS, Hurry.NOW)
        if nodes:
            self._want(Source.NODES, Hurry.NOW)

    # Life

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
        """Keep the view up to date until cancelled. Failures of the cluster end in `fault`, never here."""
        async with asyncio.TaskGroup() as family:
            for source in Source:
                family.create_task(self._follow(source), name=f"slurm-mirror-{source.value}")

    async def _follow(self, source: Source) -> None:
        """Read one source whenever it is due; a slow one does not hold up the others."""
        while True:
            wait = self._due(source) - self._clock()
            if wait > 0:
                self._wake[source].clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._wake[source].wait()
                continue
            await self._visit(source)
            async with self._turned:
                self._turned.notify_all()

    async def synced(self, *, deadline: float = 60.0) -> None:
        """Wait until everything has been seen once; partitions only if they can be, see `VITAL`.

        Raises the fault, or TimeoutError, when it is late.
        """
        await self._until(self._complete, deadline)

    async def refresh(self, *, deadline: float = 15.0) -> None:
        """Look at jobs and nodes now; returns when both were read after this call, the freshest of facts."""
        asked = self._clock()
        self.poke(nodes=True)
        looked = (self._last[Source.JOBS], self._last[Source.NODES])
        await self._until(lambda: all(last.began >= asked for last in looked), deadline)

    async def _until(self, done: Callable[[], bool], deadline: float) -> None:
        try:
            async with asyncio.timeout(deadline), self._turned:
                await self._turned.wait_for(done)
        except TimeoutError:
            if self.fault is not None:
                raise self.fault from None
            raise

    def _complete(self) -> bool:
        told = self.partitions.synced or self._last[Source.PARTITIONS].failures
        return bool(told) and all(table.synced for table in (self.jobs, self.nodes, self.reservations))

    def _due(self, source: Source) -> float:
        now = self._clock()
        moving = now - self._moved_at < self._rhythm.calm_after or self._book.curious or self._book.unread
        astir = now - self._stirred_at < self._rhythm.aftermath
        return due(source, self._last[source], moving=moving, astir=astir, rhythm=self._rhythm)

    def _want(self, source: Source, hurry: Hurry) -> None:
        self._last[source].want(hurry)
        self._wake[source].set()

    # One reading

    async def _visit(self, source: Source) -> None:
        """Read one source; keep what it cost, and whether it failed."""
        last = self._last[source]
        last.hurry = Hurry.NONE
        started = last.started = self._clock()
        try:
            await self._read(source)
        except SlurmError as error:
            last.failures += 1
            if source in VITAL:
                self._blinded(error)
            elif last.failures == 1:
                log.warning("%s cannot be read; what is known of them stays: %s", source.value, error)
        else:
            recovered, last.failures, last.began = last.failures > 0, 0, started
            if recovered and source in VITAL:
                self._recovered()
            if not self._whole and self._complete():
                self._whole = True
                self._tell(Change(ObjectKind.SIGHT, "", None, None))
        last.at = self._clock()
        # Single reads are few at a time anyway: what they took is no reason to look at states less often.
        last.cost = self._book.cost if source is Source.JOBS else last.at - started

    async def _read(self, source: Source) -> None:
        match source:
            case Source.TELLTALE:
                await self._read_telltale()
            case Source.JOBS:
                if not await self._book.read():
                    self._want(source, Hurry.NOW)
            case Source.NODES:
                nodes = await self._client.nodes(since=self._since.get(source))
                self._take(ObjectKind.NODE, source, self.nodes, nodes)
            case Source.PARTITIONS:
                partitions = await self._client.partitions(since=self._since.get(source))
                self._take(ObjectKind.PARTITION, source, self.partitions, partitions)
            case Source.RESERVATIONS:
                reservations = await self._client.reservations(since=self._since.get(source))
                self._take(ObjectKind.RESERVATION, source, self.reservations, reservations)
        # Another cluster behind the same address would look like the loss of everything in this one.
        session = self._client.session
        session.pinned = session.pinned or session.slurm.cluster

    def _blinded(self, error: SlurmError) -> None:
        before, self.fault = self.fault, error
        if before is None:
            log.warning("lost sight of slurm: %s", error)
            self._book.suspect(self._clock() - YOUNG)
            self._tell(Change(ObjectKind.SIGHT, "", None, error))

    def _recovered(self) -> None:
        """One source answers again: ask those that still fail without delay, and see when all answer."""
        failing = [source for source, last in self._last.items() if last.failures]
        for source in failing:
            self._last[source].at = float("-inf")
            self._wake[source].set()
        if not VITAL & set(failing):
            self._sighted()

    def _sighted(self) -> None:
        """Contact is back: whatever was known may be of another life of slurmctld."""
        before, self.fault = self.fault, None
        log.info("slurm is in sight again")
        self._read_anew()
        self._moved_at = self._clock()
        self._tell(Change(ObjectKind.SIGHT, "", before, None))

    def _read_anew(self) -> None:
        """Another life of slurmctld may know other things, whatever its times say."""
        self._since.clear()
        for source in Source:
            self._want(source, Hurry.NOW)

    async def _read_telltale(self) -> None:
        now = Telltale.of(await self._client.diag())
        if restarted(self._telltale, now):
            log.info("slurmctld has a new start; young jobs are verified")
            self._book.suspect(self._clock() - YOUNG)
            self._read_anew()
        signs = stirred(self._telltale, now)
        if signs:
            self._stirred_at = self._clock()
        for source, hurry in signs.items():
            self._want(source, Hurry.NOW if self.attentive else hurry)
        if self._nodes_again:
            self._want(Source.NODES, Hurry.NOW)
        self._nodes_again = signs.get(Source.NODES) is Hurry.NOW
        for source, table in ((Source.JOBS, self.jobs), (Source.NODES, self.nodes)):
            if source not in signs and table.synced and not self._last[source].hurry:
                table.confirm()
        before, self._telltale = self._telltale, now
        if replanned(before, now):
            await self._book.explain()

    def _take(self, kind: ObjectKind, source: Source, table: ObservedTable[N], found: Listing[N] | None) -> None:
        """Bring one table up to a list; None confirms what is there."""
        if found is None:
            table.confirm()
            return
        self._last[source].full = self._clock() - self._last[source].started
        doubt = table.doubt
        changed = table.replace({item.name: item for item in found.items}, same=SAME.get(kind))
        if (doubt is None) is not (table.doubt is None):
            self._tell(Change(ObjectKind.SIGHT, "", doubt, table.doubt))
        for key, before, after in changed:
            self._tell(Change(kind, key, before, after))
        if changed and kind is ObjectKind.NODE:
            self._want(Source.JOBS, Hurry.NOW)  # a job may have started or ended there
        if table.doubt is None:
            self._since[source] = found.at
        else:
            self._since.pop(source, None)

    def _tell(self, change: Change) -> None:
        if moves(change):
            self._moved_at = self._clock()
            self._wake[Source.JOBS].set()
        for listener in tuple(self._listeners.values()):
            try:
                listener(change)
            except Exception:
                log.exception("a listener failed on %s %s", change.kind.value, change.key)
