# SPDX-License-Identifier: Apache-2.0
"""Hosts in the order of Slurm, assigned to pods in rank order."""

from typing import Any

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


@given(st.integers(1, 20), st.integers(1, 4), st.randoms(), st.data())
def test_an_assignment_from_a_stale_watch_is_the_same(count: int, per_node: int, random: object, data: Any) -> None:
    """Some of the pods are bound already; the watch has delivered any of these bindings, and not the others."""
    hosts = [f"h{i}" for i in range(-(-count // per_node))]
    by_name = {host: host for host in hosts}
    nodes = assignment.assign([pod(f"p-{i}") for i in range(count)], hosts, by_name, per_node)
    delivered = data.draw(st.sets(st.integers(0, count - 1)))
    stale = [pod(f"p-{i}", node=nodes[f"uid-p-{i}"] if i in delivered else "") for i in range(count)]
    random.shuffle(stale)  # type: ignore[attr-defined]
    assert assignment.assign(stale, hosts, by_name, per_node) == nodes


def test_pods_per_node_are_inferred_for_a_gang_whose_options_are_gone() -> None:
    bound = [pod(f"p-{i}", node="a") for i in range(2)]
    assert assignment.infer_pods_per_node([*bound, pod("p-2")], ["a", "b"]) == 2
    assert assignment.infer_pods_per_node([pod("p")], ["a"]) == 1
