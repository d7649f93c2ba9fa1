# SPDX-License-Identifier: Apache-2.0
"""Volumes are read from caches; only the reservation of a volume is a request."""

from typing import Any

import msgspec
import pytest
from tests.unit.bridge.build import node, pod
from tests.unit.kube.scripted import Scripted, answer

from slinky.bridge.feasibility.volume_state import VolumePending, VolumeState
from slinky.bridge.views import (
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    PersistentVolume,
    StorageClass,
    WorkloadPod,
    WorkloadVolumeClaim,
)
from slinky.kube import Cache, KubeClient

ON_N1 = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "host", "operator": "In", "values": ["n1"]}]}]}


def volume(name: str, version: str = "1", **spec: Any) -> dict[str, Any]:
    affinity = {"nodeAffinity": {"required": ON_N1}, "storageClassName": "local", "capacity": {"storage": "1Gi"}}
    return {"metadata": {"name": name, "uid": name, "resourceVersion": version}, "spec": affinity | spec}


class Storage:
    def __init__(self) -> None:
        self.server = Scripted()
        self.claims: Cache[WorkloadVolumeClaim] = Cache(VOLUME_CLAIMS)
        self.volumes: Cache[PersistentVolume] = Cache(
            VOLUMES, indexes={"class": lambda volume: (volume.spec.storage_class_name,)}
        )
        classes: Cache[StorageClass] = Cache(STORAGE_CLASSES)
        local = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
        classes.put(msgspec.convert({"metadata": {"name": "local"}, **local}, StorageClass))
        self.state = VolumeState(KubeClient(self.server), self.claims, self.volumes, classes)

    def claim(self, version: str = "1", volume: str = "") -> None:
        meta = {"name": "data", "namespace": "ns", "uid": "uid-data", "resourceVersion": version}
        spec = {"volumeName": volume, "storageClassName": "local", "resources": {"requests": {"storage": "1Gi"}}}
        self.claims.put(msgspec.convert({"metadata": meta, "spec": spec}, WorkloadVolumeClaim))


def mounting() -> WorkloadPod:
    return pod(spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]})


def test_the_nodes_of_volumes_are_known_without_requests() -> None:
    storage = Storage()
    with pytest.raises(VolumePending, match="does not exist"):
        storage.state.node_selectors(mounting())
    storage.claim()
    with pytest.raises(VolumePending, match="no volume matches"):
        storage.state.node_selectors(mounting())
    storage.volumes.put(msgspec.convert(volume("v1"), PersistentVolume))
    (waiting,) = storage.state.node_selectors(mounting())
    storage.claim("2", volume="v1")
    (bound,) = storage.state.node_selectors(mounting())
    assert waiting.node_selector_terms[0].match_expressions == bound.node_selector_terms[0].match_expressions
    assert storage.server.sent == []


async def test_a_volume_is_reserved_once() -> None:
    storage = Storage()
    storage.claim()
    storage.volumes.put(msgspec.convert(volume("v1"), PersistentVolume))
    owner = {"namespace": "ns", "name": "data", "uid": "uid-data"}
    storage.server.responses = [answer(200, volume("v1", "2", claimRef=owner))]
    for _ in range(2):
        with pytest.raises(VolumePending, match="not ready yet"):
            await storage.state.provide_volumes(mounting(), node("n1", labels={"host": "n1"}))
    assert [method for method, _, _ in storage.server.sent] == ["PATCH"]
    storage.claim("2", volume="v1")
    await storage.state.provide_volumes(mounting(), node("n1"))
