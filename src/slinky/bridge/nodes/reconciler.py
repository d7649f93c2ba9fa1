# SPDX-License-Identifier: Apache-2.0
"""Reconciles a Kubernetes node and its Slurm host: collect facts, `plan`, carry out the actions.

A key is the name of a Slurm host. How long a node is not ready is measured on the bridge's own clock, from the moment
the bridge observes it; a node that becomes ready is undrained at once. Nodes that claim the host of another node are
reported with the owner's host. While many hosts change in Slurm, condition
writes on nodes are deferred, so that the changes in Slurm come first.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from slinky.bridge import metrics, names
from slinky.bridge.config import BridgeSettings
from slinky.bridge.devices.inventory import DeviceInventory
from slinky.bridge.nodes import actions, plan
from slinky.bridge.nodes.batching import UpdateBatcher
from slinky.bridge.nodes.description import NodeFacts, host_comment
from slinky.bridge.nodes.drains import StoppingPod, stopping_pods
from slinky.bridge.nodes.ownership import host_signature, with_current_signature
from slinky.bridge.nodes.readiness import ReadinessTracker
from slinky.bridge.nodes.slurm_pods import BLOCKING_EFFECTS, SlurmPods, has_other_home
from slinky.bridge.state.cluster import ClusterState
from slinky.bridge.status.reasons import ConditionText, Reason
from slinky.bridge.workload.identity import BridgeIdentity
from slinky.kube import NODES, ErrorDecision, ErrorKind, EventRecorder, KubeClient, Node, RequeueAfter
from slinky.kube.client import STRATEGIC
from slinky.kube.conditions import build_condition, condition_manifest
from slinky.kube.timestamps import format_timestamp
from slinky.kube.views import Taint
from slinky.observe import Log
from slinky.slurm import Busy, Mirror, NodeUpdate, Presence, Rejected, SlurmClient, SlurmConflict, SlurmNotFound

log = Log("slinky.bridge.nodes.reconciler")

#: While Slurm's hosts or partitions are not known, no host is changed. The mirror notifies the bridge when Slurm
#: answers again; this retry is for every other case.
UNKNOWN_RETRY = 10.0
#: Slurm answers, but its list of hosts has not been read for a while: retry after the requested read.
STALE_RETRY = 1.0
#: A registered host is checked again after this time: slurmctld may have lost it before the mirror read it.
REGISTERED_RETRY = 30.0

#: A node that could not be tainted is checked again after this time: there may be another node for its pods.
HOME_RETRY = 60.0

#: If this many hosts changed within this many seconds, condition writes are deferred ...
BURST_HOSTS, BURST_SECONDS = 16, 1.0
#: ... for at most this many seconds.
MAX_DEFERRAL = 10.0


class HostName(NamedTuple):
    """The name of a Slurm host."""

    name: str


class NodeReconciler:
    """Keeps Kubernetes nodes and Slurm hosts in sync."""

    def __init__(
        self,
        settings: BridgeSettings,
        client: KubeClient,
        slurm: SlurmClient,
        mirror: Mirror,
        cluster: ClusterState,
        slurm_pods: SlurmPods,
        recorder: EventRecorder,
        identity: BridgeIdentity,
        is_live: Callable[[str], bool],
    ) -> None:
        """`is_live` tells whether a job may still hold its hosts."""
        self._settings, self._client, self._slurm, self._mirror = settings, client, slurm, mirror
        self._cluster, self._slurm_pods, self._recorder, self._is_live = cluster, slurm_pods, recorder, is_live
        self._updates: UpdateBatcher[NodeUpdate] = UpdateBatcher(slurm.update_nodes)
        self._registrations: UpdateBatcher[str] = UpdateBatcher(self._register_hosts)
        self._signature, self._identity = host_signature(identity), identity
        self._readiness = ReadinessTracker(settings.not_ready_seconds)
        self._recent_changes: deque[float] = deque(maxlen=BURST_HOSTS)
        self._deferred_since: dict[str, float] = {}
        self._tainting: set[str] = set()  # nodes whose taint is being written
        self._registered: set[str] = set()  # hosts that the mirror has not read yet

    async def reconcile(self, key: HostName) -> RequeueAfter | None:
        """Carry out the next actions for one host and its node."""
        presence = await self._presence(key.name)
        claimants = self._cluster.claimants(key.name)
        node = claimants[0] if claimants else None
        unresponsive, again = self._readiness.check(key.name, node, self._client.clock.monotonic())
        stopping, stuck_in = self._stopping_pods(node)
        again = min((delay for delay in (again, stuck_in) if delay is not None), default=None)
        facts = self._facts(key.name, node, unresponsive, stopping, presence)
        rejections: list[Rejected] = []
        for action in plan.plan(facts):
            if isinstance(action, actions.ReportHostState) and self._is_deferred(key.name):
                again = min(again or BURST_SECONDS, BURST_SECONDS)
                continue
            metrics.NODE_STEPS.labels(action.label).inc()
            try:
                await self._execute(key.name, node, facts, action)
            except Rejected as error:
                rejections.append(error)  # the other actions do not depend on this one: a cordon must drain anyway
        for duplicate in claimants[1:]:
            for action in plan.plan_duplicate(duplicate, claimants[0], key.name, self._settings.scheduler_name):
                await self._execute(key.name, duplicate, facts, action)
        if rejections:
            raise rejections[0]
        if facts.home_of:
            again = min(again or HOME_RETRY, HOME_RETRY)
        if key.name in self._registered:
            again = min(again or REGISTERED_RETRY, REGISTERED_RETRY)
        if facts.presence is Presence.UNKNOWN or facts.partitions is None:
            pause = STALE_RETRY if self._request_read(facts) else UNKNOWN_RETRY
            again = min(again or pause, pause)
        return RequeueAfter(again) if again is not None else None

    async def report_blocked(self, key: HostName, decision: ErrorDecision) -> None:
        """Record an event on the node of a host that Slurm rejected."""
        if (node := self._cluster.node_of_host(key.name)) is not None:
            self._recorder.record(NODES.reference(node), decision.reason, decision.message, warning=True)

    def _stopping_pods(self, node: Node | None) -> tuple[tuple[StoppingPod, ...], float | None]:
        pods = self._cluster.pods.by("node", node.metadata.name) if node else []
        return stopping_pods(pods, self._is_live, self._client.clock.now(), self._settings.stuck_pod_seconds)

    def _facts(
        self,
        name: str,
        node: Node | None,
        unresponsive: bool,
        stopping: tuple[StoppingPod, ...],
        presence: Presence,
    ) -> NodeFacts:
        return NodeFacts(
            name,
            node,
            None
            if presence is Presence.ABSENT
            else with_current_signature(self._mirror.nodes.get(name), self._identity),
            presence,
            self._signature,
            self._cluster.inventory(node.metadata.name) if node else DeviceInventory(),
            frozenset(self._mirror.partitions) if self._mirror.partitions.synced else None,
            self._settings.node_size,
            unresponsive,
            stopping,
            self._find_worker(name, node),
            self._find_resident(node),
            self._settings.taint,
            self._settings.scheduler_name,
        )

    def _find_worker(self, name: str, node: Node | None) -> str:
        """A worker that offers the node of a host to Slurm as another host; empty if there is none.

        A worker of the same name is waited for, because slurmd cannot register under the name of an external host. A
        worker that Slurm does not know may belong to another Slurm cluster.
        """
        for worker in self._slurm_pods.workers_on(node.metadata.name) if node else ():
            host = self._mirror.nodes.get(worker.worker_host)
            has_slurmd = host is not None and not host.state.external
            if has_slurmd is not (worker.worker_host == name):
                return f"{worker.key} (host {worker.worker_host})"
        return ""

    def _find_resident(self, node: Node | None) -> str:
        """A control pod that the taint would evict from this node, or leave without a node; empty if there is none."""
        taint = Taint(names.MANAGED_TAINT, self._settings.taint, self._settings.scheduler_name)
        if node is None or taint.effect not in BLOCKING_EFFECTS or _has_taint(node, taint):
            return ""
        if taint.effect == "NoExecute" and (pod := self._slurm_pods.find_intolerant(taint, node.metadata.name)):
            return pod
        pod = self._slurm_pods.find_intolerant(taint)
        return pod if pod and not has_other_home(node, self._cluster.nodes, self._tainting) else ""

    async def _presence(self, name: str) -> Presence:
        """Whether Slurm has a host. Where the mirror may be wrong, slurmctld is asked for this host.

        An absent host is only ever registered, so a wrong answer does no harm.
        """
        table = self._mirror.nodes
        presence = table.presence(name)
        if presence is Presence.PRESENT:
            self._registered.discard(name)
        # Too many hosts disappeared at once to trust the list, as when slurmctld restarts without its state.
        in_doubt = table.unconfirmed_loss is not None and name in table.unconfirmed_loss.missing
        # The bridge registered the host after the mirror read the list.
        not_read_yet = presence is Presence.ABSENT and name in self._registered
        if not (in_doubt or not_read_yet):
            return presence
        try:
            await self._slurm.node(name)
        except SlurmNotFound:
            return Presence.ABSENT
        return Presence.UNKNOWN

    def _request_read(self, facts: NodeFacts) -> bool:
        """Request a read of Slurm's hosts if an old list is the only obstacle to an action."""
        stale = (
            self._mirror.fault is None
            and self._mirror.nodes.unconfirmed_loss is None
            and not self._mirror.nodes.is_fresh()
        )
        if not (stale and plan.needs_change_in_slurm(facts)):
            return False
        self._mirror.request_refresh(nodes=True)
        return True

    def _is_deferred(self, name: str) -> bool:
        """Whether the condition of a node is written later, because many hosts are changing in Slurm."""
        now = self._client.clock.monotonic()
        burst = len(self._recent_changes) == BURST_HOSTS and now - self._recent_changes[0] < BURST_SECONDS
        if burst and now - self._deferred_since.setdefault(name, now) < MAX_DEFERRAL:
            return True
        self._deferred_since.pop(name, None)
        return False

    async def _execute(self, name: str, node: Node | None, facts: NodeFacts, action: actions.Action) -> None:
        match action:
            case actions.RegisterHost(conf):
                if node is not None:
                    await self._register(name, conf, host_comment(facts, node))
            case actions.ChangeHost(change):
                await self._slurm.update_node(name, change)
            case actions.DrainHost(reason):
                log.info("draining a host", host=name, reason=reason)
                await self._updates.submit(name, NodeUpdate(state=("DRAIN",), reason=reason))
            case actions.UndrainHost():
                log.info("undraining a host", host=name)
                await self._updates.submit(name, NodeUpdate(state=("UNDRAIN",)))
            case actions.RemoveHost():
                await self._remove(name)
            case actions.SetTaint(on=True) if node is not None:
                await self._add_taint(node)
            case actions.SetTaint() if node is not None:
                await self._write_taints(node, _other_taints(node, self._settings.scheduler_name))
            case actions.ReportHostState(text) if node is not None:
                await self._write_condition(node, text)
            case actions.ClearHostState() if node is not None:
                await self._patch_conditions(node, {"type": names.HOST_CONDITION, "$patch": "delete"})
            case actions.ReportProblem(text) if node is not None:
                self._recorder.record(NODES.reference(node), text.reason, text.message, warning=text.warning)
        if isinstance(action, actions.SLURM_ACTIONS):
            self._recent_changes.append(self._client.clock.monotonic())
            self._mirror.request_refresh(nodes=True)

    async def _register(self, name: str, conf: str, comment: str) -> None:
        log.info("registering a host", host=name)
        try:
            node_name, _, rest = conf.partition(" NodeAddr=")
            address, _, properties = rest.partition(" ")
            await self._registrations.submit(f"{node_name.removeprefix('NodeName=')} {address}", properties)
        except SlurmConflict:
            return  # the host exists and the mirror has not read it yet; the next reconcile adds a missing signature
        self._registered.add(name)
        await self._slurm.update_node(name, NodeUpdate(comment=comment))

    async def _register_hosts(self, hosts: list[str], properties: str) -> None:
        """Register hosts that differ only by name and address."""
        host_names, addresses = zip(*(host.split(" ") for host in hosts), strict=True)
        await self._slurm.create_node(f"NodeName={','.join(host_names)} NodeAddr={','.join(addresses)} {properties}")

    async def _remove(self, name: str) -> None:
        log.info("removing a host", host=name)
        self._registered.discard(name)
        self._mirror.nodes.expect_removal([name])
        try:
            await self._slurm.delete_nodes(name)
        except (SlurmNotFound, SlurmConflict, Busy) as error:
            log.info("the host cannot be removed yet", host=name, error=error)

    async def _add_taint(self, node: Node) -> None:
        """Add the taint, unless another node for the control pods was tainted in the meantime."""
        if self._find_resident(node):
            return
        name, settings = node.metadata.name, self._settings
        own = {"key": names.MANAGED_TAINT, "value": settings.scheduler_name, "effect": settings.taint}
        self._tainting.add(name)
        try:
            await self._write_taints(node, [*_other_taints(node, settings.scheduler_name), own])
        finally:
            self._tainting.discard(name)

    async def _write_taints(self, node: Node, taints: list[dict[str, Any]]) -> None:
        patch = {"metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": taints}}
        self._cluster.nodes.record_write(await self._client.patch(NODES, node.key, patch))

    async def _write_condition(self, node: Node, text: ConditionText) -> None:
        now = self._client.clock.now()
        condition = build_condition(
            node.status.conditions, names.HOST_CONDITION, text.status, text.reason, text.message, now=now
        )
        await self._patch_conditions(
            node, {**condition_manifest(condition), "lastHeartbeatTime": format_timestamp(now)}
        )

    async def _patch_conditions(self, node: Node, patch: dict[str, Any]) -> None:
        body = {"status": {"conditions": [patch]}}
        self._cluster.nodes.record_write(
            await self._client.patch(NODES, node.key, body, subresource="status", kind=STRATEGIC)
        )


def classify_rejection(error: Exception) -> ErrorDecision | None:
    """A rejection by Slurm blocks the node until a person changes something, unless it is a temporary conflict."""
    if not isinstance(error, Rejected) or isinstance(error, Busy | SlurmConflict | SlurmNotFound):
        return None
    text = Reason.HOST_REFUSED.text(problem=error)
    return ErrorDecision(ErrorKind.BLOCKED, text.reason, text.message)


def _has_taint(node: Node, taint: Taint) -> bool:
    return any((own.key, own.effect) == (taint.key, taint.effect) for own in node.spec.taints)


def _other_taints(node: Node, scheduler: str) -> list[dict[str, Any]]:
    """The taints of a node that this bridge did not add."""
    own = (names.MANAGED_TAINT, scheduler)
    return [_manifest(taint) for taint in node.spec.taints if (taint.key, taint.value) != own]


def _manifest(taint: Any) -> dict[str, Any]:
    fields = {"key": taint.key, "value": taint.value, "effect": taint.effect, "timeAdded": taint.time_added}
    return {name: value for name, value in fields.items() if value}
