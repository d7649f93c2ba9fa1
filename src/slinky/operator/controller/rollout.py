# SPDX-License-Identifier: Apache-2.0
"""The order in which several slurmctld pods are replaced. Pure.

A StatefulSet that updates its pods itself waits until each new pod is ready. A standby slurmctld is never ready, so the
update would stop at the first one. Therefore the operator replaces the pods of a Controller with standbys one by one.
"""

from collections.abc import Sequence

from slinky.api.controller import Controller
from slinky.kube.views import Pod, ReplicaStatus

#: Label in which a StatefulSet writes the revision of a pod.
REVISION = "controller-revision-hash"


def next_pod_to_replace(pods: Sequence[Pod], replicas: int, status: ReplicaStatus) -> Pod | None:
    """Return the pod to delete now, standbys before the active one; None while a new pod is starting."""
    if not status.update_revision:
        return None
    old = [pod for pod in pods if pod.metadata.labels.get(REVISION) != status.update_revision]
    new = [pod for pod in pods if pod not in old]
    if len(pods) < replicas or any(pod.metadata.deleting for pod in pods) or not all(map(_has_started, new)):
        return None
    return min(old, key=lambda pod: (pod.ready, -_ordinal(pod)), default=None)


def is_standby(controller: Controller, pod: Pod) -> bool:
    """Return whether this slurmctld waits for the failure of another one; then it is not ready although it works."""
    return controller.spec.ha.enabled and not pod.ready and not pod.metadata.deleting and _has_started(pod)


def _has_started(pod: Pod) -> bool:
    """Return whether slurmctld has answered once, as a standby or as the active one."""
    return any(status.name == "slurmctld" and status.started for status in pod.status.container_statuses)


def _ordinal(pod: Pod) -> int:
    return int(pod.metadata.name.rpartition("-")[2])
