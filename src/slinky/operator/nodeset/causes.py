# SPDX-License-Identifier: Apache-2.0
"""Why the operator removes a worker: one table for annotations, drain reasons, events and the deletion limit. Pure."""

from enum import StrEnum


class RemovalCause(StrEnum):
    """A cause for removing a worker; its value is written to the annotations of the pod and to metrics.

    - `description` completes the sentence "Pod x is ..." of the drain reason in Slurm
    - `event` is the reason of the event on the NodeSet
    - `planned` removals are requested by a user, so the deletion limit does not apply to them
    - `selective` removals choose some of several workers, so they need the current state of Slurm
    """

    description: str
    event: str
    planned: bool
    selective: bool

    SCALE_IN = "scale-in", "scaled in", "ScalingDown", True, True
    UPDATE = "update", "replaced by a new revision", "RollingUpdate", False, True
    DELETION = "deletion", "deleted with its NodeSet", "Condemned", True, False
    SCALING_MODE = "scaling-mode", "of another scaling mode", "Condemned", False, False
    NODE = "node", "on a node that no longer fits", "Condemned", False, False
    UNREGISTERED = "unregistered", "not registered in Slurm", "SlurmNodeNotRegistered", False, False

    def __new__(cls, value: str, description: str, event: str, planned: bool, selective: bool) -> "RemovalCause":
        """Create a member whose value is only the first item of its row."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.description, member.event, member.planned, member.selective = description, event, planned, selective
        return member

    @classmethod
    def parse(cls, text: str) -> "RemovalCause | None":
        """The cause with this value; None if another version of the operator wrote a cause that this one lacks."""
        return next((cause for cause in cls if cause.value == text), None)
