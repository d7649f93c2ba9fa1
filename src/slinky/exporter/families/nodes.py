# SPDX-License-Identifier: Apache-2.0
"""Families of nodes: states, drains, topology, reservations."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from slinky.exporter.families.family import NODE, Compute, Family, Values, node_names
from slinky.exporter.snapshot import ClusterSnapshot
from slinky.insight.tres import MEGABYTE
from slinky.slurm import Host

#: Drain owners by the beginning of the drain reason.
DRAIN_OWNERS = {
    "slurm-operator:": "operator",
    "slurm-bridge:": "bridge",
    "slinky:": "slinky",
    "Not responding": "slurmctld",
    "Low ": "slurmctld",
    "gres/": "slurmctld",
    "Kill task failed": "slurmd",
    "Prolog error": "slurmd",
    "Epilog error": "slurmd",
    "NHC": "health check",
}

#: Sizes of segments that jobs of block topologies request, in nodes.
SEGMENT_SIZES = (1, 2, 4, 8, 16, 32)


def _by_partition(snapshot: ClusterSnapshot) -> Iterator[tuple[Host, str]]:
    for host in snapshot.hosts:
        for partition in host.partitions or ("",):
            yield host, partition


def _nodes(snapshot: ClusterSnapshot) -> Values:
    return Counter((partition, _node_state(host)) for host, partition in _by_partition(snapshot))


def _cluster_nodes(snapshot: ClusterSnapshot) -> Values:
    return Counter((_node_state(host),) for host in snapshot.hosts)


def _node_state(host: Host) -> str:
    """One state per node: the one that matters most to an administrator."""
    if host.state.draining:
        return "drained" if host.state.drained else "draining"
    return host.state.base.lower()


def _node_flags(snapshot: ClusterSnapshot) -> Values:
    return Counter(
        (partition, flag.lower()) for host, partition in _by_partition(snapshot) for flag in host.state.flags
    )


def drain_owner(host: Host) -> str:
    """Who drained a node, by the beginning of its reason; `unknown` if there is no reason."""
    reason = host.reason.strip()
    if not reason:
        return "unknown"
    known = next((owner for prefix, owner in DRAIN_OWNERS.items() if reason.startswith(prefix)), "")
    return known or "administrator"


def _drains(snapshot: ClusterSnapshot) -> Values:
    return Counter((drain_owner(host),) for host in snapshot.hosts if host.state.draining)


def _oldest_drain(snapshot: ClusterSnapshot) -> Values:
    ages: dict[tuple[str, ...], float] = {}
    for host in snapshot.hosts:
        if host.state.draining and (since := host.reason_changed_at.whole):
            owner = (drain_owner(host),)
            ages[owner] = max(ages.get(owner, 0.0), snapshot.now - since)
    return ages


def _per_node(read: Callable[[Host], float]) -> Compute:
    return lambda snapshot: {(host.name,): read(host) for host in snapshot.hosts}


def _units(snapshot: ClusterSnapshot) -> Mapping[str, Sequence[Host]]:
    """The nodes of each unit of the topology, that is the block or the leaf switch (`topology:unit`)."""
    units: dict[str, list[Host]] = defaultdict(list)
    for host in snapshot.hosts:
        for unit in filter(None, host.topology.split(",")):
            units[unit].append(host)
    return units


def _idle_by_unit(snapshot: ClusterSnapshot) -> dict[str, int]:
    return {
        unit: sum(host.state.idle and host.state.schedulable for host in hosts)
        for unit, hosts in _units(snapshot).items()
    }


def _largest_idle_units(snapshot: ClusterSnapshot) -> Values:
    largest: dict[tuple[str, ...], float] = {}
    for unit, idle in _idle_by_unit(snapshot).items():
        topology = (unit.partition(":")[0],)
        largest[topology] = max(largest.get(topology, 0), idle)
    return largest


def _free_segments(snapshot: ClusterSnapshot) -> Values:
    segments: Counter[tuple[str, ...]] = Counter()
    for unit, idle in _idle_by_unit(snapshot).items():
        for size in SEGMENT_SIZES:
            segments[unit.partition(":")[0], str(size)] += idle // size
    return segments


# --- reservations


def _reserved(count: Callable[[Host], bool]) -> Compute:
    """Nodes of each reservation for which `count` holds."""

    def compute(snapshot: ClusterSnapshot) -> Values:
        if not snapshot.hosts:
            return {}
        hosts = {host.name: host for host in snapshot.hosts}
        return {
            (item.name,): sum(name in hosts and count(hosts[name]) for name in node_names(item.node_list))
            for item in snapshot.reservations
        }

    return compute


FAMILIES: tuple[Family, ...] = (
    Family("nodes", "Nodes by state; a node counts in every partition that it is in.", ("partition", "state"), _nodes),
    Family("cluster_nodes", "Nodes of the cluster by state; every node counts once.", ("state",), _cluster_nodes),
    Family("node_flags", "Nodes that have a flag of Slurm's node state.", ("partition", "flag"), _node_flags),
    Family("nodes_draining", "Draining and drained nodes, by who set the drain.", ("owner",), _drains),
    Family("node_drain_oldest_seconds", "Age of the oldest drain, by who set it.", ("owner",), _oldest_drain),
    Family(
        "topology_nodes",
        "Nodes by block or leaf switch of the topology.",
        ("unit",),
        lambda snapshot: {(unit,): len(hosts) for unit, hosts in _units(snapshot).items()},
    ),
    Family(
        "topology_idle_nodes",
        "Idle nodes by block or leaf switch of the topology.",
        ("unit",),
        lambda snapshot: {(unit,): idle for unit, idle in _idle_by_unit(snapshot).items()},
    ),
    Family(
        "topology_largest_idle_nodes",
        "Idle nodes of the block or leaf switch that has most of them.",
        ("topology",),
        _largest_idle_units,
    ),
    Family(
        "topology_free_segments",
        "Segments of so many idle nodes that fit into blocks or leaf switches.",
        ("topology", "size"),
        _free_segments,
    ),
    Family("node_cpus", "CPUs of a node.", NODE, _per_node(lambda host: host.cpus), detail="nodes"),
    Family(
        "node_cpus_allocated",
        "CPUs of a node that jobs hold.",
        NODE,
        _per_node(lambda host: host.alloc_cpus),
        detail="nodes",
    ),
    Family(
        "node_memory_bytes",
        "Memory of a node.",
        NODE,
        _per_node(lambda host: host.real_memory * MEGABYTE),
        detail="nodes",
    ),
    Family(
        "node_memory_allocated_bytes",
        "Memory of a node that jobs hold.",
        NODE,
        _per_node(lambda host: host.alloc_memory * MEGABYTE),
        detail="nodes",
    ),
    Family(
        "reservation_active",
        "1 while a reservation is active, otherwise 0.",
        ("reservation",),
        lambda snapshot: {(item.name,): float(item.active(snapshot.now)) for item in snapshot.reservations},
    ),
    Family(
        "reservation_nodes",
        "Nodes of a reservation.",
        ("reservation",),
        lambda snapshot: {(item.name,): item.node_count for item in snapshot.reservations},
    ),
    Family(
        "reservation_busy_nodes",
        "Nodes of a reservation that jobs use.",
        ("reservation",),
        _reserved(lambda host: host.state.busy),
    ),
    Family(
        "reservation_unavailable_nodes",
        "Nodes of a reservation that are down or draining.",
        ("reservation",),
        _reserved(lambda host: host.state.down or host.state.draining),
    ),
    Family(
        "reservation_start_timestamp_seconds",
        "Start of a reservation.",
        ("reservation",),
        lambda snapshot: {(item.name,): item.start_time.whole for item in snapshot.reservations},
    ),
    Family(
        "reservation_end_timestamp_seconds",
        "End of a reservation.",
        ("reservation",),
        lambda snapshot: {(item.name,): item.end_time.whole for item in snapshot.reservations if item.end_time.whole},
    ),
)
