# SPDX-License-Identifier: Apache-2.0
"""Starts and ends of jobs count once, and only if they were observed."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from tests.unit.exporter.test_families import NOW, at, job

from slinky.exporter.job_history import JobHistory
from slinky.exporter.observed_metrics import OTHER, ObservedMetrics
from slinky.slurm import JobRecord

TIMES = {"submit_time": at(999_000), "eligible_time": at(999_900)}
ENDED = {**TIMES, "start_time": at(999_990), "end_time": at(1_000_050), "account": "a", "time_limit": at(2)}
LABELS = {"cluster": "c1", "partition": "gpu", "qos": ""}


def figures(*changes: tuple[JobRecord | None, JobRecord | None]) -> CollectorRegistry:
    observed = ObservedMetrics()
    history = JobHistory(observed)
    for before, after in changes:
        history.observe(before, after, NOW)
    return registered(observed)


def registered(observed: ObservedMetrics) -> CollectorRegistry:
    """The metrics in a registry, as the exporter shows them."""

    class Once(Collector):
        def collect(self) -> Iterator[Metric]:
            yield from observed.collect("c1")

    registry = CollectorRegistry()
    registry.register(Once())
    return registry


def test_a_start_counts_its_wait() -> None:
    pending, running = job("1", "PENDING", **TIMES), job("1", "RUNNING", **TIMES)
    registry = figures((None, pending), (pending, running), (running, running))
    assert registry.get_sample_value("slinky_slurm_job_wait_seconds_count", LABELS) == 1
    assert registry.get_sample_value("slinky_slurm_job_wait_seconds_sum", LABELS) == 100
    assert registry.get_sample_value("slinky_slurm_job_eligible_delay_seconds_sum", LABELS) == 900


def test_an_end_counts_once_although_its_details_come_later() -> None:
    running, ended = job("1", "RUNNING", **TIMES), job("1", "COMPLETED", **ENDED)
    unread = JobRecord("1", ended.state, "", running.detail)
    registry = figures((running, unread), (unread, ended), (ended, ended))
    labels = {"cluster": "c1", "partition": "gpu", "account": "a", "state": "completed"}
    assert registry.get_sample_value("slinky_slurm_jobs_ended_total", labels) == 1
    assert registry.get_sample_value("slinky_slurm_job_run_seconds_sum", LABELS) == 60
    assert registry.get_sample_value("slinky_slurm_job_limit_use_ratio_sum", LABELS) == 0.5


def test_a_job_that_had_ended_before_the_exporter_started_does_not_count() -> None:
    registry = figures((None, job("1", "COMPLETED", **ENDED)), (job("2", "RUNNING"), None))
    labels = {"cluster": "c1", "partition": "gpu", "account": "a", "state": "completed"}
    assert registry.get_sample_value("slinky_slurm_jobs_ended_total", labels) is None


def test_label_sets_beyond_the_limit_count_as_other() -> None:
    observed = ObservedMetrics(series_max=3)
    history = JobHistory(observed)
    for number in range(1, 11):
        running = job(str(number), "RUNNING", **TIMES)
        history.observe(running, job(str(number), "COMPLETED", **{**ENDED, "account": f"a{number}"}), NOW)
    registry = registered(observed)
    other = {"cluster": "c1", "partition": OTHER, "account": OTHER, "state": OTHER}
    assert registry.get_sample_value("slinky_slurm_jobs_ended_total", other) == 8
    assert observed.dropped["jobs_ended"] == 8
