# SPDX-License-Identifier: Apache-2.0
"""What the bridge keeps in memory of Kubernetes, and the questions that are asked of it.

Pods of our scheduler, nodes, devices and grouping objects are watched; kinds that a server does not have are left
out, which discovery tells. Owners of other kinds are read when needed, and remembered for a short while.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from slinky.bridge import names
from slinky.bridge.config import BridgeSettings
from slinky.bridge.devices.classes import Catalog
from slinky.bridge.devices.inventory import DeviceInventory
from slinky.bridge.devices.state import DeviceState
from slinky.bridge.state.views import OUR_PODS, NativeGroup, WorkloadBatchJob, WorkloadPod
from slinky.bridge.workload import grouping, kinds, pod_state
from slinky.bridge.workload.grouping import Standing, Workload, WorkloadRoot
from slinky.kube import NODES, Cache, Discovery, Key, KubeClient, Node, Object, Owner, Resource, Runtime, by_label
from slinky.kube.conditions import build_condition, condition_manifest, is_condition_true
from slinky.observe import Log

log = Log("slinky.bridge.state.cluster")

#: Owners that are read, not watched: their annotations speak for pods that nothing else groups.
OWNERS = {
    ("apps", "ReplicaSet"): Resource("apps/v1", "ReplicaSet", "replicasets", Object).metadata_only(),
    ("apps", "StatefulSet"): Resource("apps/v1", "StatefulSet", "statefulsets", Object).metadata_only(),
}
REMEMBERED = 30.0
PLACED = "PodGroupScheduled"


class ClusterState:
    """Caches of one process."""

    def __init__(self, runtime: Runtime, settings: BridgeSettings, served: Discovery) -> None:
        self.settings = settings
        self.client: KubeClient = runtime.client
        ours = f"spec.schedulerName={settings.scheduler_name}"
        indexes = {
            "group": grouping.groups_of,
            "job": by_label(names.JOB_LABEL),
            "node": lambda pod: (pod.spec.node_name,) if pod.spec.node_name else (),
            "claim": claims_of,
            "devices": _wanting_devices,
        }
        self.pods: Cache[WorkloadPod] = runtime.cache(OUR_PODS, fields=ours, indexes=indexes)
        self.nodes: Cache[Node] = runtime.cache(NODES, indexes={"host": lambda node: (pod_state.host_of(node),)})
        self.kinds = kinds.grouping(served)
        self.groups: dict[str, Cache[Any]] = {kind: runtime.cache(resource) for kind, resource in self.kinds.items()}
        self.shelf = DeviceState(runtime, settings)
        self.standing: Standing = lambda _: None  # the ledger's, once there is one
        self._owners: dict[str, tuple[float, Object | None]] = {}

    # --- devices

    @property
    def catalog(self) -> Catalog:
        """The device classes of the cluster."""
        return self.shelf.catalog

    def inventory(self, node: str) -> DeviceInventory:
        """The devices of a node that some class offers."""
        return self.shelf.inventory(node)

    # --- units

    def find(self, kind: str, key: Key) -> Object | None:
        """A grouping object."""
        cache = self.groups.get(kind)
        return cache.get(key) if cache is not None else None

    def unit_of(self, pod: WorkloadPod) -> Workload:
        """The unit a pod belongs to."""
        return grouping.unit_of(pod, self.find, self.standing)

    def units_of(self, pods: Iterable[WorkloadPod]) -> set[Workload]:
        """The units of some pods."""
        return {self.unit_of(pod) for pod in pods}

    def members(self, unit: Workload) -> list[WorkloadPod]:
        """Every pod of a unit, whatever its state, in rank order."""
        found = self.pods.by("group", grouping.group_index(unit))
        scheduler = self.settings.scheduler_name
        ours = (pod for pod in found if pod_state.ours(pod, scheduler) and self.unit_of(pod) == unit)
        return sorted(ours, key=grouping.rank)

    def latest(self, pods: Collection[WorkloadPod]) -> tuple[WorkloadPod, ...] | None:
        """These pods as they are now; None if one of them is gone, leaves, or is another under its name."""
        found = tuple(
            now
            for pod in pods
            if (now := self.pods.get(pod.key)) and now.metadata.uid == pod.metadata.uid and not now.metadata.deleting
        )
        return found if len(found) == len(pods) else None

    async def root_of(self, unit: Workload, pods: list[WorkloadPod]) -> WorkloadRoot:
        """The object that speaks for a unit. Raises `workload.Missing`."""
        for pod in pods:
            if pod_state.waiting(pod) and (owner := grouping.unseen(pod, self.find, self._watched)):
                raise grouping.Missing(f"{owner.kind} {owner.name}, which made the pod, has not been seen yet")
        if unit.alone:
            return await self._root_of_pod(pods[0])
        found = self.find(unit.kind, unit.key)
        sizes = [pod.metadata.annotations.get(names.LWS_SIZE, "") for pod in pods]
        root = grouping.root_of_group(unit, found, self.find, int(sizes[0]) if sizes and sizes[0].isdigit() else 0)
        if isinstance(found, NativeGroup):
            return replace(root, annotations=self._merged(found))
        return root

    async def mark_scheduled(self, key: Key) -> None:
        """Tell on a native group that all of it has been placed."""
        group = self.find("NativeGroup", key)
        if not isinstance(group, NativeGroup) or is_condition_true(group.status.conditions, PLACED):
            return
        message, now = "Slurm has placed every pod of the group.", self.client.clock.now()
        condition = build_condition(group.status.conditions, PLACED, True, "Scheduled", message, now=now)
        status = {"conditions": [condition_manifest(condition)]}
        await self.client.apply_status(self.kinds["NativeGroup"], key, status)

    def _merged(self, group: NativeGroup) -> dict[str, str]:
        """A native group's annotations, below those of its batch job, below those of its Workload."""
        namespace = group.metadata.namespace
        owner = group.metadata.controller
        layers: list[Object | None] = [group]
        if owner and owner.kind == "Job":
            layers.append(self.find("Job", Key(namespace, owner.name)))
        if group.workload:
            layers.append(self.find("Workload", Key(namespace, group.workload)))
        return {key: text for layer in layers if layer for key, text in layer.metadata.annotations.items()}

    async def _root_of_pod(self, pod: WorkloadPod) -> WorkloadRoot:
        """The highest object above a pod that we know how to read; the pod itself if there is none."""
        top: Object = pod
        deadline: int | None = None
        owner, namespace = pod.metadata.controller, pod.metadata.namespace
        for _ in range(32):
            above = await self._owner(owner, namespace)
            if above is None:
                break
            if isinstance(above, WorkloadBatchJob):
                deadline = above.spec.active_deadline_seconds
            top, owner = above, above.metadata.controller
        return WorkloadRoot(top.metadata.annotations, deadline=deadline)

    async def _owner(self, owner: Owner | None, namespace: str) -> Object | None:
        if owner is None:
            return None
        key = Key(namespace, owner.name)
        if self._watched(owner):
            return self.find(owner.kind, key)
        resource = OWNERS.get((_group(owner), owner.kind))
        if resource is None:
            return None
        now = self.client.clock.monotonic()
        held = self._owners.get(owner.uid)
        if held is None or now - held[0] > REMEMBERED:
            self._owners = {uid: kept for uid, kept in self._owners.items() if now - kept[0] <= REMEMBERED}
            held = self._owners[owner.uid] = now, await self.client.find(resource, key)
        return held[1]

    def _watched(self, owner: Owner) -> bool:
        cache = self.groups.get(owner.kind)
        return cache is not None and cache.resource.group == _group(owner)

    # --- nodes

    def node_of_host(self, host: str) -> Node | None:
        """The Kubernetes node behind a Slurm host."""
        found = self.nodes.by("host", host)
        return found[0] if found else None

    def reachable(self, name: str) -> bool | None:
        """Does the node's kubelet answer; None if there is no such node."""
        node = self.nodes.get(Key("", name))
        return None if node is None else node.ready

    def leaving(self, node: str, job: str) -> list[WorkloadPod]:
        """Pods of other jobs that are still on a node."""
        return [pod for pod in self.pods.by("node", node) if not pod_state.gone(pod) and pod_state.job_id(pod) != job]

    def waiting(self, *, with_jobs: bool) -> list[WorkloadPod]:
        """Pods that want a node: those that have no job yet, or all."""
        return [pod for pod in self.pods if pod_state.waiting(pod) and (with_jobs or not pod_state.job_id(pod))]


def claims_of(pod: WorkloadPod) -> list[str]:
    """The device claims that a pod names, or that were made for it from its templates."""
    named = [reference.resource_claim_name for reference in pod.spec.resource_claims]
    made = [status.resource_claim_name for status in pod.status.resource_claim_statuses]
    return [f"{pod.metadata.namespace}/{name}" for name in {*named, *made} if name]


#: Where pods that want devices stand: not submitted yet, or submitted and without a node.
UNSUBMITTED, UNPLACED = "unsubmitted", "unplaced"


def _wanting_devices(pod: WorkloadPod) -> tuple[str, ...]:
    if not pod_state.waiting(pod):
        return ()
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    extended = any("/" in name for one in containers for name in (*one.resources.requests, *one.resources.limits))
    if not (pod.spec.resource_claims or extended):
        return ()
    return (UNPLACED if pod_state.job_id(pod) else UNSUBMITTED,)


def _group(owner: Owner) -> str:
    return owner.api_version.rpartition("/")[0]
