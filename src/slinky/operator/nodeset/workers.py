# SPDX-License-Identifier: Apache-2.0
"""A worker at one moment: its pod, its Kubernetes node and its host in Slurm. Pure.

`Worker` answers the questions that decisions ask. Whatever Slurm has not reported recently is None or UNKNOWN, and no
answer turns that into "idle" or "drained".
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import NamedTuple

import msgspec

from slinky.api.names import metadata
from slinky.api.nodeset import NodeSet
from slinky.kube.timestamps import age_seconds, format_timestamp
from slinky.kube.types import ObjectMeta
from slinky.kube.views import Node, Pod
from slinky.operator.nodeset.autoscaling.policy import is_near
from slinky.operator.nodeset.causes import RemovalCause
from slinky.operator.slurm.snapshot import SlurmSnapshot
from slinky.slurm import Host, Presence

#: Seconds that a ready worker may be missing from Slurm's list of nodes before its pod is replaced.
UNREGISTERED_AFTER = 90.0
#: The deadline of jobs without a time limit; deadlines from LATEST_DEADLINE on count as none.
NO_DEADLINE = "9999-12-31T23:59:59Z"
LATEST_DEADLINE = datetime(9999, 1, 1, tzinfo=UTC).timestamp()

#: What the scheduler writes about a node whose pods do not want the new pod beside them.
EXISTING_ANTI_AFFINITY = "didn't satisfy existing pods anti-affinity rules"

#: Prefix of the pod conditions that show the state in Slurm, and those conditions that mean that jobs run.
STATE_CONDITION = "SlurmNodeState"
BUSY_CONDITIONS = frozenset(f"{STATE_CONDITION}{state}" for state in ("Allocated", "Mixed", "Completing"))


class Condemnation(NamedTuple):
    """Why and since when a worker is condemned, as in the annotation of its pod."""

    cause: str
    since: str

    @classmethod
    def parse(cls, text: str) -> "Condemnation":
        """The inverse of `str`."""
        cause, _, since = text.partition(" ")
        return cls(cause, since)

    def __str__(self) -> str:
        return f"{self.cause} {self.since}".strip()

    @property
    def known_cause(self) -> RemovalCause | None:
        """The cause; None if another version of the operator wrote one that this version lacks."""
        return RemovalCause.parse(self.cause)

    @property
    def description(self) -> str:
        """The cause as the end of the sentence "Pod x is ..."."""
        return self.known_cause.description if self.known_cause else self.cause

    @property
    def planned(self) -> bool:
        """Whether a user requested the removal."""
        return self.known_cause is not None and self.known_cause.planned

    def seconds(self, now: datetime) -> float:
        """Seconds since the worker was condemned; 0 if the time cannot be parsed."""
        return age_seconds(self.since, now)


class KeptDrain(msgspec.Struct, frozen=True):
    """A drain that does not belong to the operator and outlives the pod of its worker: its reason and its user.

    `slurmd_start` is when the slurmd before started (seconds since 1970), which tells its record from the next one.
    """

    reason: str
    user: str = ""
    slurmd_start: int = 0

    def is_on(self, host: Host) -> bool:
        """Whether the host has a drain and is not the record of the slurmd before."""
        before = self.slurmd_start and host.slurmd_start_time.whole == self.slurmd_start
        return host.state.draining and not before

    @classmethod
    def parse(cls, text: str) -> "KeptDrain | None":
        """The drain in the annotation of a pod; None without one."""
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    def annotation(self) -> str:
        """The drain as the annotation of a pod."""
        return msgspec.json.encode(self).decode()

    def __str__(self) -> str:
        return f"{self.reason} (set by {self.user})" if self.user else self.reason


@dataclass(frozen=True)
class Worker:
    """One worker. Properties are cached, because decisions about thousands of workers read them many times."""

    pod: Pod
    hostname: str
    ordinal: int | None
    node: Node | None
    host: Host | None
    presence: Presence
    now: datetime
    jobs_end: float | None = None  # latest end of its jobs, in seconds since 1970; None if not known
    absent_seconds: float = math.inf
    reserved_soon: bool = False  # a reservation of its host begins soon

    @cached_property
    def meta(self) -> ObjectMeta:
        """Metadata of the pod."""
        return self.pod.metadata

    @cached_property
    def condemned(self) -> Condemnation | None:
        """Set if the operator has chosen this worker for removal; the choice is final."""
        text = self.meta.annotations.get(metadata.POD_CONDEMNED, "")
        return Condemnation.parse(text) if text else None

    @cached_property
    def terminating(self) -> bool:
        """Whether the pod is being deleted."""
        return self.meta.deleting

    @cached_property
    def active(self) -> bool:
        """Whether it is neither terminating nor condemned nor finished."""
        return not (self.terminating or self.condemned or self.pod.finished)

    @cached_property
    def scheduled(self) -> bool:
        """Whether it is on a node and has not finished, so that jobs may run on it."""
        return bool(self.pod.spec.node_name) and not self.pod.finished

    @cached_property
    def kept_out(self) -> bool:
        """Whether the scheduler finds no node for it because of the anti-affinity of pods that run there."""
        conditions = (item for item in self.pod.status.conditions if item.type == "PodScheduled")
        return not self.scheduled and any(EXISTING_ANTI_AFFINITY in item.message for item in conditions)

    @cached_property
    def ready(self) -> bool:
        """Whether slurmd responds."""
        return self.pod.ready and not self.terminating

    @cached_property
    def ready_seconds(self) -> float:
        """Seconds since it became ready; 0 if it is not ready."""
        if not self.ready:
            return 0.0
        condition = next(item for item in self.pod.status.conditions if item.type == "Ready")
        return age_seconds(condition.last_transition_time, self.now)

    @cached_property
    def age(self) -> float:
        """Seconds since its pod was created."""
        return age_seconds(self.meta.creation_timestamp, self.now)

    @cached_property
    def kept_drain(self) -> KeptDrain | None:
        """The drain that its host had before its pod was created; None once the host has it again."""
        return KeptDrain.parse(self.meta.annotations.get(metadata.POD_KEPT_DRAIN, ""))

    @cached_property
    def cordoned(self) -> bool:
        """Whether a user or tool asks for a drain with an annotation on the pod."""
        return self.meta.annotations.get(metadata.POD_CORDON) == "true"

    @cached_property
    def busy(self) -> bool | None:
        """Whether jobs run on it; None if not known."""
        return self.host.state.busy if self.host else None

    @cached_property
    def reserved(self) -> bool:
        """Whether Slurm has reserved it, now or soon."""
        return self.reserved_soon or (self.host is not None and bool(self.host.reservation))

    @cached_property
    def planned(self) -> bool:
        """Whether Slurm has planned a job for it, or reserved it."""
        return self.host is not None and ("PLANNED" in self.host.state or self.reserved)

    @cached_property
    def unused(self) -> bool:
        """Whether no job runs on it and none is planned, or it has never registered in Slurm."""
        if self.host is None:
            return self.absent and not self.ready
        return self.busy is False and not self.planned

    @cached_property
    def removable(self) -> bool:
        """Whether it is in service in Slurm, idle, and not planned for a job: a scale-in may remove it."""
        return self.active and self.host is not None and self.unused and self.host.state.schedulable

    @cached_property
    def jobs_forgotten(self) -> bool:
        """Whether Slurm no longer has the host although jobs ran there when it last did: they may still run."""
        states = {condition.type for condition in self.pod.status.conditions}
        return self.presence is Presence.ABSENT and bool(states & BUSY_CONDITIONS)

    @cached_property
    def absent(self) -> bool:
        """Whether Slurm certainly does not have the host, and had no job on it when it last did."""
        return self.presence is Presence.ABSENT and not self.jobs_forgotten

    @cached_property
    def deadline(self) -> str:
        """Latest end of its jobs (RFC 3339); empty without jobs, NO_DEADLINE if not known."""
        if self.busy is False:
            return ""
        if self.jobs_end is None:
            return self.meta.annotations.get(metadata.POD_DEADLINE, NO_DEADLINE)
        return format_timestamp(self.jobs_end) if self.jobs_end < LATEST_DEADLINE else NO_DEADLINE

    @cached_property
    def drained(self) -> bool:
        """Whether slurmctld has recently reported that the host is drained and has no jobs."""
        return self.host is not None and self.host.state.drained

    def available(self, min_ready_seconds: int) -> bool:
        """Whether it has been ready for at least this many seconds."""
        return self.ready and self.ready_seconds >= min_ready_seconds

    def has_revision(self, revision: str) -> bool:
        """Whether it has this revision."""
        return self.meta.labels.get(metadata.REVISION) == revision


def build_worker(node_set: NodeSet, pod: Pod, node: Node | None, slurm: SlurmSnapshot, now: datetime) -> Worker:
    """Combine a pod, its node and its host to a worker."""
    name = worker_hostname(node_set, pod)
    per_node = pod.metadata.labels.get(metadata.SCALING_MODE) == "DaemonSet"
    return Worker(
        pod,
        name,
        None if per_node else node_set.ordinal(pod.metadata.name),
        node,
        slurm.host(name),
        slurm.presence(name),
        now,
        slurm.deadlines.get(name),
        slurm.absent_seconds(name),
        node_set.autoscaling is not None and is_near(slurm.reserved_from.get(name), node_set.autoscaling, now),
    )


def worker_hostname(node_set: NodeSet, pod: Pod) -> str:
    """Name of a worker in Slurm: with the host network, the name of the node."""
    labels, spec = pod.metadata.labels, pod.spec
    if node_set.spec.template.spec.get("hostNetwork") and labels.get(metadata.SCALING_MODE) != "DaemonSet":
        return spec.node_name or spec.hostname or pod.metadata.name
    return labels.get(metadata.POD_HOSTNAME) or spec.hostname or pod.metadata.name
