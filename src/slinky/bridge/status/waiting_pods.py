# SPDX-License-Identifier: Apache-2.0
"""Counts the pods that wait for a node, by the reason of their condition. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime

from slinky.bridge import names
from slinky.bridge.metrics import WaitingPods
from slinky.bridge.views import WorkloadPod
from slinky.kube.conditions import find_condition

#: The reason of a pod without a condition: the bridge has not said yet why it waits.
NO_REASON = "none"


def count_waiting_pods(pods: Iterable[WorkloadPod], now: datetime) -> Mapping[str, WaitingPods]:
    """Pods without a node that are not being deleted."""
    ages: dict[str, list[float]] = defaultdict(list)
    for pod in pods:
        if pod.spec.node_name or pod.metadata.deleting or pod.status.phase in {"Succeeded", "Failed"}:
            continue
        condition = find_condition(pod.status.conditions, names.SCHEDULED)
        ages[(condition.reason if condition else "") or NO_REASON].append(_age(pod, now))
    return {reason: WaitingPods(len(seconds), max(seconds)) for reason, seconds in ages.items()}


def _age(pod: WorkloadPod, now: datetime) -> float:
    try:
        created = datetime.fromisoformat(pod.metadata.creation_timestamp)
    except ValueError:
        return 0.0
    return max(0.0, (now - created).total_seconds())
