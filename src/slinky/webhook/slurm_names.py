# SPDX-License-Identifier: Apache-2.0
"""Names in Slurm that objects give: of hosts, node sets and partitions. Two must never give the same one. Pure."""

import re

from slinky.api import Controller, NodeSet
from slinky.slurm.conf import ConfError, parse
from slinky.slurm.hostlist import HostlistError, expand

#: A line that starts with one of these gives a name.
KINDS = frozenset({"nodename", "nodeset", "partitionname"})
#: Slurm takes a partition of this name, in any letter case, for the defaults of those that follow.
DEFAULTS = "default"
#: Slurm takes this for the nodes of the whole cluster, in any letter case.
EVERYTHING = "all"

_NUMBER = re.compile(r"[0-9]{1,18}\Z")


def defined(of: Controller) -> set[tuple[str, str]]:
    """What the site's text defines, as (kind in lower case, name)."""
    try:
        heads = [line[0] for line in parse(of.spec.extra_conf)]
    except ConfError:
        return set()
    kinds = [(head.key.lower(), head.value) for head in heads]
    return {(kind, name) for kind, text in kinds if kind in KINDS for name in _names(kind, text)}


def makes(of: NodeSet, kind: str, name: str) -> bool:
    """Whether a NodeSet gives this name, with the workers it has now."""
    if kind == "nodename":
        return not of.per_node and any(name == of.hostname(ordinal) for ordinal in _ordinals(of, name))
    return name == of.slurm_name and (kind == "nodeset" or of.spec.partition.enabled)


def prefix(of: NodeSet) -> str:
    """What its host names start with."""
    return str(of.spec.template.spec.get("hostname") or f"{of.metadata.name}-")


def clash(one: NodeSet, other: NodeSet) -> bool:
    """Can both have the same name in Slurm: `a-` with 10 is `a-1` with 0."""
    if one.slurm_name == other.slurm_name:
        return True
    if one.per_node or other.per_node:
        return False
    short, long = sorted((prefix(one), prefix(other)), key=len)
    rest = long.removeprefix(short)
    return rest != long and rest.isascii() and rest.isdigit()


def _names(kind: str, text: str) -> list[str]:
    if kind != "nodename":
        return [text]
    try:
        return expand(text)
    except HostlistError:
        return []


def _ordinals(of: NodeSet, host: str) -> list[int]:
    """The one ordinal that a host of this name could have, if the set is large enough to have it."""
    digits = host.removeprefix(prefix(of))
    number = int(digits) if digits != host and _NUMBER.match(digits) else of.spec.replicas
    return [number] if number < of.spec.replicas else []
