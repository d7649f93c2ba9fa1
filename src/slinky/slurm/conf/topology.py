# SPDX-License-Identifier: Apache-2.0
"""Builds topology.yaml from a typed model: trees of switches, blocks, or flat topologies.

A tree is checked before it is written (no loops, every child known, no node in two leaves), since slurmctld does not
start with an invalid one. `topology_setting` builds the `Topology=` value of a node.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from slinky.bounds import YAML_NESTING_MAX
from slinky.slurm.conf.text import ConfError, checked_name
from slinky.slurm.hostlist import HostlistError, expand
from slinky.slurm.model.values import Value

#: The loader in C is a hundred times faster; a wheel of PyYAML contains it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Switch(Value, frozen=True, gc=False):
    """A switch with nodes or other switches below it, as hostlists; a leaf may be empty."""

    name: str
    nodes: str = ""
    children: str = ""


class Block(Value, frozen=True, gc=False):
    """Nodes that share a fast network."""

    name: str
    nodes: str = ""


class Topology(Value, frozen=True, gc=False):
    """One topology: a tree if it has switches, a block topology if it has blocks, otherwise flat."""

    name: str
    cluster_default: bool = False
    switches: tuple[Switch, ...] = ()
    blocks: tuple[Block, ...] = ()
    block_sizes: tuple[int, ...] = ()

    def document(self) -> dict[str, Any]:
        """The entry of the file. Raises `ConfError` for a topology that slurmctld would reject."""
        head = {"topology": checked_name(self.name, "topology"), "cluster_default": self.cluster_default}
        if self.switches and self.blocks:
            raise ConfError(f"topology {self.name} has both switches and blocks")
        if self.switches:
            check_tree(self.switches)
            return head | {"tree": {"switches": [_switch_document(switch) for switch in self.switches]}}
        if self.blocks:
            _check_distinct((block.name for block in self.blocks), "block")
            _check_distinct((node for block in self.blocks for node in _expand_hosts(block.nodes)), "node")
            sizes = {"block_sizes": list(self.block_sizes)} if self.block_sizes else {}
            return head | {"block": sizes | {"blocks": [_block_document(block) for block in self.blocks]}}
        return head | {"flat": True}


def render_topologies(topologies: Iterable[Topology]) -> str:
    """The text of the file. Raises `ConfError` for an invalid topology."""
    entries = tuple(topologies)
    _check_distinct((topology.name for topology in entries), "topology")
    if sum(topology.cluster_default for topology in entries) > 1:
        raise ConfError("only one topology can be the cluster's default")
    documents = [topology.document() for topology in entries]
    text = yaml.safe_dump(documents, sort_keys=False, default_flow_style=False)
    if parse_topologies(text) != entries:
        raise ConfError("the rendered topologies do not parse back to the same topologies")
    return f"---\n{text}"


def parse_topologies(text: str) -> tuple[Topology, ...]:
    """The topologies of a file. Raises `ConfError` for any other text."""
    documents = _load_yaml(text)
    if not isinstance(documents, list):
        raise ConfError("the file is not a list of topologies")
    try:
        return tuple(_parse_topology(document) for document in documents)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfError(f"the file has an invalid topology: {error}") from error


def topology_setting(units: Mapping[str, str]) -> str:
    """The `Topology=` value of a node, from topology name to switch or block: `default:leaf2,nvl:b1`."""
    if not units:
        raise ConfError("an empty topology must be left out: Slurm would read the next word as its value")
    pairs = ((checked_name(name, "topology"), checked_name(unit, "switch or block")) for name, unit in units.items())
    return ",".join(f"{name}:{unit}" for name, unit in pairs)


def check_tree(switches: Iterable[Switch]) -> None:
    """Raise `ConfError` for an unknown child, a child of two switches, a loop, or a node in two leaves."""
    entries = tuple(switches)
    names = _check_distinct((switch.name for switch in entries), "switch")
    parents: dict[str, str] = {}
    for switch in entries:
        if switch.nodes and switch.children:
            raise ConfError(f"switch {switch.name} has both nodes and switches below it")
        for child in _expand_hosts(switch.children):
            if child not in names:
                raise ConfError(f"switch {switch.name} has the child {child}, which does not exist")
            if child in parents:
                raise ConfError(f"switch {child} is below both {parents[child]} and {switch.name}")
            parents[child] = switch.name
    _check_distinct((node for switch in entries for node in _expand_hosts(switch.nodes)), "node")
    for name in names:
        _check_no_loop(name, parents)


def _check_no_loop(name: str, parents: Mapping[str, str]) -> None:
    visited = {name}
    while name in parents:
        name = parents[name]
        if name in visited:
            raise ConfError(f"switch {name} is below itself")
        visited.add(name)


def _switch_document(switch: Switch) -> dict[str, str]:
    fields = {"switch": checked_name(switch.name, "switch"), "nodes": switch.nodes, "children": switch.children}
    return {key: text for key, text in fields.items() if text}


def _block_document(block: Block) -> dict[str, str]:
    fields = {"block": checked_name(block.name, "block"), "nodes": block.nodes}
    return {key: text for key, text in fields.items() if text}


def _expand_hosts(hostlist: str) -> list[str]:
    try:
        return [checked_name(name, "host") for name in expand(hostlist)]
    except HostlistError as error:
        raise ConfError(str(error)) from error


def _check_distinct(names: Iterable[str], label: str) -> set[str]:
    distinct: set[str] = set()
    for name in names:
        if name in distinct:
            raise ConfError(f"{label} {name} appears twice")
        distinct.add(name)
    return distinct


def _load_yaml(text: str) -> Any:
    """The document in a text. Aliases and deep nesting are refused: a few bytes of them stand for any size."""
    depth = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > YAML_NESTING_MAX or isinstance(event, yaml.AliasEvent):
                raise ConfError("the text has aliases or is nested too deeply")
        return yaml.load(text, Loader=_LOADER)  # noqa: S506 -- a safe loader
    except (yaml.YAMLError, ValueError) as error:
        raise ConfError(f"the text is not YAML: {error}") from error


def _parse_topology(document: Mapping[str, Any]) -> Topology:
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
