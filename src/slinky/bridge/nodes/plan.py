# SPDX-License-Identifier: Apache-2.0
"""What to do about one node: register it in Slurm, drain and undrain it, taint it. Pure.

Every drain has an owner: ours start with a fixed prefix, others' are never undone. A host is deleted only if it is
external, carries our mark, and is drained and empty by slurmctld's own fresh word. One decision covers all reasons
for a drain, so a drain for replacement is not undone by a node that is schedulable.
"""

from dataclasses import dataclass, replace

from slinky.bridge import names
from slinky.bridge.devices import inventory
from slinky.bridge.nodes.description import (
    NodeFacts,
    internal_address,
    line,
    partitions,
    refused,
    same_size,
    signed,
    topology,
    unclear,
)
from slinky.bridge.workload.identity import BridgeIdentity
from slinky.kube import Node
from slinky.slurm import Host, NodeUpdate, Presence

#: How every bridge begins the comment on the hosts that it made.
SIGNATURE = "slurm-bridge "


@dataclass(frozen=True)
class RegisterHost:
    """Register the node."""

    conf: str


@dataclass(frozen=True)
class ChangeHost:
    """Change what can be changed in place."""

    change: NodeUpdate


@dataclass(frozen=True)
class DrainHost:
    """Take no new jobs."""

    reason: str


@dataclass(frozen=True)
class UndrainHost:
    """Take jobs again."""


@dataclass(frozen=True)
class RemoveHost:
    """Remove the host from Slurm."""


@dataclass(frozen=True)
class SetTaint:
    """Put our taint on the node, or take it off."""

    on: bool


@dataclass(frozen=True)
class ReportHostState:
    """Tell on the node what Slurm thinks of it."""

    available: bool
    reason: str
    message: str


@dataclass(frozen=True)
class ReportProblem:
    """Something about the node keeps it out of Slurm."""

    reason: str
    message: str


Action = RegisterHost | ChangeHost | DrainHost | UndrainHost | RemoveHost | SetTaint | ReportHostState | ReportProblem
#: Those that change something in Slurm.
DEEDS = (RegisterHost, ChangeHost, DrainHost, UndrainHost, RemoveHost)


def mark(me: BridgeIdentity) -> str:
    """How we begin the comment on hosts that we made."""
    return f"{SIGNATURE}{me.cluster}/{me.bridge}"


def plan(facts: NodeFacts) -> list[Action]:
    """The next steps for a node; empty when all is as it should be, or nothing is known for certain."""
    if facts.presence is Presence.UNKNOWN:
        return []
    if facts.host is None:
        return [*_register(facts), *_taint(facts, wanted=False)]
    if foreign(facts.host, facts.mark):
        return _taken(facts, facts.host)
    actions = _replace(facts, facts.host)
    if actions is None:
        actions = [*_amend(facts, facts.host), *_open_or_close(facts, facts.host), *_compare(facts, facts.host)]
    return [*actions, *_taint(facts, wanted=facts.effect != "None"), *_report(facts, facts.host)]


def pressing(facts: NodeFacts) -> bool:
    """Whether there would be something to do in Slurm if it were as it was last seen."""
    last = replace(facts, presence=Presence.PRESENT if facts.host else Presence.ABSENT)
    return any(isinstance(action, DEEDS) for action in plan(last))


def external(node: Node | None) -> bool:
    """An administrator wants this node in Slurm without a slurmd."""
    return node is not None and names.EXTERNAL_LABEL in node.metadata.labels and not node.metadata.deleting


def ours(host: Host, mark: str) -> bool:
    """We made this host."""
    return host.state.external and host.comment.startswith(f"{mark} ")


def foreign(host: Host, mark: str) -> bool:
    """Another bridge made this host, and looks after it."""
    return host.comment.startswith(SIGNATURE) and not host.comment.startswith(f"{mark} ")


def elsewhere(host: Host, mark: str) -> bool:
    """The bridge of another cluster made this host: it is no node of ours, whatever its name."""
    return foreign(host, mark) and not host.comment.startswith(f"{mark.rpartition('/')[0]}/")


def _taken(facts: NodeFacts, host: Host) -> list[Action]:
    """A host of another bridge is left to it. One of another cluster keeps our node out of Slurm, which is told."""
    if not external(facts.node) or not elsewhere(host, facts.mark):
        return []
    text = f"The bridge of another cluster made host {facts.name} in Slurm. Delete that host if the cluster is no more"
    return [
        ReportProblem("HostTaken", f"{text}, or give this node another name there by the label {names.HOST_LABEL}.")
    ]


def _register(facts: NodeFacts) -> list[Action]:
    node = facts.node
    if node is None or not external(node) or not node.ready or facts.partitions is None:
        return []
    address = internal_address(node)
    if address is None:
        return [
            ReportProblem("NoAddress", "The node has no InternalIP; Slurm would stall on a name it cannot resolve.")
        ]
    unknown = [name for name in partitions(node) if name not in facts.partitions]
    if unknown:
        return [ReportProblem("NoPartition", f"Slurm has no partition {', '.join(unknown)}.")]
    if why := unclear(facts.inventory):
        return [ReportProblem("DevicesUnclear", why)]
    try:
        return [RegisterHost(line(facts, node, address))]
    except ValueError as error:
        return [ReportProblem("BadNode", f"The node cannot be described to Slurm: {error}.")]


def _replace(facts: NodeFacts, host: Host) -> list[Action] | None:
    """Steps towards removing the host, now or once it is empty; None if it may stay."""
    why = ""
    if not host.state.external:
        return None
    if not external(facts.node):
        why = "the node left Kubernetes" if ours(host, facts.mark) else ""
    elif not host.state.responding:
        why = "the node must be registered anew"
    elif facts.node is not None and not same_size(facts, facts.node, host):
        why = "" if _told(facts, facts.node, host) else "the node changed its size"
    if not why:
        return None
    if host.state.drained and not host.state.busy and host.reason.startswith(names.DRAIN_PREFIX):
        return [RemoveHost()]
    if host.state.draining:
        return [] if host.reason.startswith(names.DRAIN_PREFIX) else _take_over(facts, host)
    return [DrainHost(f"{names.DRAIN_PREFIX} {why}")]


def _take_over(facts: NodeFacts, host: Host) -> list[Action]:
    """Somebody else drained a host that should go. An empty one whose node has left may go; a drain for any other
    reason is theirs to lift.
    """
    leaves = facts.node is None and ours(host, facts.mark)
    return [RemoveHost()] if leaves and host.state.drained and not host.state.busy else []


def _amend(facts: NodeFacts, host: Host) -> list[Action]:
    node = facts.node
    if node is None or not external(node) or not host.state.external:
        return []
    wanted = tuple(partitions(node))
    changes = (
        NodeUpdate(
            # A node that is not ready may not tell its size; its mark can wait.
            comment=signed(facts, node) if node.ready and host.comment != signed(facts, node) else None,
            features=wanted if set(host.features) != set(wanted) else None,
            features_act=wanted if set(host.features) != set(wanted) else None,
        ),
        # On its own: a place that Slurm does not know is refused with all that came with it.
        NodeUpdate(topology_str=topology(node) if topology(node) != host.topology else None),
    )
    return [ChangeHost(change) for change in changes if change != NodeUpdate()]


def _open_or_close(facts: NodeFacts, host: Host) -> list[Action]:
    node = facts.node
    if node is None:
        return []
    why = "cordoned in Kubernetes" if node.spec.unschedulable else "the kubelet does not answer" if facts.silent else ""
    if why:
        # The same words for every node, so that many drains can go in one request.
        return [] if host.state.draining else [DrainHost(f"{names.DRAIN_PREFIX} {why}")]
    mine = host.state.draining and host.reason.startswith(names.DRAIN_PREFIX)
    return [UndrainHost()] if mine and node.ready else []


def _told(facts: NodeFacts, node: Node, host: Host) -> bool:
    """Slurm was told of the node as it is; if it has it otherwise, telling it again does not help."""
    return host.comment == signed(facts, node)


def _compare(facts: NodeFacts, host: Host) -> list[Action]:
    """Where Slurm has a node otherwise than it is. Devices of a host that has a slurmd are its gres.conf's business."""
    node = facts.node
    if host.state.external:
        if node is None or same_size(facts, node, host) or not _told(facts, node, host):
            return []
        return [ReportProblem("SizeRefused", refused(facts, node, host))]
    there = inventory.parse_gres(host.gres)
    if not any(inventory.gres_differs(there, facts.inventory, kind.gres) for kind in facts.inventory.gres):
        return []
    offer, has = inventory.format_gres(facts.inventory), host.gres or "no devices"
    text = f"Slurm has {has} where the drivers of the node offer {offer}; claims on them are refused until both agree."
    return [ReportProblem("DevicesDiffer", f"{text} Change gres.conf or the device profiles.")]


def _taint(facts: NodeFacts, *, wanted: bool) -> list[Action]:
    node = facts.node
    if node is None or node.metadata.deleting:
        return []
    held = [taint for taint in node.spec.taints if taint.key == names.MANAGED_TAINT]
    mine = [taint for taint in held if taint.value == facts.scheduler]
    if wanted and not any(taint.effect == facts.effect for taint in mine):
        return [SetTaint(on=True)]
    return [SetTaint(on=False)] if mine and not wanted else []


def _report(facts: NodeFacts, host: Host) -> list[Action]:
    node = facts.node
    if node is None:
        return []
    foreign = host.state.draining and not host.reason.startswith(names.DRAIN_PREFIX)
    if foreign or host.state.down:
        word = "Drained" if foreign else "Down"
        who = f" by {host.reason_set_by_user}" if host.reason_set_by_user else ""
        said = ReportHostState(False, word, f"Slurm places no jobs here: {host.reason or 'no reason given'}{who}.")
    elif host.state.draining:
        said = ReportHostState(
            False, "Closed", f"Slurm places no jobs here: {host.reason.removeprefix(names.DRAIN_PREFIX).strip()}."
        )
    else:
        said = ReportHostState(True, "Open", "Slurm places jobs here.")
    old = next((c for c in node.status.conditions if c.type == names.HOST_CONDITION), None)
    same = old is not None and (old.status == "True", old.reason, old.message) == (
        said.available,
        said.reason,
        said.message,
    )
    return [] if same else [said]
