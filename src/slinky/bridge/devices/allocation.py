# SPDX-License-Identifier: Apache-2.0
"""Which devices of a grant go to which request of a pod. Pure.

Slurm grants devices of a node to a job by type and index, and cores by bitmap; a pod's requests take theirs from
these, in order, and never one that somebody else holds. A job that owns the whole node has more than its pods ask
for: the rest stays free.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slinky.bridge.devices import cores
from slinky.bridge.devices import inventory as supply
from slinky.bridge.devices.classes import Unclaimable
from slinky.bridge.devices.cores import Core, CpuTopology, DeviceId
from slinky.bridge.devices.inventory import CPUS, DeviceInventory, GresKind
from slinky.bridge.devices.requests import ClassRequest
from slinky.slurm import NodeResources

#: A claim has no room for more devices.
CLAIM_DEVICES_MAX = 32
#: How the CPU driver wants to be told which CPUs of a group are meant.
CPU_CONFIG_VERSION = "v1alpha1"

IsTaken = Callable[[DeviceId], bool]


class DevicesInUse(Exception):  # noqa: N818 -- a reason to wait
    """Granted devices are still somebody else's."""


@dataclass(frozen=True)
class MappedRequest:
    """A request, and what it means to Slurm."""

    ask: ClassRequest
    kind: GresKind


@dataclass(frozen=True)
class DeviceGrant:
    """What Slurm gave to a job on one node."""

    devices: Mapping[GresKind, Sequence[DeviceId]] = field(default_factory=dict)
    cores: Sequence[Core] = ()
    topology: CpuTopology | None = None

    def of(self, kind: GresKind) -> list[DeviceId]:
        """The devices of a kind; of every type where none is named."""
        return [at for own, found in self.devices.items() if kind in (own, GresKind(own.gres)) for at in found]

    def keys(self) -> set[DeviceId]:
        """Everything that was given, as the index of claims knows it."""
        known = self.topology
        cpus = {known.key(cpu) for core in self.cores for cpu in core} if known else set()
        return cpus | {at for found in self.devices.values() for at in found}


@dataclass(frozen=True)
class RequestAllocation:
    """What one request gets: devices, or CPUs of devices."""

    request: str
    devices: Sequence[DeviceId] = ()
    cpus: Sequence[int] = ()


def read_grant(resources: NodeResources, inventory: DeviceInventory, told: str = "") -> DeviceGrant:
    """The devices and cores of a node that Slurm gave to a job; `told` are the node's devices as Slurm has them.

    Raises `Unclaimable` if Slurm does not tell which.
    """
    found: dict[GresKind, list[DeviceId]] = {}
    there = supply.parse_gres(told) or inventory.gres
    for gres in resources.gres:
        indexed = inventory.indexed(kind for kind in there if kind.gres == gres.name)
        if not gres.count or all(kind.gres != gres.name for kind in inventory.gres):
            continue
        if supply.gres_differs(there, inventory, gres.name):
            raise Unclaimable(
                f"Slurm has {told} on {resources.node} where its drivers offer {supply.format_gres(inventory)}"
            )
        indexes = cores.parse_ranges(gres.index or "")
        if not indexes:
            raise Unclaimable(f"Slurm granted {gres.count} of {gres.name}:{gres.type} without saying which")
        for index in indexes:
            if index >= len(indexed):
                raise Unclaimable(f"Slurm granted a {gres.name} that node {resources.node} does not have")
            kind, item = indexed[index]
            found.setdefault(kind, []).append(item.at)
    return DeviceGrant(found, _cores(resources, inventory.cores), inventory.cores)


def _cores(resources: NodeResources, known: CpuTopology | None) -> list[Core]:
    if known is None:
        return []
    there = resources.sockets_per_node * resources.cores_per_socket
    chosen = cores.parse_bitmap(resources.core_bitmap)
    if there > len(known.cores) or any(bit >= len(known.cores) for bit in chosen):
        raise Unclaimable(
            f"Slurm has {there} cores on {resources.node} where the CPU driver offers {len(known.cores)}: "
            "they cannot be told from each other"
        )
    return [known.cores[bit] for bit in chosen]


def allocate_requests(needs: Sequence[MappedRequest], given: DeviceGrant, taken: IsTaken) -> list[RequestAllocation]:
    """What each request gets. Raises `Held` if enough was granted but some is still taken, else `Unclaimable`."""
    found: list[RequestAllocation] = []
    used: set[DeviceId] = set()
    spent: set[Core] = set()
    for need in needs:
        if need.kind == CPUS:
            share = _cpus(need.ask, given, taken, spent)
        else:
            share = _devices(need, given, lambda at: at in used or taken(at))
        used.update(share.devices if need.kind != CPUS else ())
        found.append(share)
    results = sum(len(_results(share, given, "")) for share in found)
    if results > CLAIM_DEVICES_MAX:
        raise Unclaimable(f"{results} devices are granted, and a claim holds at most {CLAIM_DEVICES_MAX}")
    return found


def _devices(need: MappedRequest, given: DeviceGrant, taken: IsTaken) -> RequestAllocation:
    everything = given.of(need.kind)
    count = need.ask.count
    if len(everything) < count:
        raise Unclaimable(f"Slurm granted {len(everything)} of {need.kind}, the pod needs {count}")
    free = [at for at in everything if not taken(at)]
    if len(free) < count:
        raise DevicesInUse(f"{count - len(free)} of the granted {need.kind} are still held by another claim")
    return RequestAllocation(need.ask.name, free[:count])


def _cpus(ask: ClassRequest, given: DeviceGrant, taken: IsTaken, spent: set[Core]) -> RequestAllocation:
    """Whole cores until there are CPUs enough; what is left of the last core stays idle."""
    if given.topology is None or sum(map(len, given.cores)) < ask.count:
        raise Unclaimable(f"Slurm granted {sum(map(len, given.cores))} CPUs, the pod needs {ask.count}")
    free = [
        core for core in given.cores if core not in spent and not any(taken(given.topology.key(cpu)) for cpu in core)
    ]
    chosen: list[int] = []
    for core in free:
        if len(chosen) < ask.count:
            spent.add(core)
            chosen += core
    if len(chosen) < ask.count:
        raise DevicesInUse(f"{ask.count - len(chosen)} of the granted CPUs are still held by another claim")
    chosen = sorted(chosen[: ask.count])
    return RequestAllocation(ask.name, [given.topology.offers[cpu] for cpu in chosen], chosen)


# --- what goes into the status of a claim


def allocation_status(
    found: Sequence[RequestAllocation], given: DeviceGrant, node: str, settings: Iterable[Mapping[str, Any]]
) -> Any:
    """What goes into the status of a claim. The same shares give the same words."""
    results = [result for share in found for result in _results(share, given, node)]
    grouped = given.topology is not None and given.topology.grouped
    config = [*settings, *(_cpu_setting(share) for share in found if share.cpus and grouped)]
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "devices": {"results": results, **({"config": config} if config else {})},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
    }


def _results(share: RequestAllocation, given: DeviceGrant, node: str) -> list[dict[str, Any]]:
    if not (share.cpus and given.topology is not None and given.topology.grouped):
        return [{"request": share.request, **at._asdict()} for at in share.devices]
    parts = {at: share.devices.count(at) for at in share.devices}
    return [
        {
            "request": share.request,
            **at._asdict(),
            "shareID": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{node}/{at}/{cores.format_ranges(share.cpus)}")),
            "consumedCapacity": {f"{at.driver}/{cores.CPU_CAPACITY}": str(count)},
        }
        for at, count in parts.items()
    ]


def _cpu_setting(share: RequestAllocation) -> dict[str, Any]:
    parameters = {"apiVersion": CPU_CONFIG_VERSION, "cpuConfig": {"cpuset": cores.format_ranges(share.cpus)}}
    opaque = {"driver": share.devices[0].driver, "parameters": parameters}
    return {"source": "FromClaim", "requests": [share.request], "opaque": opaque}
