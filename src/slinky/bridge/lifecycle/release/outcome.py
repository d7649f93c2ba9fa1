# SPDX-License-Identifier: Apache-2.0
"""Summarizes how the pods of a job ended, for the accounting record of the job. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from slinky.bridge.views import Terminated, WorkloadPod
from slinky.bridge.workload import pod_state


class PodOutcome(NamedTuple):
    """How the pods of a job ended: result, exit code and reason."""

    result: str = ""
    exit_code: int = 0
    reason: str = ""

    def __str__(self) -> str:
        return f"pods {self.result}, exit code {self.exit_code}" + (f" ({self.reason})" if self.reason else "")


#: Results of pods that ended by themselves.
RECORDED_RESULTS = ("Succeeded", "Failed")
#: The job is ended although its pods have not ended.
WITHDRAWN = PodOutcome()


def summarize(pods: Iterable[WorkloadPod]) -> PodOutcome:
    """The worst outcome of any pod. A pod that failed because it was deleted counts as deleted, not as failed."""
    group = list(pods)
    if failed := [pod for pod in group if pod.status.phase == "Failed" and not pod.metadata.deleting]:
        worst = max(failed, key=_exit_code)
        reason = ": ".join(filter(None, (worst.metadata.name, _reason(worst))))
        return PodOutcome("Failed", _exit_code(worst) or 1, reason)
    if all(pod.status.phase == "Succeeded" for pod in group):
        return PodOutcome("Succeeded")
    return PodOutcome("Deleted", max(map(_exit_code, group), default=0))


def find_witness(pods: Sequence[WorkloadPod]) -> WorkloadPod | None:
    """The pod that keeps its finalizer until the outcome of these pods is recorded; None if none has to.

    It is the pod that decides the outcome, if that still has its finalizer. Pods that are being deleted do not wait:
    their owner may wait for their names.
    """
    total = summarize(pods)
    if total.result not in RECORDED_RESULTS:
        return None
    waiting = [pod for pod in pods if pod_state.has_finalizer(pod) and not pod.metadata.deleting]
    return next((pod for pod in waiting if summarize([pod]) == total), waiting[0] if waiting else None)


def _exit_code(pod: WorkloadPod) -> int:
    return max((state.exit_code for state in _terminated(pod)), default=0)


def _reason(pod: WorkloadPod) -> str:
    """The kubelet's reason for the pod, or for the container with the highest exit code."""
    worst = max(_terminated(pod), key=lambda state: state.exit_code, default=Terminated())
    return pod.status.reason or worst.reason


def _terminated(pod: WorkloadPod) -> Sequence[Terminated]:
    """The final states of the containers; of the init containers only if no other container has one."""
    for statuses in (pod.status.container_statuses, pod.status.init_container_statuses):
        if states := [status.state.terminated for status in statuses if status.state.terminated is not None]:
            return states
    return ()
