# SPDX-License-Identifier: Apache-2.0
"""Which nodes a pod can never use: node labels, affinity, taints, volumes, resources that exceed the node. Pure.

Only lasting constraints count. Whether a node is full is for Slurm to decide. A cordoned node or a node that is not
ready is drained in Slurm (see `nodes.plan`), so its taints do not exclude it from a job that may wait for hours. Pods
with equal requirements share one result.
"""

from collections.abc import Callable, Iterable, Mapping

from slinky.bridge import names
from slinky.bridge.devices.classes import Catalog
from slinky.bridge.views import NodeSelector, SelectorMatch, SelectorTerm, Toleration, WorkloadPod
from slinky.bridge.workload import pod_resources
from slinky.bridge.workload.pod_state import host_of
from slinky.kube import Node, Quantity, View
from slinky.kube.views import Taint

#: Prefix of the taints that Kubernetes sets and removes with the condition of a node.
NODE_CONDITION_TAINT_PREFIX = "node.kubernetes.io/"
BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
DO_NOT_SCHEDULE = "DoNotSchedule"


class NodeRequirements(View, frozen=True):
    """Everything about a pod that decides which nodes it can use."""

    selector: tuple[tuple[str, str], ...] = ()
    affinity: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] = ()
    volumes: tuple[NodeSelector, ...] = ()
    amounts: tuple[tuple[str, int], ...] = ()


def node_requirements_of(pod: WorkloadPod, volumes: Iterable[NodeSelector] = ()) -> NodeRequirements:
    """The requirements of a pod; `volumes` select the nodes that can reach its volumes."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    requests = pod_resources.effective_resources(pod, pod_resources.requests_of)
    counted = {name: amount for name, amount in requests.items() if not name.startswith(names.DEVICE_CLASS_PREFIX)}
    return NodeRequirements(
        tuple(sorted(pod.spec.node_selector.items())),
        affinity.required_during_scheduling_ignored_during_execution if affinity else None,
        pod.spec.tolerations,
        tuple(volumes),
        tuple(sorted((name, amount.nano) for name, amount in counted.items() if amount)),
    )


def unsupported_constraints(pod: WorkloadPod) -> list[str]:
    """The constraints of a pod that cannot be expressed in Slurm."""
    problems = []
    spreads = pod.spec.topology_spread_constraints
    if any(spread.get("whenUnsatisfiable", DO_NOT_SCHEDULE) == DO_NOT_SCHEDULE for spread in spreads):
        problems.append(
            f"topologySpreadConstraints with {DO_NOT_SCHEDULE} are not supported, because Slurm chooses the nodes"
        )
    affinity = pod.spec.affinity
    for kind, terms in (
        ("podAffinity", affinity and affinity.pod_affinity),
        ("podAntiAffinity", affinity and affinity.pod_anti_affinity),
    ):
        if terms and terms.required_during_scheduling_ignored_during_execution:
            problems.append(
                f"required {kind} is not supported, because Slurm chooses the nodes; "
                "by default a job gets whole nodes for itself"
            )
    return problems


def mismatch_reason(requirements: NodeRequirements, node: Node, catalog: Catalog) -> str:
    """Why a node never meets the requirements of a pod; empty if it can."""
    labels = node.metadata.labels
    for key, value in requirements.selector:
        if labels.get(key) != value:
            return f"the node does not have the label {key}={value}"
    if requirements.affinity is not None and not node_selector_matches(requirements.affinity, node):
        return "the node affinity of the pod excludes the node"
    if not all(node_selector_matches(selector, node) for selector in requirements.volumes):
        return "a volume of the pod cannot be reached from the node"
    for taint in node.spec.taints:
        if _is_lasting(taint) and not any(tolerates(toleration, taint) for toleration in requirements.tolerations):
            return f"the pod does not tolerate the taint {taint.key} of the node"
    return _insufficient_resource(requirements, node, catalog)


def _is_lasting(taint: Taint) -> bool:
    is_temporary = taint.key.startswith(NODE_CONDITION_TAINT_PREFIX) or taint.key == names.MANAGED_TAINT
    return taint.effect in BLOCKING_EFFECTS and not is_temporary


def _insufficient_resource(requirements: NodeRequirements, node: Node, catalog: Catalog) -> str:
    for name, nano in requirements.amounts:
        if name in catalog.resources:
            continue  # the resource has a device class: it is claimed, and the kubelet does not count it
        allocatable = Quantity.parse(node.status.allocatable.get(name, "0"))
        if nano > allocatable.nano:
            return f"the node has only {allocatable} of {name}"
    return ""


def node_selector_matches(selector: NodeSelector, node: Node) -> bool:
    """Whether one of the terms matches; an empty term matches no node."""
    return any(_term_matches(term, node) for term in selector.node_selector_terms)


def _term_matches(term: SelectorTerm, node: Node) -> bool:
    if not (term.match_expressions or term.match_fields):
        return False
    fields = {"metadata.name": node.metadata.name}
    return all(_matches(match, node.metadata.labels) for match in term.match_expressions) and all(
        _matches(match, fields) for match in term.match_fields
    )


_OPERATORS: dict[str, Callable[[str | None, tuple[str, ...]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, values: (difference := _difference(value, values)) is not None and difference > 0,
    "Lt": lambda value, values: (difference := _difference(value, values)) is not None and difference < 0,
}


def _matches(match: SelectorMatch, values: Mapping[str, str]) -> bool:
    test = _OPERATORS.get(match.operator)
    return test is not None and test(values.get(match.key), match.values)


def _difference(value: str | None, values: tuple[str, ...]) -> int | None:
    """The difference between a label and the number it is compared with; None unless both are integers."""
    try:
        return int(value or "") - int(values[0] if values else "")
    except ValueError:
        return None


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration covers a taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key != taint.key and not (not toleration.key and toleration.operator == "Exists"):
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value


def mismatching_hosts(requirements: NodeRequirements, nodes: Iterable[Node], catalog: Catalog) -> frozenset[str]:
    """The Slurm hosts of nodes that never meet the requirements."""
    return frozenset(host_of(node) for node in nodes if mismatch_reason(requirements, node, catalog))
