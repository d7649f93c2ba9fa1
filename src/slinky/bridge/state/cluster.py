# SPDX-License-Identifier: Apache-2.0
"""What the bridge keeps in memory of Kubernetes, and the questions that are asked of it.

Pods of our scheduler, nodes, devices and grouping objects are watched; kinds that a server does not have are left
out, which discovery tells. Owners of other kinds are read when needed, and remembered for a short while.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any

from slinky.bridge import names
from slinky.bridge.config import BridgeSettings
from slinky.bridge.devices.classes import Catalog
from slinky.bridge.devices.inventory import DeviceInventory
from slinky.bridge.devices.state import DeviceState
from slinky.bridge.state.views import OUR_PODS, NativeGroup, WorkloadBatchJob, WorkloadPod
from slinky.bridge.workload import grouping, pod_state
from slinky.bridge.workload.grouping import Workload, WorkloadOfJob, WorkloadRoot
from slinky.kube import NODES, Cache, Discovery, Key, KubeClient, Node, Object, Owner, Resource, Runtime, by_label
from slinky.kube.conditions import build_condition, condition_manifest, is_condition_true
from slinky.observe import Log

log = Log("slinky.bridge.state.cluster")

#: Owners that are read, not watched: their annotations speak for pods that nothing else groups.
OWNERS = {
    ("apps", "ReplicaSet"): Resource("apps/v1", "ReplicaSet", "replicasets", Object).metadata_only(),
    ("apps", "StatefulSet"): Resource("apps/v1", "StatefulSet", "statefulsets", Object).metadata_only(),
}
OWNER_CACHE_SECONDS = 30.0
POD_GROUP_SCHEDULED = "PodGroupScheduled"


class ClusterState:
    """Caches of one process."""

    def __init__(
        self,
        runtime: Runtime,
        settings: BridgeSettings,
        served: Discovery,
        workload_of_job: WorkloadOfJob,
        is_host: Callable[[str], bool],
    ) -> None:
        """`workload_of_job` comes from the job registry; `is_host` tells whether Slurm has a host of that name."""
        self.settings = settings
        self._workload_of_job, self._is_host = workload_of_job, is_host
        self.client: KubeClient = runtime.client
        ours = f"spec.schedulerName={settings.scheduler_name}"
        indexes = {
            "group": grouping.group_keys_of,
            "job": by_label(names.JOB_LABEL),
            "node": lambda pod: (pod.spec.node_name,) if pod.spec.node_name else (),
            "claim": device_claims_of,
            "devices": _wanting_devices,
        }
        self.pods: Cache[WorkloadPod] = runtime.cache(OUR_PODS, fields=ours, indexes=indexes)
        self.nodes: Cache[Node] = runtime.cache(NODES, indexes={"host": lambda node: (pod_state.host_of(node),)})
        self.group_kinds = grouping.served_group_kinds(served)
        self.groups: dict[str, Cache[Any]] = {
            kind: runtime.cache(resource) for kind, resource in self.group_kinds.items()
        }
        self.devices = DeviceState(runtime, settings, self._is_slurm_node)
        self._owners: dict[str, tuple[float, Object | None]] = {}

    # --- devices

    @property
    def catalog(self) -> Catalog:
        """The device classes of the cluster."""
        return self.devices.catalog

    def inventory(self, node: str) -> DeviceInventory:
        """The devices of a node that some class offers."""
        return self.devices.inventory(node)

    # --- units

    def find(self, kind: str, key: Key) -> Object | None:
        """A grouping object."""
        cache = self.groups.get(kind)
        return cache.get(key) if cache is not None else None

    def workload_of(self, pod: WorkloadPod) -> Workload:
        """The unit a pod belongs to."""
        return grouping.workload_of(pod, self.find, self._workload_of_job)

    def workloads_of(self, pods: Iterable[WorkloadPod]) -> set[Workload]:
        """The units of some pods."""
        return {self.workload_of(pod) for pod in pods}

    def pods_of(self, unit: Workload) -> list[WorkloadPod]:
        """Every pod of a unit, whatever its state, in rank order."""
        found = self.pods.by("group", grouping.group_key(unit))
        scheduler = self.settings.scheduler_name
        ours = (pod for pod in found if pod_state.uses_scheduler(pod, scheduler) and self.workload_of(pod) == unit)
        return sorted(ours, key=grouping.rank)

    def current_pods(self, pods: Collection[WorkloadPod]) -> tuple[WorkloadPod, ...] | None:
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
            if pod_state.is_waiting(pod) and (owner := grouping.find_missing_owner(pod, self.find, self._watched)):
                raise grouping.GroupMissing(f"{owner.kind} {owner.name}, which made the pod, has not been seen yet")
        if unit.is_single_pod:
            return await self._root_of_pod(pods[0])
        found = self.find(unit.kind, unit.key)
        sizes = [pod.metadata.annotations.get(names.LWS_SIZE, "") for pod in pods]
        root = grouping.root_of_group(unit, found, self.find, int(sizes[0]) if sizes and sizes[0].isdigit() else 0)
        if isinstance(found, NativeGroup):
            return replace(root, annotations=self._merged(found))
        return root

    async def report_group_scheduled(self, key: Key) -> None:
        """Tell on a native group that all of it has been placed."""
        group = self.find("NativeGroup", key)
        if not isinstance(group, NativeGroup) or is_condition_true(group.status.conditions, POD_GROUP_SCHEDULED):
            return
        message, now = "Slurm has placed every pod of the group.", self.client.clock.now()
        condition = build_condition(group.status.conditions, POD_GROUP_SCHEDULED, True, "Scheduled", message, now=now)
        status = {"conditions": [condition_manifest(condition)]}
        await self.client.apply_status(self.group_kinds["NativeGroup"], key, status)

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
        if held is None or now - held[0] > OWNER_CACHE_SECONDS:
            self._owners = {uid: kept for uid, kept in self._owners.items() if now - kept[0] <= OWNER_CACHE_SECONDS}
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

    def _is_slurm_node(self, name: str) -> bool:
        """Whether Slurm has a host for this node."""
        node = self.nodes.get(Key("", name))
        return node is not None and self._is_host(pod_state.host_of(node))

    def is_reachable(self, name: str) -> bool | None:
        """Does the node's kubelet answer; None if there is no such node."""
        node = self.nodes.get(Key("", name))
        return None if node is None else node.ready

    def other_pods_on(self, node: str, job: str) -> list[WorkloadPod]:
        """Pods of other jobs that are still on a node."""
        return [
            pod for pod in self.pods.by("node", node) if not pod_state.is_gone(pod) and pod_state.job_id(pod) != job
        ]

    def waiting_pods(self, *, with_jobs: bool) -> list[WorkloadPod]:
        """Pods that want a node: those that have no job yet, or all."""
        return [pod for pod in self.pods if pod_state.is_waiting(pod) and (with_jobs or not pod_state.job_id(pod))]


def device_claims_of(pod: WorkloadPod) -> list[str]:
    """The device claims that a pod names, or that were made for it from its templates."""
    named = [reference.resource_claim_name for reference in pod.spec.resource_claims]
    made = [status.resource_claim_name for status in pod.status.resource_claim_statuses]
    return [f"{pod.metadata.namespace}/{name}" for name in {*named, *made} if name]


#: Where pods that want devices stand: not submitted yet, or submitted and without a node.
UNSUBMITTED, UNPLACED = "unsubmitted", "unplaced"


def _wanting_devices(pod: WorkloadPod) -> tuple[str, ...]:
    if not pod_state.is_waiting(pod):
        return ()
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    extended = any("/" in name for one in containers for name in (*one.resources.requests, *one.resources.limits))
    if not (pod.spec.resource_claims or extended):
        return ()
    return (UNPLACED if pod_state.job_id(pod) else UNSUBMITTED,)


def _group(owner: Owner) -> str:
    return owner.api_version.rpartition("/")[0]
