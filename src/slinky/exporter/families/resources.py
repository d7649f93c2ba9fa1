# SPDX-License-Identifier: Apache-2.0
"""Families of resources: CPUs, memory and generic resources of nodes by use, and licences."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from slinky.exporter.families.family import Compute, Family, Values
from slinky.exporter.snapshot import ClusterSnapshot
from slinky.insight.tres import MEGABYTE, parse_gres
from slinky.slurm import Host


class Capacity(NamedTuple):
    """How much of one resource of a node jobs use, could use now, and cannot use."""

    allocated: float
    idle: float
    unavailable: float


def _capacity(host: Host, total: float, allocated: float) -> Capacity:
    free = max(0.0, total - allocated)
    return Capacity(allocated, free, 0.0) if host.state.schedulable else Capacity(allocated, 0.0, free)


def _capacities(read: Callable[[Host], Mapping[tuple[str, ...], Capacity]]) -> Compute:
    """Sums of a resource by partition, further labels, and state."""

    def compute(snapshot: ClusterSnapshot) -> Values:
        sums: dict[tuple[str, ...], float] = defaultdict(float)
        for host in snapshot.hosts:
            for labels, capacity in read(host).items():
                for state, amount in zip(Capacity._fields, capacity, strict=True):
                    for partition in host.partitions or ("",):
                        sums[(partition, *labels, state)] += amount
        return sums

    return compute


def _cluster_capacities(read: Callable[[Host], Mapping[tuple[str, ...], Capacity]]) -> Compute:
    """Sums of a resource over the cluster by further labels and state: every node counts once."""

    def compute(snapshot: ClusterSnapshot) -> Values:
        sums: dict[tuple[str, ...], float] = defaultdict(float)
        for host in snapshot.hosts:
            for labels, capacity in read(host).items():
                for state, amount in zip(Capacity._fields, capacity, strict=True):
                    sums[(*labels, state)] += amount
        return sums

    return compute


def _cpus(host: Host) -> Mapping[tuple[str, ...], Capacity]:
    return {(): _capacity(host, host.effective_cpus or host.cpus, host.alloc_cpus)}


def _memory(host: Host) -> Mapping[tuple[str, ...], Capacity]:
    return {(): _capacity(host, host.real_memory * MEGABYTE, host.alloc_memory * MEGABYTE)}


def gres_of(host: Host) -> Mapping[tuple[str, ...], Capacity]:
    """The generic resources of a node by name and type."""
    used = parse_gres(host.gres_used)
    return {kind: _capacity(host, total, used.get(kind, 0)) for kind, total in parse_gres(host.gres).items()}


def _licenses(snapshot: ClusterSnapshot) -> Values:
    return {
        (item.license_name, state): amount
        for item in snapshot.licenses
        for state, amount in (("used", item.used), ("free", item.free), ("reserved", item.reserved))
    }


FAMILIES: tuple[Family, ...] = (
    Family("cpus", "CPUs of nodes by use.", ("partition", "state"), _capacities(_cpus)),
    Family("memory_bytes", "Memory of nodes by use.", ("partition", "state"), _capacities(_memory)),
    Family(
        "gres",
        "Generic resources of nodes by use.",
        ("partition", "gres", "type", "state"),
        _capacities(gres_of),
    ),
    Family("cluster_cpus", "CPUs of the cluster by use.", ("state",), _cluster_capacities(_cpus)),
    Family("cluster_memory_bytes", "Memory of the cluster by use.", ("state",), _cluster_capacities(_memory)),
    Family(
        "cluster_gres",
        "Generic resources of the cluster by use.",
        ("gres", "type", "state"),
        _cluster_capacities(gres_of),
    ),
    Family("licenses", "Licences by use.", ("license", "state"), _licenses),
)
