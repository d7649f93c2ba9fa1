# SPDX-License-Identifier: Apache-2.0
"""Which Kubernetes nodes get a worker in DaemonSet mode, and to which nodes workers are pinned. Pure.

A node must meet the same conditions as for the scheduler: the node selector and the required affinity match, and the
taints are tolerated. A running worker stays unless a NoExecute taint or the selector excludes its node.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from slinky.api.fields.topology import node_topology
from slinky.api.names import metadata
from slinky.api.nodeset import NodeSet
from slinky.bounds import parse_integer
from slinky.kube.views import Node, Taint
from slinky.operator.nodeset.objects import BRIDGE_TOLERATION, TOLERATION, Slot

#: Tolerations that Kubernetes adds to the pods of a DaemonSet, for problems of the node itself.
DAEMON_TOLERATIONS = (
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
)


class NodeFit(NamedTuple):
    """Whether a node should get a worker, and whether a worker that runs there may stay."""

    start: bool
    stay: bool


def node_fit(node_set: NodeSet, node: Node) -> NodeFit:
    """Whether workers of a NodeSet may start and stay on a node."""
    spec = node_set.spec.template.spec
    if not _matches_template(spec, node):
        return NodeFit(False, False)
    tolerations = [*DAEMON_TOLERATIONS, TOLERATION, BRIDGE_TOLERATION, *(spec.get("tolerations") or ())]
    taints = [taint for taint in node.spec.taints if not any(_tolerates(item, taint) for item in tolerations)]
    stay = not any(taint.effect == "NoExecute" for taint in taints)
    return NodeFit(stay and not any(taint.effect == "NoSchedule" for taint in taints), stay)


def node_slot(node: Node) -> Slot:
    """The slot of a node in DaemonSet mode."""
    meta = node.metadata
    name = meta.annotations.get(metadata.HOSTNAME_OVERRIDE) or meta.name.split(".")[0]
    return Slot(node=meta.name, hostname=name, topology=node_topology(meta.annotations))


def why_host_is_gone(node: Node | None, name: str, host: str) -> str:
    """Why no worker on the node `name` will have this host name again; empty if one may."""
    if node is None:
        return f"node {name} does not exist"
    current = node_slot(node).hostname
    return "" if current == host else f"node {name} now has the host name {current}"


def pinned_nodes(node_set: NodeSet, nodes: Mapping[str, Node]) -> dict[str, str]:
    """The node of each pinned ordinal, without nodes that are gone or no longer match: a worker would wait forever."""
    if not node_set.spec.pin_to_node or node_set.per_node:
        return {}
    pins, spec = node_set.status.ordinal_to_node.items(), node_set.spec.template.spec
    return {ordinal: name for ordinal, name in pins if name in nodes and _matches_template(spec, nodes[name])}


def _matches_template(spec: Mapping[str, Any], node: Node) -> bool:
    """Whether the template allows the node; taints are ignored, because they are temporary."""
    named = spec.get("nodeName") in {None, "", node.metadata.name}
    return named and _matches_selector(spec, node) and _matches_affinity(spec, node) and not node.metadata.deleting


def _matches_selector(spec: Mapping[str, Any], node: Node) -> bool:
    return all(node.metadata.labels.get(key) == value for key, value in (spec.get("nodeSelector") or {}).items())


def _matches_affinity(spec: Mapping[str, Any], node: Node) -> bool:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms")
    return terms is None or any(_matches_term(term, node) for term in terms)


def _matches_term(term: Mapping[str, Any], node: Node) -> bool:
    labels, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not labels and not fields:
        return False  # an empty term matches nothing
    named = {"metadata.name": node.metadata.name}
    return all(_matches_expression(expression, node.metadata.labels) for expression in labels) and all(
        _matches_expression(expression, named) for expression in fields
    )


def _matches_expression(expression: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    operator = OPERATORS.get(expression.get("operator", ""))
    if operator is None:
        return False
    return operator(values.get(expression.get("key", "")), list(expression.get("values") or ()))


def _number(text: str) -> float:
    number = parse_integer(text, -(2**63), 2**63 - 1)
    return float("nan") if number is None else float(number)


#: Operators of a node selector: from the value of the label (None: no such label) and the values of the expression.
OPERATORS: Mapping[str, Callable[[str | None, list[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, values: value is not None,
    "DoesNotExist": lambda value, values: value is None,
    "Gt": lambda value, values: value is not None and bool(values) and _number(value) > _number(values[0]),
    "Lt": lambda value, values: value is not None and bool(values) and _number(value) < _number(values[0]),
}


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.effect:
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != taint.key:
        return False
    return toleration.get("operator") == "Exists" or (toleration.get("value") or "") == taint.value


def node_fits(node_set: NodeSet, nodes: Iterable[Node]) -> dict[str, NodeFit]:
    """The fit of every node, by name."""
    return {node.metadata.name: node_fit(node_set, node) for node in nodes}
