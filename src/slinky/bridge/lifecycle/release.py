# SPDX-License-Identifier: Apache-2.0
"""The end of a job, and the truth about it.

A job is ended by the name that is never used again: natively as COMPLETED or FAILED where a completer is there. REST
ends every external job as CANCELLED, so what became of its pods is also added to the accounting record afterwards,
from a queue that holds nobody up: it waits while slurmdbd is away, and gives up where slurmdbd does not know the job.
"""

import asyncio
import contextlib
import heapq
from typing import NamedTuple

from slinky.bridge.lifecycle.completer import Completer
from slinky.bridge.lifecycle.outcome import WITHDRAWN, PodOutcome
from slinky.bridge.state.job_registry import JobRegistry
from slinky.observe import Clock, Log, counter
from slinky.slurm import ExitCode, Mirror, Retryable, SlurmClient, SlurmConflict, SlurmError, SlurmNotFound, number
from slinky.slurm.accounting.accounting_jobs import AccountingJobComment, JobOutcome

log = Log("slinky.bridge.lifecycle.release")

ENDED = counter("slinky_bridge_jobs_ended_total", "Jobs ended because their pods were gone, by outcome.", "outcome")

#: Outcomes that Slurm has states for; a job whose pods were deleted was cancelled indeed.
NATIVE = ("Succeeded", "Failed")
#: slurmdbd hears of an end some moments later, after an outage when slurmctld finds it again: each try waits longer.
FIRST, LONGER, TRIES = 1.0, 5.0, 8
#: How often a slurmdbd that does not answer is tried.
AWAY = 10.0
#: Outcomes beyond this are dropped: slurmdbd has been away for long, and pods matter more.
MOST = 10_000


class PendingOutcome(NamedTuple):
    """What is to be written about a job, when, and how often that has been tried."""

    due: float
    job: str
    attempt: int
    remark: JobOutcome


class Releaser:
    """Ends jobs and records outcomes."""

    def __init__(
        self, client: SlurmClient, mirror: Mirror, ledger: JobRegistry, clock: Clock, completer: Completer | None = None
    ) -> None:
        self._client, self._mirror, self._ledger, self._clock = client, mirror, ledger, clock
        self._completer = completer
        self._words: list[PendingOutcome] = []  # a heap: the next one first
        self._work = asyncio.Event()

    async def end(self, job: str, fate: PodOutcome = WITHDRAWN) -> None:
        """End a job; one that is over already is fine."""
        native = self._completer if fate.word in NATIVE else None
        for name in self._ledger.ids_to_end(job):
            try:
                if native is None or not await native.complete(name, fate.code):
                    await self._client.cancel(name)
            except (SlurmNotFound, SlurmConflict):
                continue
            ENDED.labels(fate.word or "withdrawn").inc()
            if fate.word:
                self._record(job, fate)
        self._ledger.record_ended(job)
        self._mirror.request_refresh()

    def _record(self, job: str, fate: PodOutcome) -> None:
        # Slurm takes this number for a wait status, in which an exit code is the second byte.
        status = ExitCode(status=("ERROR" if fate.code else "SUCCESS",), return_code=number(fate.code << 8))
        remark = JobOutcome(comment=AccountingJobComment(job=str(fate)), derived_exit_code=status)
        self._later(PendingOutcome(self._clock.monotonic() + FIRST, job, 1, remark))

    def _later(self, word: PendingOutcome) -> None:
        if len(self._words) < MOST:
            heapq.heappush(self._words, word)
            self._work.set()

    async def run(self) -> None:
        """Write outcomes until cancelled."""
        while True:
            now = self._clock.monotonic()
            wait = self._words[0].due - now if self._words else None
            if wait is None or wait > 0:
                self._work.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._work.wait()
                continue
            word = heapq.heappop(self._words)
            try:
                await self._client.accounting.write_outcome(word.job, word.remark)
            except Retryable:
                self._later(word._replace(due=now + AWAY))
            except SlurmError as error:
                if word.attempt < TRIES:
                    self._later(word._replace(due=now + LONGER * word.attempt, attempt=word.attempt + 1))
                else:
                    log.info("the outcome of a job was not recorded", job=word.job, error=error)
