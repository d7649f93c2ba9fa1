# SPDX-License-Identifier: Apache-2.0
"""Decides the next actions on the workers of a NodeSet, in order; none if there is nothing to do. Pure.

1. create missing workers (never waits for Slurm)
2. condemn workers that are surplus, outdated, misplaced or unregistered (a final choice)
3. drain condemned workers, and delete them once Slurm has recently confirmed that they are drained
4. drain and undrain the other workers as their node and its administrators ask
5. write metadata of pods to Slurm, and the state of Slurm to pods
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from slinky.api.names import metadata
from slinky.api.nodeset import NodeSet
from slinky.kube.timestamps import age_seconds
from slinky.kube.views import Node
from slinky.operator.framework.children import Child
from slinky.operator.nodeset.actions import Action, CondemnWorker, CreateWorker, DeleteWorker, ForgetHost, UpdateHost
from slinky.operator.nodeset.causes import RemovalCause
from slinky.operator.nodeset.decisions import claims, drains, host_metadata, placement, reservation, rollout, scaling
from slinky.operator.nodeset.objects import Slot, slot_hostname
from slinky.operator.nodeset.workers import UNREGISTERED_AFTER, Worker
from slinky.operator.slurm.snapshot import SlurmSnapshot
from slinky.slurm import Host

#: Workers that one plan creates; the next plan creates further ones.
MAX_CREATIONS = 500


class NodeSetSnapshot(NamedTuple):
    """Everything that a decision depends on."""

    node_set: NodeSet
    workers: tuple[Worker, ...]
    nodes: Mapping[str, Node]
    slurm: SlurmSnapshot
    revision: str
    now: datetime
    propagated_conditions: tuple[str, ...] = ()
    claims: tuple[Child, ...] = ()
    unregistered_seconds: float = UNREGISTERED_AFTER
    outage: str = ""  # why a planned outage drains all hosts; empty if none does

    @property
    def deleting(self) -> bool:
        """Whether the NodeSet is being deleted."""
        return self.node_set.metadata.deleting

    @property
    def forced(self) -> bool:
        """Whether a user asks to delete condemned workers without the confirmation of Slurm."""
        return self.node_set.metadata.annotations.get(metadata.FORCE_DELETE) == "true"

    @property
    def deletion_overdue(self) -> bool:
        """Whether the deletion of the NodeSet has waited for jobs as long as `drain.deletionDeadline` allows."""
        limit = self.node_set.spec.drain.deletion_seconds
        if limit is None or not self.deleting:
            return False
        return age_seconds(self.node_set.metadata.deletion_timestamp, self.now) >= limit


def plan(snapshot: NodeSetSnapshot) -> list[Action]:
    """Decide the next actions."""
    reserve = reservation.next_action(snapshot.node_set, snapshot.workers, snapshot.slurm, snapshot.now)
    if snapshot.deleting:
        condemned = [CondemnWorker(worker, RemovalCause.DELETION) for worker in snapshot.workers if worker.active]
        return [*condemned, *_removals(snapshot), *([reserve] if reserve else [])]
    return [
        *_creations(snapshot),
        *_condemnations(snapshot),
        *_removals(snapshot),
        *_drains(snapshot),
        *_metadata(snapshot),
        *_cleanup(snapshot),
        *([reserve] if reserve else []),
    ]


def _creations(snapshot: NodeSetSnapshot) -> Iterable[CreateWorker]:
    slots = {slot: _stale_host(snapshot, slot) for slot in islice(_vacant_slots(snapshot), MAX_CREATIONS)}
    stale = [host.name for host in slots.values() if host]
    release = reservation.release_hosts(snapshot.node_set, stale, snapshot.workers, snapshot.slurm)
    return [
        CreateWorker(slot, host.name, release, drains.kept_drain(host)) if host else CreateWorker(slot)
        for slot, host in slots.items()
    ]


def _vacant_slots(snapshot: NodeSetSnapshot) -> Iterator[Slot]:
    node_set = snapshot.node_set
    if not node_set.per_node:
        target = scaling.target_replicas(node_set, snapshot.workers, snapshot.revision)
        return scaling.vacant_slots(snapshot.workers, target, placement.pinned_nodes(node_set, snapshot.nodes))
    occupied = {_node_name(worker) for worker in snapshot.workers}
    fits = placement.node_fits(node_set, snapshot.nodes.values())
    free = [name for name in sorted(fits) if fits[name].start and name not in occupied]
    return (placement.node_slot(snapshot.nodes[name]) for name in free)


def _node_name(worker: Worker) -> str:
    """The node that a worker runs on or is meant for."""
    return worker.pod.spec.node_name or worker.meta.annotations.get(metadata.POD_NODE, "")


def _stale_host(snapshot: NodeSetSnapshot, slot: Slot) -> Host | None:
    """The host that an earlier worker left in Slurm; its settings would override those of the new worker."""
    host = snapshot.slurm.host(slot_hostname(snapshot.node_set, slot))
    return host if host is not None and host.state.dynamic and not host.state.busy else None


def _condemnations(snapshot: NodeSetSnapshot) -> Iterable[CondemnWorker]:
    mode = snapshot.node_set.spec.scaling_mode
    current = [item for item in snapshot.workers if item.meta.labels.get(metadata.SCALING_MODE, mode) == mode]
    current_uids = {worker.meta.uid for worker in current}
    for worker in snapshot.workers:
        if worker.meta.uid not in current_uids and worker.active:
            yield CondemnWorker(worker, RemovalCause.SCALING_MODE)
    condemned: set[str] = set()
    for worker, cause in _candidates(snapshot, current):
        if worker.meta.uid not in condemned:
            condemned.add(worker.meta.uid)
            yield CondemnWorker(worker, cause)


def _candidates(snapshot: NodeSetSnapshot, workers: Sequence[Worker]) -> Iterable[tuple[Worker, RemovalCause]]:
    """Workers of the current scaling mode to condemn; the first cause of a worker counts."""
    node_set = snapshot.node_set
    if node_set.per_node:
        yield from ((worker, RemovalCause.NODE) for worker in _misplaced(snapshot, workers))
    else:
        target = scaling.target_replicas(node_set, workers, snapshot.revision)
        surplus = scaling.surplus_workers(workers, target, only_unused=_autoscales(node_set))
        yield from ((worker, RemovalCause.SCALE_IN) for worker in surplus)
        yield from ((worker, RemovalCause.NODE) for worker in _stranded(snapshot, workers))
    # If Slurm reports no host at all, Slurm has lost its state, not the worker its registration.
    if snapshot.slurm.hosts:
        lost = (item for item in workers if item.active and drains.is_unregistered(item, snapshot.unregistered_seconds))
        yield from ((worker, RemovalCause.UNREGISTERED) for worker in lost)
    outdated = rollout.workers_to_replace(node_set, workers, snapshot.revision)
    yield from ((worker, RemovalCause.UPDATE) for worker in outdated)


def _autoscales(node_set: NodeSet) -> bool:
    return node_set.autoscaling is not None and node_set.autoscaling.mode == "Active"


def _misplaced(snapshot: NodeSetSnapshot, workers: Sequence[Worker]) -> Iterable[Worker]:
    """Workers on nodes that no longer fit or have a new host name, and second workers on the same node."""
    fits = placement.node_fits(snapshot.node_set, snapshot.nodes.values())
    occupied: set[str] = set()
    for worker in sorted(workers, key=lambda item: (not item.ready, item.meta.creation_timestamp)):
        name = _node_name(worker)
        if not name or not worker.active:
            continue
        node = snapshot.nodes.get(name)
        renamed = node is None or placement.node_slot(node).hostname != worker.hostname
        if name in occupied or name not in fits or not fits[name].stay or renamed:
            yield worker
        occupied.add(name)


def _stranded(snapshot: NodeSetSnapshot, workers: Sequence[Worker]) -> Iterable[Worker]:
    """Unscheduled workers that wait for a node to which they are no longer pinned."""
    pins = placement.pinned_nodes(snapshot.node_set, snapshot.nodes)
    for worker in workers:
        pinned = worker.meta.annotations.get(metadata.POD_NODE, "")
        if worker.active and not worker.pod.spec.node_name and pinned not in {"", pins.get(str(worker.ordinal))}:
            yield worker


def _removals(snapshot: NodeSetSnapshot) -> Iterable[Action]:
    """Drain condemned and finished workers, end their jobs after the timeout, and delete them when permitted."""
    forced = snapshot.forced or snapshot.deletion_overdue
    for worker in snapshot.workers:
        if worker.terminating or not (worker.condemned or worker.pod.finished):
            continue
        if why := drains.deletion_permission(worker, forced=forced):
            planned = worker.condemned is not None and worker.condemned.planned
            yield DeleteWorker(worker, why, limited=not planned)
            continue
        yield from _drain(snapshot, worker)
        yield from drains.timeout_actions(snapshot.node_set.spec.drain, worker)


def _drains(snapshot: NodeSetSnapshot) -> Iterable[UpdateHost]:
    for worker in snapshot.workers:
        if worker.active:
            yield from _drain(snapshot, worker)


def _drain(snapshot: NodeSetSnapshot, worker: Worker) -> Iterable[UpdateHost]:
    return drains.drain_actions(worker, drains.drain_reason(worker, snapshot.propagated_conditions, snapshot.outage))


def _metadata(snapshot: NodeSetSnapshot) -> Iterable[Action]:
    for worker in snapshot.workers:
        if worker.terminating:
            continue
        yield from host_metadata.host_updates(snapshot.node_set, worker)
        yield from host_metadata.pod_updates(snapshot.node_set, worker)


def _cleanup(snapshot: NodeSetSnapshot) -> Iterable[Action]:
    """Hosts and claims that no worker will use again, if the spec asks for their deletion."""
    node_set, slurm = snapshot.node_set, snapshot.slurm
    if node_set.spec.prune_slurm_node_records == "NodeNotFound" and node_set.per_node and slurm.trusted:
        used = {worker.hostname for worker in snapshot.workers}
        for host in slurm.hosts.values():
            if host.state.down and not host.state.responding and host.name not in used:
                yield from _prune(snapshot, host.name, host.comment)
    if snapshot.claims:
        yield from claims.claim_actions(node_set, snapshot.claims, snapshot.workers, _vacant_slots(snapshot))


def _prune(snapshot: NodeSetSnapshot, host: str, text: str) -> Iterable[ForgetHost]:
    """Delete a host of this NodeSet whose node no longer exists or has another host name."""
    comment, meta = host_metadata.HostComment.parse(text), snapshot.node_set.metadata
    if comment is None or (comment.node_set_uid, comment.namespace) != (meta.uid, meta.namespace) or not comment.node:
        return
    if why := placement.why_host_is_gone(snapshot.nodes.get(comment.node), comment.node, host):
        yield ForgetHost(host, why)
