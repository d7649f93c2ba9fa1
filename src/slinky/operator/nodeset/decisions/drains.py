# SPDX-License-Identifier: Apache-2.0
"""Who wants a host drained, what Slurm is told, and when a worker may be deleted. Pure.

Every drain of ours carries our prefix in its reason. A drain without it belongs to somebody else: it is honoured and
never undone. A worker is deleted only on a fresh, positive word that nothing is on it, or by an explicit override.
"""

from collections.abc import Callable
from typing import NamedTuple

from slinky.api.names import metadata
from slinky.kube.types import Condition
from slinky.kube.views import Node
from slinky.operator.nodeset.objects import LEAVING
from slinky.operator.nodeset.workers import UNREGISTERED_AFTER, Worker
from slinky.slurm import NodeUpdate

LONGEST_REASON = 256
LOST = "unregistered"

_CAUSES = {
    "scale-in": "scaled in",
    "update": "replaced by a new revision",
    "deletion": "deleted with its NodeSet",
    "scaling-mode": "of another scaling mode",
    "node": "on a node that no longer fits",
    LOST: "not registered in Slurm",
}


class DrainCause(NamedTuple):
    """Somebody wants a host drained."""

    owner: str
    text: str

    @property
    def reason(self) -> str:
        """What Slurm is told."""
        return clean(f"{metadata.REASON_PREFIX}{self.text}")


def cause(worker: Worker, propagated: tuple[str, ...] = ()) -> DrainCause | None:
    """Why this worker's host should take no new jobs, if so: its own end, its node, or a person's wish."""
    if worker.condemned:
        why = _CAUSES.get(worker.condemned.cause, worker.condemned.cause)
        return DrainCause(worker.condemned.cause, f"Pod {worker.meta.key} is {why}")
    if worker.node is not None and worker.node.spec.unschedulable:
        return DrainCause("node", _node_text(worker.node, propagated))
    if worker.cordoned:
        return DrainCause("user", f"Pod {worker.meta.key} was cordoned")
    return None


def change(worker: Worker, why: DrainCause | None) -> tuple[str, NodeUpdate] | None:
    """What to tell Slurm about the host, with a word for it; None when it is as it should be."""
    host = worker.host
    if host is None:
        return None
    state, ours = host.state, host.reason.startswith(metadata.REASON_PREFIX)
    if why is not None:
        if state.draining and (not ours or host.reason == why.reason):
            return None
        return "drain", NodeUpdate(state=["DRAIN"], reason=why.reason)
    if state.draining and ours and not worker.leaving:
        return "undrain", NodeUpdate(state=["UNDRAIN"])
    # A worker that came back after its pod was stopped: nobody else would ever take that DOWN away.
    if state.down and host.reason == LEAVING and worker.ready:
        return "resume", NodeUpdate(state=["RESUME"])
    return None


def unregistered(worker: Worker, patience: float = UNREGISTERED_AFTER) -> bool:
    """Slurmd is well and Slurm freshly says that it has no such host, for longer than registering takes."""
    return worker.absent and min(worker.ready_seconds, worker.absent_seconds) > patience


def _given_up(worker: Worker) -> bool:
    """Chosen because Slurm did not know it, and it still does not."""
    return worker.absent and worker.condemned is not None and worker.condemned.cause == LOST


#: What permits the deletion of a worker, in words for its event; everything else forbids it.
PERMISSIONS: tuple[tuple[Callable[[Worker], bool], str], ...] = (
    (lambda worker: worker.pod.finished, "its containers have ended"),
    (lambda worker: not worker.pod.spec.node_name, "it was never placed"),
    (lambda worker: worker.meta.annotations.get(metadata.FORCE_DELETE) == "true", "forced by a person"),
    (lambda worker: worker.drained, "drained"),
    (lambda worker: worker.absent and not worker.ready, "Slurm does not know it and its slurmd does not answer"),
    (_given_up, "not registered in Slurm"),
    (unregistered, "not registered in Slurm"),
)


def permission(worker: Worker, *, forced: bool = False) -> str:
    """Why this worker may be deleted now; empty if it may not."""
    found = next((words for permits, words in PERMISSIONS if permits(worker)), "")
    return found or ("forced by a person" if forced else "")


def in_maintenance(worker: Worker, reservation: str) -> bool:
    """The host stands in this maintenance reservation now."""
    host = worker.host
    return host is not None and "MAINTENANCE" in host.state and host.reservation == reservation


def clean(text: str) -> str:
    """Text that can be a reason: one line, nothing unprintable, not too long."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(line.split())[:LONGEST_REASON]


def _node_text(node: Node, propagated: tuple[str, ...]) -> str:
    if given := clean(node.metadata.annotations.get(metadata.NODE_CORDON_REASON, "")):
        return given
    said = [_said(found) for found in node.status.conditions if found.type in propagated and found.status == "True"]
    return " ".join(said) or f"Node {node.metadata.name} was cordoned"


def _said(condition: Condition) -> str:
    return f"({condition.reason}: {condition.message})"
