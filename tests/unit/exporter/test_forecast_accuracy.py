# SPDX-License-Identifier: Apache-2.0
"""Forecasts of starts, compared with the starts that happen."""

import pytest
from tests.unit.exporter.test_families import NOW, at, job

from slinky.exporter import forecast_accuracy
from slinky.exporter.forecast_accuracy import ForecastAccuracy, first_jobs
from slinky.exporter.observed_metrics import ObservedMetrics
from slinky.insight.forecast import StartRange, StartSource
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.slurm import Job, number

START = int(NOW)
PENDING = job("7", "PENDING")


def observe(given: StartRange, started: int) -> dict[str, float]:
    """The samples after a job with this forecast has started at a time."""
    observed = ObservedMetrics()
    accuracy = ForecastAccuracy(observed)
    accuracy.remember({7: given})
    accuracy.observe(PENDING, job("7", "RUNNING", start_time=at(started)), NOW + 10_000)
    return {
        sample.name.removeprefix("slinky_slurm_") + sample.labels.get("outcome", ""): sample.value
        for metric in observed.collect("c")
        for sample in metric.samples
        if not sample.name.endswith(("_bucket", "_created")) and sample.value
    }


@pytest.mark.parametrize(
    ("started", "error", "outcome"),
    [
        (START - 50, 150, "before"),
        (START + 100, 0, "within"),
        (START + 400, 300, "within"),
        (START + 900, 800, "after"),
    ],
)
def test_a_start_is_compared_with_the_forecast(started: int, error: float, outcome: str) -> None:
    given = StartRange(7, START, START + 400, StartSource.SIMULATION)
    samples = observe(given, started)
    assert samples[f"forecast_starts_total{outcome}"] == 1
    assert samples.get("forecast_error_seconds_sum", 0) == error
    assert samples["forecast_error_seconds_count"] == 1


def test_a_job_without_a_forecast_counts_nothing() -> None:
    assert observe(StartRange(7, None, None, StartSource.NONE), START) == {}


def test_the_first_forecast_of_a_job_counts_once() -> None:
    observed = ObservedMetrics()
    accuracy = ForecastAccuracy(observed)
    accuracy.remember({7: StartRange(7, START, START, StartSource.SLURMCTLD)})
    accuracy.remember({7: StartRange(7, START + 900, START + 900, StartSource.SIMULATION)})
    running = job("7", "RUNNING", start_time=at(START))
    for _ in range(2):
        accuracy.observe(PENDING, running, NOW)
    (counter,) = [metric for metric in observed.collect("c") if metric.name.endswith("forecast_starts")]
    totals = [sample for sample in counter.samples if sample.name.endswith("_total")]
    assert [(sample.labels["source"], sample.value) for sample in totals] == [("slurmctld", 1)]


def test_the_forecast_of_a_job_that_never_starts_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast_accuracy, "REMEMBERED_MAX", 1)
    accuracy = ForecastAccuracy(ObservedMetrics())
    for key in (7, 8):
        accuracy.remember({key: StartRange(key, START, START, StartSource.SIMULATION)})
        accuracy.observe(job(str(key), "PENDING"), job(str(key), "CANCELLED"), NOW)
    assert accuracy._predicted == {}


def test_only_the_first_jobs_of_a_long_queue_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast_accuracy, "FORECAST_JOBS_MAX", 2)
    jobs = [Job(job_id=index, job_state=("PENDING",), priority=number(index)) for index in (1, 2, 3)]
    running = Job(job_id=9, job_state=("RUNNING",))
    kept = first_jobs(QueueSnapshot(NOW, (*jobs, running)))
    assert [entry.job_id for entry in kept.jobs] == [9, 3, 2]
