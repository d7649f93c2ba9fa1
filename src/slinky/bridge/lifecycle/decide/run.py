# SPDX-License-Identifier: Apache-2.0
"""The phase run: every bound pod reports its node. Pure."""

from slinky.bridge.lifecycle.decide import actions, retries
from slinky.bridge.lifecycle.decide.actions import Plan
from slinky.bridge.lifecycle.snapshot import WorkloadSnapshot
from slinky.bridge.status import conditions
from slinky.bridge.views import WorkloadPod
from slinky.kube.conditions import find_condition
from slinky.kube.timestamps import seconds_since
from slinky.slurm import JobRecord


def report_nodes(snapshot: WorkloadSnapshot, plan: Plan, record: JobRecord, active: tuple[WorkloadPod, ...]) -> None:
    """Write that pods have their node, if that changed; deferred while other pods are being bound."""
    texts = ((pod, conditions.running_text(record, pod.spec.node_name)) for pod in active if not pod.metadata.deleting)
    changed = tuple((pod, text) for pod, text in texts if conditions.differs(pod, text, snapshot.now))
    left = min((_remaining_deferral(snapshot, pod) for pod, _ in changed), default=0.0)
    if snapshot.binding_in_progress and left > 0:
        plan.deferred = True
        plan.retry_after(left)
    elif changed:
        plan.add(actions.ReportNodes(changed))


def _remaining_deferral(snapshot: WorkloadSnapshot, pod: WorkloadPod) -> float:
    """Seconds for which the condition of a bound pod may still be deferred."""
    condition = find_condition(pod.status.conditions, "PodScheduled")
    age = seconds_since(condition.last_transition_time, snapshot.now) if condition else None
    return max(0.0, retries.MAX_DEFERRAL - age) if age is not None and age >= 0 else 0.0
