# SPDX-License-Identifier: Apache-2.0
"""What can be done about workers: plain facts, decided by `plan` and carried out by `acts`."""

from collections.abc import Mapping
from typing import NamedTuple

from slinky.operator.build.pod_parts import Piece
from slinky.operator.framework.children import Child
from slinky.operator.nodeset.decisions.reservation import EndReservation, Reserve
from slinky.operator.nodeset.objects import Slot
from slinky.operator.nodeset.workers import Worker
from slinky.slurm import NodeUpdate


class CreateWorker(NamedTuple):
    """Fill a slot; `stale` is a host of that name that Slurm still remembers and that must be forgotten first."""

    slot: Slot
    stale: str = ""
    freed: Reserve | EndReservation | None = None  # takes it out of our reservation before


class CondemnWorker(NamedTuple):
    """Choose a worker to go, for good."""

    worker: Worker
    cause: str


class DeleteWorker(NamedTuple):
    """Delete a worker's pod, for this reason."""

    worker: Worker
    why: str
    braked: bool = False  # counts against the brake, and waits for it


class UpdateHost(NamedTuple):
    """Change a host in Slurm, if its reason still is the one that was seen: somebody may just have given another."""

    host: str
    change: NodeUpdate
    what: str
    why: str = ""
    seen: str | None = None


class CancelJobs(NamedTuple):
    """Cancel what still runs on a host whose time is up."""

    host: str


class AnnotateWorker(NamedTuple):
    """Labels and annotations of a worker's pod; None removes."""

    worker: Worker
    labels: Mapping[str, str | None]
    annotations: Mapping[str, str | None]


class ForgetHost(NamedTuple):
    """Remove a host from Slurm that has no worker any more."""

    host: str
    why: str


class DeleteClaim(NamedTuple):
    """Delete a claim of a worker that was scaled away."""

    claim: Child


class AdoptClaim(NamedTuple):
    """Let a claim go with its NodeSet, or outlive it."""

    claim: Child
    owners: tuple[Piece, ...]


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
