# SPDX-License-Identifier: Apache-2.0
"""The volumes of pods: from where they can be reached, and how those that wait for a node come to be.

What is there already is only read. A claim that waits for its first pod restricts it to nodes that could serve it;
once Slurm has chosen one, a volume of that node is reserved, or its maker is told the node, and the pod waits.
"""

from slinky.bridge.feasibility import volumes
from slinky.bridge.state.views import (
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    NodeSelector,
    PersistentVolume,
    StorageClass,
    WorkloadPod,
    WorkloadVolumeClaim,
)
from slinky.kube import Conflict, Key, KubeClient, Later, Node

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
#: How old a list of volumes may be when nodes are left out of a job.
VOLUME_LIST_SECONDS = 15.0
#: How soon a claim that is not there, or has no volume, is looked at again; and one whose volume is on its way.
MISSING_RETRY_SECONDS, PROVISIONING_RETRY_SECONDS = 5.0, 0.5


class VolumePending(Later):
    """A volume that a pod needs is not there yet."""


class VolumeState:
    """Reads and reserves volumes."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._listed: tuple[float, list[PersistentVolume]] = (float("-inf"), [])

    async def node_selectors(self, pod: WorkloadPod) -> list[NodeSelector]:
        """From where the volumes of a pod can be reached; one entry for each that is not reached from everywhere.

        Raises `VolumePending`.
        """
        return [reach for key in volume_claims_of(pod) if (reach := await self._reach(key)) is not None]

    async def _reach(self, key: Key) -> NodeSelector | None:
        claim = await self._claim(key)
        if claim.spec.volume_name:
            volume = await self._client.find(VOLUMES, Key("", claim.spec.volume_name))
            affinity = volume.spec.node_affinity if volume else None
            return affinity.required if affinity else None
        kind = await self._class_of(claim, key)
        if volumes.has_provisioner(kind) and not kind.allowed_topologies:
            return None
        found = volumes.node_selector_of(claim, kind, await self._volumes(VOLUME_LIST_SECONDS))
        if found is not None and not found.node_selector_terms:
            raise VolumePending(f"no volume suits claim {key}", after=MISSING_RETRY_SECONDS)
        return found

    async def provide_volumes(self, pod: WorkloadPod, node: Node) -> None:
        """Get the volumes that wait for this pod on their way to its node. Raises `VolumePending` until they are
        there.
        """
        for key in volume_claims_of(pod):
            claim = await self._claim(key)
            if not claim.spec.volume_name:
                await self._provide(claim, await self._class_of(claim, key), node)
                raise VolumePending(f"the volume of claim {key} is not ready yet", after=PROVISIONING_RETRY_SECONDS)

    async def _provide(self, claim: WorkloadVolumeClaim, kind: StorageClass, node: Node) -> None:
        if claim.metadata.annotations.get(SELECTED_NODE) == node.metadata.name:
            return
        there = await self._volumes(0)
        if volumes.find_reserved_volume(claim, there):
            return
        if volume := volumes.choose_volume(claim, there, node):
            await self._reserve(volume, claim)
        elif volumes.has_provisioner(kind):
            chosen = {"metadata": {"annotations": {SELECTED_NODE: node.metadata.name}}}
            await self._client.patch(VOLUME_CLAIMS, claim.key, chosen)

    async def _reserve(self, volume: PersistentVolume, claim: WorkloadVolumeClaim) -> None:
        """Name the claim on a volume; Kubernetes does the rest. Whoever else has been quicker keeps it."""
        meta = claim.metadata
        owner = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "name": meta.name, "namespace": meta.namespace}
        patch = {
            "metadata": {
                "resourceVersion": volume.metadata.resource_version,
                "annotations": {BY_CONTROLLER: "yes"},
            },
            "spec": {"claimRef": {**owner, "uid": meta.uid, "resourceVersion": meta.resource_version}},
        }
        try:
            await self._client.patch(VOLUMES, volume.key, patch)
        except Conflict as error:
            raise VolumePending(
                f"volume {volume.metadata.name} was taken by another claim", after=PROVISIONING_RETRY_SECONDS
            ) from error

    async def _claim(self, key: Key) -> WorkloadVolumeClaim:
        claim = await self._client.find(VOLUME_CLAIMS, key)
        if claim is None:
            raise VolumePending(f"volume claim {key} does not exist", after=MISSING_RETRY_SECONDS)
        return claim

    async def _class_of(self, claim: WorkloadVolumeClaim, key: Key) -> StorageClass:
        """The class of a claim that has no volume. Raises `VolumePending` if it waits for somebody else than a pod."""
        name = claim.spec.storage_class_name
        kind = await self._client.find(STORAGE_CLASSES, Key("", name)) if name else None
        if kind is None or not volumes.waits_for_consumer(kind):
            raise VolumePending(f"volume claim {key} has no volume yet", after=MISSING_RETRY_SECONDS)
        return kind

    async def _volumes(self, age: float) -> list[PersistentVolume]:
        """Every volume, as of at most so long ago."""
        now = self._client.clock.monotonic()
        if now - self._listed[0] >= age:
            self._listed = now, await self._client.list(VOLUMES)
        return self._listed[1]


def volume_claims_of(pod: WorkloadPod) -> list[Key]:
    """The volume claims that a pod mounts."""
    found = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim:
            found.append(Key(pod.metadata.namespace, volume.persistent_volume_claim.claim_name))
        elif volume.ephemeral is not None:
            found.append(Key(pod.metadata.namespace, f"{pod.metadata.name}-{volume.name}"))
    return found
