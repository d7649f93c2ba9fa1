# SPDX-License-Identifier: Apache-2.0
"""Which of several slurmctld is replaced next. Pure.

A StatefulSet that updates by itself waits until each new pod is ready, and a standby never is: it would stop at the
first. So with standbys the operator takes the pods in turn, and a failover still needs nobody.
"""

from collections.abc import Sequence

from slinky.kube.views import Pod, ReplicaStatus

#: By which a StatefulSet says of which revision a pod is.
REVISION = "controller-revision-hash"


def next_turn(pods: Sequence[Pod], wanted: int, status: ReplicaStatus) -> Pod | None:
    """The pod to delete now, standbys before the one in charge; None while a new one is still on its way."""
    if not status.update_revision:
        return None
    old = [pod for pod in pods if pod.metadata.labels.get(REVISION) != status.update_revision]
    new = [pod for pod in pods if pod not in old]
    if len(pods) < wanted or any(pod.metadata.deleting for pod in pods) or not all(map(_started, new)):
        return None
    return min(old, key=lambda pod: (pod.ready, -_ordinal(pod)), default=None)


def _started(pod: Pod) -> bool:
    """Slurmctld has answered once: as a standby, or in charge."""
    return any(found.name == "slurmctld" and found.started for found in pod.status.container_statuses)


def _ordinal(pod: Pod) -> int:
    return int(pod.metadata.name.rpartition("-")[2])
