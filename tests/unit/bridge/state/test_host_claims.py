# SPDX-License-Identifier: Apache-2.0
"""Which of several nodes has a Slurm host."""

import itertools

import msgspec
from tests.unit.bridge.build import node

from slinky.bridge.state.host_claims import sort_claimants
from slinky.kube import Node


def made(name: str, when: str) -> Node:
    subject = node(name)
    metadata = msgspec.structs.replace(subject.metadata, created=when)
    return msgspec.structs.replace(subject, metadata=metadata)


OLD, YOUNG = made("z-old", "2026-01-01T00:00:00Z"), made("a-young", "2026-02-01T00:00:00Z")
NAMED = made("gpu-01", "2026-03-01T00:00:00Z")


def owner(comment: str, *nodes: Node) -> str:
    """The first claimant of host gpu-01, whatever the order of the nodes."""
    orders = itertools.permutations(nodes)
    (name,) = {sort_claimants("gpu-01", order, comment)[0].metadata.name for order in orders}
    return name


def test_the_node_for_which_the_host_was_registered_keeps_it() -> None:
    assert owner("slurm-bridge cluster/bridge uid-a-young 4/8192", OLD, YOUNG, NAMED) == "a-young"


def test_a_node_cannot_take_the_name_of_another_node() -> None:
    assert owner("", OLD, YOUNG, NAMED) == "gpu-01"
    assert owner("a comment of an administrator", OLD, NAMED) == "gpu-01"


def test_of_two_nodes_with_the_same_label_the_older_has_the_host() -> None:
    assert owner("", OLD, YOUNG) == "z-old"
