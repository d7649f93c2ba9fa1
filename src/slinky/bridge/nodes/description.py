# SPDX-License-Identifier: Apache-2.0
"""What a node looks like in Slurm: the line that makes it, its size, and our mark, by which we know it again. Pure."""

import ipaddress
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from slinky.bridge import names
from slinky.bridge.devices import inventory as supply
from slinky.bridge.devices.inventory import ANY_GPU, GPU_PLUGIN_RESOURCES, DeviceInventory, GresKind
from slinky.kube import Node, Quantity
from slinky.slurm import Host, Presence, node_conf


@dataclass(frozen=True)
class NodeFacts:
    """All that is known of a node on both sides."""

    name: str  # in Slurm
    node: Node | None
    host: Host | None
    presence: Presence
    mark: str  # how we sign hosts that we made
    inventory: DeviceInventory = field(default_factory=DeviceInventory)
    partitions: Collection[str] | None = ()  # None while Slurm cannot tell
    size: str = "allocatable"
    silent: bool = False  # not ready for longer than we bear
    effect: str = "NoExecute"
    scheduler: str = names.SCHEDULER


def unclear(inventory: DeviceInventory) -> str:
    """Why nothing can be said of a node's devices for now."""
    if inventory.missing:
        return f"Not every ResourceSlice of {', '.join(inventory.missing)} is there yet."
    return f"The node cannot be told to Slurm: {inventory.fault}." if inventory.fault else ""


def internal_address(node: Node) -> str | None:
    """The node's own address, as a literal; None if it tells none."""
    for found in node.status.addresses:
        if found.type == "InternalIP":
            try:
                return str(ipaddress.ip_address(found.address))
            except ValueError:
                continue
    return None


def partitions(node: Node) -> list[str]:
    """The partitions the administrator chose, which are features of the host."""
    given = node.metadata.annotations.get(names.PARTITIONS_ANNOTATION, "")
    return [name.strip() for name in given.split(",") if name.strip()]


def topology(node: Node) -> str:
    """Where the node is, in Slurm's words."""
    return node.metadata.annotations.get(names.TOPOLOGY_ANNOTATION, "").strip()


def cpus(facts: NodeFacts, node: Node) -> int:
    """Whole CPUs that pods can have; where they are devices, those of whole cores that the driver offers."""
    count = int(Quantity.parse(_amounts(facts, node).get("cpu", "0")).nano // 10**9)
    if (own := facts.inventory.cores) is not None:
        return min(count // own.threads, len(own.cores)) * own.threads
    return count


def _shape(facts: NodeFacts, count: int) -> dict[str, str | int]:
    """So many CPUs as sockets, cores and threads: as the CPU driver has them, else as one socket of plain cores."""
    own = facts.inventory.cores
    threads = own.threads if own else 1
    sockets = own.sockets if own and len(own.cores) * threads == count else 1
    each = count // threads // sockets
    return {"CPUs": count, "Boards": 1, "SocketsPerBoard": sockets, "CoresPerSocket": each, "ThreadsPerCore": threads}


def memory(facts: NodeFacts, node: Node) -> int:
    """Whole MiB that pods can have."""
    return int(Quantity.parse(_amounts(facts, node).get("memory", "0")).nano // (10**9 * 2**20))


def _amounts(facts: NodeFacts, node: Node) -> Mapping[str, str]:
    return node.status.allocatable if facts.size == "allocatable" else node.status.capacity


def plugin_gpus(node: Node) -> int:
    """GPUs that a device plugin offers."""
    return sum(Quantity.parse(node.status.allocatable.get(name, "0")).whole() for name in GPU_PLUGIN_RESOURCES)


def line(facts: NodeFacts, node: Node, address: str) -> str:
    """The line that creates the host. Raises `ValueError`."""
    count = cpus(facts, node)
    if count < 1 or memory(facts, node) < 1:
        raise ValueError("it offers no CPU or no memory")
    settings: dict[str, str | int] = {
        "NodeAddr": address,
        **_shape(facts, count),
        "RealMemory": memory(facts, node),
        "State": "EXTERNAL",
    }
    if chosen := partitions(node):
        settings["Feature"] = ",".join(chosen)
    if facts.inventory.gres:
        settings |= {"Gres": supply.format_gres(facts.inventory), "GresConf": supply.format_gres_conf(facts.inventory)}
    elif many := plugin_gpus(node):
        files = f"[0-{many - 1}]" if many > 1 else "0"
        settings |= {"Gres": f"gpu:{many}", "GresConf": f"Name=gpu,Count={many},File=/dev/gpu/{files}"}
    if place := topology(node):
        settings["Topology"] = place
    return node_conf(facts.name, **settings)


def size(facts: NodeFacts, node: Node) -> tuple[int, int, dict[GresKind, int]]:
    """What the node offers: CPUs, memory, and devices."""
    wanted = dict(facts.inventory.gres)
    if not wanted and (many := plugin_gpus(node)):
        wanted = {ANY_GPU: many}
    return cpus(facts, node), memory(facts, node), wanted


def same_size(facts: NodeFacts, node: Node, host: Host) -> bool:
    """Whether Slurm has the node as it is. A node that tells nothing for now keeps its size."""
    if not node.ready or not cpus(facts, node) or not memory(facts, node) or unclear(facts.inventory):
        return True
    if (told := fingerprint(host.comment)) and told != facts.inventory.fingerprint:
        return False
    return (host.cpus, host.real_memory, supply.parse_gres(host.gres)) == size(facts, node)


def signed(facts: NodeFacts, node: Node) -> str:
    """Our mark on a host, with the very node it stands for and the size that Slurm was told.

    The size tells a node that changed from a Slurm that took it otherwise: the second is not mended by trying again.
    """
    count, megabytes, held = size(facts, node)
    told = "".join(f"+{kind}:{many}" for kind, many in sorted(held.items()))
    which = f"#{facts.inventory.fingerprint}" if facts.inventory else ""
    return f"{facts.mark} {node.metadata.uid} {count}/{megabytes}{told}{which}"


def fingerprint(comment: str) -> str:
    """Which devices a host that we signed stands for; empty if it was not told."""
    return comment.rpartition("#")[2] if "#" in comment else ""


def refused(facts: NodeFacts, node: Node, host: Host) -> str:
    """What Slurm made of a node that it was told of correctly."""
    count, megabytes, held = size(facts, node)
    types = ",".join(sorted({kind.gres for kind in held})) or "gpu"
    return (
        f"Slurm has {host.cpus} CPUs, {host.real_memory} MB and {host.gres or 'no devices'} where the node offers "
        f"{count} CPUs, {megabytes} MB and {sum(held.values())} devices. "
        f"If devices are lacking, add GresTypes={types} to slurm.conf."
    )
