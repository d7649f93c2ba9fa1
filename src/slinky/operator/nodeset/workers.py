# SPDX-License-Identifier: Apache-2.0
"""A worker seen from all sides at one moment: its pod, its Kubernetes node, its host in Slurm. Pure.

`Worker` answers the questions that decisions ask. What Slurm has not said freshly is None or UNKNOWN, and no answer
turns that into "idle" or "drained".
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import NamedTuple

from slinky.api.names import metadata
from slinky.api.nodeset import NodeSet
from slinky.kube.timestamps import age_seconds, format_timestamp
from slinky.kube.types import ObjectMeta
from slinky.kube.views import Node, Pod
from slinky.operator.slurm.snapshot import SlurmSnapshot
from slinky.slurm import Host, Presence

#: How long a healthy worker may be missing from Slurm's list before its pod is replaced.
UNREGISTERED_AFTER = 90.0
#: The deadline of work without one, and the time from which a deadline counts as none.
NEVER = "9999-12-31T23:59:59Z"
LATEST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()

#: What a pod condition that shows a state of Slurm begins with, and those that show work.
STATE = "SlurmNodeState"
AT_WORK = frozenset({f"{STATE}Allocated", f"{STATE}Mixed", f"{STATE}Completing"})


class Condemned(NamedTuple):
    """Why and since when a worker has to go."""

    cause: str
    since: str

    @classmethod
    def parse(cls, text: str) -> "Condemned":
        """The inverse of `str`."""
        cause, _, since = text.partition(" ")
        return cls(cause, since)

    def __str__(self) -> str:
        return f"{self.cause} {self.since}".strip()

    def seconds(self, now: datetime) -> float:
        """How long ago that was; zero if unreadable."""
        return age_seconds(self.since, now)


@dataclass(frozen=True)
class Worker:
    """One worker. Each question is answered once: a decision about thousands asks the same ones again and again."""

    pod: Pod
    hostname: str
    ordinal: int | None
    node: Node | None
    host: Host | None
    presence: Presence
    now: datetime
    ends: float | None = None  # when its jobs are over at the latest, in seconds since 1970; None if not known
    absent_seconds: float = math.inf

    @cached_property
    def meta(self) -> ObjectMeta:
        """The pod's metadata."""
        return self.pod.metadata

    @cached_property
    def condemned(self) -> Condemned | None:
        """Chosen to go; such a choice stays."""
        text = self.meta.annotations.get(metadata.POD_CONDEMNED, "")
        return Condemned.parse(text) if text else None

    @cached_property
    def leaving(self) -> bool:
        """Somebody has already deleted its pod."""
        return self.meta.deleting

    @cached_property
    def staying(self) -> bool:
        """Neither deleted nor condemned nor ended."""
        return not (self.leaving or self.condemned or self.pod.finished)

    @cached_property
    def placed(self) -> bool:
        """It is on a node, so that work may be on it."""
        return bool(self.pod.spec.node_name) and not self.pod.finished

    @cached_property
    def ready(self) -> bool:
        """Its slurmd answers."""
        return self.pod.ready and not self.leaving

    @cached_property
    def ready_seconds(self) -> float:
        """How long it has been ready."""
        if not self.ready:
            return 0.0
        condition = next(found for found in self.pod.status.conditions if found.type == "Ready")
        return age_seconds(condition.last_transition_time, self.now)

    @cached_property
    def age(self) -> float:
        """Seconds since its pod was made."""
        return age_seconds(self.meta.creation_timestamp, self.now)

    @cached_property
    def cordoned(self) -> bool:
        """A person or tool asked on the pod for a drain."""
        return self.meta.annotations.get(metadata.POD_CORDON) == "true"

    @cached_property
    def busy(self) -> bool | None:
        """Jobs are on it; None if that is not known."""
        return self.host.state.busy if self.host else None

    @cached_property
    def forgotten(self) -> bool:
        """Slurm positively does not know it, and jobs were on it when it last did: they may still run."""
        return self.presence is Presence.ABSENT and any(said.type in AT_WORK for said in self.pod.status.conditions)

    @cached_property
    def absent(self) -> bool:
        """Slurm positively does not know it, and had no job on it when it last did."""
        return self.presence is Presence.ABSENT and not self.forgotten

    @cached_property
    def deadline(self) -> str:
        """When its jobs are over at the latest, RFC 3339; empty if it has none, the end of time if not known."""
        if self.busy is False:
            return ""
        if self.ends is None:
            return self.meta.annotations.get(metadata.POD_DEADLINE, NEVER)
        return format_timestamp(self.ends) if self.ends < LATEST else NEVER

    @cached_property
    def drained(self) -> bool:
        """A fresh, positive word of slurmctld."""
        return self.host is not None and self.host.state.drained

    def available(self, least_seconds: int) -> bool:
        """Ready for long enough."""
        return self.ready and self.ready_seconds >= least_seconds

    def revised(self, revision: str) -> bool:
        """Has this revision."""
        return self.meta.labels.get(metadata.REVISION) == revision


def worker(of: NodeSet, pod: Pod, node: Node | None, sight: SlurmSnapshot, now: datetime) -> Worker:
    """A worker from what is known of it."""
    name = host_name(of, pod)
    per_node = pod.metadata.labels.get(metadata.SCALING_MODE) == "DaemonSet"
    ordinal = None if per_node else of.ordinal(pod.metadata.name)
    known = sight.host(name), sight.presence(name)
    times = sight.deadlines.get(name), sight.absent_seconds(name)
    return Worker(pod, name, ordinal, node, *known, now, *times)


def host_name(of: NodeSet, pod: Pod) -> str:
    """The worker's name in Slurm: with the node's own network it has the node's own name."""
    if of.spec.template.spec.get("hostNetwork") and pod.metadata.labels.get(metadata.SCALING_MODE) != "DaemonSet":
        return pod.spec.node_name or pod.spec.hostname or pod.metadata.name
    return pod.metadata.labels.get(metadata.POD_HOSTNAME) or pod.spec.hostname or pod.metadata.name
