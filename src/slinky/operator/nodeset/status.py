# SPDX-License-Identifier: Apache-2.0
"""The status of a NodeSet, and the conditions of its pods that show their state in Slurm. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from slinky.api.fields.conditions import RESERVATION_CREATED
from slinky.api.names.child_names import SLURMD
from slinky.api.nodeset import NodeSet
from slinky.bounds import parse_integer
from slinky.kube.conditions import build_condition, find_condition
from slinky.operator.framework.conditions import NOT_DEGRADED, ConditionState, ObjectHealth
from slinky.operator.framework.failure_causes import Failure, creation_failure, describe_wait, with_failure
from slinky.operator.nodeset.actions import ExecutionReport
from slinky.operator.nodeset.decisions import placement, reservation
from slinky.operator.nodeset.decisions.host_metadata import state_conditions
from slinky.operator.nodeset.decisions.rollout import is_halted
from slinky.operator.nodeset.decisions.scaling import is_scaled_in
from slinky.operator.nodeset.plan import NodeSetSnapshot
from slinky.operator.nodeset.workers import STATE_CONDITION, Worker

#: How many names a message lists.
MAX_NAMES = 5


def counts(snapshot: NodeSetSnapshot) -> dict[str, Any]:
    """The numbers of the status."""
    node_set, workers = snapshot.node_set, [worker for worker in snapshot.workers if worker.pod.status.phase]
    desired = desired_workers(snapshot)
    available = sum(worker.available(node_set.spec.min_ready_seconds) for worker in workers)
    states = [worker.host.state for worker in workers if worker.host is not None]
    return {
        "desired": desired,
        "replicas": len(workers),
        "updated_replicas": sum(
            worker.has_revision(snapshot.revision) and not worker.terminating for worker in workers
        ),
        "ready_replicas": sum(worker.ready for worker in workers),
        "available_replicas": available,
        "unavailable_replicas": max(0, (desired if node_set.per_node else len(workers)) - available),
        "slurm_idle": sum(state.idle for state in states),
        "slurm_allocated": sum(state.base in {"ALLOCATED", "MIXED"} for state in states),
        "slurm_down": sum(state.down for state in states),
        "slurm_drain": sum(state.draining for state in states),
        "node_set_hash": snapshot.revision,
        "selector": SLURMD.selector_text(node_set.metadata.name),
        "ordinal_to_node": pins(snapshot),
    }


def desired_workers(snapshot: NodeSetSnapshot) -> int:
    """How many workers should exist."""
    if not snapshot.node_set.per_node:
        return snapshot.node_set.spec.replicas
    return sum(fit.start for fit in placement.node_fits(snapshot.node_set, snapshot.nodes.values()).values())


def pins(snapshot: NodeSetSnapshot) -> dict[str, str]:
    """The node on which each ordinal ran first, while the ordinal is wanted and the node exists."""
    node_set = snapshot.node_set
    if not node_set.spec.pin_to_node or node_set.per_node:
        return {}
    numbered = (worker for worker in snapshot.workers if worker.ordinal is not None and worker.pod.spec.node_name)
    running = {str(worker.ordinal): worker.pod.spec.node_name for worker in numbered}
    nodes = {**running, **placement.pinned_nodes(node_set, snapshot.nodes)}
    return {ordinal: node for ordinal, node in nodes.items() if _is_wanted(node_set, ordinal)}


def _is_wanted(node_set: NodeSet, ordinal: str) -> bool:
    """Whether a key of the status is an ordinal below the number of replicas."""
    return parse_integer(ordinal, 0, node_set.spec.replicas - 1) is not None


def health(
    snapshot: NodeSetSnapshot,
    report: ExecutionReport | None = None,
    numbers: Mapping[str, Any] | None = None,
    failure: Failure | None = None,
) -> ObjectHealth:
    """The conditions of a NodeSet; `numbers` are its counts if they are known already."""
    report, numbers = report or ExecutionReport(), numbers or counts(snapshot)
    desired, updated, existing = numbers["desired"], numbers["updated_replicas"], numbers["replicas"]
    min_ready_seconds = snapshot.node_set.spec.min_ready_seconds
    scaled_in = sum(worker.available(min_ready_seconds) for worker in snapshot.workers if is_scaled_in(worker))
    available = numbers["available_replicas"] - scaled_in
    condemned = sum(worker.condemned is not None for worker in snapshot.workers)
    message = f"{available} of {desired} workers available, {updated} up to date"
    if condemned:
        message += f", {condemned} to be removed"
    shrinking = condemned > 0 or existing > desired
    wait = describe_wait(worker.pod for worker in snapshot.workers if not worker.condemned)
    if wait and available < desired:
        message += f"; {wait}"
    settled = available >= desired and updated >= desired and not condemned and existing == desired
    result = ObjectHealth(
        ready=ConditionState(available >= desired, "Available" if available >= desired else "NotAvailable", message),
        progressing=ConditionState(
            not settled,
            "Settled" if settled else _progress_reason(snapshot, shrinking),
            "" if settled else message,
        ),
        slurm=snapshot.slurm.condition(),
        config=ConditionState(updated >= desired, "UpToDate" if updated >= desired else "Rolling"),
        reserved=_reserved(snapshot.node_set, report.reservation_start),
    )
    result = with_failure(result, failure)
    return result._replace(degraded=_degraded(snapshot, report, failure))


def deletion_progress(snapshot: NodeSetSnapshot) -> ConditionState:
    """What the deletion of a NodeSet waits for."""
    names = [worker.meta.name for worker in snapshot.workers]
    if not names:
        return ConditionState(True, "Deleting", "the deletion waits for the reservation in Slurm")
    reason = "Draining" if snapshot.slurm.trusted else "WaitingForSlurm"
    text = f"the deletion waits for the jobs on {len(names)} workers: {', '.join(names[:MAX_NAMES])}"
    return ConditionState(True, reason, text)


def creation_refusal(report: ExecutionReport) -> Failure | None:
    """Why Kubernetes did not allow to create workers."""
    return creation_failure(*min(report.uncreated.items())) if report.uncreated else None


def pod_conditions(worker: Worker, now: datetime) -> list[dict[str, Any]] | None:
    """The conditions that show a host's state on its pod; None if they are up to date or the state is not known."""
    messages = state_conditions(worker)
    if messages is None:
        return None
    live = worker.pod.status.conditions
    if {item.type: item.message for item in live if item.type.startswith(STATE_CONDITION)} == messages:
        return None
    built = (build_condition(live, kind, True, message=text, now=now) for kind, text in sorted(messages.items()))
    return [msgspec.to_builtins(condition) for condition in built]


def _reserved(node_set: NodeSet, start: str) -> ConditionState | None:
    """Records the start time for which a reservation was created; absent on NodeSets that never had one."""
    if start or (reservation.is_wanted(node_set) and reservation.created_for(node_set)):
        return ConditionState(True, "Created", start or reservation.created_for(node_set))
    return (
        ConditionState(False, "NotExists") if find_condition(node_set.status.conditions, RESERVATION_CREATED) else None
    )


def _progress_reason(snapshot: NodeSetSnapshot, shrinking: bool) -> str:
    if shrinking:
        return "Draining" if snapshot.slurm.trusted else "WaitingForSlurm"
    if snapshot.node_set.spec.update_strategy.rolling_update.paused:
        return "Paused"
    return "Starting"


def _degraded(snapshot: NodeSetSnapshot, report: ExecutionReport, failure: Failure | None) -> ConditionState:
    if report.limited:
        return ConditionState(True, "DeletionsLimited", _limit_message(report))
    if is_halted(snapshot.node_set, snapshot.workers, snapshot.revision):
        cause = f"; {failure.describe()}" if failure else ""
        return ConditionState(True, "UpdateHalted", _halt_message(snapshot.node_set) + cause)
    if failure:
        return failure.condition()
    if names := [item.meta.name for item in snapshot.workers if item.jobs_forgotten and not item.terminating]:
        return ConditionState(True, "JobsForgotten", _forgotten_message(names))
    if report.refusals:
        return ConditionState(True, "SlurmRefused", f"Slurm refused a request: {report.refusals[0]}")
    return NOT_DEGRADED


def _limit_message(report: ExecutionReport) -> str:
    return (
        f"{report.limited} deletions of workers wait: at most {report.deletion_limit} unplanned deletions"
        f" are allowed within {report.deletion_window:.0f} seconds"
    )


def _halt_message(node_set: NodeSet) -> str:
    rolling = node_set.spec.update_strategy.rolling_update
    return (
        f"the update has stopped: at least {rolling.max_failures} updated workers (maxFailures) did not become ready"
        f" within {rolling.progress_deadline_seconds} seconds; repair the new revision or roll back"
    )


def _forgotten_message(names: list[str]) -> str:
    return (
        f"Slurm has lost {len(names)} workers on which jobs ran: {', '.join(names[:MAX_NAMES])};"
        " delete their pods when the jobs have ended"
    )
