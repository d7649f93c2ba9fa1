# SPDX-License-Identifier: Apache-2.0
"""Slurm's hosts in Slurm's order, to pods in the order of their ranks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.bridge.build import pod

from slinky.bridge import names
from slinky.bridge.lifecycle import assignment
from slinky.bridge.lifecycle.assignment import Misplaced


def test_ranks_follow_slurms_order_of_hosts() -> None:
    pods = [pod(f"w-{i}", job="7") for i in (2, 0, 1)]
    found = assignment.assign(pods, ["h3", "h1", "h2"], {f"h{i}": f"n{i}" for i in (1, 2, 3)})
    assert found == {"uid-w-0": "n3", "uid-w-1": "n1", "uid-w-2": "n2"}


def test_what_was_assigned_stays() -> None:
    pods = [pod("w-0"), pod("w-1", annotations={names.NODE_ANNOTATION: "a"}), pod("w-2", node="b")]
    found = assignment.assign(pods, ["a", "b", "c"], {n: n for n in "abc"})
    assert found == {"uid-w-0": "c", "uid-w-1": "a", "uid-w-2": "b"}


@pytest.mark.parametrize(
    ("pods", "hosts"), [([pod("a"), pod("b")], ["a"]), ([pod("a")], ["strange"]), ([pod("a", node="z")], ["a"])]
)
def test_a_job_that_does_not_suit_its_pods_is_told(pods: list[object], hosts: list[str]) -> None:
    with pytest.raises(Misplaced):
        assignment.assign(pods, hosts, {n: n for n in "abc"})  # type: ignore[arg-type]


@given(st.integers(1, 60), st.integers(1, 8), st.randoms())
def test_no_place_is_given_twice(count: int, per_node: int, dice: object) -> None:
    hosts = [f"h{i}" for i in range(-(-count // per_node))]
    pods = [pod(f"p-{i}") for i in range(count)]
    dice.shuffle(pods)  # type: ignore[attr-defined]
    found = assignment.assign(pods, hosts, {host: host for host in hosts}, per_node)
    assert len(found) == count
    assert max(list(found.values()).count(host) for host in hosts) <= per_node


def test_a_gang_without_its_options_is_placed_as_it_was() -> None:
    bound = [pod(f"p-{i}", node="a") for i in range(2)]
    assert assignment.crowding([*bound, pod("p-2")], ["a", "b"]) == 2
    assert assignment.crowding([pod("p")], ["a"]) == 1
