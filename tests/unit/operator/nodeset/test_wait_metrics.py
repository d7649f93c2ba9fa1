# SPDX-License-Identifier: Apache-2.0
"""Metrics of workers that are to be removed."""

import pytest
from prometheus_client import Gauge
from tests.unit.operator.samples import UNTRUSTED, host, pod, trusted_snapshot, worker_of

from slinky.kube.types import Key
from slinky.operator.metrics import (
    AWAITING_DRAIN,
    DELETIONS_LIMITED_PODS,
    LONGEST_DRAIN,
    DrainMetrics,
    DrainWait,
    failure_kind,
)
from slinky.operator.nodeset.wait_metrics import count_waits, longest_wait, wait_reason
from slinky.operator.slurm.snapshot import SlurmSnapshot

SINCE = "scale-in 2026-11-16T11:59:00Z"

CASES = [
    (
        "the kubelet has yet to stop it",
        {"deleting": True},
        trusted_snapshot(host("gpu-0", "IDLE+DRAIN")),
        "termination",
    ),
    ("Slurm is unreachable", {}, UNTRUSTED, "slurm"),
    ("drained already", {}, trusted_snapshot(host("gpu-0", "IDLE+DRAIN")), "deletion-limit"),
    ("jobs run on it", {}, trusted_snapshot(host("gpu-0", "ALLOCATED+DRAIN")), "jobs"),
    ("not drained yet", {}, trusted_snapshot(host("gpu-0")), "drain"),
]


def values(metric: Gauge) -> dict[tuple[str, ...], float]:
    return {tuple(s.labels.values()): s.value for expected in metric.collect() for s in expected.samples}


@pytest.mark.parametrize(("law", "settings", "slurm", "expected"), CASES, ids=[case[0] for case in CASES])
def test_what_a_condemned_worker_waits_for(
    law: str, settings: dict[str, bool], slurm: SlurmSnapshot, expected: str
) -> None:
    worker = worker_of(pod(pod_condemned=SINCE, **settings), slurm)  # type: ignore[arg-type]
    assert wait_reason(worker) == expected
    assert count_waits([worker, worker_of(pod("gpu-1"))]) == {DrainWait("scale-in", expected): 1}
    assert longest_wait([worker]) == 60


def test_what_no_longer_holds_is_taken_back() -> None:
    shown, key = DrainMetrics(), Key("ns", "gpu")
    shown.publish(key, {DrainWait("update", "jobs"): 2, DrainWait("scale-in", "slurm"): 1}, 5.0, 0)
    shown.publish(key, {DrainWait("update", "jobs"): 1}, 6.0, 3)
    assert values(AWAITING_DRAIN) == {("ns", "gpu", "update", "jobs"): 1}
    assert values(LONGEST_DRAIN)[key] == 6.0
    assert values(DELETIONS_LIMITED_PODS)[key] == 3.0
    shown.forget(key)
    assert not values(AWAITING_DRAIN)
    assert key not in values(DELETIONS_LIMITED_PODS)
    shown.forget(key)


@pytest.mark.parametrize(
    ("status", "kind"), [(None, "unreachable"), (200, ""), (304, ""), (401, "denied"), (404, ""), (500, "failed")]
)
def test_failures_of_calls_have_a_kind(status: int | None, kind: str) -> None:
    assert failure_kind(status) == kind
