# SPDX-License-Identifier: Apache-2.0
"""Job and node states as an algebra: one base word, any number of flags.

Slurm sends a state as a list of words. `JobState` and `NodeState` sort them into base and flags by one
table each and answer the questions that callers ask (`ended`, `drained`, ...). A word that a newer Slurm
invents is kept and passed through, and it never makes a job look ended or a node look drained.
"""

from __future__ import annotations

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
#: Flags of a job that has ended once and will run again.
JOB_RETURNING = frozenset(["REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "EXPEDITING"])

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
#: Flags with which no new job is placed on a node.
NODE_CLOSED = frozenset(
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
    """A base word and its flags; instances are shared, so comparing and keeping them costs little."""

    __slots__ = ("base", "flags", "words")
    BASES: ClassVar[frozenset[str]]
    FLAGS: ClassVar[frozenset[str]]

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words
        self.base = next((word for word in words if word in self.BASES), "")
        self.flags = frozenset(words) - {self.base}

    @classmethod
    def of(cls, words: Iterable[str] | None) -> Self:
        """The shared state for these words, whatever their letter case."""
        key = (cls, tuple(words or ()))
        state = _SHARED.get(key)
        if state is None:
            state = cls(tuple(word.upper() for word in key[1]))
            if len(_SHARED) < _MOST_SHARED:
                _SHARED[key] = state
        return cast("Self", state)

    def __contains__(self, word: object) -> bool:
        return word == self.base or word in self.flags

    def __eq__(self, other: object) -> bool:
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
        """Words that this library does not know: a newer Slurm's."""
        return frozenset(self.words) - self.BASES - self.FLAGS


#: A cluster has a few dozen combinations; the bound keeps garbage from filling memory.
_MOST_SHARED = 4096
_SHARED: dict[tuple[type[State], tuple[str, ...]], State] = {}


class JobState(State):
    """The state of a job."""

    __slots__ = ()
    BASES = JOB_BASES
    FLAGS = JOB_FLAGS

    @property
    def pending(self) -> bool:
        """Waits in the queue, be it for the first time or again."""
        return self.base == "PENDING"

    @property
    def running(self) -> bool:
        """Holds its resources and may use them; still true while it is being configured."""
        return self.base == "RUNNING"

    @property
    def suspended(self) -> bool:
        """Holds its resources but is stopped."""
        return self.base == "SUSPENDED"

    @property
    def ended(self) -> bool:
        """Over for good. False for an unknown base, for one that returns to the queue, and while it is
        clearing up.
        """
        return self.base in JOB_ENDED and not self.flags & JOB_RETURNING and "COMPLETING" not in self.flags

    @property
    def live(self) -> bool:
        """Waits, runs, or will run again; an unknown base counts as live."""
        return not self.ended

    @property
    def holds_nodes(self) -> bool:
        """Whether slurmctld still counts its nodes as taken."""
        return self.base in {"RUNNING", "SUSPENDED"} or "COMPLETING" in self.flags

    @property
    def ready(self) -> bool:
        """Running with every node configured: work may start now."""
        return self.running and not self.flags & {"CONFIGURING", "POWER_UP_NODE"}

    @property
    def succeeded(self) -> bool:
        """Ended well."""
        return self.ended and self.base == "COMPLETED"


class NodeState(State):
    """The state of a node."""

    __slots__ = ()
    BASES = NODE_BASES
    FLAGS = NODE_FLAGS

    @property
    def busy(self) -> bool:
        """Work is on it, or is just leaving it."""
        return self.base in {"ALLOCATED", "MIXED"} or "COMPLETING" in self.flags

    @property
    def idle(self) -> bool:
        """No work is on it. Says nothing of whether work would be placed there."""
        return self.base == "IDLE" and "COMPLETING" not in self.flags

    @property
    def down(self) -> bool:
        """Slurmctld has given it up, or it is in error."""
        return self.base in {"DOWN", "ERROR"}

    @property
    def draining(self) -> bool:
        """Takes no new work by somebody's decision, whether or not old work is still there."""
        return "DRAIN" in self.flags and "UNDRAIN" not in self.flags

    @property
    def drained(self) -> bool:
        """Draining, and a known base word says that nothing is on it any more."""
        return self.draining and self.base in {"IDLE", "DOWN"} and not self.busy

    @property
    def responding(self) -> bool:
        """Slurmctld hears from it. An EXTERNAL node is never asked, so a False there means that it was
        signalled.
        """
        return "NOT_RESPONDING" not in self.flags

    @property
    def external(self) -> bool:
        """Without slurmd; for external jobs only."""
        return "EXTERNAL" in self.flags

    @property
    def dynamic(self) -> bool:
        """Not in slurm.conf, so it can be deleted."""
        return bool(self.flags & {"DYNAMIC_NORM", "DYNAMIC_FUTURE"})

    @property
    def schedulable(self) -> bool:
        """New work may be placed on it now."""
        return self.base in {"IDLE", "MIXED", "ALLOCATED"} and not self.flags & NODE_CLOSED
