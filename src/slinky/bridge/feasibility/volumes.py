# SPDX-License-Identifier: Apache-2.0
"""Which volumes match a claim that waits for its first consumer, and which nodes can reach them. Pure.

Such a claim gets an existing volume, for example a local disk, or a new one if its class has a provisioner.
"""

from collections.abc import Iterable

from slinky.bridge.feasibility import constraints
from slinky.bridge.views import (
    NodeSelector,
    PersistentVolume,
    SelectorMatch,
    SelectorTerm,
    StorageClass,
    WorkloadVolumeClaim,
)
from slinky.bridge.views.storage import TopologyMatch
from slinky.kube import Node, Quantity
from slinky.kube.label_selector import selector_matches

WAIT_FOR_CONSUMER = "WaitForFirstConsumer"
#: The provisioner of classes that only have volumes created by hand.
NO_PROVISIONER = "kubernetes.io/no-provisioner"
UNUSABLE_PHASES = frozenset({"Released", "Failed"})


def waits_for_consumer(storage_class: StorageClass | None) -> bool:
    """Whether claims of a class get their volume only after their pod has a node."""
    return storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_CONSUMER


def has_provisioner(storage_class: StorageClass) -> bool:
    """Whether volumes of a class are created on demand."""
    return storage_class.provisioner != NO_PROVISIONER


def find_reserved_volume(claim: WorkloadVolumeClaim, volumes: Iterable[PersistentVolume]) -> PersistentVolume | None:
    """The volume that is already reserved for a claim."""
    return next((volume for volume in volumes if _is_reserved(volume, claim)), None)


def matching_volumes(claim: WorkloadVolumeClaim, volumes: Iterable[PersistentVolume]) -> list[PersistentVolume]:
    """The free volumes that match a claim, the smallest first."""
    requested = Quantity.parse(claim.spec.resources.requests.get("storage", "0"))
    matching = (volume for volume in volumes if _matches(volume, claim) and _size(volume).nano >= requested.nano)
    return sorted(matching, key=lambda volume: (_size(volume).nano, volume.metadata.name))


def node_selector_of(
    claim: WorkloadVolumeClaim, storage_class: StorageClass, volumes: Iterable[PersistentVolume]
) -> NodeSelector | None:
    """The nodes that can provide a volume for a claim: None means all nodes, a selector without terms means none."""
    volumes = list(volumes)
    if (reserved := find_reserved_volume(claim, volumes)) is not None:
        return _affinity(reserved)
    topologies = [_term(topology.match_label_expressions) for topology in storage_class.allowed_topologies]
    if has_provisioner(storage_class) and not topologies:
        return None
    terms = topologies if has_provisioner(storage_class) else []
    for volume in matching_volumes(claim, volumes):
        affinity = _affinity(volume)
        if affinity is None:
            return None
        terms = [*terms, *affinity.node_selector_terms]
    return NodeSelector(tuple(terms))


def choose_volume(
    claim: WorkloadVolumeClaim, volumes: Iterable[PersistentVolume], node: Node
) -> PersistentVolume | None:
    """The smallest matching volume that a node can reach."""
    return next((volume for volume in matching_volumes(claim, volumes) if _is_reachable(volume, node)), None)


def _matches(volume: PersistentVolume, claim: WorkloadVolumeClaim) -> bool:
    spec, requested = volume.spec, claim.spec
    is_free = spec.claim_ref is None and not volume.metadata.deleting and volume.status.phase not in UNUSABLE_PHASES
    storage_class = requested.storage_class_name or ""
    is_same_kind = (spec.storage_class_name, spec.volume_mode) == (storage_class, requested.volume_mode)
    has_modes = set(requested.access_modes) <= set(spec.access_modes)
    return is_free and is_same_kind and has_modes and selector_matches(requested.selector, volume.metadata.labels)


def _is_reserved(volume: PersistentVolume, claim: WorkloadVolumeClaim) -> bool:
    """Whether a volume is reserved for this claim; a reservation by hand has no uid."""
    owner, meta = volume.spec.claim_ref, claim.metadata
    return owner is not None and (owner.namespace, owner.name) == meta.key and owner.uid in {"", meta.uid}


def _size(volume: PersistentVolume) -> Quantity:
    return Quantity.parse(volume.spec.capacity.get("storage", "0"))


def _affinity(volume: PersistentVolume) -> NodeSelector | None:
    return volume.spec.node_affinity.required if volume.spec.node_affinity else None


def _is_reachable(volume: PersistentVolume, node: Node) -> bool:
    affinity = _affinity(volume)
    return affinity is None or constraints.node_selector_matches(affinity, node)


def _term(expressions: Iterable[TopologyMatch]) -> SelectorTerm:
    return SelectorTerm(tuple(SelectorMatch(expression.key, "In", expression.values) for expression in expressions))
