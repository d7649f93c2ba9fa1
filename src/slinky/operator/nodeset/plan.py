# SPDX-License-Identifier: Apache-2.0
"""What to do next about a NodeSet's workers, in order; empty when there is nothing to do. Pure.

1. make what is missing (never waits for Slurm)
2. condemn what is too many, outdated, misplaced or lost (a choice that stays)
3. drain what is condemned, and delete it once that is a fresh fact
4. drain and undrain the rest as its node and its owner want it
5. tell Slurm and the pods what they should know
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from slinky.api.names import metadata
from slinky.api.nodeset import NodeSet
from slinky.kube.timestamps import age_seconds
from slinky.kube.views import Node
from slinky.operator.framework.children import Child
from slinky.operator.nodeset.actions import (
    Action,
    CancelJobs,
    CondemnWorker,
    CreateWorker,
    DeleteWorker,
    ForgetHost,
    UpdateHost,
)
from slinky.operator.nodeset.decisions import claims, drains, host_metadata, placement, scaling
from slinky.operator.nodeset.decisions.reservation import step, without
from slinky.operator.nodeset.decisions.rollout import outdated
from slinky.operator.nodeset.objects import Slot, hostname
from slinky.operator.nodeset.workers import UNREGISTERED_AFTER, Worker
from slinky.operator.slurm.snapshot import SlurmSnapshot
from slinky.slurm import NodeUpdate


class NodeSetSnapshot(NamedTuple):
    """Everything a decision is made from."""

    of: NodeSet
    workers: tuple[Worker, ...]
    nodes: Mapping[str, Node]
    sight: SlurmSnapshot
    revision: str
    now: datetime
    propagated: tuple[str, ...] = ()
    claims: tuple[Child, ...] = ()
    patience: float = UNREGISTERED_AFTER

    @property
    def going(self) -> bool:
        """The NodeSet itself is being deleted."""
        return self.of.metadata.deleting

    @property
    def forced(self) -> bool:
        """A person wants workers that have to go deleted without asking Slurm."""
        return self.of.metadata.annotations.get(metadata.FORCE_DELETE) == "true"


def plan(seen: NodeSetSnapshot) -> list[Action]:
    """The next steps."""
    reserved = step(seen.of, seen.workers, seen.sight, seen.now)
    if seen.going:
        chosen = [CondemnWorker(worker, "deletion") for worker in seen.workers if worker.staying]
        return [*chosen, *_departures(seen), *([reserved] if reserved else [])]
    return [
        *_creations(seen),
        *_choices(seen),
        *_departures(seen),
        *_drains(seen),
        *_told(seen),
        *_leftovers(seen),
        *([reserved] if reserved else []),
    ]


def deletion_overdue(seen: NodeSetSnapshot, seconds: float | None) -> bool:
    """A NodeSet's deletion has waited for jobs as long as its owner allows."""
    if seconds is None:
        return False
    return age_seconds(seen.of.metadata.deletion_timestamp, seen.now) >= seconds


def _in_mode(seen: NodeSetSnapshot) -> list[Worker]:
    mode = seen.of.spec.scaling_mode
    return [worker for worker in seen.workers if worker.meta.labels.get(metadata.SCALING_MODE, mode) == mode]


def _creations(seen: NodeSetSnapshot) -> Iterable[CreateWorker]:
    slots = {slot: _stale(seen, slot) for slot in _vacant(seen)}
    freed = without(seen.of, [host for host in slots.values() if host], seen.workers, seen.sight)
    return [CreateWorker(slot, stale, freed if stale else None) for slot, stale in slots.items()]


def _vacant(seen: NodeSetSnapshot) -> Sequence[Slot]:
    of = seen.of
    if not of.per_node:
        want = scaling.target(of, seen.workers, seen.revision)
        return scaling.vacant(seen.workers, want, placement.pins(of, seen.nodes))
    taken = {node_of(worker) for worker in seen.workers}
    fits = placement.eligible(of, seen.nodes.values())
    return [placement.slot(seen.nodes[name]) for name in sorted(fits) if fits[name].start and name not in taken]


def node_of(worker: Worker) -> str:
    """The node a worker runs on or is meant for."""
    return worker.pod.spec.node_name or worker.meta.annotations.get(metadata.POD_NODE, "")


def _stale(seen: NodeSetSnapshot, slot: Slot) -> str:
    """A record of an earlier worker would override what the new one says of itself, so it is forgotten first."""
    host = seen.sight.host(hostname(seen.of, slot))
    return host.name if host is not None and host.state.dynamic and not host.state.busy else ""


def _choices(seen: NodeSetSnapshot) -> Iterable[CondemnWorker]:
    mode = _in_mode(seen)
    kept = {worker.meta.uid for worker in mode}
    for worker in seen.workers:
        if worker.meta.uid not in kept and worker.staying:
            yield CondemnWorker(worker, scaling.MODE)
    chosen: set[str] = set()
    for worker, cause in _candidates(seen, mode):
        if worker.meta.uid not in chosen:
            chosen.add(worker.meta.uid)
            yield CondemnWorker(worker, cause)


def _candidates(seen: NodeSetSnapshot, mode: Sequence[Worker]) -> Iterable[tuple[Worker, str]]:
    """Workers of today's mode that have to go; the first cause counts."""
    of = seen.of
    if of.per_node:
        yield from ((worker, "node") for worker in _misplaced(seen, mode))
    else:
        want = scaling.target(of, mode, seen.revision)
        yield from ((worker, scaling.SCALE_IN) for worker in scaling.surplus(mode, want))
        yield from ((worker, "node") for worker in _stranded(seen, mode))
    # With no host of the whole cluster in sight it is Slurm that lost its memory, not the worker.
    lost = (worker for worker in mode if worker.staying and drains.unregistered(worker, seen.patience))
    yield from ((worker, drains.LOST) for worker in lost if seen.sight.hosts)
    yield from ((worker, "update") for worker in outdated(of, mode, seen.revision))


def _misplaced(seen: NodeSetSnapshot, workers: Sequence[Worker]) -> Iterable[Worker]:
    """Workers on nodes that no longer fit or have a new host name, and second ones on the same node."""
    fits = placement.eligible(seen.of, seen.nodes.values())
    held: set[str] = set()
    for worker in sorted(workers, key=lambda found: (not found.ready, found.meta.creation_timestamp)):
        name = node_of(worker)
        if not name or not worker.staying:
            continue
        named = name in seen.nodes and placement.slot(seen.nodes[name]).hostname == worker.hostname
        if name in held or name not in fits or not fits[name].stay or not named:
            yield worker
        held.add(name)


def _stranded(seen: NodeSetSnapshot, workers: Sequence[Worker]) -> Iterable[Worker]:
    """Workers that wait for a node to which they are pinned no more."""
    pins = placement.pins(seen.of, seen.nodes)
    for worker in workers:
        meant = worker.meta.annotations.get(metadata.POD_NODE, "")
        if worker.staying and not worker.pod.spec.node_name and meant not in {"", pins.get(str(worker.ordinal))}:
            yield worker


def _departures(seen: NodeSetSnapshot) -> Iterable[Action]:
    """Everything about workers that have to go: drain, hurry, delete."""
    forced = seen.forced or (seen.going and deletion_overdue(seen, seen.of.spec.drain.deletion_seconds))
    for worker in seen.workers:
        if worker.leaving or not (worker.condemned or worker.pod.finished):
            continue
        if why := drains.permission(worker, forced=forced):
            planned = worker.condemned is not None and worker.condemned.cause in {scaling.SCALE_IN, "deletion"}
            yield DeleteWorker(worker, why, braked=not planned)
            continue
        wanted = drains.cause(worker, seen.propagated)
        yield from _drain(worker, wanted)
        yield from _hurried(seen, worker)


def _hurried(seen: NodeSetSnapshot, worker: Worker) -> Iterable[Action]:
    """Jobs that outstay the time their worker was given."""
    limit, condemned = seen.of.spec.drain.timeout_seconds, worker.condemned
    if limit is None or condemned is None or worker.host is None or not worker.host.state.draining or not worker.busy:
        return
    if condemned.seconds(seen.now) < limit:
        return
    match seen.of.spec.drain.on_timeout:
        case "Cancel":
            yield CancelJobs(worker.hostname)
        case "Requeue":
            # Slurm sends the batch jobs of a host that goes down back into the queue.
            change = NodeUpdate(state=["DOWN"], reason=f"{metadata.REASON_PREFIX}drain timed out")
            yield UpdateHost(worker.hostname, change, "down")


def _drains(seen: NodeSetSnapshot) -> Iterable[UpdateHost]:
    for worker in seen.workers:
        if worker.staying:
            yield from _drain(worker, drains.cause(worker, seen.propagated))


def _drain(worker: Worker, wanted: drains.DrainCause | None) -> Iterable[UpdateHost]:
    told = drains.change(worker, wanted)
    if told is not None and worker.host is not None:
        what, change = told
        yield UpdateHost(worker.hostname, change, what, wanted.text if wanted else "", seen=worker.host.reason)


def _told(seen: NodeSetSnapshot) -> Iterable[Action]:
    for worker in seen.workers:
        if worker.leaving:
            continue
        yield from host_metadata.updates(seen.of, worker)
        if (mark := host_metadata.mark(seen.of, worker)) is not None:
            yield mark


def _leftovers(seen: NodeSetSnapshot) -> Iterable[Action]:
    """Hosts and claims that no worker will use again, where the owner asked for their removal."""
    of = seen.of
    if of.spec.prune_slurm_node_records == "NodeNotFound" and of.per_node and seen.sight.trusted:
        used = {worker.hostname for worker in seen.workers}
        for host in seen.sight.hosts.values():
            whose = host_metadata.HostComment.parse(host.comment)
            if whose is None or whose.node_set_uid != of.metadata.uid or whose.namespace != of.metadata.namespace:
                continue
            lost = host.state.down and not host.state.responding and host.name not in used
            if lost and whose.node and (why := placement.lost(seen.nodes.get(whose.node), whose.node, host.name)):
                yield ForgetHost(host.name, why)
    if seen.claims:
        yield from claims.steps(of, seen.claims, seen.workers, _vacant(seen))
