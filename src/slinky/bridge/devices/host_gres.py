# SPDX-License-Identifier: Apache-2.0
"""Compares the devices of a Slurm host with those that the drivers of its node offer. Pure.

The bridge sizes external hosts itself. The devices of a host with a slurmd come from gres.conf, which may have other
counts, or no indexes. Then only the indexes that have a device are used. Slurm does not know which these are, so a job
must not get the host while fewer of them are free than it needs.
"""

import re
from collections import Counter
from collections.abc import Mapping

from slinky.bounds import CPU_RANGE_MAX
from slinky.bridge.devices import cores
from slinky.bridge.devices.inventory import CPUS, DeviceInventory, GresKind, parse_gres
from slinky.slurm import Host

UsableCounts = Mapping[GresKind, int]
"""How many devices of a kind a job can use on a host, for kinds of which Slurm may allocate more."""

_TERM = re.compile(r"(?:[^,(]|\([^)]*\))+")
_INDEXES = re.compile(r"\(IDX:([^)]*)\)")


def usable_counts(host: Host, inventory: DeviceInventory) -> UsableCounts:
    """How many devices of each kind a new job can use, for the kinds of which Slurm may allocate more than that."""
    counts, without_index, used = parse_gres(host.gres), names_without_index(host), _used_indexes(host)
    usable: dict[GresKind, int] = {}
    for name in {kind.gres for kind in counts}:
        types = {kind: count for kind, count in counts.items() if kind.gres == name}
        if name not in without_index and all(inventory.gres.get(kind, 0) >= count for kind, count in types.items()):
            continue
        free = Counter[GresKind]()
        for index in range(min(sum(types.values()), CPU_RANGE_MAX)) if name not in without_index else ():
            entry = inventory.at_slurm_index(types, name, index)
            if entry is not None and index not in used.get(name, ()):
                free[entry[0]] += 1
        usable |= {kind: free[kind] for kind in types} | {GresKind(name): free.total()}
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
    return {term.partition(":")[0] for term in _used_terms(host) if "IDX:" not in term}


def _used_indexes(host: Host) -> dict[str, set[int]]:
    """The indexes in use by GRES name."""
    used: dict[str, set[int]] = {}
    for term in _used_terms(host):
        if match := _INDEXES.search(term):
            used.setdefault(term.partition(":")[0], set()).update(cores.parse_ranges(match[1]))
    return used


def _used_terms(host: Host) -> list[str]:
    """The terms of the devices in use, such as `gpu:a:2(IDX:0-1)`."""
    return [term for term in _TERM.findall(host.gres_used) if parse_gres(term)]
