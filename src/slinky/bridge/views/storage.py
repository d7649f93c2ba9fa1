# SPDX-License-Identifier: Apache-2.0
"""Volumes, and what decides from where they can be reached."""

from slinky.bridge.views.pods import NodeSelector
from slinky.kube import Object, Resource, View


class VolumeClaimSpec(View, frozen=True):
    """Which volume a claim has."""

    volume_name: str = ""
    storage_class_name: str | None = None


class Phase(View, frozen=True):
    """A phase and no more."""

    phase: str = ""


class VolumeClaim(Object, frozen=True):
    """A PersistentVolumeClaim."""

    spec: VolumeClaimSpec = VolumeClaimSpec()
    status: Phase = Phase()


class VolumeAffinity(View, frozen=True):
    """Where a volume can be reached."""

    required: NodeSelector | None = None


class VolumeSpec(View, frozen=True):
    """A volume's reach."""

    node_affinity: VolumeAffinity | None = None


class PersistentVolume(Object, frozen=True):
    """A volume."""

    spec: VolumeSpec = VolumeSpec()


class StorageClass(Object, frozen=True):
    """How volumes of a class come to be."""

    volume_binding_mode: str = "Immediate"


VOLUME_CLAIMS = Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims", VolumeClaim)
VOLUMES = Resource("v1", "PersistentVolume", "persistentvolumes", PersistentVolume, namespaced=False)
STORAGE_CLASSES = Resource("storage.k8s.io/v1", "StorageClass", "storageclasses", StorageClass, namespaced=False)
