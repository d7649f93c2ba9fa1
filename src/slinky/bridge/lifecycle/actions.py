# SPDX-License-Identifier: Apache-2.0
"""The output of `decide`: the actions of a plan."""

from dataclasses import dataclass, field

from slinky.bridge.lifecycle.outcome import WITHDRAWN, PodOutcome
from slinky.bridge.status.reasons import ConditionText
from slinky.bridge.views import WorkloadPod

# --- actions, in the order in which they appear in a plan


@dataclass(frozen=True)
class SubmitJob:
    """Submit a job for these pods."""

    pods: tuple[WorkloadPod, ...]


@dataclass(frozen=True)
class ReviseJob:
    """Update a pending job to what its pods, including new ones, request now."""

    job: str
    pods: tuple[WorkloadPod, ...]


@dataclass(frozen=True)
class LabelPods:
    """Write the id of the job to the label of these pods."""

    job: str
    pods: tuple[WorkloadPod, ...]


@dataclass(frozen=True)
class PlacePods:
    """Bind these pods to the nodes of their job."""

    job: str
    pods: tuple[WorkloadPod, ...]


@dataclass(frozen=True)
class WriteCondition:
    """Write a condition to the pods."""

    pods: tuple[WorkloadPod, ...]
    text: ConditionText


@dataclass(frozen=True)
class DetachPods:
    """Remove the job label from these pods, so that they are submitted again."""

    pods: tuple[WorkloadPod, ...]
    text: ConditionText


@dataclass(frozen=True)
class WithdrawJob:
    """Release the devices that were claimed for pods whose job ended before they started."""

    pods: tuple[WorkloadPod, ...]


@dataclass(frozen=True)
class CancelJob:
    """End a job that no pod needs; `outcome` is the outcome of its pods."""

    job: str
    outcome: PodOutcome = WITHDRAWN


@dataclass(frozen=True)
class EvictPods:
    """Delete pods whose job has ended."""

    pods: tuple[WorkloadPod, ...]
    text: ConditionText


@dataclass(frozen=True)
class ExplainEnd:
    """Write the end of the job to pods that are being deleted because of it, so that owners do not take the end of the
    pod for a failure.
    """

    pods: tuple[WorkloadPod, ...]
    text: ConditionText


@dataclass(frozen=True)
class RecoverJob:
    """Submit a new job on the nodes of running pods whose job was lost; evict the pods if that is impossible."""

    job: str
    pods: tuple[WorkloadPod, ...]
    text: ConditionText


@dataclass(frozen=True)
class ReportRejection:
    """Write to a pod that its kubelet rejected it, and do not use its node for such pods for a while."""

    job: str
    pod: WorkloadPod


@dataclass(frozen=True)
class RemoveFinalizer:
    """Remove the finalizer of the bridge from a pod that has ended, with an event if there is one."""

    pod: WorkloadPod
    event: ConditionText | None = None


Action = (
    SubmitJob
    | ReviseJob
    | LabelPods
    | PlacePods
    | WriteCondition
    | DetachPods
    | WithdrawJob
    | CancelJob
    | EvictPods
    | ExplainEnd
    | RecoverJob
    | ReportRejection
    | RemoveFinalizer
)


@dataclass
class Plan:
    """The actions for a workload, and when to reconcile again even if nothing changes."""

    actions: list[Action] = field(default_factory=list)
    again: float | None = None
    #: Conditions remain to be written once no pods are being bound.
    deferred: bool = False

    def add(self, *actions: Action) -> None:
        """Append actions."""
        self.actions.extend(actions)

    def retry_after(self, seconds: float) -> None:
        """Reconcile again after this many seconds at the latest."""
        self.again = seconds if self.again is None else min(self.again, seconds)
