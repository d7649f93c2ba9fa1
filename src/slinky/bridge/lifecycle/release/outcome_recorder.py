# SPDX-License-Identifier: Apache-2.0
"""Writes the outcomes of pods to the accounting records of their jobs, in the background.

slurmdbd learns of the end of a job a moment later, after an outage much later, so a write is tried several times. The
record must have the SLUID of the job: after a loss of state, slurmctld gives the id to another job. An outcome is
settled when it is written, when no further attempt is made, or after `SETTLE_SECONDS`. Until then one pod of the job
keeps its finalizer, from which the outcome can be derived again, so a restart of the bridge loses no outcome.
"""

import asyncio
import heapq
from collections.abc import Callable
from typing import NamedTuple

from slinky.bridge import metrics
from slinky.bridge.lifecycle.release.outcome import PodOutcome
from slinky.observe import Clock, Log
from slinky.slurm import DataParserVersion, Retryable, SlurmClient, SlurmError, wait_status
from slinky.slurm.model.accounting_jobs import AccountingJobComment, JobOutcome

log = Log("slinky.bridge.lifecycle.release.outcome_recorder")

#: Seconds before each attempt to write an outcome to the record of a job that slurmdbd does not know yet.
DELAYS = (0.2, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 60.0)
#: Seconds between two attempts, for whatever job, while slurmdbd does not answer.
UNREACHABLE_DELAY = 10.0
#: Seconds after which a finalizer no longer waits for the outcome; the attempts continue from memory.
SETTLE_SECONDS = 30.0
#: Outcomes beyond this number are dropped: slurmdbd has been away for long, and memory is limited.
MAX_PENDING = 10_000
#: Concurrent writes: slurmrestd has few threads.
CONCURRENCY = 4


class PendingOutcome(NamedTuple):
    """An outcome that has to be written, with the time and the number of the next attempt."""

    due: float
    job: str
    sluid: str
    outcome: PodOutcome
    attempt: int = 0


class OutcomeRecorder:
    """Writes outcomes; each job is reported to `on_settled` once its outcome is settled."""

    def __init__(self, client: SlurmClient, clock: Clock, on_settled: Callable[[str], None]) -> None:
        self._client, self._clock, self._on_settled = client, clock, on_settled
        self._queue: list[PendingOutcome] = []  # a heap, ordered by due time
        self._pending: set[str] = set()  # SLUIDs
        self._changed = asyncio.Event()
        self._slots = asyncio.Semaphore(CONCURRENCY)
        self._paused_until = float("-inf")
        self._unreachable_since: float | None = None

    def record(self, job: str, sluid: str, outcome: PodOutcome) -> None:
        """Write an outcome soon, unless the outcome of this job is being written already."""
        if sluid in self._pending:
            return
        if not sluid or len(self._pending) >= MAX_PENDING:
            self._drop(job, "its SLUID is not known" if not sluid else "too many outcomes wait for slurmdbd")
            return
        self._pending.add(sluid)
        now = self._clock.monotonic()
        self._schedule(PendingOutcome(now + DELAYS[0], job, sluid, outcome))
        if self._unreachable_since is not None and now - self._unreachable_since >= SETTLE_SECONDS:
            self._settle_late(job, sluid)  # slurmdbd has been away for long, or the cluster has none
        else:
            self._clock.call_later(SETTLE_SECONDS, lambda: self._settle_late(job, sluid))

    async def run(self) -> None:
        """Write outcomes until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._slots.acquire()
                tasks.create_task(self._write(await self._next()))

    async def _next(self) -> PendingOutcome:
        """The next outcome, as soon as it is due."""
        while True:
            self._changed.clear()
            due = max(self._queue[0].due, self._paused_until) if self._queue else None
            wait = due - self._clock.monotonic() if due is not None else None
            if wait is not None and wait <= 0:
                return heapq.heappop(self._queue)
            timer = self._clock.call_later(wait, self._changed.set) if wait is not None else None
            await self._changed.wait()
            if timer is not None:
                timer.cancel()

    def _schedule(self, pending: PendingOutcome) -> None:
        heapq.heappush(self._queue, pending)
        self._changed.set()

    async def _write(self, pending: PendingOutcome) -> None:
        try:
            problem = await self._try_write(pending)
        finally:
            self._slots.release()
        self._note_reachable(not isinstance(problem, Retryable))
        if problem:
            self._retry(pending, problem)
            return
        metrics.OUTCOMES.labels("recorded").inc()
        self._pending.discard(pending.sluid)
        self._on_settled(pending.job)

    def _note_reachable(self, reachable: bool) -> None:
        now = self._clock.monotonic()
        if reachable:
            self._unreachable_since, self._paused_until = None, now
        else:
            self._paused_until = now + UNREACHABLE_DELAY
            if self._unreachable_since is None:
                self._unreachable_since = now
                log.warning("accounting does not answer; outcomes of pods are recorded when it does")

    async def _try_write(self, pending: PendingOutcome) -> SlurmError | str:
        """Write an outcome; returns why it could not be written."""
        accounting = self._client.accounting
        try:
            record = await accounting.job(pending.job)
            if record.sluid != pending.sluid:
                return f"the newest record with this id is that of another job, {record.sluid}"
            exact = await self._client.version() >= DataParserVersion.V45  # older ones do not accept a SLUID here
            await accounting.write_outcome(pending.sluid if exact else pending.job, _manifest(pending.outcome))
        except SlurmError as error:
            return error
        return ""

    def _retry(self, pending: PendingOutcome, problem: SlurmError | str) -> None:
        attempt = pending.attempt + (not isinstance(problem, Retryable))
        if attempt < len(DELAYS):
            self._schedule(pending._replace(due=self._clock.monotonic() + DELAYS[attempt], attempt=attempt))
        else:
            self._pending.discard(pending.sluid)
            self._drop(pending.job, problem)

    def _settle_late(self, job: str, sluid: str) -> None:
        if sluid in self._pending:
            metrics.OUTCOMES.labels("late").inc()
            log.info("the pods of a job are released before their outcome is recorded in accounting", job=job)
            self._on_settled(job)

    def _drop(self, job: str, problem: SlurmError | str) -> None:
        metrics.OUTCOMES.labels("dropped").inc()
        log.warning("the outcome of a job was not recorded in accounting", job=job, problem=problem)
        self._on_settled(job)


def _manifest(outcome: PodOutcome) -> JobOutcome:
    return JobOutcome(comment=AccountingJobComment(job=str(outcome)), derived_exit_code=wait_status(outcome.exit_code))
