# SPDX-License-Identifier: Apache-2.0
"""Failures and drains of nodes count once, with their durations."""

import pytest
from prometheus_client import CollectorRegistry
from tests.unit.exporter.test_families import NOW, at, host
from tests.unit.exporter.test_job_history import registered

from slinky.exporter.node_history import NodeHistory, is_failed
from slinky.exporter.observed_metrics import ObservedMetrics
from slinky.slurm import Host

UP = host("n1", "IDLE")
DOWN = host("n1", "DOWN", "NOT_RESPONDING")
DRAINED = host("n1", "IDLE", "DRAIN", reason="bad fan", reason_changed_at=at(NOW - 600))


def figures(*steps: tuple[Host | None, Host | None, float]) -> CollectorRegistry:
    observed = ObservedMetrics()
    history = NodeHistory(observed)
    for before, after, now in steps:
        history.observe(before, after, now)
    return registered(observed)


def test_a_failure_counts_with_its_duration() -> None:
    registry = figures((None, UP, NOW), (UP, DOWN, NOW), (DOWN, DOWN, NOW + 5), (DOWN, UP, NOW + 90))
    labels = {"cluster": "c1", "partition": "gpu"}
    assert registry.get_sample_value("slinky_slurm_node_failures_total", labels) == 1
    assert registry.get_sample_value("slinky_slurm_node_unavailable_seconds_sum", labels) == 90


def test_a_node_that_was_down_before_or_that_is_deleted_does_not_count() -> None:
    registry = figures((None, DOWN, NOW), (DOWN, UP, NOW + 90), (UP, DOWN, NOW), (DOWN, None, NOW), (None, None, NOW))
    labels = {"cluster": "c1", "partition": "gpu"}
    assert registry.get_sample_value("slinky_slurm_node_unavailable_seconds_count", labels) is None


def test_the_end_of_a_drain_counts_for_its_owner() -> None:
    registry = figures((UP, DRAINED, NOW), (DRAINED, UP, NOW))
    labels = {"cluster": "c1", "owner": "administrator"}
    assert registry.get_sample_value("slinky_slurm_node_drain_seconds_sum", labels) == 600


@pytest.mark.parametrize(
    ("words", "failed"),
    [
        (("DOWN",), True),
        (("IDLE", "NOT_RESPONDING"), True),
        (("IDLE", "EXTERNAL", "NOT_RESPONDING"), False),
        (("IDLE", "CLOUD", "POWERED_DOWN"), False),
        (("DOWN", "CLOUD", "POWERED_DOWN"), False),
        (("IDLE", "DRAIN"), False),
    ],
)
def test_a_node_that_slurm_powered_down_did_not_fail(words: tuple[str, ...], failed: bool) -> None:
    assert is_failed(host("n1", *words)) is failed
