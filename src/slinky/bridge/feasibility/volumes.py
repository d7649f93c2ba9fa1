# SPDX-License-Identifier: Apache-2.0
"""Which volumes suit a claim that waits for its first pod, and from which nodes it could be served. Pure.

Such a claim gets one of the volumes that are there, as for local disks, or one that is made for it where its class
allows that.
"""

from collections.abc import Iterable

from slinky.bridge.feasibility import constraints
from slinky.bridge.feasibility.label_selector import matches
from slinky.bridge.state.views import Match, NodeSelector, PersistentVolume, StorageClass, Term, WorkloadVolumeClaim
from slinky.bridge.state.views.storage import TopologyMatch
from slinky.kube import Node, Quantity

WAIT_FOR_CONSUMER = "WaitForFirstConsumer"
#: What a class says of which no volume is ever made.
NOBODY = "kubernetes.io/no-provisioner"
SPENT = frozenset({"Released", "Failed"})


def waits(kind: StorageClass | None) -> bool:
    """Whether claims of a class get their volume only once their pod has a node."""
    return kind is not None and kind.volume_binding_mode == WAIT_FOR_CONSUMER


def made(kind: StorageClass) -> bool:
    """Whether volumes of a class are made when they are needed."""
    return kind.provisioner != NOBODY


def given(claim: WorkloadVolumeClaim, volumes: Iterable[PersistentVolume]) -> PersistentVolume | None:
    """The volume that is reserved for a claim already."""
    return next((volume for volume in volumes if _reserved(volume, claim)), None)


def suiting(claim: WorkloadVolumeClaim, volumes: Iterable[PersistentVolume]) -> list[PersistentVolume]:
    """The volumes that a claim could have, the smallest first."""
    wanted = Quantity.parse(claim.spec.resources.requests.get("storage", "0"))
    found = (volume for volume in volumes if _suits(volume, claim) and _size(volume).nano >= wanted.nano)
    return sorted(found, key=lambda volume: (_size(volume).nano, volume.metadata.name))


def reach(claim: WorkloadVolumeClaim, kind: StorageClass, volumes: Iterable[PersistentVolume]) -> NodeSelector | None:
    """The nodes from which a claim could be served: all if None, none if there is no term."""
    there = list(volumes)
    if (mine := given(claim, there)) is not None:
        return _affinity(mine)
    allowed = [_term(topology.match_label_expressions) for topology in kind.allowed_topologies]
    if made(kind) and not allowed:
        return None
    terms = allowed if made(kind) else []
    for volume in suiting(claim, there):
        affinity = _affinity(volume)
        if affinity is None:
            return None
        terms = [*terms, *affinity.node_selector_terms]
    return NodeSelector(tuple(terms))


def choose(claim: WorkloadVolumeClaim, volumes: Iterable[PersistentVolume], node: Node) -> PersistentVolume | None:
    """The smallest volume for a claim that can be reached from a node."""
    found = suiting(claim, volumes)
    return next((volume for volume in found if _reaches(volume, node)), None)


def _suits(volume: PersistentVolume, claim: WorkloadVolumeClaim) -> bool:
    spec, wanted = volume.spec, claim.spec
    free = spec.claim_ref is None and not volume.metadata.deleting and volume.status.phase not in SPENT
    alike = (spec.storage_class_name, spec.volume_mode) == (wanted.storage_class_name or "", wanted.volume_mode)
    able = set(wanted.access_modes) <= set(spec.access_modes)
    return free and alike and able and matches(wanted.selector, volume.metadata.labels)


def _reserved(volume: PersistentVolume, claim: WorkloadVolumeClaim) -> bool:
    """Whether a volume names this very claim; one that names no uid was reserved by hand."""
    owner, meta = volume.spec.claim_ref, claim.metadata
    return owner is not None and (owner.namespace, owner.name) == meta.key and owner.uid in {"", meta.uid}


def _size(volume: PersistentVolume) -> Quantity:
    return Quantity.parse(volume.spec.capacity.get("storage", "0"))


def _affinity(volume: PersistentVolume) -> NodeSelector | None:
    return volume.spec.node_affinity.required if volume.spec.node_affinity else None


def _reaches(volume: PersistentVolume, node: Node) -> bool:
    affinity = _affinity(volume)
    return affinity is None or constraints.selects(affinity, node)


def _term(expressions: Iterable[TopologyMatch]) -> Term:
    return Term(tuple(Match(each.key, "In", each.values) for each in expressions))
