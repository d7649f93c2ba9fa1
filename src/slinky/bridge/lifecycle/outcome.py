# SPDX-License-Identifier: Apache-2.0
"""What became of the pods of a job together, for its record in accounting. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from slinky.bridge.state.views import Terminated, WorkloadPod


class PodOutcome(NamedTuple):
    """How pods ended, with which exit code, and why."""

    word: str = ""
    code: int = 0
    why: str = ""

    def __str__(self) -> str:
        return f"pods {self.word}, exit code {self.code}" + (f" ({self.why})" if self.why else "")


#: The job is taken from pods that live on without it.
WITHDRAWN = PodOutcome()


def of(pods: Iterable[WorkloadPod]) -> PodOutcome:
    """The worst that happened to any of them. One that was stopped by its deletion did not fail, whatever it says."""
    group = list(pods)
    if failed := [pod for pod in group if pod.status.phase == "Failed" and not pod.metadata.deleting]:
        worst = max(failed, key=_code)
        return PodOutcome("Failed", _code(worst) or 1, ": ".join(filter(None, (worst.metadata.name, _reason(worst)))))
    if all(pod.status.phase == "Succeeded" for pod in group):
        return PodOutcome("Succeeded")
    return PodOutcome("Deleted", max(map(_code, group), default=0))


def _code(pod: WorkloadPod) -> int:
    return max((end.exit_code for end in _ends(pod)), default=0)


def _reason(pod: WorkloadPod) -> str:
    """In the kubelet's words: what it did to the pod, or how the container with the worst exit code ended."""
    worst = max(_ends(pod), key=lambda end: end.exit_code, default=Terminated())
    return pod.status.reason or worst.reason


def _ends(pod: WorkloadPod) -> Sequence[Terminated]:
    """How containers ended; those that prepare the pod only if it never got further."""
    for statuses in (pod.status.container_statuses, pod.status.init_container_statuses):
        if found := [status.state.terminated for status in statuses if status.state.terminated is not None]:
            return found
    return ()
