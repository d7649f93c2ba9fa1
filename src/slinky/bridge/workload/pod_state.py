# SPDX-License-Identifier: Apache-2.0
"""The scheduling state of one pod, and the availability of one node. Pure predicates.

A pod is gone only when its containers are: when its phase is final, or when it is deleted and never had a node. The
deletion timestamp alone only means that the deletion was requested.
"""

from datetime import datetime

from slinky import bounds
from slinky.bridge import names
from slinky.bridge.views import WorkloadPod
from slinky.kube import Node
from slinky.kube.timestamps import seconds_since

FINISHED_PHASES = frozenset({"Succeeded", "Failed"})
#: How the reasons of pods begin that a kubelet rejects for want of a resource, of devices or of aligned CPUs.
REJECTION_PREFIXES = ("OutOf", "UnexpectedAdmissionError", "TopologyAffinityError")
#: Below and above every priority that a pod can have.
LOWEST_PRIORITY, HIGHEST_PRIORITY = -(2**31) - 1, 2**31


def uses_scheduler(pod: WorkloadPod, scheduler: str) -> bool:
    """Whether the pod names this scheduler."""
    return pod.spec.scheduler_name == scheduler


def is_bound(pod: WorkloadPod) -> bool:
    """Whether the pod has a node, so that it may have containers."""
    return bool(pod.spec.node_name)


def is_finished(pod: WorkloadPod) -> bool:
    """Whether all containers of the pod have ended for good."""
    return pod.status.phase in FINISHED_PHASES


def is_rejected(pod: WorkloadPod) -> bool:
    """Whether the kubelet rejected the pod, because its node lacks a resource (OutOfcpu, OutOfpods and so on)."""
    return pod.status.phase == "Failed" and pod.status.reason.startswith(REJECTION_PREFIXES)


def is_gone(pod: WorkloadPod) -> bool:
    """Whether the pod has no containers and never will: it is finished, or was deleted before it had a node."""
    return is_finished(pod) or (pod.metadata.deleting and not is_bound(pod))


def is_released(pod: WorkloadPod) -> bool:
    """Whether nothing remains to be done for the pod: it is gone and does not have the finalizer of the bridge."""
    return is_gone(pod) and not has_finalizer(pod)


def is_gated(pod: WorkloadPod) -> bool:
    """Whether a scheduling gate blocks the pod."""
    return bool(pod.spec.scheduling_gates)


def is_waiting(pod: WorkloadPod) -> bool:
    """Whether the pod needs a node and may get one."""
    return not (is_gone(pod) or is_bound(pod) or pod.metadata.deleting or is_gated(pod))


def job_id(pod: WorkloadPod) -> str:
    """The Slurm job in the label of the pod; empty if there is none, or if the label is not a job id."""
    label = pod.metadata.labels.get(names.JOB_LABEL, "")
    return label if bounds.is_job_id(label) else ""


def has_finalizer(pod: WorkloadPod) -> bool:
    """Whether the pod has the finalizer of the bridge."""
    return names.FINALIZER in pod.metadata.finalizers


def assigned_node(pod: WorkloadPod) -> str:
    """The node that the pod is bound to or is to be bound to; empty if there is none."""
    return pod.spec.node_name or pod.metadata.annotations.get(names.NODE_ANNOTATION, "")


def queue_priority(pod: WorkloadPod) -> int:
    """The priority of the pod's workload in the reconcile queue.

    Pods whose allocation was just requested come first, because their nodes are idle until they are bound. Pods that
    wait for a node or end come next, by their priority. Pods that only run come last: only their condition is written.
    """
    if is_waiting(pod) and has_finalizer(pod) and not job_id(pod):
        return HIGHEST_PRIORITY
    is_running = is_bound(pod) and not pod.metadata.deleting and not is_finished(pod)
    return LOWEST_PRIORITY if is_running else pod.spec.priority


def seconds_until_overdue(pod: WorkloadPod, now: datetime, patience: float) -> float | None:
    """Seconds until the end of a deleted pod is `patience` seconds late; zero or less if it is; None if not deleted.

    The deletion timestamp of Kubernetes already includes the grace period.
    """
    since = seconds_since(pod.metadata.deletion_timestamp, now)
    return None if since is None else patience - since


def host_of(node: Node) -> str:
    """The name of the Slurm host of a Kubernetes node."""
    return node.metadata.labels.get(names.HOST_LABEL) or node.metadata.name


def unavailable_reason(node: Node) -> str:
    """Why a node accepts no pods at the moment, as a predicate; empty if it accepts them."""
    if node.spec.unschedulable:
        return "is cordoned"
    return "" if node.ready else "is not ready"
