# SPDX-License-Identifier: Apache-2.0
"""topology.yaml from a typed model: trees of switches, blocks, or flat.

A tree is checked before it is written (one root, no loops, every child known, no node in two leaves), since
slurmctld refuses to start on a broken one. `specification` writes the `Topology=` of a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from slinky.slurm.conf.text import ConfError, checked_name
from slinky.slurm.hostlist import HostlistError, expand
from slinky.slurm.model.values import Value


class Switch(Value, frozen=True, gc=False):
    """A switch with nodes or with other switches below it, as hostlists; a leaf may be empty."""

    name: str
    nodes: str = ""
    children: str = ""


class Block(Value, frozen=True, gc=False):
    """Nodes with a fast network among them."""

    name: str
    nodes: str = ""


class Topology(Value, frozen=True, gc=False):
    """One topology: a tree if it has switches, blocks if it has blocks, else flat."""

    name: str
    cluster_default: bool = False
    switches: tuple[Switch, ...] = ()
    blocks: tuple[Block, ...] = ()
    block_sizes: tuple[int, ...] = ()

    def document(self) -> dict[str, Any]:
        """As the file has it. Raises `ConfError` for a topology that slurmctld would refuse."""
        head = {"topology": checked_name(self.name, "topology"), "cluster_default": self.cluster_default}
        if self.switches and self.blocks:
            raise ConfError(f"topology {self.name} is a tree or blocks, not both")
        if self.switches:
            check_tree(self.switches)
            return head | {"tree": {"switches": [_switch(switch) for switch in self.switches]}}
        if self.blocks:
            _distinct((block.name for block in self.blocks), "block")
            _distinct((node for block in self.blocks for node in _hosts(block.nodes)), "node")
            sizes = {"block_sizes": list(self.block_sizes)} if self.block_sizes else {}
            return head | {"block": sizes | {"blocks": [_block(block) for block in self.blocks]}}
        return head | {"flat": True}


def render_topologies(topologies: Iterable[Topology]) -> str:
    """The file. What was written is read back and compared."""
    kept = tuple(topologies)
    _distinct((topology.name for topology in kept), "topology")
    if sum(topology.cluster_default for topology in kept) > 1:
        raise ConfError("only one topology can be the cluster's default")
    documents = [topology.document() for topology in kept]
    written = yaml.safe_dump(documents, sort_keys=False, default_flow_style=False)
    if parse_topologies(written) != kept:
        raise ConfError("the text does not read as it was meant")
    return f"---\n{written}"


def parse_topologies(written: str) -> tuple[Topology, ...]:
    """The topologies of a file. Raises `ConfError` for anything else."""
    try:
        documents = yaml.safe_load(written)
    except yaml.YAMLError as error:
        raise ConfError(f"not YAML: {error}") from error
    if not isinstance(documents, list):
        raise ConfError("a topology file is a list")
    try:
        return tuple(_topology(document) for document in documents)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfError(f"not a topology: {error}") from error


def topology_setting(places: Mapping[str, str]) -> str:
    """A node's `Topology=` value, from topology name to switch or block: `default:leaf2,nvl:b1`."""
    if not places:
        raise ConfError("an empty topology must be left out: Slurm would take the next word for it")
    return ",".join(
        f"{checked_name(name, 'topology')}:{checked_name(place, 'place')}" for name, place in places.items()
    )


def check_tree(switches: Iterable[Switch]) -> None:
    """Raise `ConfError` unless these switches form one tree with every node in one leaf."""
    kept = tuple(switches)
    names = _distinct((switch.name for switch in kept), "switch")
    below: dict[str, str] = {}
    for switch in kept:
        if switch.nodes and switch.children:
            raise ConfError(f"switch {switch.name} has nodes or switches below it, not both")
        for child in _hosts(switch.children):
            if child not in names:
                raise ConfError(f"switch {switch.name} leads to {child}, which is not there")
            if child in below:
                raise ConfError(f"switch {child} hangs under {below[child]} and {switch.name}")
            below[child] = switch.name
    _distinct((node for switch in kept for node in _hosts(switch.nodes)), "node")
    for name in names:
        seen = {name}
        while name in below:
            name = below[name]  # noqa: PLW2901 - climbing
            if name in seen:
                raise ConfError(f"switch {name} is below itself")
            seen.add(name)


def _switch(switch: Switch) -> dict[str, str]:
    found = {"switch": checked_name(switch.name, "switch"), "nodes": switch.nodes, "children": switch.children}
    return {key: text for key, text in found.items() if text}


def _block(block: Block) -> dict[str, str]:
    found = {"block": checked_name(block.name, "block"), "nodes": block.nodes}
    return {key: text for key, text in found.items() if text}


def _hosts(hostlist: str) -> list[str]:
    try:
        return [checked_name(name, "host") for name in expand(hostlist)]
    except HostlistError as error:
        raise ConfError(str(error)) from error


def _distinct(names: Iterable[str], what: str) -> set[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ConfError(f"{what} {name} appears twice")
        seen.add(name)
    return seen


def _topology(document: Mapping[str, Any]) -> Topology:
    tree = (document.get("tree") or {}).get("switches") or ()
    block = document.get("block") or {}
    return Topology(
        name=str(document["topology"]),
        cluster_default=bool(document.get("cluster_default", False)),
        switches=tuple(
            Switch(str(item["switch"]), str(item.get("nodes") or ""), str(item.get("children") or "")) for item in tree
        ),
        blocks=tuple(Block(str(item["block"]), str(item.get("nodes") or "")) for item in block.get("blocks") or ()),
        block_sizes=tuple(int(size) for size in block.get("block_sizes") or ()),
    )
