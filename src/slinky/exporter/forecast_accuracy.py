# SPDX-License-Identifier: Apache-2.0
"""Compares forecasts of starts with the starts that happen. Pure but for its memory.

The first forecast of a job counts, because people plan with it. The jobs that ended meanwhile tell how much of their
time limits jobs use, as the history of slurmdbd does for the other tools.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from slinky.exporter.job_history import BUCKETS, started_at
from slinky.exporter.observed_metrics import ObservedMetrics
from slinky.insight.forecast import StartRange, StartSource
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.slurm import Job, JobRecord
from slinky.slurm.mirror.job_record import has_final_detail
from slinky.slurm.model.accounting_jobs import AccountingJob, AccountingJobState, AccountingJobTime

#: The first jobs of the queue get a forecast: jobs behind them do not delay them.
FORECAST_JOBS_MAX = 500
#: Ended jobs from which forecasts learn.
HISTORY_MAX = 2000
#: Jobs whose forecast is remembered until they start.
REMEMBERED_MAX = 10_000
LABELS = ("partition", "source")
#: Label values by the source of a forecast.
SOURCES = {StartSource.SLURMCTLD: "slurmctld", StartSource.SIMULATION: "simulation"}


class PredictedStart(NamedTuple):
    """A forecast that was given to a job, in seconds since the epoch."""

    earliest: int
    expected: int
    latest: int
    source: str


class ForecastAccuracy:
    """The errors of forecasts since the exporter started; fed with every change of a job's record."""

    def __init__(self, metrics: ObservedMetrics) -> None:
        self._metrics = metrics
        self._errors = metrics.histogram(
            "forecast_error_seconds",
            "Difference between the start of a job and its first forecast, whichever was earlier.",
            LABELS,
            BUCKETS,
        )
        self._starts = metrics.counter(
            "forecast_starts",
            "Starts of jobs by where they lie in the range of the first forecast: before, within or after it.",
            (*LABELS, "outcome"),
        )
        self._predicted: dict[str, PredictedStart] = {}
        self._history: deque[AccountingJob] = deque(maxlen=HISTORY_MAX)

    @property
    def history(self) -> tuple[AccountingJob, ...]:
        """Jobs that ended lately."""
        return tuple(self._history)

    def remember(self, ranges: Mapping[int, StartRange]) -> None:
        """Keep the first forecast of each job."""
        for job_id, given in ranges.items():
            key, source = str(job_id), SOURCES.get(given.source)
            if key in self._predicted or source is None or len(self._predicted) >= REMEMBERED_MAX:
                continue
            if given.earliest is not None and given.latest is not None and given.expected is not None:
                self._predicted[key] = PredictedStart(given.earliest, given.expected, given.latest, source)

    def observe(self, before: JobRecord | None, after: JobRecord | None, now: float) -> None:
        """Compare a start with its forecast, if the change of a record is a start; `now` is since the epoch."""
        if before is None:
            return
        job_id = before.job_id.partition("_")[0]
        if after is None or after.over:
            self._predicted.pop(job_id, None)
            if after is not None and after.detail and has_final_detail(after) and not has_final_detail(before):
                self._history.append(_accounting_job(after.detail))
        elif before.state.pending and after.state.holds_nodes and after.detail is not None:
            predicted = self._predicted.pop(job_id, None)
            if predicted is not None:
                self._observe_start(after.detail, predicted, started_at(after.detail, now))

    def _observe_start(self, job: Job, predicted: PredictedStart, started: float) -> None:
        labels = self._metrics.labels("forecast", job.partition, predicted.source)
        self._errors.labels(*labels).observe(abs(started - predicted.expected))
        late, early = started > predicted.latest, started < predicted.earliest
        self._starts.labels(*labels, "after" if late else "before" if early else "within").inc()


def first_jobs(snapshot: QueueSnapshot) -> QueueSnapshot:
    """The snapshot with the first jobs of the queue only."""
    if len(snapshot.pending) <= FORECAST_JOBS_MAX:
        return snapshot
    return replace(snapshot, jobs=(*snapshot.running, *snapshot.pending[:FORECAST_JOBS_MAX]))


def _accounting_job(job: Job) -> AccountingJob:
    """An ended job as slurmdbd would report it, with what forecasts read."""
    elapsed = max(0, job.end_time.whole - job.start_time.whole) if job.start_time.whole else 0
    return AccountingJob(
        job_id=job.job_id,
        user=job.user_name,
        state_record=AccountingJobState(current=job.job_state),
        time=AccountingJobTime(elapsed=elapsed, limit=job.time_limit),
    )
