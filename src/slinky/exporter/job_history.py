# SPDX-License-Identifier: Apache-2.0
"""Counters and histograms of what happened to jobs: waits, run times, ends. Each job counts once per start and end.

The exporter feeds every change of a job's record into `JobHistory`. Only starts and ends that the exporter itself
observed count: after a restart of the exporter, earlier ones are not counted again.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from slinky.slurm import Job, JobRecord

PREFIX = "slinky_slurm_"
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
BUCKETS = (1, 10, 30, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 3 * DAY)
RATIOS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


class JobHistory(Collector):
    """What happened to jobs since the exporter started."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()

        def histogram(name: str, help_text: str, buckets: tuple[float, ...] = BUCKETS) -> Histogram:
            labels = ("partition", "qos")
            return Histogram(PREFIX + name, help_text, labels, buckets=buckets, registry=self._registry)

        self.waits = histogram("job_wait_seconds", "Time from the moment a job was eligible to its start.")
        self.delays = histogram(
            "job_eligible_delay_seconds", "Time from the submission of a job until it was eligible."
        )
        self.runs = histogram("job_run_seconds", "Run time of ended jobs.")
        self.limit_use = histogram(
            "job_limit_use_ratio", "Run time of ended jobs as a share of the time limit.", RATIOS
        )
        self.ended = Counter(
            f"{PREFIX}jobs_ended",
            "Jobs that ended.",
            ("partition", "account", "state"),
            registry=self._registry,
        )

    def observe(self, before: JobRecord | None, after: JobRecord | None, now: float) -> None:
        """Count a start or an end, if the change of a record is one; `now` is in seconds since the epoch."""
        if before is None or after is None or after.detail is None:
            return
        if before.state.pending and after.state.holds_nodes:
            self._observe_start(after.detail, now)
        if _has_final_detail(after) and not _has_final_detail(before):
            self._observe_end(after)

    def _observe_start(self, job: Job, now: float) -> None:
        """Count a start that was just observed; the job's record may still have the start that was expected."""
        submitted, eligible = job.submit_time.whole, job.eligible_time.whole
        if eligible:
            self.waits.labels(job.partition, job.qos).observe(max(0.0, now - eligible))
        if submitted and eligible >= submitted:
            self.delays.labels(job.partition, job.qos).observe(eligible - submitted)

    def _observe_end(self, record: JobRecord) -> None:
        job = record.detail
        if job is None:
            return
        self.ended.labels(job.partition, job.account, record.state.base.lower()).inc()
        started, ended, limit = job.start_time.whole, job.end_time.whole, job.time_limit.whole * MINUTE
        if started and ended >= started:
            self.runs.labels(job.partition, job.qos).observe(ended - started)
            if limit:
                self.limit_use.labels(job.partition, job.qos).observe((ended - started) / limit)

    def collect(self) -> Iterator[Metric]:
        """The families of this history."""
        yield from self._registry.collect()


def _has_final_detail(record: JobRecord) -> bool:
    """Whether the full job was read after its end."""
    return record.detail is not None and record.detail.state.ended
