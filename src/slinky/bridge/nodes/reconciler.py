# SPDX-License-Identifier: Apache-2.0
"""Nodes: look at both sides, ask `hosts`, act.

A key is the name of a Slurm host. Silence is measured on our own clock from the moment we see it, and a node that
answers again is open again at once. Words come after deeds: while many hosts are being changed, their nodes hear of it
a little later.
"""

from collections import deque
from typing import Any, NamedTuple

from slinky.bridge import names
from slinky.bridge.config import BridgeSettings
from slinky.bridge.devices.inventory import DeviceInventory
from slinky.bridge.nodes import plan
from slinky.bridge.nodes.batching import UpdateBatcher
from slinky.bridge.nodes.description import NodeFacts, signed
from slinky.bridge.nodes.plan import (
    ChangeHost,
    DrainHost,
    RegisterHost,
    RemoveHost,
    ReportHostState,
    ReportProblem,
    SetTaint,
    UndrainHost,
)
from slinky.bridge.state.cluster import ClusterState
from slinky.bridge.workload.identity import BridgeIdentity
from slinky.kube import NODES, ErrorDecision, ErrorKind, EventRecorder, KubeClient, Node, RequeueAfter
from slinky.kube.client import STRATEGIC
from slinky.kube.conditions import build_condition, condition_manifest
from slinky.kube.timestamps import format_timestamp
from slinky.observe import Log, counter
from slinky.slurm import Busy, Mirror, NodeUpdate, Presence, Rejected, SlurmConflict, SlurmNotFound
from slinky.slurm import SlurmClient as Slurm

log = Log("slinky.bridge.nodes.reconciler")

STEPS = counter("slinky_bridge_node_steps_total", "Steps taken about nodes, by kind.", "step")


#: While Slurm is out of sight nothing is done about its hosts, and none is made while it cannot tell its partitions.
#: The return of the mirror wakes us; this is for the rest.
UNKNOWN_AGAIN = 10.0
#: Slurm is in sight, but its long list of hosts was not read for a while: how soon the new one is looked at.
STALE_AGAIN = 1.0
#: A host that was made is looked at again after this long: slurmctld may have lost it before the mirror ever saw it,
#: and what was never seen is not missed.
MADE_AGAIN = 30.0

#: So many hosts changed within so many seconds are a crowd, and as long as it lasts nodes are not told of it ...
CROWD, WITHIN = 16, 1.0
#: ... but no longer than this.
UNSAID = 10.0


class HostName(NamedTuple):
    """Names a host."""

    name: str


class NodeReconciler:
    """Keeps Slurm's hosts and Kubernetes' nodes in step."""

    def __init__(
        self,
        settings: BridgeSettings,
        client: KubeClient,
        slurm: Slurm,
        mirror: Mirror,
        stock: ClusterState,
        recorder: EventRecorder,
        me: BridgeIdentity,
    ) -> None:
        self._settings, self._client, self._slurm, self._mirror = settings, client, slurm, mirror
        self._stock, self._recorder = stock, recorder
        self._updates: UpdateBatcher[NodeUpdate] = UpdateBatcher(slurm.update_nodes)
        self._lines: UpdateBatcher[str] = UpdateBatcher(self._create_all)
        self._mark = plan.mark(me)
        self._silent_since: dict[str, float] = {}
        self._deeds: deque[float] = deque(maxlen=CROWD)
        self._unsaid: dict[str, float] = {}
        self._made: set[str] = set()  # not seen in the mirror yet

    async def reconcile(self, key: HostName) -> RequeueAfter | None:
        """Bring one host and its node a step further."""
        node = self._stock.node_of_host(key.name)
        silent, again = self._silence(node)
        facts = self._facts(key.name, node, silent, await self._presence(key.name))
        refused: list[Rejected] = []
        for action in plan.plan(facts):
            if isinstance(action, ReportHostState) and self._held_back(key.name):
                again = min(again or WITHIN, WITHIN)
                continue
            STEPS.labels(type(action).__name__.lower()).inc()
            try:
                await self._act(key.name, node, facts, action)
            except Rejected as error:
                refused.append(error)  # no reason to leave out the rest: a cordon counts wherever the node is
        if refused:
            raise refused[0]
        if key.name in self._made:
            again = min(again or MADE_AGAIN, MADE_AGAIN)
        if facts.presence is Presence.UNKNOWN or facts.partitions is None:
            pause = STALE_AGAIN if self._freshened(facts) else UNKNOWN_AGAIN
            again = min(again or pause, pause)
        return RequeueAfter(again) if again is not None else None

    async def blocked(self, key: HostName, why: ErrorDecision) -> None:
        """Tell on a node what Slurm refuses."""
        if (node := self._stock.node_of_host(key.name)) is not None:
            self._recorder.record(NODES.reference(node), why.reason, why.message, warning=True)

    def _facts(self, name: str, node: Node | None, silent: bool, presence: Presence) -> NodeFacts:
        return NodeFacts(
            name,
            node,
            None if presence is Presence.ABSENT else self._mirror.nodes.get(name),
            presence,
            self._mark,
            self._stock.inventory(node.metadata.name) if node else DeviceInventory(),
            frozenset(self._mirror.partitions) if self._mirror.partitions.synced else None,
            self._settings.node_size,
            silent,
            self._settings.taint,
            self._settings.scheduler_name,
        )

    async def _presence(self, name: str) -> Presence:
        """Whether Slurm has a host; where the mirror may be wrong about that, slurmctld's word about this one counts.

        All that follows from an absence is to register the host.
        """
        table = self._mirror.nodes
        seen = table.presence(name)
        if seen is Presence.PRESENT:
            self._made.discard(name)
        # It vanished with too many others to be believed, as when slurmctld comes back without its state ...
        unbelieved = table.unconfirmed_loss is not None and name in table.unconfirmed_loss.missing
        # ... or we have made it since the mirror looked.
        unseen = seen is Presence.ABSENT and name in self._made
        if not (unbelieved or unseen):
            return seen
        try:
            await self._slurm.node(name)
        except SlurmNotFound:
            return Presence.ABSENT
        return Presence.UNKNOWN

    def _freshened(self, facts: NodeFacts) -> bool:
        """Have the hosts read now, if all that is missing to do something is that they were not for a while."""
        stale = (
            self._mirror.fault is None
            and self._mirror.nodes.unconfirmed_loss is None
            and not self._mirror.nodes.is_fresh()
        )
        if not (stale and plan.pressing(facts)):
            return False
        self._mirror.request_refresh(nodes=True)
        return True

    def _held_back(self, name: str) -> bool:
        """Whether a node hears later how its host is, since many hosts are being changed at this moment."""
        now = self._client.clock.monotonic()
        crowd = len(self._deeds) == CROWD and now - self._deeds[0] < WITHIN
        if crowd and now - self._unsaid.setdefault(name, now) < UNSAID:
            return True
        self._unsaid.pop(name, None)
        return False

    def _silence(self, node: Node | None) -> tuple[bool, float | None]:
        """Whether a node has been silent for too long, and when to look again if not yet."""
        if node is None:
            return False, None
        if node.ready:
            self._silent_since.pop(node.metadata.name, None)
            return False, None
        now = self._client.clock.monotonic()
        since = self._silent_since.setdefault(node.metadata.name, now)
        left = self._settings.not_ready_seconds - (now - since)
        return (True, None) if left <= 0 else (False, left)

    async def _act(self, name: str, node: Node | None, facts: NodeFacts, action: plan.Action) -> None:
        match action:
            case RegisterHost(conf):
                if node is not None:
                    await self._create(name, conf, signed(facts, node))
            case ChangeHost(change):
                await self._slurm.update_node(name, change)
            case DrainHost(reason):
                log.info("draining a host", host=name, reason=reason)
                await self._updates.ask(name, NodeUpdate(state=("DRAIN",), reason=reason))
            case UndrainHost():
                log.info("undraining a host", host=name)
                await self._updates.ask(name, NodeUpdate(state=("UNDRAIN",)))
            case RemoveHost():
                await self._delete(name)
            case SetTaint(on) if node is not None:
                await self._taint(node, on=on)
            case ReportHostState() if node is not None:
                await self._report(node, action)
            case ReportProblem(reason, message) if node is not None:
                self._recorder.record(NODES.reference(node), reason, message, warning=True)
        if isinstance(action, plan.DEEDS):
            self._deeds.append(self._client.clock.monotonic())
            self._mirror.request_refresh(nodes=True)

    async def _create(self, name: str, conf: str, comment: str) -> None:
        log.info("registering a node", host=name)
        try:
            named, _, line = conf.partition(" NodeAddr=")
            address, _, shape = line.partition(" ")
            await self._lines.ask(f"{named.removeprefix('NodeName=')} {address}", shape)
        except SlurmConflict:
            return  # it is there already and we have not seen it yet; if it lacks our mark, the next look adds it
        self._made.add(name)
        await self._slurm.update_node(name, NodeUpdate(comment=comment))

    async def _create_all(self, hosts: list[str], shape: str) -> None:
        """Make hosts of one shape, each with an address of its own."""
        named, addresses = zip(*(host.split(" ") for host in hosts), strict=True)
        await self._slurm.create_node(f"NodeName={','.join(named)} NodeAddr={','.join(addresses)} {shape}")

    async def _delete(self, name: str) -> None:
        log.info("deleting a host", host=name)
        self._made.discard(name)
        self._mirror.nodes.expect_removal([name])
        try:
            await self._slurm.delete_nodes(name)
        except (SlurmNotFound, SlurmConflict, Busy) as error:
            log.info("the host stays for now", host=name, why=str(error))

    async def _taint(self, node: Node, *, on: bool) -> None:
        settings = self._settings
        kept = [_plain(taint) for taint in node.spec.taints if taint.key != names.MANAGED_TAINT]
        ours = {"key": names.MANAGED_TAINT, "value": settings.scheduler_name, "effect": settings.taint}
        meta = {"resourceVersion": node.metadata.resource_version}
        patch = {"metadata": meta, "spec": {"taints": [*kept, ours] if on else kept}}
        self._stock.nodes.record_write(await self._client.patch(NODES, node.key, patch))

    async def _report(self, node: Node, said: ReportHostState) -> None:
        now, text = self._client.clock.now(), (said.reason, said.message)
        condition = build_condition(node.status.conditions, names.HOST_CONDITION, said.available, *text, now=now)
        manifest = {**condition_manifest(condition), "lastHeartbeatTime": format_timestamp(now)}
        body = {"status": {"conditions": [manifest]}}
        self._stock.nodes.record_write(
            await self._client.patch(NODES, node.key, body, subresource="status", kind=STRATEGIC)
        )


def refusal(error: Exception) -> ErrorDecision | None:
    """What a refusal of Slurm means to a node: unless the moment is wrong, a person must change something."""
    if not isinstance(error, Rejected) or isinstance(error, Busy | SlurmConflict | SlurmNotFound):
        return None
    return ErrorDecision(ErrorKind.BLOCKED, "SlurmRefused", f"Slurm refuses what it was told of the node: {error}.")


def _plain(taint: Any) -> dict[str, Any]:
    found = {"key": taint.key, "value": taint.value, "effect": taint.effect, "timeAdded": taint.time_added}
    return {name: value for name, value in found.items() if value}
