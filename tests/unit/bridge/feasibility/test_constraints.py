# SPDX-License-Identifier: Apache-2.0
"""What a pod can never use."""

from typing import Any

import msgspec
import pytest
from tests.unit.bridge.build import needing, node, pod

from slinky.bridge import names
from slinky.bridge.devices.classes import Catalog
from slinky.bridge.feasibility import constraints
from slinky.bridge.views import (
    NodeSelector,
)

TERM = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}]}


@pytest.mark.parametrize(
    ("spec", "suits", "not_suits"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, {"labels": {"disk": "ssd"}}, {"labels": {"disk": "hdd"}}),
        (
            {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERM}}},
            {"labels": {"zone": "b"}},
            {"labels": {"zone": "c"}},
        ),
        ({}, {}, {"taints": [{"key": "x", "effect": "NoSchedule"}]}),
        (
            {"tolerations": [{"key": "x", "operator": "Exists"}]},
            {"taints": [{"key": "x", "effect": "NoExecute"}]},
            {"taints": [{"key": "y", "effect": "NoExecute"}]},
        ),
        (
            {},
            {"taints": [{"key": "x", "effect": "PreferNoSchedule"}]},
            {"taints": [{"key": "x", "effect": "NoExecute"}]},
        ),
    ],
)
def test_what_a_pod_can_never_use(spec: dict[str, Any], suits: dict[str, Any], not_suits: dict[str, Any]) -> None:
    shape = constraints.node_requirements_of(pod(spec=spec))
    assert not constraints.mismatch_reason(shape, node(**suits), Catalog())
    assert constraints.mismatch_reason(shape, node(**not_suits), Catalog())


@pytest.mark.parametrize(
    "taint",
    [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
        {"key": names.MANAGED_TAINT, "effect": "NoExecute", "value": names.SCHEDULER},
    ],
)
def test_what_passes_by_waiting_is_no_constraint(taint: dict[str, str]) -> None:
    assert not constraints.mismatch_reason(constraints.node_requirements_of(pod()), node(taints=[taint]), Catalog())


def test_a_full_node_is_slurms_business_and_a_small_one_is_ours() -> None:
    shape = constraints.node_requirements_of(needing({"cpu": "4", "example.com/fpga": "1"}))
    assert "fpga" in constraints.mismatch_reason(shape, node(), Catalog())
    assert not constraints.mismatch_reason(shape, node(amounts={"example.com/fpga": "1"}), Catalog())


def test_a_resource_behind_a_device_class_is_not_asked_of_the_kubelet() -> None:
    shape = constraints.node_requirements_of(needing({"example.com/gpu": "1"}))
    assert not constraints.mismatch_reason(shape, node(), Catalog({"example.com/gpu": "gpu.example.com"}))


def test_volumes_keep_a_pod_where_they_are() -> None:
    local = msgspec.convert(TERM, NodeSelector)
    shape = constraints.node_requirements_of(pod(), [local])
    assert constraints.mismatching_hosts(shape, [node("a", labels={"zone": "a"}), node("z")], Catalog()) == {"z"}


@pytest.mark.parametrize(
    ("operator", "values", "label", "holds"),
    [
        ("NotIn", ["a"], None, True), ("NotIn", ["a"], "a", False), ("Exists", [], "a", True),
        ("DoesNotExist", [], "a", False), ("Gt", ["3"], "4", True), ("Gt", ["3"], "x", False),
        ("Lt", ["3"], "2", True), ("Weird", [], "a", False),
        # Numbers are compared as numbers, strictly, and only where both are.
        ("Gt", ["9"], "10", True), ("Lt", ["10"], "9", True), ("Gt", ["3"], "3", False), ("Lt", ["3"], "3", False),
        ("Gt", ["-5"], "-4", True), ("Lt", ["-4"], "-5", True), ("Gt", ["3"], None, False), ("Lt", ["3"], None, False),
        ("Lt", ["3"], "x", False), ("Gt", ["x"], "4", False), ("Gt", [], "4", False), ("Lt", ["3.5"], "3", False),
    ],
)  # fmt: skip
def test_label_operators(operator: str, values: list[str], label: str | None, holds: bool) -> None:
    term = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": operator, "values": values}]}]}
    found = node(labels={"k": label} if label else {})
    assert constraints.node_selector_matches(msgspec.convert(term, NodeSelector), found) is holds
