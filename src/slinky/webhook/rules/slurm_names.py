# SPDX-License-Identifier: Apache-2.0
"""Names of nodes, node sets and partitions in Slurm that two objects must not both create. Pure functions."""

import re

from slinky.api import Controller, NodeSet
from slinky.slurm.conf import ConfError, parse
from slinky.slurm.hostlist import HostlistTooLongError, expand_all

#: Keywords, in lower case, with which a line of slurm.conf defines a name.
NODE = "nodename"
KEYWORDS = frozenset({NODE, "nodeset", "partitionname"})
#: Slurm uses a partition with this name, in any letter case, for the default settings of the partitions that follow.
DEFAULT_PARTITION = "default"
#: Slurm uses this name, in any letter case, for all nodes of the cluster.
ALL_NODES = "all"

_NUMBER = re.compile(r"[0-9]{1,18}\Z")


def defined_names(controller: Controller) -> set[tuple[str, str]]:
    """The names that `extraConf` defines, as (keyword in lower case, name)."""
    try:
        definitions = [line[0] for line in parse(controller.spec.extra_conf)]
    except ConfError:
        return set()
    pairs = [(definition.key.lower(), definition.value) for definition in definitions]
    others = {(keyword, text) for keyword, text in pairs if keyword in KEYWORDS and keyword != NODE}
    try:
        hosts = expand_all(text for keyword, text in pairs if keyword == NODE)
    except HostlistTooLongError:
        return others
    return others | {(NODE, name) for name in hosts}


def too_many_hosts(text: str) -> str:
    """Why the hosts that lines of slurm.conf define cannot be expanded; empty if they can."""
    try:
        expand_all(line[0].value for line in parse(text) if line[0].key.lower() == NODE)
    except (ConfError, HostlistTooLongError) as error:
        return str(error)
    return ""


def creates_name(node_set: NodeSet, keyword: str, name: str) -> bool:
    """Whether a NodeSet with its current number of workers creates this name."""
    if keyword == NODE:
        return not node_set.per_node and any(
            name == node_set.hostname(ordinal) for ordinal in _ordinals(node_set, name)
        )
    return name == node_set.slurm_name and (keyword == "nodeset" or node_set.spec.partition.enabled)


def host_prefix(node_set: NodeSet) -> str:
    """The prefix of the host names of a NodeSet."""
    return str(node_set.spec.template.spec.get("hostname") or f"{node_set.metadata.name}-")


def names_clash(first: NodeSet, second: NodeSet) -> bool:
    """Whether both could create the same name in Slurm: prefix `a-` with ordinal 10 is prefix `a-1` with ordinal 0."""
    if first.slurm_name == second.slurm_name:
        return True
    if first.per_node or second.per_node:
        return False
    short, long = sorted((host_prefix(first), host_prefix(second)), key=len)
    rest = long.removeprefix(short)
    return rest != long and rest.isascii() and rest.isdigit()


def _ordinals(node_set: NodeSet, host: str) -> list[int]:
    """The ordinal that a host of this name would have, if it is below the number of replicas."""
    digits = host.removeprefix(host_prefix(node_set))
    replicas = node_set.spec.replicas
    number = int(digits) if digits != host and _NUMBER.match(digits) else replicas
    return [number] if number < replicas else []
