# SPDX-License-Identifier: Apache-2.0
"""Decides what to do for one node and its Slurm host: register, drain, undrain, replace, taint, report. Pure.

Drains of the bridge have a reason with a fixed prefix; drains by others are never undone. A host is removed only if
it is external, has the signature of this bridge, and slurmctld has just reported it drained and idle. One function
decides about all drains, so a drain for a replacement is not undone because the node is schedulable.
"""

from dataclasses import replace

from slinky.bridge import names
from slinky.bridge.devices import host_gres
from slinky.bridge.nodes import actions, drains
from slinky.bridge.nodes.actions import Action
from slinky.bridge.nodes.description import (
    NodeFacts,
    devices_problem,
    host_comment,
    internal_address,
    is_same_size,
    node_partitions,
    node_topology,
    registration_line,
    size_mismatch,
)
from slinky.bridge.nodes.ownership import is_foreign_host, is_of_other_cluster, is_own_host, wants_external_host
from slinky.bridge.status.reasons import ConditionText, Reason
from slinky.kube import Node
from slinky.kube.conditions import condition_status, find_condition
from slinky.slurm import Host, NodeUpdate, Presence


def plan(facts: NodeFacts) -> list[Action]:
    """The next actions for a node; empty if nothing is to be done, or if Slurm's state is not known."""
    if facts.presence is Presence.UNKNOWN:
        return []
    if facts.host is None:
        return [*_register(facts), *_set_taint(facts, tainted=False), *_report_no_host(facts)]
    if is_foreign_host(facts.host, facts.signature):
        return _report_taken_host(facts, facts.host)
    steps = _replace_host(facts, facts.host)
    if steps is None:
        steps = [*_change_host(facts, facts.host), *_drain_or_undrain(facts, facts.host), *_compare(facts, facts.host)]
    return [*steps, *_set_taint(facts, tainted=facts.taint_effect != "None"), *_report_state(facts, facts.host)]


def plan_duplicate(node: Node, owner: Node, host: str, scheduler: str) -> list[Action]:
    """The actions for a node that claims the host of another node: it gets no taint and no pods, and shows why."""
    own_taint = any(taint.key == names.MANAGED_TAINT and taint.value == scheduler for taint in node.spec.taints)
    untaint: list[Action] = [actions.SetTaint(on=False)] if own_taint and not node.metadata.deleting else []
    text = Reason.HOST_NAME_CLAIMED.text(host=host, owner=owner.metadata.name)
    if not _differs(node, text):
        return untaint
    return [*untaint, actions.ReportHostState(text), actions.ReportProblem(text)]


def needs_change_in_slurm(facts: NodeFacts) -> bool:
    """Whether something would have to be changed in Slurm if its state were still as last read."""
    last_read = replace(facts, presence=Presence.PRESENT if facts.host else Presence.ABSENT)
    return any(isinstance(action, actions.SLURM_ACTIONS) for action in plan(last_read))


def _report_taken_host(facts: NodeFacts, host: Host) -> list[Action]:
    """A host of another bridge is left alone. A host of another cluster prevents the registration of this node."""
    if not _is_external(facts) or not is_of_other_cluster(host, facts.signature):
        return []
    return [actions.ReportProblem(Reason.HOST_TAKEN.text(host=facts.name))]


def _register(facts: NodeFacts) -> list[Action]:
    node = facts.node
    if node is None or not _is_external(facts) or not node.ready or facts.partitions is None:
        return []
    address = internal_address(node)
    if address is None:
        return [actions.ReportProblem(Reason.NO_ADDRESS.text())]
    unknown = [name for name in node_partitions(node) if name not in facts.partitions]
    if unknown:
        return [actions.ReportProblem(Reason.NO_PARTITION.text(partitions=", ".join(unknown)))]
    if problem := devices_problem(facts.inventory):
        return [actions.ReportProblem(Reason.DEVICES_UNCLEAR.text(problem=problem))]
    try:
        return [actions.RegisterHost(registration_line(facts, node, address))]
    except ValueError as error:
        return [actions.ReportProblem(Reason.BAD_NODE.text(problem=error))]


def _replace_host(facts: NodeFacts, host: Host) -> list[Action] | None:
    """The next action towards the removal of the host; None if the host may stay."""
    if not host.state.external or not (cause := _removal_cause(facts, host)):
        return None
    if host.state.drained and not host.state.busy and host.reason.startswith(names.DRAIN_PREFIX):
        return [actions.RemoveHost()]
    if host.state.draining:
        return [] if host.reason.startswith(names.DRAIN_PREFIX) else _remove_drained_by_others(facts, host)
    return [actions.DrainHost(f"{names.DRAIN_PREFIX} {cause}")]


def _removal_cause(facts: NodeFacts, host: Host) -> str:
    """Why an external host must be removed or registered again; empty if it may stay."""
    if not _is_external(facts):
        return _cause_of_absence(facts) if is_own_host(host, facts.signature) else ""
    if not host.state.responding:
        return "the node must be registered again"
    if facts.node is not None and not is_same_size(facts, facts.node, host):
        return "" if _was_sent(facts, facts.node, host) else "the node changed its size"
    return ""


def _is_external(facts: NodeFacts) -> bool:
    """Whether the bridge registers the node: it is labelled for that, and no Slurm worker offers it already."""
    return wants_external_host(facts.node) and not facts.worker


def _cause_of_absence(facts: NodeFacts) -> str:
    """Why a node has no host of its own."""
    if facts.node is None:
        return "the node left Kubernetes"
    return "a Slurm worker runs on the node" if facts.worker else "the node is no longer labelled for Slurm"


def _remove_drained_by_others(facts: NodeFacts, host: Host) -> list[Action]:
    """A host that should be removed and was drained by someone else: it is removed only if its node is gone and it is
    idle. For any other cause the drain stays until its owner ends it.
    """
    removable = facts.node is None and is_own_host(host, facts.signature)
    return [actions.RemoveHost()] if removable and host.state.drained and not host.state.busy else []


def _change_host(facts: NodeFacts, host: Host) -> list[Action]:
    node = facts.node
    if node is None or not _is_external(facts) or not host.state.external:
        return []
    features = tuple(node_partitions(node))
    changes = (
        NodeUpdate(
            # A node that is not ready may not report its size, so its comment is not updated.
            comment=host_comment(facts, node) if node.ready and host.comment != host_comment(facts, node) else None,
            features=features if set(host.features) != set(features) else None,
            features_act=features if set(host.features) != set(features) else None,
        ),
        # A request of its own: Slurm rejects a whole request if it does not know the topology in it.
        NodeUpdate(topology_str=node_topology(node) if node_topology(node) != host.topology else None),
    )
    return [actions.ChangeHost(change) for change in changes if change != NodeUpdate()]


def _drain_or_undrain(facts: NodeFacts, host: Host) -> list[Action]:
    node = facts.node
    if node is None:
        return []
    reason = drains.drain_reason(
        node, host, unresponsive=facts.unresponsive, stopping=facts.stopping, scheduler=facts.scheduler
    )
    own_drain = host.state.draining and drains.is_own_drain(host.reason, facts.scheduler)
    if not reason:
        return [actions.UndrainHost()] if own_drain and node.ready else []
    is_drained = host.state.draining and (not own_drain or host.reason == reason)
    return [] if is_drained else [actions.DrainHost(reason)]


def _was_sent(facts: NodeFacts, node: Node, host: Host) -> bool:
    """Whether Slurm already got the current description of the node; then sending it again does not help."""
    return host.comment == host_comment(facts, node)


def _compare(facts: NodeFacts, host: Host) -> list[Action]:
    """Report differences between the node and the host. A slurmd reads its devices from gres.conf, so the bridge
    cannot change the devices of its host.
    """
    node = facts.node
    if host.state.external:
        if node is None or is_same_size(facts, node, host) or not _was_sent(facts, node, host):
            return []
        return [actions.ReportProblem(Reason.SIZE_REFUSED.text(problem=size_mismatch(facts, node, host)))]
    if facts.inventory.incomplete_pools or not (problem := host_gres.describe_mismatch(host, facts.inventory)):
        return []
    return [actions.ReportProblem(Reason.DEVICES_DIFFER.text(problem=problem))]


def _set_taint(facts: NodeFacts, *, tainted: bool) -> list[Action]:
    node = facts.node
    if node is None or node.metadata.deleting:
        return []
    managed = [taint for taint in node.spec.taints if taint.key == names.MANAGED_TAINT]
    own = [taint for taint in managed if taint.value == facts.scheduler]
    if not tainted:
        return [actions.SetTaint(on=False)] if own else []
    if facts.home_of:
        return []
    # A node has at most one taint of a key and effect. The taint of another bridge serves as well: the pods of every
    # bridge tolerate it.
    return [] if any(taint.effect == facts.taint_effect for taint in managed) else [actions.SetTaint(on=True)]


def _report_state(facts: NodeFacts, host: Host) -> list[Action]:
    node = facts.node
    if node is None:
        return []
    own_drain = host.reason.startswith(names.DRAIN_PREFIX)
    user = f" (set by {host.reason_set_by_user})" if host.reason_set_by_user else ""
    problem = f"{host.reason or 'no reason given'}{user}"
    if host.state.draining and not own_drain:
        text = Reason.DRAINED.text(problem=problem)
    elif host.state.down:
        text = Reason.DOWN.text(problem=problem)
    elif host.state.draining:
        text = Reason.CLOSED.text(problem=host.reason.removeprefix(names.DRAIN_PREFIX).strip())
    else:
        text = Reason.OPEN_UNTAINTED.text(pod=facts.home_of) if facts.home_of else Reason.OPEN.text()
    return [actions.ReportHostState(text)] if _differs(node, text) else []


def _differs(node: Node, text: ConditionText) -> bool:
    """Whether the condition of a node has another text."""
    old = find_condition(node.status.conditions, names.HOST_CONDITION)
    current = old and (old.status, old.reason, old.message)
    return current != (condition_status(text.status), text.reason, text.message)


def _report_no_host(facts: NodeFacts) -> list[Action]:
    """Report why a labelled node has no host; remove the condition of a node that needs none."""
    node = facts.node
    if node is None or _is_external(facts) or node.metadata.deleting:
        return []
    if wants_external_host(node):
        text = Reason.WORKER_ON_NODE.text(worker=facts.worker)
        return [actions.ReportHostState(text), actions.ReportProblem(text)] if _differs(node, text) else []
    return [actions.ClearHostState()] if find_condition(node.status.conditions, names.HOST_CONDITION) else []
