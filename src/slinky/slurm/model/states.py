# SPDX-License-Identifier: Apache-2.0
"""Job and node states: one base state and any number of flags.

Slurm sends a state as a list of words. `JobState` and `NodeState` separate them into the base state and flags, and
have properties for the conditions that callers need (`ended`, `drained`, ...). A word of a newer Slurm that is in no
table is kept and printed. It never makes a job count as ended or a node as drained.
"""

from collections.abc import Iterable
from typing import ClassVar, Self, cast

JOB_ENDED = frozenset(
    [
        "COMPLETED",
        "CANCELLED",
        "FAILED",
        "TIMEOUT",
        "NODE_FAIL",
        "PREEMPTED",
        "BOOT_FAIL",
        "DEADLINE",
        "OUT_OF_MEMORY",
    ]
)
JOB_BASES = frozenset({"PENDING", "RUNNING", "SUSPENDED"}) | JOB_ENDED
JOB_FLAGS = frozenset(
    [
        "LAUNCH_FAILED",
        "REQUEUED",
        "REQUEUE_HOLD",
        "SPECIAL_EXIT",
        "RESIZING",
        "CONFIGURING",
        "COMPLETING",
        "STOPPED",
        "RECONFIG_FAIL",
        "POWER_UP_NODE",
        "REVOKED",
        "REQUEUE_FED",
        "RESV_DEL_HOLD",
        "SIGNALING",
        "STAGE_OUT",
        "EXPEDITING",
    ]
)
#: Flags of a job that has ended and will run again.
JOB_REQUEUED = frozenset(["REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "EXPEDITING"])

NODE_BASES = frozenset(["INVALID", "UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE"])
NODE_FLAGS = frozenset(
    [
        "EXTERNAL",
        "RESERVED",
        "UNDRAIN",
        "CLOUD",
        "RESUME",
        "DRAIN",
        "COMPLETING",
        "NOT_RESPONDING",
        "POWERED_DOWN",
        "FAIL",
        "POWERING_UP",
        "MAINTENANCE",
        "REBOOT_REQUESTED",
        "REBOOT_CANCELED",
        "POWERING_DOWN",
        "DYNAMIC_FUTURE",
        "REBOOT_ISSUED",
        "PLANNED",
        "INVALID_REG",
        "POWER_DOWN",
        "POWER_UP",
        "POWER_DRAIN",
        "POWER_DOWN_ASAP",
        "POWER_DOWN_FORCE",
        "DYNAMIC_NORM",
        "BLOCKED",
    ]
)
#: Flags of a node on which Slurm starts no new job.
NODE_UNSCHEDULABLE = frozenset(
    [
        "DRAIN",
        "FAIL",
        "NOT_RESPONDING",
        "MAINTENANCE",
        "POWERED_DOWN",
        "POWERING_DOWN",
        "POWER_DOWN",
        "POWER_DRAIN",
        "POWER_DOWN_ASAP",
        "POWER_DOWN_FORCE",
        "REBOOT_ISSUED",
        "INVALID_REG",
        "BLOCKED",
    ]
)


class State:
    """A base state and its flags. Equal states share one instance, which saves memory."""

    __slots__ = ("base", "flags", "words")
    BASES: ClassVar[frozenset[str]]
    FLAGS: ClassVar[frozenset[str]]

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words
        self.base = next((word for word in words if word in self.BASES), "")
        self.flags = frozenset(words) - {self.base}

    @classmethod
    def of(cls, words: Iterable[str] | None) -> Self:
        """The shared instance for these words, in any letter case."""
        key = (cls, tuple(words or ()))
        state = _SHARED.get(key)
        if state is None:
            state = cls(tuple(word.upper() for word in key[1]))
            if len(_SHARED) < _MAX_SHARED:
                _SHARED[key] = state
        return cast("Self", state)

    def __contains__(self, word: object) -> bool:
        return word == self.base or word in self.flags

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, State):
            return NotImplemented
        return (type(self), self.base, self.flags) == (type(other), other.base, other.flags)

    def __hash__(self) -> int:
        return hash((self.base, self.flags))

    def __str__(self) -> str:
        return "+".join(self.words) or "(unset)"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    @property
    def unknown(self) -> frozenset[str]:
        """Words that this library does not know, from a newer Slurm."""
        return frozenset(self.words) - self.BASES - self.FLAGS


#: A cluster has a few dozen combinations; the limit keeps invalid responses from filling the memory.
_MAX_SHARED = 4096
_SHARED: dict[tuple[type[State], tuple[str, ...]], State] = {}


class JobState(State):
    """The state of a job."""

    __slots__ = ()
    BASES = JOB_BASES
    FLAGS = JOB_FLAGS

    @property
    def pending(self) -> bool:
        """Whether the job is in the queue, for the first time or after a requeue."""
        return self.base == "PENDING"

    @property
    def running(self) -> bool:
        """Whether the job has its resources and may use them; also true while nodes are being configured."""
        return self.base == "RUNNING"

    @property
    def suspended(self) -> bool:
        """Whether the job has its resources but is stopped."""
        return self.base == "SUSPENDED"

    @property
    def ended(self) -> bool:
        """Whether the job has finally ended. False for an unknown base state, a requeued job, and during COMPLETING."""
        return self.base in JOB_ENDED and not self.flags & JOB_REQUEUED and "COMPLETING" not in self.flags

    @property
    def live(self) -> bool:
        """Whether the job is pending, runs, or will run again; an unknown base state counts as live."""
        return not self.ended

    @property
    def holds_nodes(self) -> bool:
        """Whether slurmctld still counts the job's nodes as allocated."""
        return self.base in {"RUNNING", "SUSPENDED"} or "COMPLETING" in self.flags

    @property
    def ready(self) -> bool:
        """Whether the job runs and every node is configured, so that work may start."""
        return self.running and not self.flags & {"CONFIGURING", "POWER_UP_NODE"}

    @property
    def succeeded(self) -> bool:
        """Whether the job has ended successfully."""
        return self.ended and self.base == "COMPLETED"


class NodeState(State):
    """The state of a Slurm node."""

    __slots__ = ()
    BASES = NODE_BASES
    FLAGS = NODE_FLAGS

    @property
    def busy(self) -> bool:
        """Whether a job is on the node or is just leaving it."""
        return self.base in {"ALLOCATED", "MIXED"} or "COMPLETING" in self.flags

    @property
    def idle(self) -> bool:
        """Whether no job is on the node; jobs can start there only if it is also `schedulable`."""
        return self.base == "IDLE" and "COMPLETING" not in self.flags

    @property
    def down(self) -> bool:
        """Whether slurmctld considers the node down or in error."""
        return self.base in {"DOWN", "ERROR"}

    @property
    def draining(self) -> bool:
        """Whether the node is set to drain: no new jobs start, whether or not jobs still run there."""
        return "DRAIN" in self.flags and "UNDRAIN" not in self.flags

    @property
    def drained(self) -> bool:
        """Whether the node is draining and a known base state says that no job is on it."""
        return self.draining and self.base in {"IDLE", "DOWN"} and not self.busy

    @property
    def responding(self) -> bool:
        """Whether the node responds to slurmctld.

        slurmctld never pings an EXTERNAL node: there, False means that a job on the node was signalled.
        """
        return "NOT_RESPONDING" not in self.flags

    @property
    def external(self) -> bool:
        """Whether the node has no slurmd and takes only external jobs."""
        return "EXTERNAL" in self.flags

    @property
    def dynamic(self) -> bool:
        """Whether the node is not in slurm.conf and can be deleted."""
        return bool(self.flags & {"DYNAMIC_NORM", "DYNAMIC_FUTURE"})

    @property
    def schedulable(self) -> bool:
        """Whether new jobs can start on the node now."""
        return self.base in {"IDLE", "MIXED", "ALLOCATED"} and not self.flags & NODE_UNSCHEDULABLE
