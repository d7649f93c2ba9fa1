# SPDX-License-Identifier: Apache-2.0
"""Ends jobs, and records the outcome of their pods in accounting.

A job is ended by its SLUID, which Slurm never reuses. With a completer, the job ends as COMPLETED or FAILED. REST ends
every external job as CANCELLED, so the outcome of the pods is also added to the accounting record afterwards. A
background queue does that: it retries while slurmdbd is away, and gives up if slurmdbd does not know the job.
"""

import asyncio
import contextlib
import heapq
from typing import NamedTuple

from slinky.bridge import metrics
from slinky.bridge.lifecycle.completer import Completer
from slinky.bridge.lifecycle.outcome import WITHDRAWN, PodOutcome
from slinky.bridge.state.job_registry import JobRegistry
from slinky.observe import Clock, Log
from slinky.slurm import ExitCode, Mirror, Retryable, SlurmClient, SlurmConflict, SlurmError, SlurmNotFound, number
from slinky.slurm.model.accounting_jobs import AccountingJobComment, JobOutcome

log = Log("slinky.bridge.lifecycle.release")

#: Outcomes for which the completer is used; a job whose pods were deleted is cancelled.
COMPLETER_RESULTS = ("Succeeded", "Failed")
#: slurmdbd learns of the end of a job a moment later, after an outage much later. The first attempt comes after
#: FIRST_DELAY seconds; the delay grows by RETRY_DELAY with every attempt, up to MAX_ATTEMPTS attempts.
FIRST_DELAY, RETRY_DELAY, MAX_ATTEMPTS = 1.0, 5.0, 8
#: Seconds between two attempts while slurmdbd does not answer.
UNREACHABLE_DELAY = 10.0
#: Outcomes beyond this number are dropped: slurmdbd has been away for long, and memory is limited.
MAX_PENDING = 10_000


class PendingOutcome(NamedTuple):
    """An outcome that has to be written, with the time and the number of the next attempt."""

    due: float
    job: str
    attempt: int
    outcome: JobOutcome


class Releaser:
    """Ends jobs and records outcomes."""

    def __init__(
        self,
        client: SlurmClient,
        mirror: Mirror,
        registry: JobRegistry,
        clock: Clock,
        completer: Completer | None = None,
    ) -> None:
        self._client, self._mirror, self._registry, self._clock = client, mirror, registry, clock
        self._completer = completer
        self._pending: list[PendingOutcome] = []  # a heap, ordered by due time
        self._work = asyncio.Event()

    async def end_job(self, job: str, outcome: PodOutcome = WITHDRAWN) -> None:
        """End a job; a job that is over already is no error."""
        completer = self._completer if outcome.result in COMPLETER_RESULTS else None
        for handle in self._registry.ids_to_end(job):
            try:
                if completer is None or not await completer.complete(handle, outcome.exit_code):
                    await self._client.cancel(handle)
            except (SlurmNotFound, SlurmConflict):
                continue
            metrics.JOBS_ENDED.labels(outcome.result or "withdrawn").inc()
            if outcome.result:
                self._record(job, outcome)
        self._registry.record_ended(job)
        self._mirror.request_refresh()

    def _record(self, job: str, outcome: PodOutcome) -> None:
        # Slurm takes this number for a wait status, in which the exit code is the second byte.
        wait_status = number(outcome.exit_code << 8)
        exit_code = ExitCode(status=("ERROR" if outcome.exit_code else "SUCCESS",), return_code=wait_status)
        record = JobOutcome(comment=AccountingJobComment(job=str(outcome)), derived_exit_code=exit_code)
        self._schedule(PendingOutcome(self._clock.monotonic() + FIRST_DELAY, job, 1, record))

    def _schedule(self, pending: PendingOutcome) -> None:
        if len(self._pending) < MAX_PENDING:
            heapq.heappush(self._pending, pending)
            self._work.set()

    async def run(self) -> None:
        """Write outcomes until cancelled."""
        while True:
            now = self._clock.monotonic()
            wait = self._pending[0].due - now if self._pending else None
            if wait is None or wait > 0:
                self._work.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._work.wait()
                continue
            await self._write(heapq.heappop(self._pending), now)

    async def _write(self, pending: PendingOutcome, now: float) -> None:
        try:
            await self._client.accounting.write_outcome(pending.job, pending.outcome)
        except Retryable:
            self._schedule(pending._replace(due=now + UNREACHABLE_DELAY))
        except SlurmError as error:
            if pending.attempt < MAX_ATTEMPTS:
                delay = RETRY_DELAY * pending.attempt
                self._schedule(pending._replace(due=now + delay, attempt=pending.attempt + 1))
            else:
                log.info("the outcome of a job was not recorded in accounting", job=pending.job, error=error)
