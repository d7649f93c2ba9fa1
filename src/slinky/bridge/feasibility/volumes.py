# SPDX-License-Identifier: Apache-2.0
"""Which volumes suit a claim that waits for its first pod, and from which nodes it could be served. Pure.

Such a claim gets one of the volumes that are there, as for local disks, or one that is made for it where its class
allows that.
"""

from collections.abc import Iterable

from slinky.bridge.feasibility import constraints
from slinky.bridge.feasibility.label_selector import selector_matches
from slinky.bridge.state.views import (
    NodeSelector,
    PersistentVolume,
    SelectorMatch,
    SelectorTerm,
    StorageClass,
    WorkloadVolumeClaim,
)
from slinky.bridge.state.views.storage import TopologyMatch
from slinky.kube import Node, Quantity

WAIT_FOR_CONSUMER = "WaitForFirstConsumer"
#: What a class says of which no volume is ever made.
NO_PROVISIONER = "kubernetes.io/no-provisioner"
UNUSABLE_PHASES = frozenset({"Released", "Failed"})


def waits_for_consumer(kind: StorageClass | None) -> bool:
    """Whether claims of a class get their volume only once their pod has a node."""
    return kind is not None and kind.volume_binding_mode == WAIT_FOR_CONSUMER


def has_provisioner(kind: StorageClass) -> bool:
    """Whether volumes of a class are made when they are needed."""
    return kind.provisioner != NO_PROVISIONER


def find_reserved_volume(claim: WorkloadVolumeClaim, volumes: Iterable[PersistentVolume]) -> PersistentVolume | None:
    """The volume that is reserved for a claim already."""
    return next((volume for volume in volumes if _reserved(volume, claim)), None)


def matching_volumes(claim: WorkloadVolumeClaim, volumes: Iterable[PersistentVolume]) -> list[PersistentVolume]:
    """The volumes that a claim could have, the smallest first."""
    wanted = Quantity.parse(claim.spec.resources.requests.get("storage", "0"))
    found = (volume for volume in volumes if _suits(volume, claim) and _size(volume).nano >= wanted.nano)
    return sorted(found, key=lambda volume: (_size(volume).nano, volume.metadata.name))


def node_selector_of(
    claim: WorkloadVolumeClaim, kind: StorageClass, volumes: Iterable[PersistentVolume]
) -> NodeSelector | None:
    """The nodes from which a claim could be served: all if None, none if there is no term."""
    there = list(volumes)
    if (mine := find_reserved_volume(claim, there)) is not None:
        return _affinity(mine)
    allowed = [_term(topology.match_label_expressions) for topology in kind.allowed_topologies]
    if has_provisioner(kind) and not allowed:
        return None
    terms = allowed if has_provisioner(kind) else []
    for volume in matching_volumes(claim, there):
        affinity = _affinity(volume)
        if affinity is None:
            return None
        terms = [*terms, *affinity.node_selector_terms]
    return NodeSelector(tuple(terms))


def choose_volume(
    claim: WorkloadVolumeClaim, volumes: Iterable[PersistentVolume], node: Node
) -> PersistentVolume | None:
    """The smallest volume for a claim that can be reached from a node."""
    found = matching_volumes(claim, volumes)
    return next((volume for volume in found if _reaches(volume, node)), None)


def _suits(volume: PersistentVolume, claim: WorkloadVolumeClaim) -> bool:
    spec, wanted = volume.spec, claim.spec
    free = spec.claim_ref is None and not volume.metadata.deleting and volume.status.phase not in UNUSABLE_PHASES
    alike = (spec.storage_class_name, spec.volume_mode) == (wanted.storage_class_name or "", wanted.volume_mode)
    able = set(wanted.access_modes) <= set(spec.access_modes)
    return free and alike and able and selector_matches(wanted.selector, volume.metadata.labels)


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
    return affinity is None or constraints.node_selector_matches(affinity, node)


def _term(expressions: Iterable[TopologyMatch]) -> SelectorTerm:
    return SelectorTerm(tuple(SelectorMatch(each.key, "In", each.values) for each in expressions))
