# SPDX-License-Identifier: Apache-2.0
"""Hosts in the order of Slurm, assigned to pods in rank order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.bridge.build import pod

from slinky.bridge import names
from slinky.bridge.lifecycle.decide import assignment
from slinky.bridge.lifecycle.decide.assignment import UnsuitableNodes


def test_ranks_follow_slurms_order_of_hosts() -> None:
    pods = [pod(f"w-{i}", job="7") for i in (2, 0, 1)]
    nodes = assignment.assign(pods, ["h3", "h1", "h2"], {f"h{i}": f"n{i}" for i in (1, 2, 3)})
    assert nodes == {"uid-w-0": "n3", "uid-w-1": "n1", "uid-w-2": "n2"}


def test_earlier_assignments_stay() -> None:
    pods = [pod("w-0"), pod("w-1", annotations={names.NODE_ANNOTATION: "a"}), pod("w-2", node="b")]
    nodes = assignment.assign(pods, ["a", "b", "c"], {n: n for n in "abc"})
    assert nodes == {"uid-w-0": "c", "uid-w-1": "a", "uid-w-2": "b"}


@pytest.mark.parametrize(
    ("pods", "hosts"), [([pod("a"), pod("b")], ["a"]), ([pod("a")], ["unknown"]), ([pod("a", node="z")], ["a"])]
)
def test_a_job_whose_nodes_do_not_suit_its_pods_raises(pods: list[object], hosts: list[str]) -> None:
    with pytest.raises(UnsuitableNodes):
        assignment.assign(pods, hosts, {n: n for n in "abc"})  # type: ignore[arg-type]


@given(st.integers(1, 60), st.integers(1, 8), st.randoms())
def test_no_slot_is_assigned_twice(count: int, per_node: int, random: object) -> None:
    hosts = [f"h{i}" for i in range(-(-count // per_node))]
    pods = [pod(f"p-{i}") for i in range(count)]
    random.shuffle(pods)  # type: ignore[attr-defined]
    nodes = assignment.assign(pods, hosts, {host: host for host in hosts}, per_node)
    assert len(nodes) == count
    assert max(list(nodes.values()).count(host) for host in hosts) <= per_node


def test_pods_per_node_are_inferred_for_a_gang_whose_options_are_gone() -> None:
    bound = [pod(f"p-{i}", node="a") for i in range(2)]
    assert assignment.infer_pods_per_node([*bound, pod("p-2")], ["a", "b"]) == 2
    assert assignment.infer_pods_per_node([pod("p")], ["a"]) == 1
