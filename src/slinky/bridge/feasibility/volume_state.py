# SPDX-License-Identifier: Apache-2.0
"""The volumes of pods: which nodes can reach them, and the provision of volumes for claims that wait for a consumer.

Volumes, claims and storage classes are watched: thousands of waiting pods are checked against them without requests. A
bound volume is only read. A claim that waits for its first consumer restricts the pod to nodes that can provide a
volume. Once Slurm has chosen the node, the bridge reserves a volume for the claim, or selects the node for the
provisioner, and binds the pod when the claim has its volume.
"""

from slinky.bridge.feasibility import volumes
from slinky.bridge.views import (
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    NodeSelector,
    PersistentVolume,
    StorageClass,
    WorkloadPod,
    WorkloadVolumeClaim,
)
from slinky.kube import Cache, Conflict, Key, KubeClient, Later, Node, Runtime

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
#: Seconds until a claim that does not exist or has no matching volume is read again.
MISSING_RETRY_SECONDS = 5.0
#: Seconds until a claim whose volume is being provided is read again.
PROVISIONING_RETRY_SECONDS = 0.5


class VolumePending(Later):
    """A pod must wait for a volume."""


class VolumeState:
    """Watches and reserves volumes."""

    def __init__(
        self,
        client: KubeClient,
        claims: Cache[WorkloadVolumeClaim],
        volumes: Cache[PersistentVolume],
        classes: Cache[StorageClass],
    ) -> None:
        self._client, self.claims, self._volumes, self._classes = client, claims, volumes, classes

    def node_selectors(self, pod: WorkloadPod) -> list[NodeSelector]:
        """The nodes that can reach each volume of a pod, without volumes that all nodes reach.

        Raises `VolumePending`.
        """
        selectors = [self._node_selector(key) for key in volume_claims_of(pod)]
        return [selector for selector in selectors if selector is not None]

    def _node_selector(self, key: Key) -> NodeSelector | None:
        claim = self._claim(key)
        if claim.spec.volume_name:
            volume = self._volumes.get(Key("", claim.spec.volume_name))
            affinity = volume.spec.node_affinity if volume else None
            return affinity.required if affinity else None
        storage_class = self._class_of(claim, key)
        if volumes.has_provisioner(storage_class) and not storage_class.allowed_topologies:
            return None
        selector = volumes.node_selector_of(claim, storage_class, self._volumes_of(claim))
        if selector is not None and not selector.node_selector_terms:
            raise VolumePending(f"no volume matches volume claim {key}", after=MISSING_RETRY_SECONDS)
        return selector

    async def provide_volumes(self, pod: WorkloadPod, node: Node) -> None:
        """Provide the volumes of a pod on its node. Raises `VolumePending` until all claims have their volumes."""
        for key in volume_claims_of(pod):
            claim = self._claim(key)
            if not claim.spec.volume_name:
                await self._provide(claim, self._class_of(claim, key), node)
                raise VolumePending(
                    f"the volume of volume claim {key} is not ready yet", after=PROVISIONING_RETRY_SECONDS
                )

    async def _provide(self, claim: WorkloadVolumeClaim, storage_class: StorageClass, node: Node) -> None:
        if claim.metadata.annotations.get(SELECTED_NODE) == node.metadata.name:
            return
        candidates = self._volumes_of(claim)
        if volumes.find_reserved_volume(claim, candidates):
            return
        if volume := volumes.choose_volume(claim, candidates, node):
            await self._reserve(volume, claim)
        elif volumes.has_provisioner(storage_class):
            patch = {"metadata": {"annotations": {SELECTED_NODE: node.metadata.name}}}
            self.claims.record_write(await self._client.patch(VOLUME_CLAIMS, claim.key, patch))

    async def _reserve(self, volume: PersistentVolume, claim: WorkloadVolumeClaim) -> None:
        """Set the claim of a volume; the controller of Kubernetes then binds both. Raises `VolumePending`.

        The resource version makes the patch fail if another claim got the volume first.
        """
        meta = claim.metadata
        owner = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "name": meta.name, "namespace": meta.namespace}
        patch = {
            "metadata": {
                "resourceVersion": volume.metadata.resource_version,
                "annotations": {BOUND_BY_CONTROLLER: "yes"},
            },
            "spec": {"claimRef": {**owner, "uid": meta.uid, "resourceVersion": meta.resource_version}},
        }
        try:
            self._volumes.record_write(await self._client.patch(VOLUMES, volume.key, patch))
        except Conflict as error:
            raise VolumePending(
                f"another claim got the volume {volume.metadata.name}", after=PROVISIONING_RETRY_SECONDS
            ) from error

    def _claim(self, key: Key) -> WorkloadVolumeClaim:
        claim = self.claims.get(key)
        if claim is None:
            raise VolumePending(f"volume claim {key} does not exist", after=MISSING_RETRY_SECONDS)
        return claim

    def _class_of(self, claim: WorkloadVolumeClaim, key: Key) -> StorageClass:
        """The class of a claim without a volume. Raises `VolumePending` unless the claim waits for a consumer."""
        name = claim.spec.storage_class_name
        storage_class = self._classes.get(Key("", name)) if name else None
        if storage_class is None or not volumes.waits_for_consumer(storage_class):
            raise VolumePending(f"volume claim {key} has no volume yet", after=MISSING_RETRY_SECONDS)
        return storage_class

    def _volumes_of(self, claim: WorkloadVolumeClaim) -> list[PersistentVolume]:
        """The volumes of the class of a claim."""
        return self._volumes.by("class", claim.spec.storage_class_name or "")


def watch_volumes(runtime: Runtime) -> VolumeState:
    """Watch volumes, volume claims and storage classes."""
    by_class = {"class": lambda volume: (volume.spec.storage_class_name,)}
    return VolumeState(
        runtime.client,
        runtime.cache(VOLUME_CLAIMS),
        runtime.cache(VOLUMES, indexes=by_class),
        runtime.cache(STORAGE_CLASSES),
    )


def volume_claims_of(pod: WorkloadPod) -> list[Key]:
    """The volume claims that a pod mounts."""
    namespace, claims = pod.metadata.namespace, []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim:
            claims.append(Key(namespace, volume.persistent_volume_claim.claim_name))
        elif volume.ephemeral is not None:
            claims.append(Key(namespace, f"{pod.metadata.name}-{volume.name}"))
    return claims
