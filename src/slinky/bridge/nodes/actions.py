# SPDX-License-Identifier: Apache-2.0
"""Actions that `plan` can request for a node and its Slurm host. `label` is the label of the action in metrics."""

from dataclasses import dataclass
from typing import ClassVar

from slinky.bridge.status.reasons import ConditionText
from slinky.slurm import NodeUpdate


@dataclass(frozen=True)
class RegisterHost:
    """Create the host in Slurm from this line of slurm.conf."""

    label: ClassVar[str] = "create"
    conf: str


@dataclass(frozen=True)
class ChangeHost:
    """Change properties of the host that Slurm can change in place."""

    label: ClassVar[str] = "amend"
    change: NodeUpdate


@dataclass(frozen=True)
class DrainHost:
    """Drain the host, so that it gets no new jobs."""

    label: ClassVar[str] = "drain"
    reason: str


@dataclass(frozen=True)
class UndrainHost:
    """End the drain of the host."""

    label: ClassVar[str] = "undrain"


@dataclass(frozen=True)
class RemoveHost:
    """Delete the host from Slurm."""

    label: ClassVar[str] = "delete"


@dataclass(frozen=True)
class SetTaint:
    """Add the taint of the bridge to the node, or remove it."""

    label: ClassVar[str] = "taint"
    on: bool


@dataclass(frozen=True)
class ReportHostState:
    """Write the state of the host to the condition of the node."""

    label: ClassVar[str] = "report"
    text: ConditionText


@dataclass(frozen=True)
class ClearHostState:
    """Remove the condition of a node that has no host any more."""

    label: ClassVar[str] = "clear"


@dataclass(frozen=True)
class ReportProblem:
    """Record an event on the node about something that a person must correct."""

    label: ClassVar[str] = "complain"
    text: ConditionText


Action = (
    RegisterHost
    | ChangeHost
    | DrainHost
    | UndrainHost
    | RemoveHost
    | SetTaint
    | ReportHostState
    | ClearHostState
    | ReportProblem
)
#: Actions that change something in Slurm.
SLURM_ACTIONS = (RegisterHost, ChangeHost, DrainHost, UndrainHost, RemoveHost)
