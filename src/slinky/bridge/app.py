# SPDX-License-Identifier: Apache-2.0
"""Builds the bridge from its parts, and maps every change in Kubernetes and Slurm to the keys to reconcile.

`main` connects to both systems and runs until cancelled; `assemble` builds the bridge on existing connections.
"""

import asyncio
import contextlib
import platform
import uuid
from collections.abc import Awaitable, Callable
from functools import partial

from slinky.bridge import metrics
from slinky.bridge.config import BridgeSettings
from slinky.bridge.credentials import TlsTrust, token_source
from slinky.bridge.devices import profiles
from slinky.bridge.feasibility.exclusions import Exclusions
from slinky.bridge.feasibility.node_room import NodeRoom
from slinky.bridge.feasibility.node_usage import NodeUsage, watch_foreign_pods
from slinky.bridge.feasibility.volume_state import VolumeState
from slinky.bridge.lifecycle.claim_writer import ClaimWriter
from slinky.bridge.lifecycle.completer import Completer
from slinky.bridge.lifecycle.lost_jobs import LostJobs
from slinky.bridge.lifecycle.placement import Placement
from slinky.bridge.lifecycle.pod_writer import PodWriter
from slinky.bridge.lifecycle.reconciler import WorkloadReconciler, classify_slurm_error, workloads_of_group
from slinky.bridge.lifecycle.release import Releaser
from slinky.bridge.lifecycle.submit import Submitter
from slinky.bridge.nodes.ownership import host_signature
from slinky.bridge.nodes.reconciler import HostName, NodeReconciler, classify_rejection
from slinky.bridge.nodes.slurm_pods import SlurmPods
from slinky.bridge.state.cluster import UNPLACED, UNSUBMITTED, ClusterState
from slinky.bridge.state.device_demand import DeviceDemand
from slinky.bridge.state.device_mismatches import DeviceMismatches
from slinky.bridge.state.job_discovery import JobDiscovery
from slinky.bridge.state.job_registry import JobRegistry
from slinky.bridge.state.queue_position import QueuePositions
from slinky.bridge.views import ForeignPod, ResourceClaim, WorkloadPod
from slinky.bridge.workload import grouping, pod_state, policy
from slinky.bridge.workload.grouping import Workload
from slinky.bridge.workload.host_ports import host_ports_of
from slinky.bridge.workload.identity import BridgeIdentity
from slinky.kube import (
    NAMESPACES,
    ControlLoop,
    Discovery,
    Election,
    EventRecorder,
    Key,
    KubeClient,
    Node,
    Object,
    Runtime,
    connect,
    discover,
    restart_on_new_kinds,
)
from slinky.kube.runtime import Lead
from slinky.observe import Health, Log
from slinky.slurm import Change, Doorbell, Mirror, ObjectKind, SlurmClient

log = Log("slinky.bridge.app")


async def main(settings: BridgeSettings, health: Health | None = None) -> None:
    """Run the bridge until cancelled."""
    policy.check_policy(settings.policy, settings.priority_classes)
    profiles.check_profiles(settings.device_profiles)
    trust = TlsTrust(settings.tls_folder) if settings.tls_folder else None
    slurm = SlurmClient(settings.slurm_rest_api, token_source(settings), tls=trust.context if trust else None)
    async with connect(manager="slurm-bridge") as client, slurm:
        bridge = await assemble(settings, client, slurm, health=health)
        if trust:
            bridge.runtime.add_service(trust.run)
        lead = None
        if settings.leader_elect:
            lease = Key(settings.lease_namespace or client.namespace, settings.bridge_name)
            replica = f"{platform.node()}-{uuid.uuid4().hex[:8]}"
            lead = Election(client, lease, replica, health=health).lead
        await bridge.run(lead)


class Bridge:
    """All parts of one bridge."""

    def __init__(
        self,
        settings: BridgeSettings,
        runtime: Runtime,
        slurm: SlurmClient,
        served: Discovery,
        identity: BridgeIdentity,
    ) -> None:
        self.settings, self.runtime, self.slurm = settings, runtime, slurm
        client, clock = runtime.client, runtime.client.clock
        self.mirror = Mirror(slurm, all_jobs=False)
        self.registry = JobRegistry(self.mirror, identity)
        self.discovery = JobDiscovery(slurm, self.mirror, self.registry, self._is_followed, clock)
        cluster = self.cluster = ClusterState(
            runtime, settings, served, self.registry.resolve_workload, self.mirror.nodes.get
        )
        self.recorder = EventRecorder(client, settings.scheduler_name)
        completer = Completer(settings.completer_socket) if settings.completer_socket else None
        self.releaser = Releaser(slurm, self.mirror, self.registry, clock, completer)
        submitter = Submitter(
            slurm, self.mirror, self.registry, self.discovery, clock, allocate_first=settings.allocate_first
        )
        self.queue_positions = QueuePositions(self.mirror.jobs, self._enqueue_workload_of_job, clock)
        writer = PodWriter(client, cluster.pods, self.recorder, settings)
        volumes, on_more_hosts = VolumeState(client), partial(self._enqueue_waiting_soon, with_jobs=True)
        self.foreign_pods = watch_foreign_pods(runtime, settings.scheduler_name)
        self.slurm_pods = SlurmPods(self.foreign_pods)
        usage = NodeUsage(self.foreign_pods)
        room = NodeRoom(cluster, usage, clock, self._enqueue_workload)
        exclusions = Exclusions(cluster, self.mirror, volumes, room, host_signature(identity), on_more_hosts)
        claims = ClaimWriter(client, cluster, self.mirror)
        self.workload_reconciler = WorkloadReconciler(
            settings,
            cluster,
            self.registry,
            exclusions,
            submitter,
            self.releaser,
            writer,
            DeviceDemand(client, cluster.devices, DeviceMismatches(cluster, self.mirror, on_more_hosts)),
            claims,
            LostJobs(slurm, self.mirror, cluster, submitter, writer, settings.lost_pods_evicted, clock),
            Placement(cluster, self.registry, exclusions, room, self.releaser, writer, claims, volumes),
            self.queue_positions,
            clock,
            self._enqueue_workload,
        )
        self.node_reconciler = NodeReconciler(
            settings,
            client,
            slurm,
            self.mirror,
            cluster,
            self.slurm_pods,
            self.recorder,
            identity,
            self.registry.is_live,
        )
        # The names of the loops are label values of metrics.
        self.workload_loop: ControlLoop[Workload] = ControlLoop(
            "units", self.workload_reconciler.reconcile, workers=32, error_classifiers=[classify_slurm_error]
        )
        self.node_loop: ControlLoop[HostName] = ControlLoop(
            "hosts",
            self.node_reconciler.reconcile,
            workers=64,
            error_classifiers=[classify_rejection, classify_slurm_error],
            on_blocked=self.node_reconciler.report_blocked,
        )
        self._scheduled: dict[bool, asyncio.Handle] = {}  # calls of _enqueue_waiting, by with_jobs
        metrics.JOBS.set_function(lambda: len(self.registry))
        metrics.SLURM_AGE.set_function(lambda: self.mirror.age)

    def wire(self) -> None:
        """Connect watches to control loops, and start background tasks with the runtime."""
        cluster = self.cluster
        self.workload_loop.watch(cluster.pods, self._workloads_of_pod, priority=pod_state.queue_priority)
        for kind, cache in cluster.groups.items():
            self.workload_loop.watch(cache, partial(self._workloads_of_group, kind))
        self.workload_loop.watch(cluster.devices.classes, lambda _: self._workloads_with_devices(UNSUBMITTED))
        self.workload_loop.watch(cluster.devices.slices, lambda _: self._workloads_with_devices(UNSUBMITTED))
        self.workload_loop.watch(cluster.devices.claims, self._workloads_of_claim, when=_is_created_or_released)
        self.workload_loop.watch(cluster.nodes, self._workloads_leaving, when=_is_readiness_changed)
        self.workload_loop.watch(cluster.pods, self._workloads_with_host_ports, when=_is_releasing_ports)
        self.node_loop.watch(cluster.nodes, self._host_of_node)
        self.node_loop.watch(cluster.pods, self._host_of_pod, when=_is_stopping_changed)
        self.node_loop.watch(
            self.foreign_pods, lambda pod: self._host_of_node_name(pod.spec.node_name), when=_is_worker_changed
        )
        self.node_loop.watch(cluster.devices.slices, lambda part: self._host_of_node_name(part.spec.node_name))
        self.node_loop.watch(cluster.devices.classes, lambda _: map(HostName, self._hosts_with_devices()))
        self.mirror.listen(self._handle_slurm_change)
        self.mirror.listen(self.queue_positions.handle_change)
        self.mirror.listen(self.discovery.handle_change)
        self.runtime.add_controller(self.workload_loop)
        self.runtime.add_controller(self.node_loop)
        self.runtime.add_service(self.recorder.run)
        self.runtime.add_leader_service(self.mirror.run)
        self.runtime.add_leader_service(self.releaser.run)
        self.runtime.add_leader_service(self.queue_positions.run)
        self.runtime.add_service(
            lambda: restart_on_new_kinds(self.runtime.client, partial(grouping.new_group_kinds, cluster.group_kinds))
        )
        self.runtime.health.add_readiness_check("slurm", lambda: str(self.mirror.fault) if self.mirror.fault else None)

    async def run(self, lead: Lead | None = None) -> None:
        """Run until cancelled."""
        async with contextlib.AsyncExitStack() as stack:
            if self.settings.doorbell_port:
                bell = Doorbell(self.mirror.request_refresh, host="0.0.0.0", port=self.settings.doorbell_port)  # noqa: S104
                await stack.enter_async_context(bell)
            await self.runtime.run(partial(self._lead, lead))

    async def _lead(self, lead: Lead | None, work: Callable[[], Awaitable[None]]) -> None:
        """Search Slurm and reconcile as the leader: jobs that an earlier leader submitted must be known first."""

        async def search_and_work() -> None:
            async with asyncio.TaskGroup() as tasks:
                searches = tasks.create_task(self.discovery.run())
                tasks.create_task(self._enqueue_when_searched())
                await work()
                searches.cancel()

        await (lead(search_and_work) if lead else search_and_work())

    async def _enqueue_when_searched(self) -> None:
        await self.registry.searched.wait()
        self._enqueue_everything()

    def _is_followed(self, job: str) -> bool:
        """Whether the reconcile of a pod observes this job: the pod has its label and is not finished and released."""
        pods = self.cluster.pods.by("job", job)
        return any(pod_state.has_finalizer(pod) or not pod_state.is_gone(pod) for pod in pods)

    # --- enqueueing

    def _enqueue_everything(self) -> None:
        """Reconcile everything when Slurm becomes reachable."""
        for workload in {entry.workload for entry in self.registry}:
            self.workload_loop.queue.add(workload)
        for pod in self.cluster.pods:
            self.workload_loop.queue.add(self.cluster.workload_of(pod), priority=pod.spec.priority)
        for name in {*self.mirror.nodes, *(pod_state.host_of(node) for node in self.cluster.nodes)}:
            self.node_loop.queue.add(HostName(name))

    def _enqueue_waiting_soon(self, *, with_jobs: bool = False) -> None:
        """Reconcile waiting workloads once for all hosts that change at the same time, often a thousand."""
        if with_jobs not in self._scheduled:
            self._scheduled[with_jobs] = asyncio.get_running_loop().call_soon(self._enqueue_waiting, with_jobs)

    def _enqueue_waiting(self, with_jobs: bool) -> None:
        del self._scheduled[with_jobs]
        for workload in self.cluster.workloads_of(self.cluster.waiting_pods(with_jobs=with_jobs)):
            self.workload_loop.queue.add(workload)

    def _enqueue_workload_of_job(self, job: str) -> None:
        if workload := self.registry.resolve_workload(job):
            self._enqueue_workload(workload)

    def _enqueue_workload(self, workload: Workload) -> None:
        self.workload_loop.queue.add(workload)

    def _enqueue_host_of(self, node: str) -> None:
        for host in self._host_of_node_name(node):
            self.node_loop.queue.add(host)

    def _handle_slurm_change(self, change: Change) -> None:
        if change.kind is ObjectKind.JOB:
            for workload in self._workloads_of_job(change.key):
                self.workload_loop.queue.add(workload)
            for pod in self.cluster.pods.by("job", change.key):
                if pod.metadata.deleting:  # Slurm may have ended the job of pods that still stop
                    self._enqueue_host_of(pod.spec.node_name)
        elif change.kind is ObjectKind.NODE:
            self.node_loop.queue.add(HostName(change.key))
            if change.before is None or change.after is None:
                self._enqueue_waiting_soon()
                for node in self.slurm_pods.nodes_of_worker(change.key):
                    self._enqueue_host_of(node)
        elif change.kind is ObjectKind.MIRROR and change.after is None:
            self._enqueue_everything()
        elif (loss := self.mirror.nodes.unconfirmed_loss) is not None:
            for name in loss.missing:
                self.node_loop.queue.add(HostName(name))

    # --- workloads and hosts that an object affects

    def _workloads_of_pod(self, pod: WorkloadPod) -> set[Workload]:
        """The workload of a pod, and the single pod if it had a job before it joined a group."""
        single = Workload(pod.metadata.namespace, "Pod", pod.metadata.name)
        return {self.cluster.workload_of(pod), *((single,) if self.registry.entries_of(single) else ())}

    def _workloads_of_group(self, kind: str, group: Object) -> set[Workload]:
        return workloads_of_group(self.cluster, kind, group.metadata.namespace, group.metadata.name)

    def _workloads_leaving(self, node: Node) -> set[Workload]:
        """Workloads with deleted pods on a node: their end depends on whether the kubelet answers."""
        pods = self.cluster.pods.by("node", node.metadata.name)
        return self.cluster.workloads_of(pod for pod in pods if pod.metadata.deleting)

    def _workloads_of_claim(self, claim: ResourceClaim) -> set[Workload]:
        """Workloads that name a claim, and those that may wait for its devices."""
        pods = self.cluster.pods.by("claim", str(claim.key))
        return self.cluster.workloads_of(pods) | self._workloads_with_devices(UNPLACED)

    def _workloads_with_devices(self, phase: str) -> set[Workload]:
        """Workloads in this phase that request devices."""
        return self.cluster.workloads_of(self.cluster.pods.by("devices", phase))

    def _workloads_with_host_ports(self, _: WorkloadPod) -> set[Workload]:
        """Waiting workloads that request host ports, when a pod releases some."""
        pods = self.cluster.pods
        return self.cluster.workloads_of(pod for pod in pods if pod_state.is_waiting(pod) and host_ports_of(pod))

    def _workloads_of_job(self, job: str) -> set[Workload]:
        workload = self.registry.resolve_workload(job)
        labelled = self.cluster.workloads_of(self.cluster.pods.by("job", job))
        return labelled | ({workload} if workload else set())

    def _hosts_with_devices(self) -> list[str]:
        names = {part.spec.node_name for part in self.cluster.devices.slices}
        return [pod_state.host_of(node) for name in names if (node := self.cluster.nodes.get(Key("", name)))]

    def _host_of_node(self, node: Node) -> list[HostName]:
        return [HostName(pod_state.host_of(node))]

    def _host_of_pod(self, pod: WorkloadPod) -> list[HostName]:
        return self._host_of_node_name(pod.spec.node_name)

    def _host_of_node_name(self, name: str) -> list[HostName]:
        node = self.cluster.nodes.get(Key("", name))
        return self._host_of_node(node) if node else []


def _is_created_or_released(old: ResourceClaim | None, new: ResourceClaim | None) -> bool:
    """A claim was created, or its devices were released."""
    allocated = old is not None and old.status.allocation is not None
    return old is None or (allocated and (new is None or new.status.allocation is None))


def _is_releasing_ports(old: WorkloadPod | None, new: WorkloadPod | None) -> bool:
    """A bound pod with host ports ended or was removed."""
    if old is None or not pod_state.is_bound(old) or pod_state.is_finished(old) or not host_ports_of(old):
        return False
    return new is None or pod_state.is_finished(new)


def _is_worker_changed(old: ForeignPod | None, new: ForeignPod | None) -> bool:
    """A Slurm worker came to a node or left it."""
    before, after = (pod.worker_host if pod is not None else "" for pod in (old, new))
    return before != after


def _is_stopping_changed(old: WorkloadPod | None, new: WorkloadPod | None) -> bool:
    """A bound pod began or ceased to stop."""
    return _is_stopping(old) != _is_stopping(new)


def _is_stopping(pod: WorkloadPod | None) -> bool:
    return pod is not None and pod.metadata.deleting and pod_state.is_bound(pod) and not pod_state.is_gone(pod)


def _is_readiness_changed(old: Node | None, new: Node | None) -> bool:
    return old is None or new is None or old.ready != new.ready


async def assemble(
    settings: BridgeSettings, client: KubeClient, slurm: SlurmClient, *, health: Health | None = None
) -> Bridge:
    """A bridge that is ready to run."""
    runtime = Runtime(client, health=health)
    system = await client.get(NAMESPACES, Key("", "kube-system"))
    identity = BridgeIdentity(system.metadata.uid, settings.bridge_name)
    bridge = Bridge(settings, runtime, slurm, await discover(client), identity)
    bridge.wire()
    return bridge
