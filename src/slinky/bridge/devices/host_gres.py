# SPDX-License-Identifier: Apache-2.0
"""Compares the devices of a Slurm host with those that the drivers of its node offer. Pure.

The bridge sizes external hosts itself. The devices of a host with a slurmd come from gres.conf, which may have other
counts, or no indexes. Then only the indexes that have a device are used: a job that needs more devices of the node than
that must not get the host.
"""

import re
from collections.abc import Mapping

from slinky.bridge.devices.inventory import CPUS, DeviceInventory, GresKind, parse_gres
from slinky.slurm import Host

UsableCounts = Mapping[GresKind, int]
"""How many devices of a kind a job can use on a host, for kinds of which Slurm may allocate more."""

_PARENTHESES = re.compile(r"\([^)]*\)")


def usable_counts(host: Host, inventory: DeviceInventory) -> UsableCounts:
    """How many devices of each kind a job can use, for the kinds of which Slurm may allocate more than that."""
    counts, without_index = parse_gres(host.gres), names_without_index(host)
    usable: dict[GresKind, int] = {}
    for kind, count in counts.items():
        offered = 0 if kind.gres in without_index else inventory.gres.get(kind, 0)
        if offered < count:
            usable[kind] = offered
    for name in {kind.gres for kind in usable if kind.type}:
        types = {kind: count for kind, count in counts.items() if kind.gres == name}
        usable[GresKind(name)] = sum(usable.get(kind, count) for kind, count in types.items())
    if inventory.cpus is not None and _core_count(host) > len(inventory.cpus.cores):
        usable[CPUS] = 0
    return usable


def describe_mismatch(host: Host, inventory: DeviceInventory) -> str:
    """In which devices a host and the drivers of its node differ; empty if they agree.

    GRES names that no driver of the node offers are not compared: no device class can request them.
    """
    counts, offered, without_index = parse_gres(host.gres), inventory.gres, names_without_index(host)
    names = {kind.gres for kind in offered}
    kinds = dict.fromkeys([*(kind for kind in counts if kind.gres in names), *offered])
    texts = [
        f"{counts.get(kind, 0)} {kind}, the drivers of the node offer {offered.get(kind, 0)}"
        for kind in kinds
        if counts.get(kind, 0) != offered.get(kind, 0)
    ]
    texts += [f"{name} without indexes" for name in sorted(names & without_index)]
    if inventory.cpus is not None and _core_count(host) > len(inventory.cpus.cores):
        texts.append(f"{_core_count(host)} cores, the CPU driver of the node offers {len(inventory.cpus.cores)}")
    return f"Slurm host {host.name} has {' and '.join(texts)}" if texts else ""


def _core_count(host: Host) -> int:
    return max(1, host.sockets) * host.cores


def names_without_index(host: Host) -> set[str]:
    """The GRES names that Slurm only counts: it lists indexes in use only for devices with a file in gres.conf."""
    terms = re.findall(r"(?:[^,(]|\([^)]*\))+", host.gres_used)
    return {term.partition(":")[0] for term in terms if "IDX:" not in term and parse_gres(_PARENTHESES.sub("", term))}
