# SPDX-License-Identifier: Apache-2.0
"""Which nodes a pod can never use: labels, affinity, taints, volumes, sheer size. Pure, and decided per shape.

Only what does not change by waiting counts here. A full node is Slurm's business; a cordoned or failing one is
drained in Slurm by `hosts`, so its taints are not a reason to leave it out of a job that may wait for hours.
"""

from collections.abc import Callable, Iterable, Mapping

from slinky.bridge import names
from slinky.bridge.devices.classes import Catalog
from slinky.bridge.state.views import NodeSelector, SelectorMatch, SelectorTerm, Toleration, WorkloadPod
from slinky.bridge.workload import pod_resources
from slinky.bridge.workload.pod_state import host_of
from slinky.kube import Node, Quantity, View
from slinky.kube.views import Taint

#: Taints that come and go with the health of a node.
NODE_CONDITION_TAINT_PREFIX = "node.kubernetes.io/"
BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
DO_NOT_SCHEDULE = "DoNotSchedule"


class NodeRequirements(View, frozen=True):
    """All that decides which nodes suit a pod; pods of one shape share one answer."""

    selector: tuple[tuple[str, str], ...] = ()
    affinity: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] = ()
    volumes: tuple[NodeSelector, ...] = ()
    amounts: tuple[tuple[str, int], ...] = ()


def node_requirements_of(pod: WorkloadPod, volumes: Iterable[NodeSelector] = ()) -> NodeRequirements:
    """The shape of a pod whose volumes can be reached from the nodes that these select."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    needs = pod_resources.effective_resources(pod, pod_resources.requests_of)
    plain = {name: amount for name, amount in needs.items() if not name.startswith(names.DEVICE_CLASS_PREFIX)}
    return NodeRequirements(
        tuple(sorted(pod.spec.node_selector.items())),
        affinity.required_during_scheduling_ignored_during_execution if affinity else None,
        pod.spec.tolerations,
        tuple(volumes),
        tuple(sorted((name, amount.nano) for name, amount in plain.items() if amount)),
    )


def unsupported_constraints(pod: WorkloadPod) -> list[str]:
    """What a pod demands that Slurm cannot be asked for."""
    told = []
    if any(
        each.get("whenUnsatisfiable", DO_NOT_SCHEDULE) == DO_NOT_SCHEDULE
        for each in pod.spec.topology_spread_constraints
    ):
        told.append(f"topologySpreadConstraints with {DO_NOT_SCHEDULE} cannot be honoured: Slurm chooses the nodes")
    affinity = pod.spec.affinity
    for kind, terms in (
        ("podAffinity", affinity and affinity.pod_affinity),
        ("podAntiAffinity", affinity and affinity.pod_anti_affinity),
    ):
        if terms and terms.required_during_scheduling_ignored_during_execution:
            told.append(f"required {kind} cannot be honoured: Slurm chooses the nodes; whole ones are the default")
    return told


def mismatch_reason(shape: NodeRequirements, node: Node, catalog: Catalog) -> str:
    """Why this node never suits, in a few words; nothing if it does."""
    labels = node.metadata.labels
    for key, value in shape.selector:
        if labels.get(key) != value:
            return f"its label {key} is not {value}"
    for wanted in (shape.affinity, *shape.volumes):
        if wanted is not None and not node_selector_matches(wanted, node):
            return "its volumes are elsewhere" if wanted is not shape.affinity else "its node affinity excludes it"
    for taint in node.spec.taints:
        if _lasting(taint) and not any(tolerates(given, taint) for given in shape.tolerations):
            return f"it has the taint {taint.key}, which the pod does not tolerate"
    return _too_small(shape, node, catalog)


def _lasting(taint: Taint) -> bool:
    passing = taint.key.startswith(NODE_CONDITION_TAINT_PREFIX) or taint.key == names.MANAGED_TAINT
    return taint.effect in BLOCKING_EFFECTS and not passing


def _too_small(shape: NodeRequirements, node: Node, catalog: Catalog) -> str:
    for name, nano in shape.amounts:
        if name in catalog.resources:
            continue  # a device class stands behind it: the claim will be made, not the kubelet asked
        has = Quantity.parse(node.status.allocatable.get(name, "0"))
        if nano > has.nano:
            return f"it has {has} of {name}"
    return ""


def node_selector_matches(selector: NodeSelector, node: Node) -> bool:
    """One of the terms holds; an empty term selects nothing."""
    return any(_holds(term, node) for term in selector.node_selector_terms)


def _holds(term: SelectorTerm, node: Node) -> bool:
    if not (term.match_expressions or term.match_fields):
        return False
    fields = {"metadata.name": node.metadata.name}
    return all(_matches(match, node.metadata.labels) for match in term.match_expressions) and all(
        _matches(match, fields) for match in term.match_fields
    )


_OPERATORS: dict[str, Callable[[str | None, tuple[str, ...]], bool]] = {
    "In": lambda value, given: value in given,
    "NotIn": lambda value, given: value not in given,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, given: (order := _order(value, given)) is not None and order > 0,
    "Lt": lambda value, given: (order := _order(value, given)) is not None and order < 0,
}


def _matches(match: SelectorMatch, values: Mapping[str, str]) -> bool:
    test = _OPERATORS.get(match.operator)
    return test is not None and test(values.get(match.key), match.values)


def _order(value: str | None, given: tuple[str, ...]) -> int | None:
    """By how much a label is above the number it is compared with; None unless both are numbers."""
    try:
        return int(value or "") - int(given[0] if given else "")
    except ValueError:
        return None


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration covers a taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key != taint.key and not (not toleration.key and toleration.operator == "Exists"):
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def mismatching_hosts(shape: NodeRequirements, nodes: Iterable[Node], catalog: Catalog) -> frozenset[str]:
    """The Slurm hosts that a shape can never use."""
    return frozenset(host_of(node) for node in nodes if mismatch_reason(shape, node, catalog))
