# SPDX-License-Identifier: Apache-2.0
"""The end of a job, and the truth about it.

A job is ended by the name that is never used again: natively as COMPLETED or FAILED where a completer is there. REST
ends every external job as CANCELLED, so what became of its pods is also added to the accounting record afterwards,
from a queue that gives up rather than hold anybody up.
"""

import asyncio
from collections import deque

from slinky.bridge.complete import Completer
from slinky.bridge.ledger import Ledger
from slinky.observe import Clock, Log, counter
from slinky.slurm import Client, Conflict, ExitCode, Mirror, NotFound, SlurmError, number
from slinky.slurm.past import Outcome, PastComment

log = Log("slinky.bridge.release")

ENDED = counter("slinky_bridge_jobs_ended_total", "Jobs ended because their pods were gone, by outcome.", "outcome")

#: Outcomes that Slurm has states for; a job whose pods were deleted was cancelled indeed.
NATIVE = ("Succeeded", "Failed")
#: slurmdbd hears of an end some moments later.
FIRST, EVERY, TRIES = 1.0, 5.0, 4
#: Outcomes beyond this are dropped: slurmdbd has been away for long, and pods matter more.
MOST = 10_000


class Releaser:
    """Ends jobs and records outcomes."""

    def __init__(
        self, client: Client, mirror: Mirror, ledger: Ledger, clock: Clock, completer: Completer | None = None
    ) -> None:
        self._client, self._mirror, self._ledger, self._clock = client, mirror, ledger, clock
        self._completer = completer
        self._outcomes: deque[tuple[float, int, str, Outcome]] = deque(maxlen=MOST)
        self._work = asyncio.Event()

    async def end(self, job: str, outcome: str = "", code: int = 0) -> None:
        """End a job; one that is over already is fine."""
        native = self._completer if outcome in NATIVE else None
        for name in self._ledger.handles(job):
            try:
                if native is None or not await native.complete(name, code):
                    await self._client.cancel(name)
            except (NotFound, Conflict):
                continue
            ENDED.labels(outcome or "withdrawn").inc()
            if outcome:
                self._record(job, outcome, code)
        self._ledger.condemn(job)
        self._mirror.poke()

    def _record(self, job: str, outcome: str, code: int) -> None:
        # Slurm takes this number for a wait status, in which an exit code is the second byte.
        status = ExitCode(status=("SUCCESS" if code == 0 else "ERROR",), return_code=number(code << 8))
        remark = Outcome(comment=PastComment(job=f"pods {outcome}, exit code {code}"), derived_exit_code=status)
        self._outcomes.append((self._clock.monotonic() + FIRST, 1, job, remark))
        self._work.set()

    async def run(self) -> None:
        """Write outcomes until cancelled."""
        while True:
            if not self._outcomes:
                self._work.clear()
                await self._work.wait()
            due, attempt, job, remark = self._outcomes.popleft()
            await self._clock.sleep(max(0.0, due - self._clock.monotonic()))
            try:
                await self._client.accounting.write_outcome(job, remark)
            except SlurmError as error:
                if attempt < TRIES:
                    self._outcomes.append((self._clock.monotonic() + EVERY, attempt + 1, job, remark))
                else:
                    log.info("the outcome of a job was not recorded", job=job, error=error)
