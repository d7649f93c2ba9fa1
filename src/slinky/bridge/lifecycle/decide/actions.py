# SPDX-License-Identifier: Apache-2.0
"""The output of a decision: a plan of actions, and when to decide again. Pure data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from slinky.bridge.lifecycle.decide.assignment import Assignment
from slinky.bridge.lifecycle.release.outcome import WITHDRAWN, PodOutcome
from slinky.bridge.status.reasons import ConditionText
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload.job_spec import JobSpec
from slinky.slurm import JobRecord


class EvictionLimit(Enum):
    """Which limit an eviction counts against."""

    NONE = "none"
    LOST = "lost"  # pods of jobs that Slurm has lost
    FAILED = "failed"  # jobs that ended because of nodes or of Slurm itself


# --- actions, in the order of a workload's life


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
class BindPods:
    """Bind the unbound pods of a job to the nodes that Slurm allocated."""

    record: JobRecord
    pods: tuple[WorkloadPod, ...]
    assignments: Mapping[str, Assignment]  # by pod uid
    reserve_room: bool = False  # whether pods of other jobs may use the same nodes

    @property
    def job(self) -> str:
        """The id of the job."""
        return self.record.job_id


@dataclass(frozen=True)
class AvoidHost:
    """Exclude a host from the next submissions of the workload for a while: it did not suit the pods."""

    host: str
    problem: str


@dataclass(frozen=True)
class BlockNode:
    """Do not use a node for pods with these requests for a while: they did not fit there, or the kubelet rejected
    them.
    """

    node: str
    pods: tuple[WorkloadPod, ...]
    rejected: bool = False


@dataclass(frozen=True)
class WriteCondition:
    """Write a condition to the pods."""

    pods: tuple[WorkloadPod, ...]
    text: ConditionText


@dataclass(frozen=True)
class ReportNodes:
    """Write to each of these pods which node it has."""

    texts: tuple[tuple[WorkloadPod, ConditionText], ...]


@dataclass(frozen=True)
class DetachPods:
    """Remove the job label from these pods, so that they are submitted again."""

    pods: tuple[WorkloadPod, ...]
    text: ConditionText


@dataclass(frozen=True)
class ReleaseDevices:
    """Release the devices that were claimed for pods whose job ended before they started."""

    pods: tuple[WorkloadPod, ...]


@dataclass(frozen=True)
class PauseSubmissions:
    """Pause new submissions for a short time: they could take the nodes of running pods whose jobs were lost."""


@dataclass(frozen=True)
class ReplaceJob:
    """Submit a new job on the hosts of running pods whose job was lost. All pods have one role."""

    job_spec: JobSpec
    hosts: tuple[str, ...]

    @property
    def pods(self) -> tuple[WorkloadPod, ...]:
        """The pods of the job."""
        return self.job_spec.roles[0]


@dataclass(frozen=True)
class CancelJob:
    """End a job that no pod needs; `outcome` is the outcome of its pods."""

    job: str
    outcome: PodOutcome = WITHDRAWN


@dataclass(frozen=True)
class RecordOutcome:
    """Record the outcome of the pods of a job that has ended; the witness keeps its finalizer until then."""

    job: str
    outcome: PodOutcome
    witness: WorkloadPod


@dataclass(frozen=True)
class EvictPods:
    """Delete pods whose job has ended."""

    pods: tuple[WorkloadPod, ...]
    text: ConditionText
    limit: EvictionLimit = EvictionLimit.NONE


@dataclass(frozen=True)
class ExplainEnd:
    """Write the end of the job to pods that are being deleted because of it, so that owners do not take the end of the
    pod for a failure.
    """

    pods: tuple[WorkloadPod, ...]
    text: ConditionText


@dataclass(frozen=True)
class RemoveFinalizers:
    """Remove the finalizer of the bridge from pods that have ended, with an event if there is one."""

    pods: tuple[WorkloadPod, ...]
    event: ConditionText | None = None


Action = (
    SubmitJob
    | ReviseJob
    | LabelPods
    | BindPods
    | AvoidHost
    | BlockNode
    | WriteCondition
    | ReportNodes
    | DetachPods
    | ReleaseDevices
    | PauseSubmissions
    | ReplaceJob
    | CancelJob
    | RecordOutcome
    | EvictPods
    | ExplainEnd
    | RemoveFinalizers
)


@dataclass
class Plan:
    """The actions for a workload, and when to decide again even if nothing changes."""

    actions: list[Action] = field(default_factory=list)
    again: float | None = None
    #: Why the reconcile counts as failed: it is repeated with a delay that grows. Empty if it did not fail.
    failure: str = ""
    #: Conditions remain to be written once no pods are being bound.
    deferred: bool = False
    #: New pods belong to a job of the workload that is pending, so they are not submitted.
    joined: bool = False

    def add(self, *actions: Action) -> None:
        """Append actions."""
        self.actions.extend(actions)

    def write(self, pods: tuple[WorkloadPod, ...], text: ConditionText) -> None:
        """Write a condition to the pods, if there are any."""
        if pods:
            self.add(WriteCondition(pods, text))

    def retry_after(self, seconds: float) -> None:
        """Decide again after this many seconds at the latest."""
        self.again = seconds if self.again is None else min(self.again, seconds)

    def fail(self, problem: str, retry: float | None = None) -> None:
        """Decide again after `retry` seconds, or if there is none, after a delay that grows with each failure."""
        if retry is not None:
            self.retry_after(retry)
        else:
            self.failure = problem

    @property
    def binds(self) -> bool:
        """Whether pods get their nodes with this plan, or may get them."""
        return any(isinstance(action, SubmitJob | BindPods) for action in self.actions)
