# SPDX-License-Identifier: Apache-2.0
"""What can be known of a job, and what can be done about its pods: the words in which `decide` reads and answers."""

from dataclasses import dataclass, field
from enum import Enum

from slinky.bridge.lifecycle.outcome import WITHDRAWN, PodOutcome
from slinky.bridge.state.views import WorkloadPod
from slinky.bridge.status.conditions import ConditionText
from slinky.slurm import JobRecord


class JobKnowledge(Enum):
    """What is known for certain of a job."""

    UNKNOWN = "unknown"
    LIVE = "live"
    OVER = "over"  # ended, or positively gone
    FOREIGN = "foreign"  # the id belongs to somebody else's job: ours is gone


@dataclass(frozen=True)
class ObservedJob:
    """One job as it looks now."""

    sight: JobKnowledge
    record: JobRecord | None = None
    stale: bool = False  # it asks for something else than its pods do now
    remains: bool = False  # it is over, yet a component of it may still hold or want nodes


# --- actions, in the order in which they appear in a plan


@dataclass(frozen=True)
class SubmitJob:
    """Give these pods a job."""

    pods: tuple[WorkloadPod, ...]


@dataclass(frozen=True)
class ReviseJob:
    """Bring a waiting job up to what its pods, newcomers among them, ask for now."""

    job: str
    pods: tuple[WorkloadPod, ...]


@dataclass(frozen=True)
class LabelPods:
    """Put the name of their job on these pods."""

    job: str
    pods: tuple[WorkloadPod, ...]


@dataclass(frozen=True)
class PlacePods:
    """Put these pods on the nodes of their job."""

    job: str
    pods: tuple[WorkloadPod, ...]


@dataclass(frozen=True)
class WriteCondition:
    """Tell it on the pods."""

    pods: tuple[WorkloadPod, ...]
    said: ConditionText
    warning: bool = False


@dataclass(frozen=True)
class DetachPods:
    """Take the job's name off these pods, so that they are submitted again."""

    pods: tuple[WorkloadPod, ...]
    said: ConditionText


@dataclass(frozen=True)
class WithdrawJob:
    """Free the devices that were claimed for pods which lost their job before they started."""

    pods: tuple[WorkloadPod, ...]


@dataclass(frozen=True)
class CancelJob:
    """End a job that no pod needs; `fate` is what became of its pods."""

    job: str
    fate: PodOutcome = WITHDRAWN


@dataclass(frozen=True)
class EvictPods:
    """Delete pods whose job has ended."""

    pods: tuple[WorkloadPod, ...]
    said: ConditionText


@dataclass(frozen=True)
class ExplainEnd:
    """Tell on pods that leave because their job has ended that it has, so that owners can tell it from a failure."""

    pods: tuple[WorkloadPod, ...]
    said: ConditionText


@dataclass(frozen=True)
class RecoverJob:
    """Give pods that run a new job on their nodes, since the old one is lost; if that cannot be, evict them."""

    job: str
    pods: tuple[WorkloadPod, ...]
    said: ConditionText


@dataclass(frozen=True)
class RemoveFinalizer:
    """Remove our hold on a pod that is gone."""

    pod: WorkloadPod
    warning: str = ""


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
    | RemoveFinalizer
)


@dataclass
class Plan:
    """What to do, and when to look again even if nothing changes."""

    actions: list[Action] = field(default_factory=list)
    again: float | None = None
    #: There is more to say, once nobody is being given nodes.
    hushed: bool = False

    def add(self, *actions: Action) -> None:
        """Do these next."""
        self.actions.extend(actions)

    def look_again(self, after: float) -> None:
        """Look again after so many seconds at the latest."""
        self.again = after if self.again is None else min(self.again, after)
