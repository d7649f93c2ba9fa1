# SPDX-License-Identifier: Apache-2.0
"""Devices on both sides: which resource name means which GRES type, and which device is which index on a node.

Slurm knows devices of a node by type and index, Kubernetes by driver, pool and name. The index of a device is its
place in one fixed order, so the two can be told from each other without keeping books.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from slinky.bridge import names
from slinky.bridge.views import Device, DeviceClass, Slice

#: Device plugins whose resource is a GPU whatever its model.
PLUGIN_GPUS = ("nvidia.com/gpu", "amd.com/gpu")
_DRIVER = re.compile(r"""\s*device\.driver\s*==\s*["']([^"']+)["']\s*\Z""")
_TAIL = re.compile(r"(\d+)\Z")


@dataclass(frozen=True)
class Catalog:
    """What resource names mean: a GRES type (the driver), and a device class."""

    types: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, str] = field(default_factory=dict)
    drivers: Mapping[str, str] = field(default_factory=dict)  # of classes

    def type_of(self, resource: str) -> str | None:
        """The GRES type of an extended resource: empty for any GPU, None if it is no device."""
        if resource in PLUGIN_GPUS and resource not in self.types:
            return ""
        if resource.startswith(names.DEVICE_CLASS_PREFIX):
            return self.types.get(resource, resource.removeprefix(names.DEVICE_CLASS_PREFIX))
        return self.types.get(resource)

    def class_of(self, resource: str) -> str | None:
        """The device class behind an extended resource."""
        return self.classes.get(resource)


def catalog(classes: Iterable[DeviceClass]) -> Catalog:
    """What the device classes of a cluster say."""
    types: dict[str, str] = {}
    named: dict[str, str] = {}
    drivers: dict[str, str] = {}
    for found in classes:
        name = found.metadata.name
        driver = driver_of(found)
        drivers[name] = driver
        for resource in (names.DEVICE_CLASS_PREFIX + name, found.spec.extended_resource_name):
            if resource:
                types[resource], named[resource] = driver, name
    return Catalog(types, named, drivers)


def driver_of(found: DeviceClass) -> str:
    """The driver whose devices a class means: as its selector says, else the driver of the same name."""
    for selector in found.spec.selectors:
        if selector.cel and (match := _DRIVER.match(selector.cel.expression)):
            return match[1]
    return found.metadata.name


class Located(NamedTuple):
    """One device, as a claim names it."""

    driver: str
    pool: str
    device: str


Inventory = Mapping[str, tuple[Located, ...]]
"""The devices of one node by driver, each at its index."""


def inventory(slices: Iterable[Slice], drivers: Iterable[str]) -> dict[str, tuple[Located, ...]]:
    """The devices of a node, of these drivers, in the order that gives them their index.

    Of each pool only the newest generation counts, and only once all of its slices are there.
    """
    wanted = frozenset(drivers)
    pools: dict[tuple[str, str], list[Slice]] = {}
    for part in slices:
        if part.spec.driver in wanted:
            pools.setdefault((part.spec.driver, part.spec.pool.name), []).append(part)
    found: dict[str, list[tuple[str, Device]]] = {}
    for (driver, pool), parts in sorted(pools.items()):
        newest = max(part.spec.pool.generation for part in parts)
        current = [part for part in parts if part.spec.pool.generation == newest]
        if len(current) >= current[0].spec.pool.resource_slice_count:
            found.setdefault(driver, []).extend((pool, device) for part in current for device in part.spec.devices)
    return {driver: _indexed(driver, devices) for driver, devices in found.items() if devices}


def _indexed(driver: str, devices: list[tuple[str, Device]]) -> tuple[Located, ...]:
    """Devices at their own index where they tell one without gaps, else in the order of their names."""
    for tell in (_attribute, _tail):
        told = {tell(device): (pool, device) for pool, device in devices}
        if set(told) == set(range(len(devices))):
            return tuple(Located(driver, told[i][0], told[i][1].name) for i in range(len(devices)))
    return tuple(
        Located(driver, pool, device.name) for pool, device in sorted(devices, key=lambda d: (d[0], d[1].name))
    )


def _attribute(device: Device) -> int | None:
    found = device.attributes.get("index")
    return found.number if found else None


def _tail(device: Device) -> int | None:
    found = _TAIL.search(device.name)
    return int(found[1]) if found else None


def gres(devices: Inventory) -> str:
    """The devices of a node in Slurm's words."""
    return ",".join(f"gpu:{driver}:{len(found)}" for driver, found in sorted(devices.items()))


def gres_conf(devices: Inventory) -> str:
    """The same as the parameter that tells slurmctld of devices it cannot see; the files need not exist."""
    lines = []
    for driver, found in sorted(devices.items()):
        last = f"[0-{len(found) - 1}]" if len(found) > 1 else "0"
        lines.append(f"Name=gpu,Type={driver},Count={len(found)},File=/dev/{driver}/{last}")
    return "+".join(lines)


def counts(text: str) -> dict[str, int]:
    """Slurm's words as type to count, whatever it adds about sockets."""
    found: dict[str, int] = {}
    for term in re.sub(r"\([^)]*\)", "", text).split(","):
        parts = term.split(":")
        if len(parts) >= 2 and parts[-1].isdigit():
            kind = ":".join(parts[1:-1])
            found[kind] = found.get(kind, 0) + int(parts[-1])
    return found


def indexes(text: str) -> list[int]:
    """`0-1,3` as numbers."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found
