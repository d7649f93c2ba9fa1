# SPDX-License-Identifier: Apache-2.0
"""CPUs as devices: maps the CPUs of a CPU driver to the cores of Slurm. Pure.

A CPU driver offers every CPU as a device, or groups of CPUs of which a claim takes a part and names the CPUs. In both
cases the cores of a node are sorted by socket and core, and bit *i* of Slurm's bitmap is the *i*-th core with all its
hardware threads. Efficiency cores, and cores with fewer threads than the others, are left out.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from slinky.bounds import CPU_RANGE_MAX
from slinky.bridge.views import Device

CPU_CAPACITY = "cpu"
Core = tuple[int, ...]
"""The CPUs of a core."""
#: Prefix of the name that the bridge uses for one CPU of a group; device names cannot contain a space.
GROUP_CPU_PREFIX = "cpu "
_RANGE_DIGITS = len(str(CPU_RANGE_MAX))
_RANGE = re.compile(r"\s*(\d+)(?:-(\d*))?\s*\Z", re.ASCII)


class DeviceId(NamedTuple):
    """A device, as an allocation names it."""

    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True)
class CpuTopology:
    """The cores of a node in Slurm's order, and the device that offers each CPU."""

    cores: tuple[Core, ...]
    device_of_cpu: Mapping[int, DeviceId]
    sockets: int = 1
    grouped: bool = False

    @property
    def threads_per_core(self) -> int:
        """The number of CPUs of a core."""
        return len(self.cores[0]) if self.cores else 1

    @property
    def group_count(self) -> int:
        """The number of devices that offer the CPUs."""
        return len(set(self.device_of_cpu.values()))

    def cpu_id(self, cpu: int) -> DeviceId:
        """The id of a CPU in the index of claims: its device, or a generated id if the device is a group."""
        return cpu_of_group(self.device_of_cpu[cpu], cpu) if self.grouped else self.device_of_cpu[cpu]


def cpu_of_group(group: DeviceId, cpu: int) -> DeviceId:
    """The generated id of one CPU of a group."""
    return DeviceId(group.driver, group.pool, f"{GROUP_CPU_PREFIX}{cpu}")


def read_topology(devices: Sequence[tuple[DeviceId, Device]]) -> CpuTopology | None:
    """The cores that these devices form; None if their attributes do not describe any."""
    single = all(_integer(device_id, device, "cpuID") is not None for device_id, device in devices)
    sockets_by_core = _cores_of_cpus(devices) if single else _cores_of_groups(devices)
    if not sockets_by_core:
        return None
    threads = max(len(core) for core in sockets_by_core)
    sockets_by_core = {core: socket for core, socket in sockets_by_core.items() if len(core) == threads}
    order = tuple(sorted(sockets_by_core, key=lambda core: (sockets_by_core[core], core)))
    cores_per_socket = {
        socket: sum(sockets_by_core[core] == socket for core in order) for socket in sockets_by_core.values()
    }
    sockets = len(cores_per_socket) if len(set(cores_per_socket.values())) == 1 else 1
    return CpuTopology(order, _devices_by_cpu(devices, order, single=single), sockets, grouped=not single)


def _cores_of_cpus(devices: Iterable[tuple[DeviceId, Device]]) -> dict[Core, int]:
    """The socket of each core, from devices that are single CPUs."""
    cpus_by_core: dict[tuple[int, int], list[int]] = {}
    for device_id, device in devices:
        cpu, socket = _integer(device_id, device, "cpuID"), _integer(device_id, device, "socketID") or 0
        core = _integer(device_id, device, "coreID")
        if cpu is not None and _text(device_id, device, "coreType") != "e-core":
            cpus_by_core.setdefault((socket, cpu if core is None else core), []).append(cpu)
    return {tuple(sorted(cpus)): socket for (socket, _), cpus in cpus_by_core.items()}


def _cores_of_groups(devices: Iterable[tuple[DeviceId, Device]]) -> dict[Core, int]:
    """The socket of each core, from devices that are groups of CPUs."""
    sockets: dict[Core, int] = {}
    for device_id, device in devices:
        cpus = set(parse_ranges(_text(device_id, device, "cpuIDs")))
        siblings = _parse_smt_layout(_text(device_id, device, "smtLayout"))
        for cpu in sorted(cpus):
            core = tuple(sorted({cpu, siblings.get(cpu, cpu)} & cpus))
            sockets[core] = _integer(device_id, device, "socketID") or 0
    return sockets


def _parse_smt_layout(layout: str) -> dict[int, int]:
    """The sibling of each CPU: `0-7>4;8-11` has four pairs at a distance of four, and four CPUs without a sibling."""
    siblings: dict[int, int] = {}
    for entry in filter(None, layout.split(";")):
        cpus, _, stride = entry.partition(">")
        distance = parse_ranges(stride)
        for cpu in parse_ranges(cpus) if len(distance) == 1 else ():
            if cpu not in siblings:
                siblings |= {cpu: cpu + distance[0], cpu + distance[0]: cpu}
    return siblings


def _devices_by_cpu(
    devices: Iterable[tuple[DeviceId, Device]], order: Iterable[Core], *, single: bool
) -> dict[int, DeviceId]:
    used = {cpu for core in order for cpu in core}
    by_cpu: dict[int, DeviceId] = {}
    for device_id, device in devices:
        cpus = [_integer(device_id, device, "cpuID")] if single else parse_ranges(_text(device_id, device, "cpuIDs"))
        by_cpu |= {cpu: device_id for cpu in cpus if cpu in used}
    return by_cpu


def _integer(device_id: DeviceId, device: Device, name: str) -> int | None:
    attribute = device.attributes.get(f"{device_id.driver}/{name}") or device.attributes.get(name)
    return attribute.number if attribute else None


def _text(device_id: DeviceId, device: Device, name: str) -> str:
    attribute = device.attributes.get(f"{device_id.driver}/{name}") or device.attributes.get(name)
    return (attribute.text if attribute else None) or ""


# --- text forms of sets of integers


def parse_bitmap(bitmap: str) -> list[int]:
    """The positions of the set bits in Slurm's hexadecimal bitmap. Raises `ValueError`."""
    if len(bitmap) > 2 + CPU_RANGE_MAX // 4:
        raise ValueError("the bitmap is too long")
    value = int(bitmap or "0", 16)
    return [position for position in range(value.bit_length()) if value >> position & 1]


def parse_ranges(text: str) -> list[int]:
    """The integers in text like `0-1,3`; malformed parts are left out.

    Users and drivers write such texts. A text with a number of `CPU_RANGE_MAX` or more, or with more numbers than that,
    has none, so that it cannot take memory and time without bound.
    """
    integers: list[int] = []
    for part in text.split(","):
        if match := _RANGE.match(part):
            if len(match[1]) > _RANGE_DIGITS or len(match[2] or "") > _RANGE_DIGITS:
                return []
            first, last = int(match[1]), int(match[2] or match[1])
            if max(first, last) >= CPU_RANGE_MAX or len(integers) + last - first >= CPU_RANGE_MAX:
                return []
            integers.extend(range(first, last + 1))
    return integers


def format_ranges(integers: Iterable[int]) -> str:
    """Integers as text like `0-1,3`."""
    ranges: list[list[int]] = []
    for integer in sorted(set(integers)):
        if ranges and ranges[-1][1] == integer - 1:
            ranges[-1][1] = integer
        else:
            ranges.append([integer, integer])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)
