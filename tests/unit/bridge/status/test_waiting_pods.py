# SPDX-License-Identifier: Apache-2.0
"""Pods that wait are counted by the reason of their condition."""

from datetime import UTC, datetime

import msgspec

from slinky.bridge import names
from slinky.bridge.metrics import WaitingPods
from slinky.bridge.status.waiting_pods import count_waiting_pods
from slinky.bridge.views import WorkloadPod

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def pod(name: str, created: str, reason: str = "", *, node: str = "", deleted: str | None = None) -> WorkloadPod:
    conditions = [{"type": names.SCHEDULED, "status": "False", "reason": reason}] if reason else []
    meta = {"name": name, "creationTimestamp": created, "deletionTimestamp": deleted}
    raw = {"metadata": meta, "spec": {"nodeName": node}, "status": {"phase": "Pending", "conditions": conditions}}
    return msgspec.convert(raw, WorkloadPod)


def test_pods_count_by_reason_with_the_age_of_the_oldest() -> None:
    pods = (
        pod("a", "2026-01-01T11:59:00Z", "Resources"),
        pod("b", "2026-01-01T11:00:00Z", "Resources"),
        pod("c", "2026-01-01T11:58:00Z"),
        pod("d", "2026-01-01T01:00:00Z", "Allocated", node="n1"),
        pod("e", "2026-01-01T01:00:00Z", "Resources", deleted="2026-01-01T02:00:00Z"),
        pod("f", "never", "Priority"),
    )
    assert count_waiting_pods(pods, NOW) == {
        "Resources": WaitingPods(2, 3600.0),
        "none": WaitingPods(1, 120.0),
        "Priority": WaitingPods(1, 0.0),
    }
