# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from tests.unit.operator.samples import node, node_set

from slinky.api.names import metadata
from slinky.kube.views import Node, Taint
from slinky.operator.nodeset.decisions.placement import NodeFit, node_fit, node_slot

YES, NO, STAY = NodeFit(True, True), NodeFit(False, False), NodeFit(False, True)


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def expression(operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "n", "operator": operator, "values": list(values)}]}


CASES: list[tuple[str, dict[str, Any], Node, NodeFit]] = [
    ("any node fits an empty template", {}, node(), YES),
    ("the selector must match", {"nodeSelector": {"a": "1"}}, node(labels={"a": "2"}), NO),
    ("In", affinity(expression("In", "1", "2")), node(labels={"n": "2"}), YES),
    ("NotIn holds without the label", affinity(expression("NotIn", "1")), node(), YES),
    ("Exists", affinity(expression("Exists")), node(), NO),
    ("DoesNotExist", affinity(expression("DoesNotExist")), node(), YES),
    ("Gt compares numbers", affinity(expression("Gt", "9")), node(labels={"n": "10"}), YES),
    ("Lt compares numbers", affinity(expression("Lt", "9")), node(labels={"n": "10"}), NO),
    ("a word is no number", affinity(expression("Gt", "9")), node(labels={"n": "many"}), NO),
    ("an unknown operator matches nothing", affinity(expression("Like", "9")), node(labels={"n": "9"}), NO),
    ("an empty term matches nothing", affinity({}), node(), NO),
    ("one term is enough", affinity({}, expression("DoesNotExist")), node(), YES),
    (
        "fields name the node",
        affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node1"]}]}),
        node("node1"),
        YES,
    ),
    ("NoSchedule keeps new workers off", {}, node(taints=(Taint("x", "NoSchedule"),)), STAY),
    ("NoExecute sends workers away", {}, node(taints=(Taint("x", "NoExecute"),)), NO),
    ("PreferNoSchedule is only a wish", {}, node(taints=(Taint("x", "PreferNoSchedule"),)), YES),
    ("our own taint is tolerated", {}, node(taints=(Taint(metadata.WORKER_TAINT, "NoExecute"),)), YES),
    ("the taint of a bridge is tolerated", {}, node(taints=(Taint(metadata.BRIDGE_TAINT, "NoExecute", "b"),)), YES),
    ("as far as our pods do", {}, node(taints=(Taint(metadata.WORKER_TAINT, "NoSchedule"),)), STAY),
    ("and with no value", {}, node(taints=(Taint(metadata.WORKER_TAINT, "NoExecute", "any"),)), NO),
    ("a template that names a node fits no other", {"nodeName": "node2"}, node("node1"), NO),
    ("and fits that one", {"nodeName": "node1"}, node("node1"), YES),
    ("a node in trouble keeps its worker", {}, node(taints=(Taint("node.kubernetes.io/not-ready", "NoExecute"),)), YES),
    (
        "a cordoned node gets no new worker",
        {},
        node(taints=(Taint("node.kubernetes.io/unschedulable", "NoSchedule"),)),
        STAY,
    ),
    (
        "a toleration of everything",
        {"tolerations": [{"operator": "Exists"}]},
        node(taints=(Taint("x", "NoExecute"),)),
        YES,
    ),
    (
        "a toleration of another value",
        {"tolerations": [{"key": "x", "value": "1"}]},
        node(taints=(Taint("x", "NoExecute", "2"),)),
        NO,
    ),
]


@pytest.mark.parametrize(("law", "spec", "on", "result"), CASES, ids=[case[0] for case in CASES])
def test_which_nodes_get_a_worker(law: str, spec: dict[str, Any], on: Node, result: NodeFit) -> None:
    assert node_fit(node_set(scalingMode="DaemonSet", template={"spec": spec}), on) == result


def test_the_host_name_is_the_first_label_of_the_node_or_what_it_was_told() -> None:
    assert node_slot(node("a.b.c")).hostname == "a"
    assert node_slot(node("a.b.c", annotations={metadata.HOSTNAME_OVERRIDE: "x.y"})).hostname == "x.y"
