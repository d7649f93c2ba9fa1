# SPDX-License-Identifier: Apache-2.0
"""CPUs as devices: which of them are Slurm's cores. Pure.

A CPU driver offers either every CPU as a device, or groups of which a claim takes a part and names its CPUs. Either
way the cores of a node stand in one order, by socket and core, and bit *i* of Slurm's bitmap is the *i*-th of them with
all its hardware threads. Efficiency cores are left out, and cores with fewer threads than the rest.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from slinky.bridge.state.views import Device

CPU_CAPACITY = "cpu"
Core = tuple[int, ...]
#: How a CPU of a group is called; no device can have such a name.
GROUP_CPU_PREFIX = "cpu "


class DeviceId(NamedTuple):
    """One device, as a claim names it."""

    driver: str
    pool: str
    device: str


@dataclass(frozen=True)
class CpuTopology:
    """The cores of a node in Slurm's order, and the device that offers each CPU."""

    cores: tuple[Core, ...]
    offers: Mapping[int, DeviceId]
    sockets: int = 1
    grouped: bool = False

    @property
    def threads(self) -> int:
        """CPUs of one core."""
        return len(self.cores[0]) if self.cores else 1

    def key(self, cpu: int) -> DeviceId:
        """One CPU, however it is offered, as the index of claims knows it."""
        return cpu_of_group(self.offers[cpu], cpu) if self.grouped else self.offers[cpu]


def cpu_of_group(group: DeviceId, cpu: int) -> DeviceId:
    """One CPU of a group."""
    return DeviceId(group.driver, group.pool, f"{GROUP_CPU_PREFIX}{cpu}")


def read_topology(devices: Sequence[tuple[DeviceId, Device]]) -> CpuTopology | None:
    """The cores that these devices make up; None if they do not tell enough."""
    single = all(_number(at, device, "cpuID") is not None for at, device in devices)
    placed = _singles(devices) if single else _groups(devices)
    if not placed:
        return None
    most = max(len(core) for core in placed)
    kept = {core: socket for core, socket in placed.items() if len(core) == most}
    order = tuple(sorted(kept, key=lambda core: (kept[core], core)))
    each = {socket: sum(kept[core] == socket for core in order) for socket in kept.values()}
    sockets = len(each) if len(set(each.values())) == 1 else 1
    return CpuTopology(order, _offers(devices, order, single=single), sockets, grouped=not single)


def _singles(devices: Iterable[tuple[DeviceId, Device]]) -> dict[Core, int]:
    """Every CPU is a device, which tells its core and socket."""
    siblings: dict[tuple[int, int], list[int]] = {}
    for at, device in devices:
        cpu, socket = _number(at, device, "cpuID"), _number(at, device, "socketID") or 0
        core = _number(at, device, "coreID")
        if cpu is not None and _text(at, device, "coreType") != "e-core":
            siblings.setdefault((socket, cpu if core is None else core), []).append(cpu)
    return {tuple(sorted(cpus)): socket for (socket, _), cpus in siblings.items()}


def _groups(devices: Iterable[tuple[DeviceId, Device]]) -> dict[Core, int]:
    """A device is a group of CPUs, which tells them and who shares a core with whom."""
    found: dict[Core, int] = {}
    for at, device in devices:
        cpus = set(parse_ranges(_text(at, device, "cpuIDs")))
        partner = _partners(_text(at, device, "smtLayout"))
        for cpu in sorted(cpus):
            core = tuple(sorted({cpu, partner.get(cpu, cpu)} & cpus))
            found[core] = _number(at, device, "socketID") or 0
    return found


def _partners(layout: str) -> dict[int, int]:
    """Who is whose sibling: `0-7>4;8-11` has four pairs at a distance of four, and four CPUs without any."""
    found: dict[int, int] = {}
    for entry in filter(None, layout.split(";")):
        cpus, _, stride = entry.partition(">")
        for cpu in parse_ranges(cpus) if stride.isdigit() else ():
            if cpu not in found:
                found |= {cpu: cpu + int(stride), cpu + int(stride): cpu}
    return found


def _offers(devices: Iterable[tuple[DeviceId, Device]], order: Iterable[Core], *, single: bool) -> dict[int, DeviceId]:
    used = {cpu for core in order for cpu in core}
    found: dict[int, DeviceId] = {}
    for at, device in devices:
        own = [_number(at, device, "cpuID")] if single else parse_ranges(_text(at, device, "cpuIDs"))
        found |= {cpu: at for cpu in own if cpu in used}
    return found


def _number(at: DeviceId, device: Device, name: str) -> int | None:
    found = device.attributes.get(f"{at.driver}/{name}") or device.attributes.get(name)
    return found.number if found else None


def _text(at: DeviceId, device: Device, name: str) -> str:
    found = device.attributes.get(f"{at.driver}/{name}") or device.attributes.get(name)
    return (found.text if found else None) or ""


# --- how sets of numbers are written


def parse_bitmap(bitmap: str) -> list[int]:
    """The numbers in Slurm's bitmap. Raises `ValueError`."""
    value = int(bitmap or "0", 16)
    return [number for number in range(value.bit_length()) if value >> number & 1]


def parse_ranges(text: str) -> list[int]:
    """`0-1,3` as numbers; what is none is left out."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit() and (last or first).isdigit():
            found.extend(range(int(first), int(last or first) + 1))
    return found


def format_ranges(found: Iterable[int]) -> str:
    """Numbers as `0-1,3`."""
    spans: list[list[int]] = []
    for number in sorted(set(found)):
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in spans)
