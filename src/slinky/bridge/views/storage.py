# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 -- msgspec gives each struct its own copy of an empty default
"""Volumes, volume claims and storage classes."""

from slinky.bridge.views.pods import Amounts, NodeSelector, Resources
from slinky.kube import Object, Resource, View
from slinky.kube.interning import intern_metadata
from slinky.kube.label_selector import LabelSelector

FILESYSTEM = "Filesystem"


class VolumeClaimSpec(View, frozen=True, gc=True):
    """The spec of a volume claim."""

    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()
    resources: Resources = Resources()
    selector: LabelSelector = LabelSelector()
    volume_mode: str = FILESYSTEM


class VolumePhase(View, frozen=True):
    """The phase of a volume or claim."""

    phase: str = ""


class WorkloadVolumeClaim(Object, frozen=True, gc=True):
    """A PersistentVolumeClaim."""

    spec: VolumeClaimSpec = VolumeClaimSpec()
    status: VolumePhase = VolumePhase()


class VolumeAffinity(View, frozen=True):
    """The nodes that can reach a volume."""

    required: NodeSelector | None = None


class VolumeOwner(View, frozen=True):
    """The claim of a volume."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeSpec(View, frozen=True, gc=True):
    """The spec of a volume."""

    node_affinity: VolumeAffinity | None = None
    storage_class_name: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: Amounts = {}
    volume_mode: str = FILESYSTEM
    claim_ref: VolumeOwner | None = None


class PersistentVolume(Object, frozen=True, gc=True):
    """A PersistentVolume."""

    spec: VolumeSpec = VolumeSpec()
    status: VolumePhase = VolumePhase()


class TopologyMatch(View, frozen=True):
    """A label of nodes and its allowed values."""

    key: str
    values: tuple[str, ...] = ()


class StorageTopology(View, frozen=True):
    """Labels that a node must have."""

    match_label_expressions: tuple[TopologyMatch, ...] = ()


class StorageClass(Object, frozen=True):
    """A StorageClass."""

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[StorageTopology, ...] = ()


VOLUME_CLAIMS = Resource(
    "v1", "PersistentVolumeClaim", "persistentvolumeclaims", WorkloadVolumeClaim, intern=intern_metadata
)
VOLUMES = Resource(
    "v1", "PersistentVolume", "persistentvolumes", PersistentVolume, namespaced=False, intern=intern_metadata
)
STORAGE_CLASSES = Resource("storage.k8s.io/v1", "StorageClass", "storageclasses", StorageClass, namespaced=False)
