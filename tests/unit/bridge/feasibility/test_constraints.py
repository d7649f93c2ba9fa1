# SPDX-License-Identifier: Apache-2.0
"""Which nodes a pod can never use."""

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
def test_which_nodes_meet_the_requirements_of_a_pod(
    spec: dict[str, Any], suits: dict[str, Any], not_suits: dict[str, Any]
) -> None:
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
def test_temporary_taints_are_not_constraints(taint: dict[str, str]) -> None:
    assert not constraints.mismatch_reason(constraints.node_requirements_of(pod()), node(taints=[taint]), Catalog())


def test_a_node_that_is_too_small_is_excluded_and_a_full_one_is_not() -> None:
    shape = constraints.node_requirements_of(needing({"cpu": "4", "example.com/fpga": "1"}))
    assert "fpga" in constraints.mismatch_reason(shape, node(), Catalog())
    assert not constraints.mismatch_reason(shape, node(amounts={"example.com/fpga": "1"}), Catalog())


def test_a_resource_with_a_device_class_is_not_compared_with_allocatable() -> None:
    shape = constraints.node_requirements_of(needing({"example.com/gpu": "1"}))
    assert not constraints.mismatch_reason(shape, node(), Catalog({"example.com/gpu": "gpu.example.com"}))


def test_volumes_restrict_a_pod_to_nodes_that_reach_them() -> None:
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
    result = node(labels={"k": label} if label else {})
    assert constraints.node_selector_matches(msgspec.convert(term, NodeSelector), result) is holds
