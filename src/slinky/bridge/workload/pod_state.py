# SPDX-License-Identifier: Apache-2.0
"""Which pods are ours, and where each is in its life. Pure predicates on one pod.

A pod counts as gone only when its containers are: by its phase, or because it never had a node. A deletion
alone says only that somebody asked.
"""

from datetime import datetime

from slinky.bridge import names
from slinky.bridge.state.views import WorkloadPod
from slinky.kube import Node
from slinky.kube.timestamps import seconds_since

FINISHED_PHASES = frozenset({"Succeeded", "Failed"})
#: Below and above every priority that a pod can have.
LOWEST_PRIORITY, HIGHEST_PRIORITY = -(2**31) - 1, 2**31


def uses_scheduler(pod: WorkloadPod, scheduler: str) -> bool:
    """It asked for this scheduler."""
    return pod.spec.scheduler_name == scheduler


def is_bound(pod: WorkloadPod) -> bool:
    """It has a node, so it may have containers."""
    return bool(pod.spec.node_name)


def is_finished(pod: WorkloadPod) -> bool:
    """Its containers have ended for good."""
    return pod.status.phase in FINISHED_PHASES


def is_gone(pod: WorkloadPod) -> bool:
    """Nothing of it runs or ever will: finished, or deleted before it got a node."""
    return is_finished(pod) or (pod.metadata.deleting and not is_bound(pod))


def is_gated(pod: WorkloadPod) -> bool:
    """Somebody holds it back with a scheduling gate."""
    return bool(pod.spec.scheduling_gates)


def is_waiting(pod: WorkloadPod) -> bool:
    """It wants a node and may have one."""
    return not (is_gone(pod) or is_bound(pod) or pod.metadata.deleting or is_gated(pod))


def job_id(pod: WorkloadPod) -> str:
    """The Slurm job it belongs to, or nothing; a label that is no number was not written by us."""
    label = pod.metadata.labels.get(names.JOB_LABEL, "")
    return label if label.isascii() and label.isdigit() else ""


def has_finalizer(pod: WorkloadPod) -> bool:
    """Our finalizer is on it."""
    return names.FINALIZER in pod.metadata.finalizers


def assigned_node(pod: WorkloadPod) -> str:
    """The Kubernetes node chosen for it, or nothing."""
    return pod.spec.node_name or pod.metadata.annotations.get(names.NODE_ANNOTATION, "")


def queue_priority(pod: WorkloadPod) -> int:
    """How soon to look at it: first those for which Slurm was just asked, since nodes idle until they are bound; then
    those that want a node or end, by their priority; those that just run when no other does, since all there is to do
    for them is to say so.
    """
    if is_waiting(pod) and has_finalizer(pod) and not job_id(pod):
        return HIGHEST_PRIORITY
    quiet = is_bound(pod) and not pod.metadata.deleting and not is_finished(pod)
    return LOWEST_PRIORITY if quiet else pod.spec.priority


def seconds_until_overdue(pod: WorkloadPod, now: datetime, patience: float) -> float | None:
    """Seconds until a deleted pod should have been gone `patience` ago; zero or less when it is; None if it is
    not being deleted.

    The deletion timestamp of Kubernetes lies in the future: it already includes the grace period.
    """
    since = seconds_since(pod.metadata.deletion_timestamp, now)
    return None if since is None else patience - since


def host_of(node: Node) -> str:
    """The Slurm name of a Kubernetes node."""
    return node.metadata.labels.get(names.HOST_LABEL) or node.metadata.name


def unavailable_reason(node: Node) -> str:
    """Why a node takes no pods for now; nothing if it does."""
    return "is cordoned" if node.spec.unschedulable else "" if node.ready else "does not answer"
