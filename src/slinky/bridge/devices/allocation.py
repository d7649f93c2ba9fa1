# SPDX-License-Identifier: Apache-2.0
"""Which of the devices that Slurm allocated to a job each request of a pod gets. Pure.

Slurm allocates devices of a node to a job by type and index, and cores by bitmap. The requests of a pod take devices
from these in order, and never a device that another claim has. A job with a whole node has more devices than its pods
request; the rest stays free.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slinky.bounds import CLAIM_DEVICES_MAX
from slinky.bridge.devices import cores
from slinky.bridge.devices.classes import Unclaimable
from slinky.bridge.devices.cores import Core, CpuTopology, DeviceId
from slinky.bridge.devices.inventory import CPUS, DeviceInventory, GresKind, parse_gres
from slinky.bridge.devices.requests import ClassRequest
from slinky.slurm import NodeResources

#: Version of the CPU driver's configuration that names the CPUs of a group.
CPU_CONFIG_VERSION = "v1alpha1"

IsInUse = Callable[[DeviceId], bool]


class DevicesInUse(Exception):  # noqa: N818 -- a reason to wait
    """Another claim still has devices that Slurm allocated to the job."""


@dataclass(frozen=True, slots=True)
class MappedRequest:
    """A request and the GRES that the job requested for it."""

    request: ClassRequest
    kind: GresKind


@dataclass(frozen=True, slots=True)
class DeviceGrant:
    """The devices and cores that Slurm allocated to a job on one node."""

    devices: Mapping[GresKind, Sequence[DeviceId]] = field(default_factory=dict)
    cores: Sequence[Core] = ()
    topology: CpuTopology | None = None
    absent: Sequence[str] = ()  # devices that Slurm allocated and the drivers of the node do not offer

    @property
    def is_grouped(self) -> bool:
        """Whether the CPU driver of the node offers groups of CPUs."""
        return self.topology is not None and self.topology.grouped

    def devices_of(self, kind: GresKind) -> list[DeviceId]:
        """The devices of a kind; a kind without a type includes all types."""
        return [
            device for own, devices in self.devices.items() if kind in (own, GresKind(own.gres)) for device in devices
        ]

    def device_ids(self) -> set[DeviceId]:
        """The ids of all devices and CPUs, as in the index of claims."""
        topology = self.topology
        cpus = {topology.cpu_id(cpu) for core in self.cores for cpu in core} if topology else set()
        return cpus | {device for devices in self.devices.values() for device in devices}


@dataclass(frozen=True, slots=True)
class RequestAllocation:
    """The devices of one request; for CPUs, the device of each CPU and the CPUs."""

    request: str
    devices: Sequence[DeviceId] = ()
    cpus: Sequence[int] = ()


def read_grant(resources: NodeResources, inventory: DeviceInventory, host_gres: str = "") -> DeviceGrant:
    """The devices and cores that Slurm allocated to a job on a node; `host_gres` are the devices of the host in Slurm.

    A host with a slurmd may have more devices in Slurm than the drivers of the node offer; an index without a device is
    left out. Raises `Unclaimable` if Slurm does not list the indexes.
    """
    devices: dict[GresKind, list[DeviceId]] = {}
    absent: list[str] = []
    counts = parse_gres(host_gres) or inventory.gres
    for gres in resources.gres:
        if not gres.count or all(kind.gres != gres.name for kind in inventory.gres):
            continue
        indexes = cores.parse_ranges(gres.index or "")
        if not indexes:
            raise Unclaimable(f"Slurm allocated {gres.count} of {gres.name}:{gres.type} without their indexes")
        for index in indexes:
            if (entry := inventory.at_slurm_index(counts, gres.name, index)) is None:
                absent.append(f"{gres.name} {index}")
            else:
                devices.setdefault(entry[0], []).append(entry[1].id)
    return DeviceGrant(devices, _allocated_cores(resources, inventory.cpus), inventory.cpus, absent)


def _allocated_cores(resources: NodeResources, topology: CpuTopology | None) -> list[Core]:
    if topology is None:
        return []
    slurm_cores = resources.sockets_per_node * resources.cores_per_socket
    bits = cores.parse_bitmap(resources.core_bitmap)
    if slurm_cores > len(topology.cores) or any(bit >= len(topology.cores) for bit in bits):
        raise Unclaimable(
            f"Slurm has {slurm_cores} cores on {resources.node}, but the CPU driver offers {len(topology.cores)}, "
            "so Slurm's cores cannot be mapped to CPUs"
        )
    return [topology.cores[bit] for bit in bits]


def allocate_requests(
    requests: Sequence[MappedRequest], grant: DeviceGrant, is_in_use: IsInUse
) -> list[RequestAllocation]:
    """The devices of each request.

    Raises `DevicesInUse` if Slurm allocated enough devices but another claim has some of them, otherwise `Unclaimable`.
    """
    allocations: list[RequestAllocation] = []
    used_devices: set[DeviceId] = set()
    used_cores: set[Core] = set()
    for mapped in requests:
        if mapped.kind == CPUS:
            allocation = _allocate_cpus(mapped.request, grant, is_in_use, used_cores)
        else:
            allocation = _allocate_devices(mapped, grant, lambda device: device in used_devices or is_in_use(device))
            used_devices.update(allocation.devices)
        allocations.append(allocation)
    if (results := sum(len(_results(allocation, grant, "")) for allocation in allocations)) > CLAIM_DEVICES_MAX:
        raise Unclaimable(_too_many(results))
    return allocations


def check_size(requests: Sequence[MappedRequest]) -> None:
    """Raises `Unclaimable` if the requests without CPUs need more devices than a claim can have."""
    if (devices := _device_count(requests)) > CLAIM_DEVICES_MAX:
        raise Unclaimable(_too_many(devices))


def check_size_with_cpus(requests: Sequence[MappedRequest], topologies: Mapping[str, CpuTopology]) -> frozenset[str]:
    """The nodes whose CPU driver allows that one claim has all these devices; `topologies` are the CPUs by node.

    A claim has one device for each single CPU. Of a driver of groups it has, for each request, each group at most once.
    Raises `Unclaimable` if there are nodes, and none allows it.
    """
    cpus = [mapped.request.count for mapped in requests if mapped.kind == CPUS]
    sizes = {
        node: _device_count(requests) + sum(min(count, own.group_count) if own.grouped else count for count in cpus)
        for node, own in topologies.items()
    }
    if sizes and min(sizes.values()) > CLAIM_DEVICES_MAX:
        raise Unclaimable(_too_many(min(sizes.values())))
    return frozenset(node for node, size in sizes.items() if size <= CLAIM_DEVICES_MAX)


def _device_count(requests: Iterable[MappedRequest]) -> int:
    return sum(mapped.request.count for mapped in requests if mapped.kind != CPUS)


def _too_many(count: int) -> str:
    return f"{count} devices are requested in sum, but a claim can have at most {CLAIM_DEVICES_MAX} devices"


def _allocate_devices(mapped: MappedRequest, grant: DeviceGrant, is_in_use: IsInUse) -> RequestAllocation:
    devices, count = grant.devices_of(mapped.kind), mapped.request.count
    if len(devices) < count:
        absent = f"; the drivers of the node do not offer {', '.join(grant.absent[:3])}" if grant.absent else ""
        raise Unclaimable(f"Slurm allocated {len(devices)} of {mapped.kind}, but the pod needs {count}{absent}")
    free = [device for device in devices if not is_in_use(device)]
    if len(free) < count:
        raise DevicesInUse(f"{count - len(free)} of the allocated {mapped.kind} are still in use by another claim")
    return RequestAllocation(mapped.request.name, free[:count])


def _allocate_cpus(
    request: ClassRequest, grant: DeviceGrant, is_in_use: IsInUse, used_cores: set[Core]
) -> RequestAllocation:
    """Take whole cores until there are enough CPUs; surplus CPUs of the last core stay idle."""
    topology, allocated = grant.topology, sum(map(len, grant.cores))
    if topology is None or allocated < request.count:
        raise Unclaimable(f"Slurm allocated {allocated} CPUs, but the pod needs {request.count}")
    cpus: list[int] = []
    for core in grant.cores:
        if core in used_cores or any(is_in_use(topology.cpu_id(cpu)) for cpu in core):
            continue
        if len(cpus) < request.count:
            used_cores.add(core)
            cpus += core
    if len(cpus) < request.count:
        raise DevicesInUse(f"{request.count - len(cpus)} of the allocated CPUs are still in use by another claim")
    cpus = sorted(cpus[: request.count])
    return RequestAllocation(request.name, [topology.device_of_cpu[cpu] for cpu in cpus], cpus)


# --- the status of a claim


def allocation_status(
    allocations: Sequence[RequestAllocation], grant: DeviceGrant, node: str, config: Iterable[Mapping[str, Any]]
) -> Any:
    """The allocation in the status of a claim. Equal arguments give an equal result."""
    results = [result for allocation in allocations for result in _results(allocation, grant, node)]
    cpu_config = [_cpu_config(allocation) for allocation in allocations if allocation.cpus and grant.is_grouped]
    all_config = [*config, *cpu_config]
    match_node = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "devices": {"results": results, **({"config": all_config} if all_config else {})},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [match_node]}]},
    }


def _results(allocation: RequestAllocation, grant: DeviceGrant, node: str) -> list[dict[str, Any]]:
    if not (allocation.cpus and grant.is_grouped):
        return [{"request": allocation.request, **device._asdict()} for device in allocation.devices]
    cpus_by_group = {group: allocation.devices.count(group) for group in allocation.devices}
    cpus = cores.format_ranges(allocation.cpus)
    return [
        {
            "request": allocation.request,
            **group._asdict(),
            "shareID": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{node}/{'/'.join(group)}/{cpus}")),
            "consumedCapacity": {f"{group.driver}/{cores.CPU_CAPACITY}": str(count)},
        }
        for group, count in cpus_by_group.items()
    ]


def _cpu_config(allocation: RequestAllocation) -> dict[str, Any]:
    cpu_config = {"cpuset": cores.format_ranges(allocation.cpus)}
    parameters = {"apiVersion": CPU_CONFIG_VERSION, "cpuConfig": cpu_config}
    opaque = {"driver": allocation.devices[0].driver, "parameters": parameters}
    return {"source": "FromClaim", "requests": [allocation.request], "opaque": opaque}
