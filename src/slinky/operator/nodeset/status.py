# SPDX-License-Identifier: Apache-2.0
"""How a NodeSet does. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from slinky.api.fields.conditions import RESERVATION_CREATED
from slinky.api.names.child_names import SLURMD
from slinky.api.nodeset import NodeSet
from slinky.kube.conditions import find_condition
from slinky.operator.framework.conditions import GOOD, Fact, ObjectHealth
from slinky.operator.nodeset.decisions import placement, reservation
from slinky.operator.nodeset.decisions.rollout import halted
from slinky.operator.nodeset.decisions.scaling import scaled_away
from slinky.operator.nodeset.plan import NodeSetSnapshot

#: So many names in one sentence.
NAMED = 5


def counts(seen: NodeSetSnapshot) -> dict[str, Any]:
    """The numbers of the status."""
    of, workers = seen.of, [worker for worker in seen.workers if worker.pod.status.phase]
    wanted = desired(seen)
    available = sum(worker.available(of.spec.min_ready_seconds) for worker in workers)
    hosts = [worker.host.state for worker in workers if worker.host is not None]
    return {
        "desired": wanted,
        "replicas": len(workers),
        "updated_replicas": sum(worker.revised(seen.revision) and not worker.leaving for worker in workers),
        "ready_replicas": sum(worker.ready for worker in workers),
        "available_replicas": available,
        "unavailable_replicas": max(0, (wanted if of.per_node else len(workers)) - available),
        "slurm_idle": sum(state.idle for state in hosts),
        "slurm_allocated": sum(state.base in {"ALLOCATED", "MIXED"} for state in hosts),
        "slurm_down": sum(state.down for state in hosts),
        "slurm_drain": sum(state.draining for state in hosts),
        "node_set_hash": seen.revision,
        "selector": SLURMD.selector_text(of.metadata.name),
        "ordinal_to_node": pins(seen),
    }


def desired(seen: NodeSetSnapshot) -> int:
    """How many workers there should be."""
    if not seen.of.per_node:
        return seen.of.spec.replicas
    return sum(found.start for found in placement.eligible(seen.of, seen.nodes.values()).values())


def pins(seen: NodeSetSnapshot) -> dict[str, str]:
    """Where each ordinal ran first, while it is wanted and the node there."""
    of = seen.of
    if not of.spec.pin_to_node or of.per_node:
        return {}
    numbered = (worker for worker in seen.workers if worker.ordinal is not None and worker.pod.spec.node_name)
    placed = {str(worker.ordinal): worker.pod.spec.node_name for worker in numbered}
    found = {**placed, **placement.pins(of, seen.nodes)}
    return {ordinal: node for ordinal, node in found.items() if int(ordinal) < of.spec.replicas}


def health(
    seen: NodeSetSnapshot,
    counted: Mapping[str, Any] | None = None,
    *,
    braked: int = 0,
    refused: Sequence[str] = (),
    reserved: str = "",
) -> ObjectHealth:
    """Conditions of a NodeSet; its counts may be known already."""
    found = counted or counts(seen)
    wanted, updated = found["desired"], found["updated_replicas"]
    beyond = [worker for worker in seen.workers if scaled_away(worker)]
    ready = found["available_replicas"] - sum(worker.available(seen.of.spec.min_ready_seconds) for worker in beyond)
    going = [worker for worker in seen.workers if worker.condemned]
    words = f"{ready} of {wanted} available, {updated} up to date"
    if going:
        words += f", {len(going)} waiting to go"
    shrinking = bool(going) or found["replicas"] > wanted
    settled = ready >= wanted and updated >= wanted and not going and found["replicas"] == wanted
    return ObjectHealth(
        ready=Fact(ready >= wanted, "Available" if ready >= wanted else "NotAvailable", words),
        progressing=Fact(not settled, "Settled" if settled else _step(seen, shrinking), "" if settled else words),
        degraded=_degraded(seen, braked, refused),
        slurm=seen.sight.fact(),
        config=Fact(updated >= wanted, "UpToDate" if updated >= wanted else "Rolling"),
        reserved=_reserved(seen.of, reserved),
    )


def _reserved(of: NodeSet, start: str) -> Fact | None:
    """Remembers for which start time a reservation was made; said only by sets that ever had one."""
    if start or (reservation.wanted(of) and reservation.made_for(of)):
        return Fact(True, "Created", start or reservation.made_for(of))
    return Fact(False, "NotExists") if find_condition(of.status.conditions, RESERVATION_CREATED) else None


def _step(seen: NodeSetSnapshot, shrinking: bool) -> str:
    if shrinking:
        return "WaitingForSlurm" if not seen.sight.trusted else "Draining"
    if seen.of.spec.update_strategy.rolling_update.paused:
        return "Paused"
    return "Starting"


def _degraded(seen: NodeSetSnapshot, braked: int, refused: Sequence[str]) -> Fact:
    if braked:
        return Fact(True, "Braked", f"{braked} deletions wait: too many at once")
    if halted(seen.of, seen.workers, seen.revision):
        return Fact(True, "UpdateHalted", "too many updated workers did not become ready in time")
    if forgotten := [worker.meta.name for worker in seen.workers if worker.forgotten and not worker.leaving]:
        words = f"Slurm has lost {', '.join(forgotten[:NAMED])} with jobs there; delete the pods when those have ended"
        return Fact(True, "JobsForgotten", f"{len(forgotten)}: {words}")
    if refused:
        return Fact(True, "SlurmRefused", refused[0])
    return GOOD
