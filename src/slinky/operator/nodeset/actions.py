# SPDX-License-Identifier: Apache-2.0
"""Actions on workers: data that `plan` decides and `executor` carries out, and the report of their execution."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from slinky.operator.build.pod_parts import JsonObject
from slinky.operator.framework.children import Child
from slinky.operator.nodeset.causes import RemovalCause
from slinky.operator.nodeset.decisions.reservation import EndReservation, Reserve
from slinky.operator.nodeset.objects import Slot
from slinky.operator.nodeset.workers import KeptDrain, Worker
from slinky.slurm import NodeUpdate


@dataclass(frozen=True, slots=True)
class CreateWorker:
    """Create the worker of a slot.

    `stale_host` is a host of that name that an earlier worker left in Slurm, and is deleted. `release` takes it out of
    our reservation before, because Slurm does not delete a reserved host. `drain` is a drain of the deleted host that
    the new one gets again.
    """

    label: ClassVar[str] = "create"

    slot: Slot
    stale_host: str = ""
    release: Reserve | EndReservation | None = None
    drain: KeptDrain | None = None


@dataclass(frozen=True, slots=True)
class CondemnWorker:
    """Mark a worker for removal; this choice is final."""

    label: ClassVar[str] = "condemn"

    worker: Worker
    cause: RemovalCause


@dataclass(frozen=True, slots=True)
class DeleteWorker:
    """Delete the pod of a worker; `limited` deletions count against the deletion limit and wait for it."""

    label: ClassVar[str] = "delete"

    worker: Worker
    why: str
    limited: bool = False


@dataclass(frozen=True, slots=True)
class UpdateHost:
    """Change a host in Slurm.

    With `expected_reason`, only if the reason of the host still is this one: an administrator may have just changed it.
    """

    label: ClassVar[str] = "update"

    host: str
    change: NodeUpdate
    what: str
    why: str = ""
    expected_reason: str | None = None


@dataclass(frozen=True, slots=True)
class CancelJobs:
    """Cancel the jobs that still run on a host after the drain timeout."""

    label: ClassVar[str] = "cancel"

    host: str


@dataclass(frozen=True, slots=True)
class AnnotateWorker:
    """Set labels and annotations of a worker's pod; None removes one."""

    label: ClassVar[str] = "mark"

    worker: Worker
    labels: Mapping[str, str | None]
    annotations: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class ForgetHost:
    """Delete a host from Slurm that will have no worker again."""

    label: ClassVar[str] = "forget"

    host: str
    why: str


@dataclass(frozen=True, slots=True)
class DeleteClaim:
    """Delete a claim of a worker that was scaled in."""

    label: ClassVar[str] = "dropclaim"

    claim: Child


@dataclass(frozen=True, slots=True)
class AdoptClaim:
    """Set the owners of a claim: with its NodeSet as an owner it is deleted together with the NodeSet."""

    label: ClassVar[str] = "ownclaim"

    claim: Child
    owners: tuple[JsonObject, ...]


Action = (
    CreateWorker
    | CondemnWorker
    | DeleteWorker
    | UpdateHost
    | CancelJobs
    | AnnotateWorker
    | ForgetHost
    | DeleteClaim
    | AdoptClaim
    | Reserve
    | EndReservation
)


@dataclass
class ExecutionReport:
    """The result of carrying out a plan."""

    done: int = 0
    limited: int = 0
    """Deletions that wait because the deletion limit is reached."""
    deletion_limit: int = 0
    """How many unplanned deletions are allowed in `deletion_window` seconds."""
    deletion_window: float = 0.0
    reservation_start: str = ""
    """The start time for which a reservation was created."""
    refusals: list[str] = field(default_factory=list)
    """Errors of Slurm."""
    uncreated: dict[str, str] = field(default_factory=dict)
    """Workers that Kubernetes did not allow to create now, with the reason."""
    errors: list[Exception] = field(default_factory=list)
    """Errors of Kubernetes, and bugs."""
