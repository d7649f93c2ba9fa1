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

from slinky.bridge import metrics, triggers
from slinky.bridge.config import BridgeSettings
from slinky.bridge.credentials import tls_files, token_expiry, token_source
from slinky.bridge.devices import profiles
from slinky.bridge.feasibility.exclusions import Exclusions
from slinky.bridge.feasibility.job_specs import JobSpecs
from slinky.bridge.feasibility.node_room import NodeRoom
from slinky.bridge.feasibility.node_usage import NodeUsage, watch_foreign_pods
from slinky.bridge.feasibility.volume_state import watch_volumes
from slinky.bridge.lifecycle.attempts import Attempts, Evictions
from slinky.bridge.lifecycle.binder import Binder
from slinky.bridge.lifecycle.claim_writer import ClaimWriter
from slinky.bridge.lifecycle.executor import WorkloadExecutor
from slinky.bridge.lifecycle.node_observer import NodeObserver
from slinky.bridge.lifecycle.pod_writer import PodWriter
from slinky.bridge.lifecycle.reconciler import WorkloadReconciler, classify_slurm_error
from slinky.bridge.lifecycle.release.completer import Completer
from slinky.bridge.lifecycle.release.releaser import Releaser
from slinky.bridge.lifecycle.snapshot_builder import SnapshotBuilder
from slinky.bridge.lifecycle.submit import Submitter
from slinky.bridge.nodes.foreign_pods import ForeignPodReporter
from slinky.bridge.nodes.ownership import host_signature
from slinky.bridge.nodes.reconciler import HostName, NodeReconciler, classify_rejection
from slinky.bridge.nodes.slurm_pods import BLOCKING_EFFECTS, SlurmPods
from slinky.bridge.state.cluster import ClusterState
from slinky.bridge.state.device_demand import DeviceDemand
from slinky.bridge.state.device_mismatches import DeviceMismatches
from slinky.bridge.state.job_discovery import JobDiscovery
from slinky.bridge.state.job_registry import JobRegistry
from slinky.bridge.state.port_reservations import HostPortReservations
from slinky.bridge.state.queue_position import QueuePositions
from slinky.bridge.state.start_ranges import StartRanges
from slinky.bridge.status.waiting_pods import count_waiting_pods
from slinky.bridge.views import ForeignPod, ResourceSlice, WorkloadPod
from slinky.bridge.workload import grouping, pod_state, policy
from slinky.bridge.workload.grouping import Workload
from slinky.bridge.workload.identity import BridgeIdentity
from slinky.kube import (
    NAMESPACES,
    ControlLoop,
    Discovery,
    EventRecorder,
    Key,
    KubeClient,
    Node,
    Runtime,
    connect,
    discover,
    restart_on_new_kinds,
)
from slinky.kube.lease import connect_election
from slinky.kube.runtime import Lead
from slinky.observe import Health, Log, Timer
from slinky.slurm import Change, Doorbell, Mirror, ObjectKind, PollingIntervals, SlurmClient, TokenError

log = Log("slinky.bridge.app")

#: slurmctld counts every request that changes a host, so the list of hosts is rarely read without such a sign.
INTERVALS = PollingIntervals(nodes=10.0)
#: Changes of devices and device classes are collected for this many seconds.
DEVICES_DELAY_SECONDS = 1.0


async def main(settings: BridgeSettings, health: Health | None = None) -> None:
    """Run the bridge until cancelled."""
    policy.check_policy(settings.policy, settings.priority_classes)
    profiles.check_profiles(settings.device_profiles)
    tls = tls_files(settings.tls_folder).get if settings.tls_folder else None
    slurm = SlurmClient(settings.slurm_rest_api, token_source(settings), tls=tls, observe=metrics.count_call)
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(connect(manager="slurm-bridge"))
        await stack.enter_async_context(slurm)
        bridge = await assemble(settings, client, slurm, health=health)
        lead = None
        if settings.leader_elect:
            replica, namespace = f"{platform.node()}-{uuid.uuid4().hex[:8]}", settings.lease_namespace
            election = connect_election(settings.bridge_name, replica, namespace=namespace, health=health)
            lead = (await stack.enter_async_context(election)).lead
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
        self.mirror = Mirror(slurm, all_jobs=False, intervals=INTERVALS)
        self.registry = JobRegistry(self.mirror, identity)
        self.discovery = JobDiscovery(slurm, self.mirror, self.registry, self._is_followed, clock)
        cluster = self.cluster = ClusterState(
            runtime, settings, served, self.registry.resolve_workload, self.mirror.nodes.get
        )
        self.recorder = EventRecorder(client, settings.scheduler_name)
        completer = Completer(settings.completer_socket) if settings.completer_socket else None
        self.releaser = Releaser(slurm, self.mirror, self.registry, clock, self._enqueue_workload_of_job, completer)
        submitter = Submitter(
            slurm, self.mirror, self.registry, self.discovery, clock, allocate_first=settings.allocate_first
        )
        self.queue_positions = QueuePositions(self.mirror.jobs, self._enqueue_workload_of_job, clock)
        self.start_ranges = StartRanges(slurm, self.mirror, self._enqueue_workload_of_job, clock)
        writer = PodWriter(client, cluster.pods, self.recorder, settings)
        volumes, on_more_hosts = watch_volumes(runtime), partial(self._enqueue_waiting_soon, with_jobs=True)
        self.foreign_pods = watch_foreign_pods(runtime, settings.scheduler_name)
        self.slurm_pods = SlurmPods(self.foreign_pods)
        usage = NodeUsage(self.foreign_pods)
        room = NodeRoom(cluster, usage, clock, self._enqueue_workload)
        ports = HostPortReservations(cluster.pods, self.foreign_pods, clock)
        exclusions = Exclusions(cluster, self.mirror, volumes, ports, room, host_signature(identity), on_more_hosts)
        claims = ClaimWriter(client, cluster, self.mirror)
        demand = DeviceDemand(client, cluster.devices, DeviceMismatches(cluster, self.mirror, on_more_hosts))
        job_specs = JobSpecs(settings, cluster, demand, exclusions)
        evictions = Evictions(
            clock,
            settings.lost_pods_evicted,
            settings.failed_jobs_evicted,
            settings.failed_jobs_share,
            cluster.count_jobs_with_running_pods,
        )
        self.attempts = attempts = Attempts(clock, evictions)
        nodes = NodeObserver(cluster, self.registry, exclusions, room)
        binder = Binder(cluster, exclusions, room, claims, volumes, writer)
        self.workload_reconciler = WorkloadReconciler(
            cluster,
            self.registry,
            SnapshotBuilder(
                cluster, self.registry, job_specs, nodes, self.queue_positions, self.start_ranges, attempts
            ),
            WorkloadExecutor(job_specs, submitter, binder, self.releaser, writer, attempts),
            attempts,
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
            "units",
            self.workload_reconciler.reconcile,
            workers=64,  # a namespace has at most half of them
            group=lambda workload: workload.namespace,
            error_classifiers=[classify_slurm_error],
        )
        self.node_loop: ControlLoop[HostName] = ControlLoop(
            "hosts",
            self.node_reconciler.reconcile,
            workers=64,
            error_classifiers=[classify_rejection, classify_slurm_error],
            on_blocked=self.node_reconciler.report_blocked,
        )
        self.foreign_pod_reporter = ForeignPodReporter(
            self.foreign_pods,
            cluster.nodes,
            self.recorder,
            clock,
            tainted=settings.taint in BLOCKING_EFFECTS,
        )
        self.volumes = volumes
        self.triggers = triggers.WorkloadTriggers(cluster, self.registry)
        self._devices_timer: Timer | None = None
        self._scheduled: dict[bool, asyncio.Handle] = {}  # calls of _enqueue_waiting, by with_jobs
        metrics.JOBS.set_function(lambda: len(self.registry))
        metrics.SLURM_AGE.set_function(lambda: self.mirror.age if self.mirror.running else 0.0)
        metrics.TOKEN_EXPIRY.set_function(lambda: token_expiry(slurm.session.tokens))
        metrics.EVICTIONS_LEFT.labels("lost").set_function(evictions.lost_left)
        metrics.EVICTIONS_LEFT.labels("failed").set_function(evictions.failed_left)
        metrics.WAITING_PODS.set_function(lambda: count_waiting_pods(cluster.pods, clock.now()))

    def wire(self) -> None:
        """Connect watches to control loops, and start background tasks with the runtime."""
        self._watch_workloads()
        self._watch_hosts()
        self.mirror.listen(self._handle_slurm_change)
        self.mirror.listen(self.queue_positions.handle_change)
        self.mirror.listen(self.discovery.handle_change)
        self.runtime.add_controller(self.workload_loop)
        self.runtime.add_controller(self.node_loop)
        self.runtime.add_service(self.recorder.run)
        self.runtime.add_leader_service(self.mirror.run)
        self.runtime.add_leader_service(self.releaser.run)
        self.runtime.add_leader_service(self.queue_positions.run)
        self.runtime.add_leader_service(self.start_ranges.run)
        self.runtime.add_leader_service(self.foreign_pod_reporter.run)
        new_kinds = partial(grouping.new_group_kinds, self.cluster.group_kinds)
        self.runtime.add_service(lambda: restart_on_new_kinds(self.runtime.client, new_kinds))
        self.runtime.health.add_readiness_check("slurm", self._check_slurm)

    def _watch_workloads(self) -> None:
        """Reconcile workloads when their objects change. At the start the pods alone cover every workload."""
        cluster, affected, watch = self.cluster, self.triggers, self.workload_loop.watch
        watch(cluster.pods, affected.of_pod, priority=pod_state.queue_priority)
        for kind, cache in cluster.groups.items():
            watch(cache, partial(affected.of_group, kind), when=triggers.is_group_changed, initial=False)
        watch(cluster.groups["Job"], affected.gang_of_batch_job, when=triggers.is_size_changed, initial=False)
        claims = cluster.devices.claims
        watch(claims, affected.of_claim, when=triggers.is_claim_created_or_released, initial=False)
        watch(claims, affected.waiting_for_devices, when=triggers.is_claim_released, initial=False)
        watch(cluster.nodes, affected.stopping_on, when=triggers.is_readiness_changed, initial=False)
        watch(cluster.pods, affected.waiting_for_ports, when=triggers.is_releasing_ports, initial=False)
        watch(self.foreign_pods, affected.waiting_for_ports, when=triggers.is_foreign_releasing_ports, initial=False)
        watch(self.volumes.claims, affected.of_volume_claim, when=triggers.is_volume_changed, initial=False)
        self._watch_avoided_hosts()
        cluster.devices.classes.listen(self._devices_changed)
        cluster.devices.slices.listen(self._devices_changed)

    def _watch_avoided_hosts(self) -> None:
        """Reconcile workloads when a host that did not suit them may suit now: its node, devices or ports changed."""
        cluster, watch = self.cluster, self.workload_loop.watch
        watch(cluster.nodes, self._avoiding_node, when=triggers.is_node_changed, initial=False)
        watch(cluster.devices.slices, self._avoiding_node_of, initial=False)
        watch(cluster.pods, self._avoiding_node_of, when=triggers.is_releasing_ports, initial=False)
        watch(self.foreign_pods, self._avoiding_node_of, when=triggers.is_foreign_releasing_ports, initial=False)

    def _avoiding_node(self, node: Node) -> set[Workload]:
        return self.attempts.reconsider_host(pod_state.host_of(node))

    def _avoiding_node_of(self, item: WorkloadPod | ForeignPod | ResourceSlice) -> set[Workload]:
        node = self.cluster.nodes.get(Key("", item.spec.node_name))
        return self._avoiding_node(node) if node is not None else set()

    def _watch_hosts(self) -> None:
        """Reconcile hosts when their nodes, pods or devices change. At the start the nodes alone cover every host."""
        cluster, watch = self.cluster, self.node_loop.watch
        watch(cluster.nodes, self._host_of_node)
        watch(cluster.pods, self._host_of_pod, when=triggers.is_stopping_changed, initial=False)
        watch(self.foreign_pods, self._host_of_pod, when=triggers.is_worker_changed, initial=False)
        watch(cluster.devices.slices, lambda part: self._host_of_node_name(part.spec.node_name), initial=False)
        watch(cluster.devices.classes, lambda _: map(HostName, self._hosts_with_devices()), initial=False)

    def _check_slurm(self) -> str | None:
        """A readiness check. A replica that does not lead sends nothing to Slurm, so only its token is checked."""
        if self.mirror.running:
            return str(self.mirror.fault) if self.mirror.fault else None
        try:
            self.slurm.session.tokens.token()
        except TokenError as error:
            return str(error)
        return None

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
            if not pod_state.is_released(pod):
                self.workload_loop.queue.add(self.cluster.workload_of(pod), priority=pod.spec.priority)
        for name in {*self.mirror.nodes, *(pod_state.host_of(node) for node in self.cluster.nodes)}:
            self.node_loop.queue.add(HostName(name))

    def _enqueue_waiting_soon(self, *, with_jobs: bool = False) -> None:
        """Reconcile waiting workloads once for all hosts that change at the same time, often a thousand."""
        if with_jobs not in self._scheduled:
            self._scheduled[with_jobs] = asyncio.get_running_loop().call_soon(self._enqueue_waiting, with_jobs)

    def _enqueue_waiting(self, with_jobs: bool) -> None:
        del self._scheduled[with_jobs]
        self.workload_reconciler.hosts_changed()
        for workload in self.cluster.workloads_of(self.cluster.waiting_pods(with_jobs=with_jobs)):
            self.workload_loop.queue.add(workload)

    def _devices_changed(self, _old: object, _new: object) -> None:
        """Reconcile workloads without a job once for all devices that change within a second, often of all nodes."""
        if self._devices_timer is None:
            clock = self.runtime.client.clock
            self._devices_timer = clock.call_later(DEVICES_DELAY_SECONDS, self._enqueue_unsubmitted)

    def _enqueue_unsubmitted(self) -> None:
        self._devices_timer = None
        for workload in self.triggers.unsubmitted_with_devices():
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
            if not triggers.is_job_changed(change.before, change.after):
                return
            for workload in self.triggers.of_job(change.key):
                self.workload_loop.queue.add(workload)
            for pod in self.cluster.pods.by("job", change.key):
                if pod.metadata.deleting:  # Slurm may have ended the job of pods that still stop
                    self._enqueue_host_of(pod.spec.node_name)
        elif change.kind is ObjectKind.NODE:
            self._handle_host_change(change)
        elif change.kind is ObjectKind.MIRROR and change.after is None:
            self._enqueue_everything()
        elif (loss := self.mirror.nodes.unconfirmed_loss) is not None:
            for name in loss.missing:
                self.node_loop.queue.add(HostName(name))

    def _handle_host_change(self, change: Change) -> None:
        self.node_loop.queue.add(HostName(change.key))
        if triggers.is_host_changed(change.before, change.after):
            for workload in self.attempts.reconsider_host(change.key):
                self.workload_loop.queue.add(workload)
        if change.before is None or change.after is None:
            self._enqueue_waiting_soon()
            for node in self.slurm_pods.nodes_of_worker(change.key):
                self._enqueue_host_of(node)

    # --- hosts that an object affects

    def _hosts_with_devices(self) -> list[str]:
        names = {part.spec.node_name for part in self.cluster.devices.slices}
        return [pod_state.host_of(node) for name in names if (node := self.cluster.nodes.get(Key("", name)))]

    def _host_of_node(self, node: Node) -> list[HostName]:
        return [HostName(pod_state.host_of(node))]

    def _host_of_pod(self, pod: WorkloadPod | ForeignPod) -> list[HostName]:
        return self._host_of_node_name(pod.spec.node_name)

    def _host_of_node_name(self, name: str) -> list[HostName]:
        node = self.cluster.nodes.get(Key("", name))
        return self._host_of_node(node) if node else []


async def assemble(
    settings: BridgeSettings, client: KubeClient, slurm: SlurmClient, *, health: Health | None = None
) -> Bridge:
    """A bridge that is ready to run."""
    runtime = Runtime(client, health=health)
    system = await client.get(NAMESPACES, Key("", "kube-system"))
    identity = BridgeIdentity(system.metadata.uid, settings.bridge_name, frozenset(settings.former_bridge_ids))
    bridge = Bridge(settings, runtime, slurm, await discover(client), identity)
    bridge.wire()
    return bridge
