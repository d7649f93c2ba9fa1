# SPDX-License-Identifier: Apache-2.0
"""Why a host must be drained in Slurm, and whether the bridge may end a drain. Pure.

Slurm frees a host as soon as it ends a job, but the containers of the pods take their time to stop. On a host with a
slurmd, native jobs would start beside them, so the host is drained until they have stopped. Pods of the bridge wait for
them, so a host where only such pods run is drained only if a pod does not stop at all, as after UnkillableStepTimeout.

Every bridge sees cordons and nodes that do not answer, so those reasons are the same for all of them. A drain because
of pods has the name of the bridge in its reason: another bridge that uses the same host does not know these pods.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from slinky.bridge import names
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import pod_state
from slinky.kube import Node
from slinky.slurm import Host

#: Seconds after which the jobs of deleted pods are checked again, in case the end of a job was not reported.
LIVE_JOB_RETRY = 30.0


@dataclass(frozen=True, order=True)
class StoppingPod:
    """A deleted pod whose containers still run although Slurm has ended its job."""

    since: str  # the end of its grace period
    pod: str
    job: str
    overdue: bool = False


def stopping_pods(
    pods: Iterable[WorkloadPod], is_live: Callable[[str], bool], now: datetime, patience: float
) -> tuple[tuple[StoppingPod, ...], float | None]:
    """The pods of a node that still stop, oldest first, and the seconds until one of them may be `patience` seconds
    late. `is_live` tells whether a job may still hold its hosts.
    """
    stopping: list[StoppingPod] = []
    again: list[float] = []
    for pod in pods:
        left = pod_state.seconds_until_overdue(pod, now, patience)
        if left is None or pod_state.is_gone(pod) or not (job := pod_state.job_id(pod)):
            continue
        if is_live(job):
            again.append(LIVE_JOB_RETRY)
            continue
        stopping.append(StoppingPod(pod.metadata.deletion_timestamp or "", str(pod.key), job, overdue=left <= 0))
        again.extend([left] if left > 0 else [])
    return tuple(sorted(stopping)), min(again, default=None)


def drain_reason(node: Node, host: Host, *, unresponsive: bool, stopping: Sequence[StoppingPod], scheduler: str) -> str:
    """The reason to drain the host of a node; empty if it may get jobs."""
    # The same reason for every node as far as possible, so that many drains fit into one request.
    if node.spec.unschedulable:
        return f"{names.DRAIN_PREFIX} cordoned in Kubernetes"
    if unresponsive:
        return f"{names.DRAIN_PREFIX} the kubelet does not answer"
    if stuck := next((pod for pod in stopping if pod.overdue), None):
        problem = f"pod {stuck.pod} of job {stuck.job} has not stopped since {stuck.since}"
        return f"{names.DRAIN_PREFIX} {problem} [{scheduler}]"
    if stopping and not host.state.external:
        return f"{names.DRAIN_PREFIX} pods of ended jobs are still stopping [{scheduler}]"
    return ""


def is_own_drain(reason: str, scheduler: str) -> bool:
    """Whether the bridge of this scheduler may change or end a drain."""
    if not reason.startswith(names.DRAIN_PREFIX):
        return False
    return not reason.endswith("]") or reason.endswith(f" [{scheduler}]")
