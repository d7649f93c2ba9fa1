# SPDX-License-Identifier: Apache-2.0
"""Ends jobs, and has the outcome of their pods recorded in accounting.

A job is ended by its SLUID, which Slurm never reuses. With a completer, the job ends as COMPLETED or FAILED. REST ends
every external job as CANCELLED, so the outcome of the pods is also added to the accounting record afterwards.
"""

from collections.abc import Callable

from slinky.bridge import metrics
from slinky.bridge.lifecycle.release.completer import Completer
from slinky.bridge.lifecycle.release.outcome import RECORDED_RESULTS, WITHDRAWN, PodOutcome
from slinky.bridge.lifecycle.release.outcome_recorder import OutcomeRecorder
from slinky.bridge.state.job_registry import JobRegistry
from slinky.observe import Clock
from slinky.slurm import Mirror, SlurmClient, SlurmConflict, SlurmNotFound


class Releaser:
    """Ends jobs and records outcomes."""

    def __init__(
        self,
        client: SlurmClient,
        mirror: Mirror,
        registry: JobRegistry,
        clock: Clock,
        enqueue: Callable[[str], None],
        completer: Completer | None = None,
    ) -> None:
        """`enqueue` reconciles the workload of a job once the outcome of its pods is settled."""
        self._client, self._mirror, self._registry, self._enqueue = client, mirror, registry, enqueue
        self._completer = completer
        self._recorder = OutcomeRecorder(client, clock, self._settle)
        self.run = self._recorder.run

    async def end_job(self, job: str, outcome: PodOutcome = WITHDRAWN) -> None:
        """End a job; a job that is over already is no error."""
        # A job whose pods were deleted is cancelled.
        completer = self._completer if outcome.result in RECORDED_RESULTS else None
        for handle in self._registry.ids_to_end(job):
            try:
                if completer is None or not await completer.complete(handle, outcome.exit_code):
                    await self._client.cancel(handle)
            except (SlurmNotFound, SlurmConflict):
                continue
            metrics.JOBS_ENDED.labels(outcome.result or "withdrawn").inc()
        self.record_outcome(job, outcome)
        self._registry.record_ended(job)
        self._mirror.request_refresh()

    def record_outcome(self, job: str, outcome: PodOutcome) -> None:
        """Have the outcome of the pods of a job recorded that has ended."""
        if outcome.result and not self._registry.is_outcome_settled(job):
            self._recorder.record(job, self._registry.sluid(job), outcome)

    def _settle(self, job: str) -> None:
        self._registry.settle_outcome(job)
        self._enqueue(job)
