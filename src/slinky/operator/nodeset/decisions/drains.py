# SPDX-License-Identifier: Apache-2.0
"""Why a host is drained, what the operator writes to Slurm, and when a worker may be deleted. Pure.

Every drain of the operator has a reason with our prefix. A drain without the prefix belongs to an administrator or to
Slurm: the operator respects it and never undoes it, and the host of a worker that is created again gets it again. A
worker is deleted only if Slurm has recently confirmed that nothing runs on it, or if a user overrides this.
"""

from collections.abc import Callable, Iterable

from slinky.api.fields.drain import Drain
from slinky.api.names import metadata
from slinky.kube.views import Node
from slinky.operator.nodeset.actions import CancelJobs, UpdateHost
from slinky.operator.nodeset.causes import RemovalCause
from slinky.operator.nodeset.objects import TERMINATING_REASON
from slinky.operator.nodeset.workers import UNREGISTERED_AFTER, KeptDrain, Worker
from slinky.slurm import Host, NodeUpdate

LONGEST_REASON = 256

#: Beginnings of reasons of Slurm itself about a slurmd or its machine, which do not concern the next worker.
ENDED_REASONS = (
    "Not responding",
    "Low ",
    "gres/",
    "Kill task failed",
    "Node unexpectedly rebooted",
    "Prolog error",
    "Epilog error",
)


def kept_drain(host: Host) -> KeptDrain | None:
    """The drain that a host keeps when its worker is created again; None without one."""
    ours = host.reason.startswith(metadata.REASON_PREFIX)
    if not host.state.draining or not host.reason or ours or host.reason.startswith(ENDED_REASONS):
        return None
    return KeptDrain(host.reason[:LONGEST_REASON], host.reason_set_by_user, host.slurmd_start_time.whole)


def drain_reason(worker: Worker, propagated_conditions: tuple[str, ...] = (), outage: str = "") -> str:
    """Why the host should accept no new jobs: its removal, an outage, its node, or an annotation; empty if it should.

    `outage` is the reason of a planned outage of the cluster that drains all hosts.
    """
    if worker.condemned:
        return f"Pod {worker.meta.key} is {worker.condemned.description}"
    if outage:
        return outage
    if worker.node is not None and worker.node.spec.unschedulable:
        return _node_reason(worker.node, propagated_conditions)
    return f"Pod {worker.meta.key} was cordoned" if worker.cordoned else ""


def drain_actions(worker: Worker, reason: str) -> Iterable[UpdateHost]:
    """Drain, undrain or resume the host, if its state in Slurm differs from what `reason` asks for."""
    host = worker.host
    if host is None:
        return
    ours, text = host.reason.startswith(metadata.REASON_PREFIX), slurm_reason(reason)
    change: tuple[str, NodeUpdate] | None = None
    if worker.kept_drain is not None and not host.state.draining:
        # slurmctld takes the owner of the token for the user of the drain, so that the event names the user before.
        change = "drain", NodeUpdate(state=["DRAIN"], reason=worker.kept_drain.reason)
        reason = str(worker.kept_drain)
    elif reason:
        if not host.state.draining or (ours and host.reason != text):
            change = "drain", NodeUpdate(state=["DRAIN"], reason=text)
    elif host.state.draining and ours and not worker.terminating:
        change = "undrain", NodeUpdate(state=["UNDRAIN"])
    # The worker came back after its pod was stopped; nothing else would remove this DOWN.
    elif host.state.down and host.reason == TERMINATING_REASON and worker.ready:
        change = "resume", NodeUpdate(state=["RESUME"])
    if change:
        what, update = change
        yield UpdateHost(worker.hostname, update, what, reason, expected_reason=host.reason)


def timeout_actions(drain: Drain, worker: Worker) -> Iterable[CancelJobs | UpdateHost]:
    """End the jobs that still run on a draining host after `drain.timeout`, as `drain.onTimeout` says."""
    limit, host = drain.timeout_seconds, worker.host
    if limit is None or worker.condemned is None or host is None or not (host.state.draining and host.state.busy):
        return
    if worker.condemned.seconds(worker.now) < limit:
        return
    if drain.on_timeout == "Cancel":
        yield CancelJobs(worker.hostname)
    elif drain.on_timeout == "Requeue":
        # Slurm requeues the batch jobs of a host that goes down.
        yield UpdateHost(worker.hostname, NodeUpdate(state=["DOWN"], reason=slurm_reason("drain timed out")), "down")


def is_unregistered(worker: Worker, after_seconds: float = UNREGISTERED_AFTER) -> bool:
    """Whether slurmd has been ready and Slurm has not had the host for longer than a registration takes."""
    return worker.absent and min(worker.ready_seconds, worker.absent_seconds) > after_seconds


def _is_still_unregistered(worker: Worker) -> bool:
    """Whether it was condemned because Slurm did not have the host, and Slurm still does not have it."""
    return worker.absent and worker.condemned is not None and worker.condemned.cause == RemovalCause.UNREGISTERED


#: What permits the deletion of a worker, with the text of its event; without one of these it is not deleted.
PERMISSIONS: tuple[tuple[Callable[[Worker], bool], str], ...] = (
    (lambda worker: worker.pod.finished, "its containers have ended"),
    (lambda worker: not worker.pod.spec.node_name, "it was never scheduled to a node"),
    (lambda worker: worker.meta.annotations.get(metadata.FORCE_DELETE) == "true", "its deletion was forced by a user"),
    (lambda worker: worker.drained, "it is drained"),
    (lambda worker: worker.absent and not worker.ready, "Slurm does not have it and its slurmd does not respond"),
    (_is_still_unregistered, "it is not registered in Slurm"),
    (is_unregistered, "it is not registered in Slurm"),
)


def deletion_permission(worker: Worker, *, forced: bool = False) -> str:
    """Why this worker may be deleted now; empty if it may not."""
    reason = next((text for permits, text in PERMISSIONS if permits(worker)), "")
    return reason or ("its deletion was forced by a user" if forced else "")


def slurm_reason(text: str) -> str:
    """The reason as it is written to Slurm, with our prefix."""
    return clean_text(f"{metadata.REASON_PREFIX}{text}")


def clean_text(text: str) -> str:
    """Make text usable as a reason: one line, printable, not too long."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(line.split())[:LONGEST_REASON]


def _node_reason(node: Node, propagated_conditions: tuple[str, ...]) -> str:
    if text := clean_text(node.metadata.annotations.get(metadata.NODE_CORDON_REASON, "")):
        return text
    active = [item for item in node.status.conditions if item.type in propagated_conditions and item.status == "True"]
    texts = [f"({condition.reason}: {condition.message})" for condition in active]
    return " ".join(texts) or f"Node {node.metadata.name} was cordoned"
