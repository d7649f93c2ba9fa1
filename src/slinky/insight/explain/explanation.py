# SPDX-License-Identifier: Apache-2.0
"""The parts of an explanation, and the paragraph that they form. Pure."""

from dataclasses import dataclass, field
from enum import Enum

from slinky.insight.explain.priority import QueueRank
from slinky.insight.limit_reasons import parse_limit
from slinky.insight.pending_reasons import Remedy


class Topic(Enum):
    """What a finding is about."""

    HOLD = "hold"
    DEPENDENCY = "dependency"
    BEGIN_TIME = "begin time"
    ARRAY = "array"
    PARTITION = "partition"
    ACCESS = "access"
    FEATURES = "features"
    RESERVATION = "reservation"
    LIMIT = "limit"
    LICENSES = "licenses"
    NODES = "nodes"
    PRIORITY = "priority"
    OTHER = "other"


#: The topic of each reason of Slurm for which explanations look at the cluster themselves.
TOPICS = {
    "JobHeldUser": Topic.HOLD,
    "JobHeldAdmin": Topic.HOLD,
    "JobHoldMaxRequeue": Topic.HOLD,
    "Dependency": Topic.DEPENDENCY,
    "DependencyNeverSatisfied": Topic.DEPENDENCY,
    "BeginTime": Topic.BEGIN_TIME,
    "JobArrayTaskLimit": Topic.ARRAY,
    "PartitionDown": Topic.PARTITION,
    "PartitionInactive": Topic.PARTITION,
    "PartitionConfig": Topic.PARTITION,
    "PartitionNodeLimit": Topic.PARTITION,
    "PartitionTimeLimit": Topic.PARTITION,
    "MaxMemPerLimit": Topic.PARTITION,
    "AccountNotAllowed": Topic.ACCESS,
    "QOSNotAllowed": Topic.ACCESS,
    "InvalidAccount": Topic.ACCESS,
    "InvalidQOS": Topic.ACCESS,
    "QOSUsageThreshold": Topic.LIMIT,
    "BadConstraints": Topic.FEATURES,
    "Constraints": Topic.FEATURES,
    "Reservation": Topic.RESERVATION,
    "ReservationDeleted": Topic.RESERVATION,
    "ReservationInvalid": Topic.RESERVATION,
    "Licenses": Topic.LICENSES,
    "Resources": Topic.NODES,
    "ReqNodeNotAvail": Topic.NODES,
    "NodeDown": Topic.NODES,
    "Priority": Topic.PRIORITY,
}


def topic_of(token: str) -> Topic:
    """The topic of a reason of Slurm."""
    return TOPICS.get(token, Topic.LIMIT if parse_limit(token) else Topic.OTHER)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that keeps a job from starting. `blockers` names the objects: `job 12`, `qos high`, `node k001`."""

    topic: Topic
    sentence: str
    cure: str = ""
    step: str = ""
    remedy: Remedy = Remedy.WAITING
    blockers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueExplanation:
    """Why one object is in its state."""

    subject: str
    state: str
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    rank: QueueRank | None = None
    #: Sentences that are true beside the findings: tasks of an array, components of a heterogeneous job.
    notes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = field(default=())

    def paragraph(self) -> str:
        """The whole explanation as one paragraph."""
        sentences = [f"{self.subject} is {self.state}."]
        for number, finding in enumerate(self.findings):
            sentences.append(f"Also: {finding.sentence}" if number else finding.sentence)
        sentences += self.notes
        if self.rank is not None:
            sentences.append(self.rank.sentence())
        sentences += dict.fromkeys(finding.cure for finding in self.findings if finding.cure)
        steps = list(dict.fromkeys(finding.step for finding in self.findings if finding.step))
        sentences += [f"Next step: {' '.join(steps)}"] if steps else []
        if self.unknown:
            sentences.append(f"Not known: {'; '.join(self.unknown)}.")
        return " ".join(sentences)
