# SPDX-License-Identifier: Apache-2.0
"""Wires the bridge together. Nothing is decided here.

`main` connects both sides and runs until cancelled; `assemble` is the same without the connections, for tests.
"""

import asyncio
import contextlib
import platform
import uuid
from collections.abc import Awaitable, Callable
from functools import partial

from slinky.bridge.config import BridgeSettings
from slinky.bridge.credentials import TlsTrust, token_source
from slinky.bridge.devices import profiles
from slinky.bridge.devices.claims import ClaimWriter
from slinky.bridge.devices.demand import DeviceDemand
from slinky.bridge.feasibility.exclusions import Exclusions
from slinky.bridge.feasibility.volume_state import VolumeState
from slinky.bridge.lifecycle.completer import Completer
from slinky.bridge.lifecycle.lost_jobs import LostJobs
from slinky.bridge.lifecycle.placement import Placement
from slinky.bridge.lifecycle.pod_writer import PodWriter
from slinky.bridge.lifecycle.reconciler import WorkloadReconciler, judge, units_of_group
from slinky.bridge.lifecycle.release import Releaser
from slinky.bridge.lifecycle.submit import Submitter
from slinky.bridge.nodes.plan import mark
from slinky.bridge.nodes.reconciler import HostName, NodeReconciler, refusal
from slinky.bridge.state.cluster import UNPLACED, UNSUBMITTED, ClusterState
from slinky.bridge.state.host_ports import host_ports_of
from slinky.bridge.state.job_registry import JobRegistry
from slinky.bridge.state.views import ResourceClaim, WorkloadPod
from slinky.bridge.status.queue_position import QueuePositions
from slinky.bridge.workload import grouping, pod_state, policy
from slinky.bridge.workload.grouping import Workload
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
from slinky.observe import Health, Log, gauge
from slinky.slurm import Change, Doorbell, Mirror, ObjectKind, SlurmError
from slinky.slurm import SlurmClient as Slurm

log = Log("slinky.bridge")

JOBS = gauge("slinky_bridge_jobs", "Jobs that the bridge follows.")
AGE = gauge("slinky_bridge_slurm_age_seconds", "Age of what is known of Slurm.")


async def main(settings: BridgeSettings, health: Health | None = None) -> None:
    """Run the bridge until cancelled."""
    policy.check_policy(settings.policy, settings.priority_classes)
    profiles.check_profiles(settings.device_profiles)
    trust = TlsTrust(settings.tls_folder) if settings.tls_folder else None
    slurm = Slurm(settings.slurm_rest_api, token_source(settings), tls=trust.context if trust else None)
    async with connect(manager="slurm-bridge") as client, slurm:
        bridge = await assemble(settings, client, slurm, health=health)
        if trust:
            bridge.runtime.add_service(trust.run)
        lead = None
        if settings.leader_elect:
            lease = Key(settings.lease_namespace or client.namespace, settings.bridge_name)
            me = f"{platform.node()}-{uuid.uuid4().hex[:8]}"
            lead = Election(client, lease, me, health=health).lead
        await bridge.run(lead)


class Bridge:
    """All parts of one bridge."""

    def __init__(
        self, settings: BridgeSettings, runtime: Runtime, slurm: Slurm, served: Discovery, me: BridgeIdentity
    ) -> None:
        self.settings, self.runtime, self.slurm = settings, runtime, slurm
        client, clock = runtime.client, runtime.client.clock
        self.mirror = Mirror(slurm, all_jobs=False)
        self.ledger = JobRegistry(slurm, self.mirror, me, lambda: self.stock.pods.index_values("job"))
        stock = self.stock = ClusterState(
            runtime, settings, served, self.ledger.resolve_workload, lambda host: host in self.mirror.nodes
        )
        self.recorder = EventRecorder(client, settings.scheduler_name)
        completer = Completer(settings.completer_socket) if settings.completer_socket else None
        self.releaser = Releaser(slurm, self.mirror, self.ledger, clock, completer)
        submitter = Submitter(slurm, self.mirror, self.ledger, clock, allocate_first=settings.allocate_first)
        self.line = QueuePositions(self.mirror.jobs, self._tell_place, clock)
        hands = PodWriter(client, stock.pods, self.recorder, settings)
        storage, opened = VolumeState(client), partial(self._look_at_waiting_soon, with_jobs=True)
        feasible = Exclusions(stock, self.mirror, storage, mark(me), opened)
        claims = ClaimWriter(client, stock, self.mirror)
        self.units = WorkloadReconciler(
            settings,
            stock,
            self.ledger,
            feasible,
            submitter,
            self.releaser,
            hands,
            DeviceDemand(client, stock.devices),
            claims,
            LostJobs(slurm, self.mirror, stock, submitter, hands, settings.lost_pods_evicted, clock),
            Placement(stock, self.ledger, feasible, self.releaser, hands, claims, storage),
            self.line,
            clock,
            self._look_at,
        )
        self.nodes = NodeReconciler(settings, client, slurm, self.mirror, stock, self.recorder, me)
        self.unit_loop: ControlLoop[Workload] = ControlLoop(
            "units", self.units.reconcile, workers=32, error_classifiers=[judge]
        )
        self.node_loop: ControlLoop[HostName] = ControlLoop(
            "hosts", self.nodes.reconcile, workers=64, error_classifiers=[refusal, judge], on_blocked=self.nodes.blocked
        )
        self._looking: dict[bool, asyncio.Handle] = {}
        JOBS.set_function(lambda: len(self.ledger))
        AGE.set_function(lambda: self.mirror.age)

    def wire(self) -> None:
        """Say what wakes whom."""
        stock = self.stock
        self.unit_loop.watch(stock.pods, self._units_of_pod, priority=pod_state.queue_priority)
        for kind, cache in stock.groups.items():
            self.unit_loop.watch(cache, partial(self._units_of_group, kind))
        self.unit_loop.watch(stock.devices.classes, lambda _: self._units_wanting_devices(UNSUBMITTED))
        self.unit_loop.watch(stock.devices.slices, lambda _: self._units_wanting_devices(UNSUBMITTED))
        self.unit_loop.watch(stock.devices.claims, self._units_of_claim, when=_freed_or_made)
        self.unit_loop.watch(stock.nodes, self._units_leaving, when=_answers_differently)
        self.unit_loop.watch(stock.pods, self._units_wanting_ports, when=_frees_ports)
        self.node_loop.watch(stock.nodes, self._host_of_node)
        self.node_loop.watch(stock.devices.slices, lambda part: self._hosts_named(part.spec.node_name))
        self.node_loop.watch(stock.devices.classes, lambda _: map(HostName, self._hosts_with_devices()))
        self.mirror.listen(self._slurm_changed)
        self.mirror.listen(self.line.changed)
        self.runtime.add_controller(self.unit_loop)
        self.runtime.add_controller(self.node_loop)
        self.runtime.add_service(self.recorder.run)
        self.runtime.add_service(self.mirror.run)
        self.runtime.add_service(self.releaser.run)
        self.runtime.add_service(self.line.run)
        self.runtime.add_service(
            lambda: restart_on_new_kinds(self.runtime.client, partial(grouping.new_group_kinds, stock.group_kinds))
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
        """Search and work as the leader: what another leader submitted before us must be known first."""

        async def both() -> None:
            async with asyncio.TaskGroup() as family:
                family.create_task(self._search())
                await work()

        await (lead(both) if lead else both())

    async def _search(self) -> None:
        """Find the jobs of an earlier life before anything is submitted."""
        while not self.ledger.searched.is_set():
            try:
                await self.mirror.synced()
                await self.ledger.search()
            except (SlurmError, TimeoutError) as error:
                log.info("Slurm cannot be searched yet", error=error)
                await asyncio.sleep(1)
        self._look_at_everything()

    def _look_at_everything(self) -> None:
        """Slurm is in sight, for the first time or again: whatever waited for that goes on."""
        for unit in {entry.workload for entry in self.ledger}:
            self.unit_loop.queue.add(unit)
        for pod in self.stock.pods:
            self.unit_loop.queue.add(self.stock.workload_of(pod), priority=pod.spec.priority)
        for name in {*self.mirror.nodes, *(pod_state.host_of(node) for node in self.stock.nodes)}:
            self.node_loop.queue.add(HostName(name))

    def _look_at_waiting_soon(self, *, with_jobs: bool = False) -> None:
        """Hosts came or went, often a thousand at once: one look at those who wait for one is enough."""
        if with_jobs not in self._looking:
            self._looking[with_jobs] = asyncio.get_running_loop().call_soon(self._look_at_waiting, with_jobs)

    def _look_at_waiting(self, with_jobs: bool) -> None:
        del self._looking[with_jobs]
        for unit in self.stock.workloads_of(self.stock.waiting_pods(with_jobs=with_jobs)):
            self.unit_loop.queue.add(unit)

    # --- what concerns whom

    def _units_of_pod(self, pod: WorkloadPod) -> set[Workload]:
        """Its unit, and the pod alone if it had a job as such before it joined others."""
        alone = Workload(pod.metadata.namespace, "Pod", pod.metadata.name)
        return {self.stock.workload_of(pod), *((alone,) if self.ledger.entries_of(alone) else ())}

    def _units_of_group(self, kind: str, found: Object) -> set[Workload]:
        return units_of_group(self.stock, kind, found.metadata.namespace, found.metadata.name)

    def _units_leaving(self, node: Node) -> set[Workload]:
        """Units with deleted pods on a node, whose end depends on whether its kubelet answers."""
        return self.stock.workloads_of(p for p in self.stock.pods.by("node", node.metadata.name) if p.metadata.deleting)

    def _units_of_claim(self, claim: ResourceClaim) -> set[Workload]:
        """Units that name a claim, and those that may wait for what it held."""
        naming = self.stock.pods.by("claim", str(claim.key))
        return self.stock.workloads_of(naming) | self._units_wanting_devices(UNPLACED)

    def _units_wanting_devices(self, standing: str) -> set[Workload]:
        return self.stock.workloads_of(self.stock.pods.by("devices", standing))

    def _hosts_with_devices(self) -> list[str]:
        found = {part.spec.node_name for part in self.stock.devices.slices}
        return [pod_state.host_of(node) for name in found if (node := self.stock.nodes.get(Key("", name)))]

    def _units_wanting_ports(self, _: WorkloadPod) -> set[Workload]:
        """Units that wait and want host ports, when somebody gives some back."""
        return self.stock.workloads_of(
            pod for pod in self.stock.pods if pod_state.is_waiting(pod) and host_ports_of(pod)
        )

    def _host_of_node(self, node: Node) -> list[HostName]:
        return [HostName(pod_state.host_of(node))]

    def _hosts_named(self, node: str) -> list[HostName]:
        found = self.stock.nodes.get(Key("", node))
        return self._host_of_node(found) if found else []

    def _slurm_changed(self, change: Change) -> None:
        if change.kind is ObjectKind.JOB:
            for unit in self._units_of_job(change.key):
                self.unit_loop.queue.add(unit)
        elif change.kind is ObjectKind.NODE:
            self.node_loop.queue.add(HostName(change.key))
            if change.before is None or change.after is None:
                self._look_at_waiting_soon()
        elif change.kind is ObjectKind.MIRROR and change.after is None:
            self._look_at_everything()
        elif (doubt := self.mirror.nodes.unconfirmed_loss) is not None:
            for name in doubt.missing:
                self.node_loop.queue.add(HostName(name))

    def _tell_place(self, job: str) -> None:
        if unit := self.ledger.resolve_workload(job):
            self._look_at(unit)

    def _look_at(self, unit: Workload) -> None:
        self.unit_loop.queue.add(unit)

    def _units_of_job(self, job: str) -> set[Workload]:
        known = self.ledger.resolve_workload(job)
        return self.stock.workloads_of(self.stock.pods.by("job", job)) | ({known} if known else set())


def _freed_or_made(old: ResourceClaim | None, new: ResourceClaim | None) -> bool:
    held = old is not None and old.status.allocation is not None
    return old is None or (held and (new is None or new.status.allocation is None))


def _frees_ports(old: WorkloadPod | None, new: WorkloadPod | None) -> bool:
    """A pod on a node has ended, or is gone, and had host ports."""
    if old is None or not pod_state.is_bound(old) or pod_state.is_finished(old) or not host_ports_of(old):
        return False
    return new is None or pod_state.is_finished(new)


def _answers_differently(old: Node | None, new: Node | None) -> bool:
    return old is None or new is None or old.ready != new.ready


async def assemble(
    settings: BridgeSettings, client: KubeClient, slurm: Slurm, *, health: Health | None = None
) -> Bridge:
    """A bridge that is ready to run."""
    runtime = Runtime(client, health=health)
    system = await client.get(NAMESPACES, Key("", "kube-system"))
    me = BridgeIdentity(system.metadata.uid, settings.bridge_name)
    bridge = Bridge(settings, runtime, slurm, await discover(client), me)
    bridge.wire()
    return bridge
