# SPDX-License-Identifier: Apache-2.0
"""The mirror's jobs: states of all or some, and the whole story of those that somebody tracks.

`read` asks for states, which is cheap, and then singly for what a state cannot tell: who a job is, where it
was placed, how it ended. A single read that fails concludes nothing and is repeated; a job counts as
departed only when slurmctld denies it, and accounting is asked for its end first.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import NamedTuple

from msgspec import structs

from slinky.slurm.accounting.accounting_jobs import PastJob
from slinky.slurm.client import SlurmClient
from slinky.slurm.errors import SlurmError, SlurmNotFound, Unsupported
from slinky.slurm.mirror import job_record
from slinky.slurm.mirror.feed import Change, ObjectKind
from slinky.slurm.mirror.job_record import JobRecord, Question
from slinky.slurm.mirror.observed_table import FRESH, ObservedTable, Presence
from slinky.slurm.mirror.pending_refresh import Allowance, Waiting, curious
from slinky.slurm.model.states import JobState
from slinky.slurm.model.views import Job, JobStatus, NodeResources

log = logging.getLogger(__name__)

#: `jobs/state/` takes its ids in the URL; this many keep it within what servers accept.
IDS_PER_REQUEST = 500
#: Jobs that would take more requests than this are picked from the states of all: 0.3 s at 10,000.
REQUESTS = 4
#: So many readings of states tell what one costs.
LATEST = 4
#: Single reads at once: slurmrestd has few threads, and others use them too.
CONCURRENCY = 4
#: Records brought up to date before others get a turn.
SLICE = 1000
#: Single reads in one turn: states are looked at again in between, so that a crowd does not hide what happens next.
TURN = 100
#: Of those, ends: nobody waits for more of them than their state.
ENDS = 25
#: So many ends are told with all there is to know; of a greater crowd the state is told first, the rest as it comes.
CROWD = 8


class Whereabouts(NamedTuple):
    """What is known of one job: never ABSENT without slurmctld's word, and then with its last record."""

    presence: Presence
    record: JobRecord | None


class JobTracker:
    """Every job that the mirror knows."""

    def __init__(
        self,
        client: SlurmClient,
        *,
        everything: bool,
        patience: float,
        clock: Callable[[], float],
        tell: Callable[[Change], None],
    ) -> None:
        # A job that was just submitted is in no list yet, so absence is `whereabouts`' business.
        self.table: ObservedTable[JobRecord] = ObservedTable(clock, complete=False)
        self._client = client
        self._everything = everything
        self._patience = patience
        self._clock = clock
        self._tell = tell
        self._tracked: dict[str, str] = {}  # id to SLUID, as far as it is known
        self._departed: dict[str, JobRecord] = {}  # by SLUID and by id
        self._first_seen: dict[str, float] = {}
        self._read_at: dict[str, float] = {}
        self._suspects: set[str] = set()
        self._looking: set[str] = set()  # read by `look` right now, and so by nobody else
        self._closed: set[str] = set()  # ended, and slurmctld has forgotten them: no more will be known
        self._took: deque[float] = deque(maxlen=LATEST)  # seconds, of the last readings of states
        self._single = asyncio.Semaphore(CONCURRENCY)
        self._unanswered = False
        self._allowance = Allowance(clock())
        #: A young job waits and Slurm has not said why: it is worth another look soon.
        self.curious = False
        #: Ends are known of which not all is: worth another look soon.
        self.unread = False
        self._reading = asyncio.Lock()

    def track(self, job_id: str, sluid: str) -> None:
        """Follow a job closely."""
        self._tracked[job_id] = sluid or self._tracked.get(job_id, "")

    def forget(self, job_id: str) -> None:
        """Follow a job no more."""
        sluid = self._tracked.pop(job_id, "")
        for name in (job_id, sluid):
            self._departed.pop(name, None)
        for memory in (self._first_seen, self._read_at):
            memory.pop(job_id, None)
        self._suspects.discard(job_id)
        self._closed.discard(job_id)
        if not self._everything:
            self.table.drop(job_id)

    def whereabouts(self, job_id: str, sluid: str = "", within: float = FRESH) -> Whereabouts:
        """What is known of a job; see `Mirror.whereabouts`."""
        gone = self._departed.get(sluid or job_id)
        if gone is not None:
            return Whereabouts(Presence.ABSENT, gone)
        record = self.table.get(job_id)
        if record is not None and sluid and record.sluid and record.sluid != sluid:
            record = None
        if record is not None and record.state.ended:
            return Whereabouts(Presence.PRESENT, record)  # an end is final, however old the news
        if record is None or not self.table.fresh(within):
            return Whereabouts(Presence.UNKNOWN, record)
        return Whereabouts(Presence.PRESENT, record)

    def suspect(self, since: float) -> None:
        """Contact was lost: jobs first seen since then may be lost, and their ids others' by now."""
        self._suspects.update(key for key in self._tracked if self._first_seen.get(key, since) >= since)

    @property
    def cost(self) -> float:
        """Seconds that Slurm works for a reading of states: the least of a few, since one may wait for slurmctld's
        scheduler, which is no work.
        """
        return min(self._took, default=0.0)

    async def read(self) -> bool:
        """One reading of all that is of interest. False if something was left unanswered and should be
        asked soon.
        """
        async with self._reading:
            return await self._read()

    async def explain(self) -> None:
        """Slurm has planned ahead: hear what that means to jobs that wait. A reading under way does so anyway."""
        if not self._reading.locked():
            async with self._reading:
                await self._refresh_waiting()

    async def _read(self) -> bool:
        began = self._clock()
        if self._everything:
            seen = job_record.sort_states(await self._client.job_states(), self._tracked)
            asked: Collection[str] = {*self.table, *self._tracked}
        else:
            asked = [key for key in self._tracked if not self._finished(key)]
            seen = await self._states_of(asked)
        self._took.append(self._clock() - began)
        self._unanswered = False
        await self._settle_all(seen, asked)
        if self.table.doubt is None:
            self.table.confirm()
        await self._refresh_waiting()
        return not self._unanswered

    async def look(self, key: str, *, exact: bool = True) -> bool:
        """Read all about one job that was just made, now. False if that could not be: the next reading asks again.

        It probably runs, so what exactly it was granted, if that matters, is asked for at the same time.
        """
        self._looking.add(key)
        granted = asyncio.create_task(self._granted(key)) if exact else None
        if granted is not None:
            granted.add_done_callback(lambda task: task.cancelled() or task.exception())  # not everybody asks for it
        everything, now = Question.DETAIL | Question.RESOURCES, contextlib.nullcontext()
        try:
            return await self._settle(key, None, everything, turn=now, granted=granted, exact=exact)
        finally:
            self._looking.discard(key)
            if granted is not None:
                granted.cancel()

    async def _states_of(self, keys: Iterable[str]) -> dict[str, JobState]:
        wanted = list(keys)
        found: list[JobStatus] = []
        if len(wanted) > REQUESTS * IDS_PER_REQUEST:
            found += await self._client.job_states()
            wanted = []
        for start in range(0, len(wanted), IDS_PER_REQUEST):
            found += await self._client.job_states(wanted[start : start + IDS_PER_REQUEST])
        seen = job_record.sort_states(found, self._tracked)
        return {key: state for key, state in seen.items() if key in self._tracked}

    def _follows(self, key: str) -> bool:
        """Whether the job under this id is one that somebody tracks and that has not departed."""
        return key in self._tracked and key not in self._departed

    def _finished(self, key: str) -> bool:
        """Whether nothing more can become of this tracked job."""
        record = self.table.get(key)
        known = record is not None and record.state.ended and job_record.knows_end(record)
        return known or key in self._departed or key in self._closed

    async def _settle_all(self, seen: dict[str, JobState], asked: Collection[str]) -> None:
        """Bring the records up to these states, reading singly what a state alone cannot tell."""
        singles: dict[str, tuple[JobState | None, Question]] = {}
        for count, (key, state) in enumerate(seen.items(), 1):
            if count % SLICE == 0:
                await asyncio.sleep(0)  # ten thousand new jobs must not hold the event loop
            if key in self._looking:
                continue
            record = self.table.get(key)
            question = Question.NOTHING
            if self._follows(key):
                question = job_record.questions(record, state, verify=key in self._suspects)
            if question:
                singles[key] = state, question
            elif record is None:
                self._put(JobRecord(key, state))
            elif record.state != state:
                self._put(structs.replace(record, state=state))
        for key in self._believed_missing(seen, asked):
            if not self._follows(key):
                self._drop(key)
            elif not self._finished(key):
                singles[key] = None, Question.DETAIL
        known = seen.keys() | self.table.keys() | self._departed.keys() | self._looking
        unseen = self._tracked.keys() & set(asked) - known
        singles.update((key, (None, Question.DETAIL)) for key in unseen)
        await self._settle_singly(singles)

    async def _settle_singly(self, singles: dict[str, tuple[JobState | None, Question]]) -> None:
        """Read singly what states cannot tell, as much of it as a turn may; starts first, somebody waits for them."""
        ended = {key: state for key, (state, _) in singles.items() if state is not None and state.ended}
        told: set[str] = set()
        if len(ended) > CROWD:
            told = self._tell_ends({key: state for key, state in ended.items() if key not in self._suspects})
        # Whoever was just told has something to do; the details come with the next looks, a few at a time.
        ends = [key for key in singles if key in ended and key not in told]
        live = sorted(singles.keys() - ended, key=lambda key: Question.RESOURCES not in singles[key][1])
        self._unanswered |= len(live) > TURN
        self.unread = bool(told) or len(ends) > ENDS
        async with asyncio.TaskGroup() as family:
            for key in (*live[:TURN], *ends[:ENDS]):
                known, question = singles[key]
                family.create_task(self._settle(key, known, question))

    def _tell_ends(self, ended: dict[str, JobState]) -> set[str]:
        """Pass on that known jobs have ended before more is known of it; those of which that was news."""
        told: set[str] = set()
        for key, state in ended.items():
            if (record := self.table.get(key)) is not None and record.detail is not None and record.state != state:
                self._put(structs.replace(record, state=state))
                told.add(key)
        return told

    def _believed_missing(self, seen: dict[str, JobState], asked: Collection[str]) -> list[str]:
        """Known jobs that a list lacks; none at all while it lacks suspiciously many that should be there."""
        gone = [key for key in asked if key in self.table and key not in seen]
        lively = frozenset(key for key in gone if not self.table[key].over)
        live = sum(not record.over for record in self.table.values())
        return gone if self.table.weigh(lively, doubtful=job_record.too_many(len(lively), live)) else []

    async def _settle(
        self,
        key: str,
        state: JobState | None,
        question: Question,
        turn: contextlib.AbstractAsyncContextManager[None] | None = None,
        granted: Awaitable[tuple[NodeResources, ...]] | None = None,
        *,
        exact: bool = True,
    ) -> bool:
        """Read what is asked about one tracked job, when it is its turn, and put its record in order. False if there
        was no answer.
        """
        before = self.table.get(key)
        record = before or JobRecord(key, state or JobState.of(()), self._tracked.get(key, ""))
        try:
            async with turn or self._single:
                if Question.DETAIL in question:
                    record = await self._identified(key, record)
                elif state is not None:
                    record = structs.replace(record, state=state)
                if Question.RESOURCES in question and record.state.running and not record.lost:
                    told = await (granted or self._granted(key)) if exact else job_record.where(record)
                    record = structs.replace(record, resources=told)
        except SlurmError as error:
            log.info("job %s could not be read and will be asked for again: %s", key, error)
            self._unanswered = True
            return False
        if self.table.get(key) is not before:
            # Forgotten meanwhile, or made anew: ids are used again after a loss. What was found is of the old one.
            self._unanswered |= key in self._tracked
            return False
        self._suspects.discard(key)
        if record.lost or record.outcome is not None:
            self._depart(record)
        else:
            self._put(record)
        return True

    async def _identified(self, key: str, record: JobRecord) -> JobRecord:
        """The record with the job as it is now; departed if slurmctld denies it or has another under its
        id.
        """
        try:
            job: Job | None = await self._client.job(key)
        except SlurmNotFound:
            job = None
        self._read_at[key] = self._clock()
        if job is not None and job_record.same_job(record, job):
            self._tracked[key] = job.sluid or self._tracked.get(key, "")
            return job_record.with_detail(record, job)
        if record.state.ended and record.detail is not None:
            self._closed.add(key)
            return record
        return job_record.departed(record, await self._remembered(key, record))

    async def _remembered(self, key: str, record: JobRecord) -> PastJob | None:
        """What accounting knows of a job that slurmctld denies, if anything."""
        try:
            past = await self._client.accounting.job(key)
        except SlurmError as error:
            log.info("accounting says nothing of job %s: %s", key, error)
            return None
        return past if job_record.same_past(record, past) else None

    async def _granted(self, key: str) -> tuple[NodeResources, ...]:
        """What a job was granted; an old data parser has only the detail."""
        try:
            return await self._client.resources(int(key))
        except (Unsupported, ValueError):
            return ()

    async def _refresh_waiting(self) -> None:
        """Read reason and expected start of waiting jobs again, as many as are allowed by now."""
        now = self._clock()
        waiting = [
            Waiting(record.explained, at, key, self._first_seen.get(key, now))
            for key, at in self._read_at.items()
            if (record := self.table.get(key)) and record.state.pending
        ]
        self.curious = curious(waiting, now)
        async with asyncio.TaskGroup() as family:
            for key in self._allowance.choose(waiting, now, self._patience):
                family.create_task(self._settle(key, self.table[key].state, Question.DETAIL))

    def _put(self, record: JobRecord) -> None:
        if record.job_id in self._tracked:
            self._first_seen.setdefault(record.job_id, self._clock())
        before = self.table.put(record.job_id, record)
        if before != record:
            self._tell(Change(ObjectKind.JOB, record.job_id, before, record))

    def _drop(self, key: str) -> None:
        before = self.table.drop(key)
        self._first_seen.pop(key, None)
        if before is not None:
            self._tell(Change(ObjectKind.JOB, key, before, None))

    def _depart(self, record: JobRecord) -> None:
        """Keep the last word on a tracked job until it is forgotten; its id may belong to another by now."""
        before = self.table.drop(record.job_id)
        for name in (record.sluid, record.job_id):
            if name:
                self._departed[name] = record
        self._tell(Change(ObjectKind.JOB, record.job_id, before, record))
