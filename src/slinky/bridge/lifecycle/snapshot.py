# SPDX-License-Identifier: Apache-2.0
"""What is known about a workload at one moment: the input of a decision. Pure data.

A snapshot has no callables, no clock and no references to caches: two equal snapshots lead to the same plan.
`snapshot_builder` builds it in one pass over the caches, the registry and the mirror.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from slinky.bridge.feasibility.exclusions import HostShortage
from slinky.bridge.feasibility.kubelet_capacity import Shortage
from slinky.bridge.lifecycle.decide.assignment import Assignment
from slinky.bridge.state.observed_job import ObservedJob
from slinky.bridge.status.reasons import ConditionText
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload.grouping import Workload, WorkloadRoot
from slinky.bridge.workload.job_spec import JobSpec
from slinky.insight.forecast.start_range import StartRange

#: The key of a submission among obstacles and refusals, which are otherwise keyed by the job that they concern.
SUBMISSION = ""


# --- submission


@dataclass(frozen=True, slots=True)
class Refusal:
    """Slurm's last answer to the same request: error number and text, and seconds until it is worth another try."""

    number: int
    text: str
    retry_in: float
    detail: str = ""  # a sentence about the name that Slurm does not know


@dataclass(frozen=True, slots=True)
class AvoidedHost:
    """A host that is excluded for a while, because pods of the workload could not use it."""

    host: str
    problem: str
    left: float  # seconds


@dataclass(frozen=True, slots=True)
class SubmissionFacts:
    """Whether the new pods may be submitted now."""

    searched: bool = True  # Slurm has been searched for jobs that an earlier process submitted
    room_shortage: ConditionText | None = None  # pods of other schedulers leave too few nodes
    host_shortage: HostShortage | None = None  # too few hosts can ever run the pods
    delay: float = 0.0  # seconds until the same pods may be submitted again
    namespace_delay: float = 0.0  # seconds until the namespace may cause another rejection


# --- placement


@dataclass(frozen=True, slots=True)
class PlacementNode:
    """A node that pods of an allocated job would be bound to."""

    name: str
    host: str
    arriving: tuple[WorkloadPod, ...] = ()  # the unbound pods of the job for this node
    unavailable: str = ""  # why the node accepts no pods at the moment
    drained: bool = False  # Slurm allocates the node to no further job
    other_pods: tuple[WorkloadPod, ...] = ()  # pods of other jobs whose containers may still be there
    stuck_pod: WorkloadPod | None = None  # one of the other pods that should have stopped long ago
    shortage: Shortage | None = None  # what the node lacks for the arriving pods now
    occupied: str = ""  # if pods of other schedulers are the reason for the shortage: what they use


@dataclass(frozen=True, slots=True)
class PlacementFacts:
    """Where the pods of an allocated job would run."""

    assignments: Mapping[str, Assignment] = field(default_factory=dict)  # by pod uid
    nodes: Sequence[PlacementNode] = ()  # in the order of their names
    exclusive: bool = False  # the job has whole nodes
    misplaced: AvoidedHost | None = None  # why the nodes do not suit the pods


# --- what prevented an action


class ObstacleKind(Enum):
    """Why an action of the last plan could not be carried out."""

    UNREACHABLE = "unreachable"  # Slurm did not answer
    OUTGROWN = "outgrown"  # the pending job cannot be updated to what its pods request
    RESHAPED = "reshaped"  # the pending job has other components than its pods need
    NOT_PENDING = "not pending"  # the job is no longer pending, so it cannot be updated
    MISPLACED = "misplaced"  # a node does not suit the pods
    DEVICES_HELD = "devices held"  # another claim has the devices
    VOLUME_PENDING = "volume pending"  # a volume is not ready
    NOT_PREPARED = "not prepared"  # an object that a pod needs does not exist yet
    REALLOCATED = "reallocated"  # other jobs have the nodes of a lost job
    NOT_REPLACED = "not replaced"  # Slurm rejected the replacement of a lost job
    NOT_STARTED = "not started"  # Slurm cannot start the replacement of a lost job now


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What prevented an action, for the next decision in the same reconcile."""

    kind: ObstacleKind
    problem: str
    host: str = ""
    retry: float | None = None  # seconds


# --- the whole


@dataclass(frozen=True)
class WorkloadSnapshot:
    """What is known about a workload at one moment."""

    workload: Workload
    pods: Sequence[WorkloadPod]
    jobs: Mapping[str, ObservedJob]
    root: WorkloadRoot | None
    now: datetime
    problem: ConditionText | None = None  # why the pods cannot be translated to a job, or why there is no root
    job_spec: JobSpec | None = None  # of all waiting pods
    dead_kubelet_seconds: float = 120.0
    unreachable_nodes: frozenset[str] = frozenset()  # nodes of deleted pods whose kubelet does not answer
    missing_nodes: frozenset[str] = frozenset()  # nodes of pods that do not exist
    orphaned_jobs: Sequence[str] = ()  # live jobs of this workload that no pod is labelled with
    queue_positions: Mapping[str, str] = field(default_factory=dict)  # a sentence about each pending job
    start_ranges: Mapping[str, StartRange] = field(default_factory=dict)  # the forecast of each pending job
    adopted: Mapping[str, str] = field(default_factory=dict)  # jobs of pods without a job label, by pod uid
    binding_in_progress: bool = False  # pods of other workloads are being bound
    used_elsewhere: frozenset[str] = frozenset()  # jobs that pods of other workloads are labelled with
    unlabelled_elsewhere: frozenset[str] = frozenset()  # jobs whose pods have left the workload without their label
    submission: SubmissionFacts = SubmissionFacts()
    submissions_paused: float = 0.0  # seconds until submissions continue after a loss of jobs
    refusals: Mapping[str, Refusal] = field(default_factory=dict)  # by job
    avoided_hosts: Sequence[AvoidedHost] = ()
    placements: Mapping[str, PlacementFacts] = field(default_factory=dict)  # by job
    lost_job_specs: Mapping[str, JobSpec] = field(default_factory=dict)  # of running pods, by the job that was lost
    hosts: Mapping[str, str] = field(default_factory=dict)  # Slurm hosts by node, for the pods of lost jobs
    lost_evictions_left: int = 10  # pods
    failed_evictions_left: int = 10  # jobs
    obstacles: Mapping[str, Obstacle] = field(default_factory=dict)  # by job, or by the uid of the first pod
