# SPDX-License-Identifier: Apache-2.0
"""Counters and histograms of what happened to jobs: waits, run times, ends. Each job counts once per start and end."""

from slinky.exporter.observed_metrics import ObservedMetrics
from slinky.slurm import Job, JobRecord
from slinky.slurm.mirror.job_record import has_final_detail

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
BUCKETS = (1, 10, 30, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 3 * DAY)
RATIOS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
QUEUE = ("partition", "qos")


class JobHistory:
    """What happened to jobs since the exporter started; fed with every change of a job's record."""

    def __init__(self, metrics: ObservedMetrics) -> None:
        self._metrics = metrics
        self._waits = metrics.histogram(
            "job_wait_seconds", "Time from the moment a job was eligible to its start.", QUEUE, BUCKETS
        )
        self._delays = metrics.histogram(
            "job_eligible_delay_seconds", "Time from the submission of a job until it was eligible.", QUEUE, BUCKETS
        )
        self._runs = metrics.histogram("job_run_seconds", "Run time of ended jobs.", QUEUE, BUCKETS)
        self._limit_use = metrics.histogram(
            "job_limit_use_ratio", "Run time of ended jobs as a share of the time limit.", QUEUE, RATIOS
        )
        self._ended = metrics.counter("jobs_ended", "Jobs that ended.", ("partition", "account", "state"))

    def observe(self, before: JobRecord | None, after: JobRecord | None, now: float) -> None:
        """Count a start or an end, if the change of a record is one; `now` is in seconds since the epoch."""
        if before is None or after is None or after.detail is None:
            return
        if before.state.pending and after.state.holds_nodes:
            self._observe_start(after.detail, now)
        if has_final_detail(after) and not has_final_detail(before):
            self._observe_end(after)

    def _observe_start(self, job: Job, now: float) -> None:
        submitted, eligible = job.submit_time.whole, job.eligible_time.whole
        queue = self._metrics.labels("queue", job.partition, job.qos)
        if eligible:
            self._waits.labels(*queue).observe(max(0.0, started_at(job, now) - eligible))
        if submitted and eligible >= submitted:
            self._delays.labels(*queue).observe(eligible - submitted)

    def _observe_end(self, record: JobRecord) -> None:
        job = record.detail
        if job is None:
            return
        queue = self._metrics.labels("queue", job.partition, job.qos)
        self._ended.labels(
            *self._metrics.labels("jobs_ended", job.partition, job.account, record.state.base.lower())
        ).inc()
        started, ended, limit = job.start_time.whole, job.end_time.whole, job.time_limit.whole * MINUTE
        if started and ended >= started:
            self._runs.labels(*queue).observe(ended - started)
            if limit:
                self._limit_use.labels(*queue).observe((ended - started) / limit)


def started_at(job: Job, now: float) -> float:
    """When a job started that was just seen to run; its details may still have the start that was expected."""
    started = job.start_time.whole
    return started if job.state.holds_nodes and 0 < started <= now else now
