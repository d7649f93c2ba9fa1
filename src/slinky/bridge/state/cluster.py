# SPDX-License-Identifier: Apache-2.0
"""Caches of the Kubernetes objects that the bridge uses, and queries over them.

Pods with our scheduler name, nodes, devices and grouping objects are watched. Discovery shows which grouping kinds the
server has; only these are watched. Owners of other kinds are read when needed and cached for `OWNER_CACHE_SECONDS`.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from slinky.bridge import names
from slinky.bridge.config import BridgeSettings
from slinky.bridge.devices.classes import Catalog
from slinky.bridge.devices.inventory import DeviceInventory
from slinky.bridge.state.devices import DeviceState
from slinky.bridge.state.host_claims import sort_claimants
from slinky.bridge.state.owner_chains import OwnerChains
from slinky.bridge.views import OUR_PODS, NativeGroup, WorkloadPod
from slinky.bridge.workload import grouping, option_layers, pod_state
from slinky.bridge.workload.grouping import Workload, WorkloadOfJob, WorkloadRoot
from slinky.bridge.workload.host_ports import host_ports_of
from slinky.kube import (
    NODES,
    Cache,
    Discovery,
    Forbidden,
    Key,
    KubeClient,
    Node,
    Object,
    Owner,
    Resource,
    Runtime,
    by_label,
    by_owner,
)
from slinky.kube.conditions import build_condition, condition_manifest, find_condition, is_condition_true
from slinky.observe import Log
from slinky.slurm import Host

log = Log("slinky.bridge.state.cluster")

#: Owners that are read instead of watched; only their annotations are used. Owners of other kinds are not read.
OWNERS = {
    (kind.group, kind.kind): kind.metadata_only()
    for kind in (
        Resource("apps/v1", "Deployment", "deployments", Object),
        Resource("apps/v1", "ReplicaSet", "replicasets", Object),
        Resource("apps/v1", "StatefulSet", "statefulsets", Object),
        Resource("batch/v1", "CronJob", "cronjobs", Object),
    )
}
#: The indexes of the caches of grouping objects, by kind.
GROUP_INDEXES: dict[str, dict[str, Callable[[Any], Iterable[str]]]] = {
    "Job": {"owner": by_owner},
    "NativeGroup": {
        "workload": lambda group: (f"{group.metadata.namespace}/{group.workload}",) if group.workload else ()
    },
}
OWNER_CACHE_SECONDS = 30.0
POD_GROUP_SCHEDULED = "PodGroupScheduled"


class ClusterState:
    """The watched Kubernetes objects of one process."""

    def __init__(
        self,
        runtime: Runtime,
        settings: BridgeSettings,
        served: Discovery,
        workload_of_job: WorkloadOfJob,
        find_host: Callable[[str], Host | None],
    ) -> None:
        """`workload_of_job` is a query of the job registry; `find_host` returns the host that Slurm has of a name."""
        self.settings = settings
        self._workload_of_job, self._find_host = workload_of_job, find_host
        self.client: KubeClient = runtime.client
        our_pods = f"spec.schedulerName={settings.scheduler_name}"
        indexes = {
            "group": grouping.group_keys_of,
            "job": by_label(names.JOB_LABEL),
            "node": lambda pod: (pod.spec.node_name,) if pod.spec.node_name else (),
            "claim": device_claims_of,
            "devices": _device_stage,
            "ports": _port_stage,
            "reason": _waiting_reason,
        }
        self.pods: Cache[WorkloadPod] = runtime.cache(OUR_PODS, fields=our_pods, indexes=indexes)
        self.nodes: Cache[Node] = runtime.cache(NODES, indexes={"host": lambda node: (pod_state.host_of(node),)})
        self.group_kinds = grouping.served_group_kinds(served)
        self.groups: dict[str, Cache[Any]] = {
            kind: runtime.cache(resource, indexes=GROUP_INDEXES.get(kind, {}))
            for kind, resource in self.group_kinds.items()
        }
        self.devices = DeviceState(runtime, settings, self.is_slurm_node)
        self._owners: dict[str, tuple[float, Object | None]] = {}

    # --- devices

    @property
    def catalog(self) -> Catalog:
        """The device classes of the cluster."""
        return self.devices.catalog

    def inventory(self, node: str) -> DeviceInventory:
        """The devices of a node that some class offers."""
        return self.devices.inventory(node)

    # --- workloads

    def find(self, kind: str, key: Key) -> Object | None:
        """The grouping object of a kind and key, if it is cached."""
        cache = self.groups.get(kind)
        return cache.get(key) if cache is not None else None

    def workload_of(self, pod: WorkloadPod) -> Workload:
        """The workload that a pod belongs to."""
        return grouping.workload_of(pod, self.find, self._workload_of_job)

    def workloads_of(self, pods: Iterable[WorkloadPod]) -> set[Workload]:
        """The workloads of some pods."""
        return {self.workload_of(pod) for pod in pods}

    def pods_of(self, workload: Workload) -> list[WorkloadPod]:
        """Every pod of a workload, whatever its phase, in rank order."""
        scheduler = self.settings.scheduler_name
        pods = self.pods.by("group", grouping.group_key(workload))
        members = (
            pod for pod in pods if pod_state.uses_scheduler(pod, scheduler) and self.workload_of(pod) == workload
        )
        return sorted(members, key=grouping.rank)

    def pods_below(self, group: Workload) -> list[WorkloadPod]:
        """The pods that belong to a grouping object; those of a native Workload belong to its PodGroups."""
        if group.kind != "Workload":
            return self.pods.by("group", grouping.group_key(group))
        native = self.groups["NativeGroup"].by("workload", f"{group.namespace}/{group.name}")
        keys = [grouping.group_key(Workload(group.namespace, "NativeGroup", item.metadata.name)) for item in native]
        return [pod for key in keys for pod in self.pods.by("group", key)]

    def current_pods(self, pods: Collection[WorkloadPod]) -> tuple[WorkloadPod, ...] | None:
        """The cached version of these pods; None if one of them was deleted, replaced, or is being deleted."""
        current = tuple(
            cached
            for pod in pods
            if (cached := self.pods.get(pod.key))
            and cached.metadata.uid == pod.metadata.uid
            and not cached.metadata.deleting
        )
        return current if len(current) == len(pods) else None

    async def root_of(self, workload: Workload, pods: list[WorkloadPod]) -> WorkloadRoot:
        """The options and size of a workload, from its pods, their groups and owners. Raises `GroupMissing`."""
        for pod in pods:
            if pod_state.is_waiting(pod) and (owner := grouping.find_missing_owner(pod, self.find, self._is_watched)):
                raise grouping.GroupMissing(f"{owner.kind} {owner.name}, the owner of the pod, has not been seen yet")
        group = None if workload.is_single_pod else self.find(workload.kind, workload.key)
        root = WorkloadRoot()
        if not workload.is_single_pod:
            root = grouping.root_of_group(workload, group, self._jobs_of, pods)
        owners = OwnerChains(self.find, self._find_owner, self._find_workload)
        chains = await owners.chains_of([pod for pod in pods if pod_state.is_waiting(pod)] or pods, workload, group)
        merged = option_layers.merge_layers(chain.layers for chain in chains)
        batch_jobs = [job for chain in chains for job in chain.batch_jobs]
        deadlines = (root.deadline, *(job.spec.active_deadline_seconds for job in batch_jobs))
        name = root.name
        if batch_jobs and isinstance(group, NativeGroup) and group.metadata.controller:
            name = batch_jobs[0].metadata.name  # Kubernetes generates the name of a group that it creates
        return replace(
            root,
            annotations=merged.annotations,
            notes=merged.notes,
            name=name,
            deadline=grouping.shortest_deadline(deadlines),
        )

    async def report_groups_scheduled(self, pods: Iterable[WorkloadPod]) -> None:
        """Set the condition of the native PodGroups of these pods, which have their nodes."""
        for key in {group.key for pod in pods if (group := grouping.native_group_of(pod))}:
            await self._report_group_scheduled(key)

    async def _report_group_scheduled(self, key: Key) -> None:
        group = self.find("NativeGroup", key)
        if not isinstance(group, NativeGroup) or is_condition_true(group.status.conditions, POD_GROUP_SCHEDULED):
            return
        message, now = "Slurm has placed every pod of the group.", self.client.clock.now()
        condition = build_condition(group.status.conditions, POD_GROUP_SCHEDULED, True, "Scheduled", message, now=now)
        status = {"conditions": [condition_manifest(condition)]}
        await self.client.apply_status(self.group_kinds["NativeGroup"], key, status)

    async def _find_owner(self, owner: Owner, namespace: str) -> Object | None:
        """An owner of a pod or group: from the caches, or read; None if its kind is not read or it does not exist."""
        key = Key(namespace, owner.name)
        if self._is_watched(owner):
            cached = self.find(owner.kind, key)
        elif (resource := OWNERS.get((_api_group(owner), owner.kind))) is not None:
            cached = await self._read(owner.uid, resource, key)
        else:
            return None
        return cached if cached is not None and cached.metadata.uid == owner.uid else None

    async def _find_workload(self, key: Key) -> Object | None:
        """The native Workload of a group; read if its watch has not delivered it yet."""
        if (resource := self.group_kinds.get("Workload")) is None:
            return None
        return self.find("Workload", key) or await self._read(f"Workload {key}", resource, key)

    async def _read(self, name: str, resource: Resource[Any], key: Key) -> Object | None:
        """An object that was read within `OWNER_CACHE_SECONDS`, under a unique name."""
        now = self.client.clock.monotonic()
        cached = self._owners.get(name)
        if cached is None or now - cached[0] > OWNER_CACHE_SECONDS:
            self._owners = {uid: entry for uid, entry in self._owners.items() if now - entry[0] <= OWNER_CACHE_SECONDS}
            try:
                found = await self.client.find(resource, key)
            except Forbidden as error:
                log.warning("the bridge may not read an owner, so its job options have no effect", error=error)
                found = None
            cached = self._owners[name] = now, found
        return cached[1]

    def _jobs_of(self, uid: str) -> list[Object]:
        """The batch jobs that an object controls."""
        return list(self.groups["Job"].by("owner", uid))

    def _is_watched(self, owner: Owner) -> bool:
        cache = self.groups.get(owner.kind)
        return cache is not None and cache.resource.group == _api_group(owner)

    # --- nodes

    def node_of_host(self, host: str) -> Node | None:
        """The Kubernetes node of a Slurm host."""
        return next(iter(self.claimants(host)), None)

    def claimants(self, host: str) -> Sequence[Node]:
        """The nodes that claim the name of a Slurm host; the first has the host, the others get no pods."""
        nodes = self.nodes.by("host", host)
        if len(nodes) < 2:
            return nodes
        known = self._find_host(host)
        return sort_claimants(host, nodes, known.comment if known else "")

    def is_slurm_node(self, name: str) -> bool:
        """Whether Slurm has a host for this node."""
        node = self.nodes.get(Key("", name))
        if node is None or self._find_host(host := pod_state.host_of(node)) is None:
            return False
        return self.claimants(host)[0] is node

    def is_reachable(self, name: str) -> bool | None:
        """Whether a node is ready; None if there is no such node."""
        node = self.nodes.get(Key("", name))
        return None if node is None else node.ready

    def other_pods_on(self, node: str, job: str) -> list[WorkloadPod]:
        """The pods of other jobs whose containers may still be on a node."""
        pods = self.pods.by("node", node)
        return [pod for pod in pods if not pod_state.is_gone(pod) and pod_state.job_id(pod) != job]

    def find_stuck(self, pods: Iterable[WorkloadPod]) -> WorkloadPod | None:
        """One of these pods that should have stopped `stuckPodSeconds` ago; None if there is none."""
        now, patience = self.client.clock.now(), self.settings.stuck_pod_seconds
        left = ((pod, pod_state.seconds_until_overdue(pod, now, patience)) for pod in pods)
        return next((pod for pod, seconds in left if seconds is not None and seconds <= 0), None)

    def count_jobs_with_running_pods(self) -> int:
        """The number of jobs with pods that run. Reads all pods."""
        running = (pod for pod in self.pods if pod_state.is_bound(pod) and not pod_state.is_gone(pod))
        return len({job for pod in running if (job := pod_state.job_id(pod))})

    def waiting_pods(self, *, with_jobs: bool) -> list[WorkloadPod]:
        """Pods that wait for a node: all of them, or only those without a job."""
        return [pod for pod in self.pods if pod_state.is_waiting(pod) and (with_jobs or not pod_state.job_id(pod))]


def device_claims_of(pod: WorkloadPod) -> list[str]:
    """The resource claims of a pod: those that it names, and those that were created from its templates."""
    named = [reference.resource_claim_name for reference in pod.spec.resource_claims]
    generated = [status.resource_claim_name for status in pod.status.resource_claim_statuses]
    return [f"{pod.metadata.namespace}/{name}" for name in {*named, *generated} if name]


#: Value of the index "devices": pods that request devices and have no job yet.
UNSUBMITTED = "unsubmitted"


def _device_stage(pod: WorkloadPod) -> tuple[str, ...]:
    if not pod_state.is_waiting(pod) or pod_state.job_id(pod):
        return ()
    resources = [container.resources for container in (*pod.spec.init_containers, *pod.spec.containers)]
    extended = any("/" in name for amounts in resources for name in (*amounts.requests, *amounts.limits))
    return (UNSUBMITTED,) if pod.spec.resource_claims or extended else ()


#: Value of the index "ports": pods that wait for a node and request host ports.
WAITING = "waiting"


def _port_stage(pod: WorkloadPod) -> tuple[str, ...]:
    return (WAITING,) if pod_state.is_waiting(pod) and host_ports_of(pod) else ()


def _waiting_reason(pod: WorkloadPod) -> tuple[str, ...]:
    """The reason in the condition of a pod that waits for a node."""
    condition = find_condition(pod.status.conditions, names.SCHEDULED) if pod_state.is_waiting(pod) else None
    return (condition.reason,) if condition else ()


def _api_group(owner: Owner) -> str:
    return owner.api_version.rpartition("/")[0]
