# SPDX-License-Identifier: Apache-2.0
"""Describes a node for Slurm: the line that registers its host, its size, and the comment that identifies it. Pure."""

import ipaddress
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from slinky.bridge import names
from slinky.bridge.devices import inventory as devices
from slinky.bridge.devices.inventory import ANY_GPU, GPU_PLUGIN_RESOURCES, DeviceInventory, GresKind
from slinky.bridge.nodes.drains import StoppingPod
from slinky.kube import Node, Quantity
from slinky.slurm import Host, Presence, node_conf


@dataclass(frozen=True)
class NodeFacts:
    """What is known about a node in Kubernetes and in Slurm."""

    name: str  # of the host in Slurm
    node: Node | None
    host: Host | None
    presence: Presence
    signature: str  # beginning of the comment of hosts that this bridge created
    inventory: DeviceInventory = field(default_factory=DeviceInventory)
    partitions: Collection[str] | None = ()  # None while Slurm's partitions are not known
    node_size: str = "allocatable"
    unresponsive: bool = False  # not ready for longer than notReadySeconds
    stopping: Sequence[StoppingPod] = ()  # pods of ended jobs whose containers still run
    worker: str = ""  # a Slurm worker that already offers this node to Slurm as another host
    home_of: str = ""  # a control pod that the taint would evict, or leave without a node
    taint_effect: str = "NoExecute"
    scheduler: str = names.SCHEDULER


def devices_problem(inventory: DeviceInventory) -> str:
    """Why the devices of a node are not known for now; empty if they are."""
    if inventory.incomplete_pools:
        return f"Not every ResourceSlice of {', '.join(inventory.incomplete_pools)} exists yet."
    return f"Its devices cannot be described to Slurm: {inventory.problem}." if inventory.problem else ""


def internal_address(node: Node) -> str | None:
    """The first InternalIP of the node that is a literal IP address."""
    for address in node.status.addresses:
        if address.type == "InternalIP":
            try:
                return str(ipaddress.ip_address(address.address))
            except ValueError:
                continue
    return None


def node_partitions(node: Node) -> list[str]:
    """The partitions in the node's annotation; they become features of the host."""
    annotation = node.metadata.annotations.get(names.PARTITIONS_ANNOTATION, "")
    return [name.strip() for name in annotation.split(",") if name.strip()]


def node_topology(node: Node) -> str:
    """The position of the node in Slurm's topology."""
    return node.metadata.annotations.get(names.TOPOLOGY_ANNOTATION, "").strip()


def cpu_count(facts: NodeFacts, node: Node) -> int:
    """Whole CPUs that pods can use; with a CPU driver, the CPUs of the whole cores that the driver offers."""
    count = int(Quantity.parse(_amounts(facts, node).get("cpu", "0")).nano // 10**9)
    if (cores := facts.inventory.cpus) is not None:
        return min(count // cores.threads_per_core, len(cores.cores)) * cores.threads_per_core
    return count


def _cpu_layout(facts: NodeFacts, count: int) -> dict[str, str | int]:
    """CPUs as sockets, cores and threads: as the CPU driver reports them, else one socket of single-threaded cores."""
    cores = facts.inventory.cpus
    threads = cores.threads_per_core if cores else 1
    sockets = cores.sockets if cores and len(cores.cores) * threads == count else 1
    per_socket = count // threads // sockets
    return {
        "CPUs": count,
        "Boards": 1,
        "SocketsPerBoard": sockets,
        "CoresPerSocket": per_socket,
        "ThreadsPerCore": threads,
    }


def memory_mib(facts: NodeFacts, node: Node) -> int:
    """Whole MiB of memory that pods can use."""
    return int(Quantity.parse(_amounts(facts, node).get("memory", "0")).nano // (10**9 * 2**20))


def _amounts(facts: NodeFacts, node: Node) -> Mapping[str, str]:
    return node.status.allocatable if facts.node_size == "allocatable" else node.status.capacity


def plugin_gpu_count(node: Node) -> int:
    """GPUs that a device plugin offers."""
    return sum(Quantity.parse(node.status.allocatable.get(name, "0")).whole() for name in GPU_PLUGIN_RESOURCES)


def registration_line(facts: NodeFacts, node: Node, address: str) -> str:
    """The line of slurm.conf that registers the host. Raises `ValueError`."""
    count = cpu_count(facts, node)
    if count < 1 or memory_mib(facts, node) < 1:
        raise ValueError("it offers no CPU or no memory")
    settings: dict[str, str | int] = {
        "NodeAddr": address,
        **_cpu_layout(facts, count),
        "RealMemory": memory_mib(facts, node),
        "State": "EXTERNAL",
    }
    if features := node_partitions(node):
        settings["Feature"] = ",".join(features)
    if facts.inventory.gres:
        settings |= {
            "Gres": devices.format_gres(facts.inventory),
            "GresConf": devices.format_gres_conf(facts.inventory),
        }
    elif gpus := plugin_gpu_count(node):
        files = f"[0-{gpus - 1}]" if gpus > 1 else "0"
        settings |= {"Gres": f"gpu:{gpus}", "GresConf": f"Name=gpu,Count={gpus},File=/dev/gpu/{files}"}
    if topology := node_topology(node):
        settings["Topology"] = topology
    return node_conf(facts.name, **settings)


def offered_size(facts: NodeFacts, node: Node) -> tuple[int, int, dict[GresKind, int]]:
    """What the node offers: CPUs, MiB of memory, and devices."""
    gres = dict(facts.inventory.gres)
    if not gres and (gpus := plugin_gpu_count(node)):
        gres = {ANY_GPU: gpus}
    return cpu_count(facts, node), memory_mib(facts, node), gres


def is_same_size(facts: NodeFacts, node: Node, host: Host) -> bool:
    """Whether Slurm has the current size of the node. True for a node that reports no size for now."""
    if not node.ready or not cpu_count(facts, node) or not memory_mib(facts, node) or devices_problem(facts.inventory):
        return True
    if (registered := fingerprint(host.comment)) and registered != facts.inventory.fingerprint:
        return False
    return (host.cpus, host.real_memory, devices.parse_gres(host.gres)) == offered_size(facts, node)


def host_comment(facts: NodeFacts, node: Node) -> str:
    """The comment of the host: signature, uid of the node, and the size that was sent to Slurm.

    If Slurm has another size than the node, the size in the comment tells why: the node has changed since, or Slurm
    did not accept the size. In the second case registering the host again does not help.
    """
    count, memory, gres = offered_size(facts, node)
    suffix = "".join(f"+{kind}:{number}" for kind, number in sorted(gres.items()))
    device_ids = f"#{facts.inventory.fingerprint}" if facts.inventory else ""
    return f"{facts.signature} {node.metadata.uid} {count}/{memory}{suffix}{device_ids}"


def fingerprint(comment: str) -> str:
    """The fingerprint of the devices in the comment of a host; empty if it has none."""
    return comment.rpartition("#")[2] if "#" in comment else ""


def size_mismatch(facts: NodeFacts, node: Node, host: Host) -> str:
    """The difference between the size that was sent to Slurm and the size that Slurm accepted."""
    count, memory, gres = offered_size(facts, node)
    types = ",".join(sorted({kind.gres for kind in gres})) or "gpu"
    return (
        f"Slurm has {host.cpus} CPUs, {host.real_memory} MB and {host.gres or 'no devices'} where the node offers "
        f"{count} CPUs, {memory} MB and {sum(gres.values())} devices. "
        f"If devices are missing, add GresTypes={types} to slurm.conf."
    )
