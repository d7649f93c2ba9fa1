# SPDX-License-Identifier: Apache-2.0
"""Which Kubernetes nodes get a worker when there is one per node. Pure.

The same three questions the scheduler would ask: does the selector match, does required affinity match, are the taints
tolerated. A worker that runs stays unless a NoExecute taint or the selector sends it away.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from slinky.api.names import metadata
from slinky.api.nodeset import NodeSet
from slinky.kube.views import Node, Taint
from slinky.operator.nodeset.objects import TOLERATION, Slot

#: What Kubernetes itself lets a daemon tolerate: the node's own troubles.
DAEMON = (
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
)


class Fit(NamedTuple):
    """Whether a node should get a worker, and whether one that is there may stay."""

    start: bool
    stay: bool


def fit(of: NodeSet, node: Node) -> Fit:
    """How a node suits a NodeSet."""
    spec = of.spec.template.spec
    if not _suits(spec, node):
        return Fit(False, False)
    tolerations = [*DAEMON, TOLERATION, *(spec.get("tolerations") or ())]
    bad = [taint for taint in node.spec.taints if not any(_tolerates(found, taint) for found in tolerations)]
    stay = not any(taint.effect == "NoExecute" for taint in bad)
    return Fit(stay and not any(taint.effect == "NoSchedule" for taint in bad), stay)


def slot(node: Node) -> Slot:
    """The place that a node offers."""
    meta = node.metadata
    name = meta.annotations.get(metadata.HOSTNAME_OVERRIDE) or meta.name.split(".")[0]
    return Slot(node=meta.name, hostname=name, topology=meta.annotations.get(metadata.TOPOLOGY, ""))


def lost(node: Node | None, name: str, host: str) -> str:
    """Why no worker on the node of this name will have this host name any more; empty if one may."""
    if node is None:
        return f"node {name} is gone"
    now = slot(node).hostname
    return "" if now == host else f"node {name} has the host name {now} now"


def pins(of: NodeSet, nodes: Mapping[str, Node]) -> dict[str, str]:
    """The nodes to which ordinals return, except those that are gone or suit no more: a worker would wait for ever."""
    if not of.spec.pin_to_node or of.per_node:
        return {}
    held, spec = of.status.ordinal_to_node.items(), of.spec.template.spec
    return {ordinal: name for ordinal, name in held if name in nodes and _suits(spec, nodes[name])}


def _suits(spec: Mapping[str, Any], node: Node) -> bool:
    """It is there and a worker may be on it, taints aside: those pass."""
    named = spec.get("nodeName") in {None, "", node.metadata.name}
    return named and _selected(spec, node) and _affine(spec, node) and not node.metadata.deleting


def _selected(spec: Mapping[str, Any], node: Node) -> bool:
    return all(node.metadata.labels.get(key) == value for key, value in (spec.get("nodeSelector") or {}).items())


def _affine(spec: Mapping[str, Any], node: Node) -> bool:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms")
    return terms is None or any(_term(term, node) for term in terms)


def _term(term: Mapping[str, Any], node: Node) -> bool:
    labels, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not labels and not fields:
        return False  # an empty term matches nothing
    named = {"metadata.name": node.metadata.name}
    return all(_matches(one, node.metadata.labels) for one in labels) and all(_matches(one, named) for one in fields)


def _matches(one: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    operator = OPERATORS.get(one.get("operator", ""))
    return operator is not None and operator(values.get(one.get("key", "")), list(one.get("values") or ()))


def _number(text: str) -> float:
    try:
        return float(int(text))
    except ValueError:
        return float("nan")


#: The operators of a node selector, on a label's value (None: no such label) and the values asked for.
OPERATORS: Mapping[str, Callable[[str | None, list[str]], bool]] = {
    "In": lambda found, asked: found in asked,
    "NotIn": lambda found, asked: found not in asked,
    "Exists": lambda found, asked: found is not None,
    "DoesNotExist": lambda found, asked: found is None,
    "Gt": lambda found, asked: found is not None and bool(asked) and _number(found) > _number(asked[0]),
    "Lt": lambda found, asked: found is not None and bool(asked) and _number(found) < _number(asked[0]),
}


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.effect:
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != taint.key:
        return False
    return toleration.get("operator") == "Exists" or (toleration.get("value") or "") == taint.value


def eligible(of: NodeSet, nodes: Iterable[Node]) -> dict[str, Fit]:
    """How every node suits."""
    return {node.metadata.name: fit(of, node) for node in nodes}
