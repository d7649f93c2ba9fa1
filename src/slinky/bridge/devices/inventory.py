# SPDX-License-Identifier: Apache-2.0
"""The devices of a node on both sides: Kubernetes has them by driver, pool and name, Slurm by GRES type and index.

Devices of one type stand in a fixed order, and types of one GRES name one after another: Slurm counts the index
through all types of a name. So the two can be told from each other without keeping books. Only the newest generation
of a pool counts, and only once all of its slices are there.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from slinky.bridge.config import DeviceProfile
from slinky.bridge.devices import cel, cores, counters, profiles
from slinky.bridge.devices.cel_values import EvaluationError, Fields, SemanticVersion
from slinky.bridge.devices.cores import CpuTopology, DeviceId
from slinky.bridge.devices.counters import Counters
from slinky.bridge.state.views import Device, ResourceSlice
from slinky.kube import Quantity

#: Device plugins whose resource is a GPU whatever its model.
GPU_PLUGIN_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
_TAIL = re.compile(r"(\d+)\Z")
#: Taints that keep new users away from a device.
BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


class GresKind(NamedTuple):
    """What Slurm counts: a GRES by name and type; without a type, any of the name."""

    gres: str
    type: str = ""

    def __str__(self) -> str:
        return f"{self.gres}:{self.type}" if self.type else self.gres


ANY_GPU = GresKind("gpu")
#: CPUs that a driver offers as devices. Slurm has them as cores, not as a GRES.
CPUS = GresKind("cpu")


class InventoryDevice(NamedTuple):
    """One device of a node."""

    at: DeviceId
    device: Device


@dataclass(frozen=True)
class DeviceInventory:
    """All devices of one node that Slurm is told of."""

    kinds: Mapping[GresKind, tuple[InventoryDevice, ...]] = field(default_factory=dict)
    cores: CpuTopology | None = None
    pools: Mapping[tuple[str, str], Counters] = field(default_factory=dict)
    missing: tuple[str, ...] = ()  # pools of which not every slice is there
    fault: str = ""  # why these devices cannot be told to Slurm
    _fits: dict[tuple[str, ...], Mapping[GresKind, int]] = field(default_factory=dict, compare=False, repr=False)

    def __bool__(self) -> bool:
        return bool(self.kinds)

    @cached_property
    def gres(self) -> dict[GresKind, int]:
        """The devices as Slurm counts them, in the order in which it is told."""
        return {kind: len(items) for kind, items in sorted(self.kinds.items()) if kind != CPUS}

    def count(self, kind: GresKind) -> int:
        """How many there are of a kind; of every type where none is named."""
        if kind == CPUS:
            return sum(map(len, self.cores.cores)) if self.cores else 0
        return sum(many for own, many in self.gres.items() if kind in (own, GresKind(own.gres)))

    def indexed(self, order: Iterable[GresKind]) -> list[tuple[GresKind, InventoryDevice]]:
        """The devices of one GRES name, each at Slurm's index, if Slurm has the types in this order."""
        return [(kind, item) for kind in order for item in self.kinds.get(kind, ())]

    def fitting(self, expressions: tuple[str, ...]) -> Mapping[GresKind, int]:
        """How many devices of each kind all of these expressions choose. Raises `Undecidable`."""
        if expressions not in self._fits:
            tests = [cel.compile_expression(expression) for expression in expressions]
            self._fits[expressions] = {
                kind: sum(all(expression_selects(test, item) for test in tests) for item in items)
                for kind, items in self.kinds.items()
            }
        return self._fits[expressions]

    @cached_property
    def fingerprint(self) -> str:
        """Changes when an index comes to mean another device; empty without devices."""
        if not self.kinds:
            return ""
        told = [f"{kind} {' '.join(map(str, self._places(kind)))}" for kind in sorted(self.kinds)]
        return hashlib.sha256("\n".join(told).encode()).hexdigest()[:8]

    def _places(self, kind: GresKind) -> Iterable[object]:
        if kind == CPUS and self.cores is not None:
            return (self.cores.sockets, *self.cores.cores)
        return ("/".join(item.at) for item in self.kinds[kind])


def expression_selects(test: Any, item: InventoryDevice) -> bool:
    """Whether an expression chooses a device; one that lacks what it looks at is not chosen."""
    try:
        return bool(test({"device": _scope(item)}))
    except EvaluationError:
        return False


def _scope(item: InventoryDevice) -> dict[str, Any]:
    """A device as an expression sees it: names without a domain are the driver's own."""
    found: dict[str, Fields] = {"attributes": Fields(), "capacity": Fields()}
    values: dict[str, dict[str, Any]] = {
        "attributes": {name: _value(told) for name, told in item.device.attributes.items()},
        "capacity": {name: Quantity.parse(told.value) for name, told in item.device.capacity.items()},
    }
    for part, told in values.items():
        for name, value in told.items():
            domain, _, short = name.rpartition("/")
            found[part].setdefault(domain or item.at.driver, {})[short] = value
    sharing = item.device.allow_multiple_allocations
    return {"driver": item.at.driver, **found, "allowMultipleAllocations": sharing}


def _value(told: Any) -> Any:
    if told.version is not None:
        try:
            return SemanticVersion.parse(told.version)
        except EvaluationError:
            return told.version
    return next((value for value in (told.truth, told.number, told.text) if value is not None), None)


def attribute_value(item: InventoryDevice, name: str) -> Any:
    """What a device tells under a name, with or without the driver's domain; None if nothing."""
    own = item.device.attributes
    told = own.get(name) or own.get(f"{item.at.driver}/{name}") or own.get(name.removeprefix(f"{item.at.driver}/"))
    return _value(told) if told is not None else None


# --- from slices to an inventory


def build_inventory(
    slices: Iterable[ResourceSlice], drivers: Iterable[str], given: Sequence[DeviceProfile] = ()
) -> DeviceInventory:
    """The devices of a node, of these drivers, in the order that gives them their index."""
    wanted, known = frozenset(drivers), profiles.effective_profiles(given)
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for part in slices:
        if part.spec.driver in wanted:
            pools.setdefault((part.spec.driver, part.spec.pool.name), []).append(part)
    found: dict[GresKind, list[tuple[DeviceProfile, InventoryDevice]]] = {}
    shared: dict[tuple[str, str], Counters] = {}
    missing, faults = [], []
    for (driver, pool), parts in sorted(pools.items()):
        newest = max(part.spec.pool.generation for part in parts)
        current = [part for part in parts if part.spec.pool.generation == newest]
        if len(current) < max(part.spec.pool.resource_slice_count for part in current):
            missing.append(f"{driver}/{pool}")
            continue
        everything = [device for part in current for device in part.spec.devices]
        sets = [group for part in current for group in part.spec.shared_counters]
        shared[driver, pool] = counters.read_counters(
            sets, {device.name: device.consumes_counters for device in everything}
        )
        told = []
        for device in filter(_offered, everything):
            item = InventoryDevice(DeviceId(driver, pool, device.name), device)
            if (profile := _profile(item, known)) is not None and not profile.ignore:
                found.setdefault(_kind(item, profile), []).append((profile, item))
                told.append(device.name)
        if counter := shared[driver, pool].exceeded(told):
            faults.append(f"the devices of {driver} overlap in {counter}; choose some by a device profile with match")
    kinds = {kind: _indexed(items) for kind, items in found.items()}
    own = cores.read_topology(kinds[CPUS]) if CPUS in kinds else None
    return DeviceInventory(kinds, own, shared, tuple(missing), "; ".join(faults))


def _offered(device: Device) -> bool:
    """A device that everybody may have at once, without further conditions."""
    return not device.binding_conditions and not any(taint.effect in BLOCKING_EFFECTS for taint in device.taints)


def _profile(item: InventoryDevice, known: Iterable[DeviceProfile]) -> DeviceProfile | None:
    own = [profile for profile in known if profile.driver == item.at.driver]
    if not own:
        return DeviceProfile(driver=item.at.driver)
    chosen = (
        profile
        for profile in own
        if not profile.match or expression_selects(cel.compile_expression(profile.match), item)
    )
    return next(chosen, None)


def _kind(item: InventoryDevice, profile: DeviceProfile) -> GresKind:
    if profile.cores:
        return CPUS
    told = attribute_value(item, profile.type_attribute) if profile.type_attribute else None
    return GresKind(profile.gres, profiles.gres_type(profile, told))


def _indexed(found: list[tuple[DeviceProfile, InventoryDevice]]) -> tuple[InventoryDevice, ...]:
    """Devices at their own index where they tell one without gaps, else in the order of their names."""
    items = [item for _, item in found]
    told = {attribute_value(item, profile.index_attribute): item for profile, item in found}
    for numbered in (told, {_tail(item): item for item in items}):
        if set(numbered) == set(range(len(items))):
            return tuple(numbered[number] for number in range(len(items)))
    return tuple(sorted(items, key=lambda item: item.at))


def _tail(item: InventoryDevice) -> int | None:
    found = _TAIL.search(item.device.name)
    return int(found[1]) if found else None


# --- Slurm's words


def format_gres(found: DeviceInventory) -> str:
    """The devices of a node in Slurm's words."""
    return ",".join(f"{kind}:{count}" for kind, count in found.gres.items())


def format_gres_conf(found: DeviceInventory) -> str:
    """The same as the parameter that tells slurmctld of devices it cannot see; the files need not exist."""
    lines = []
    for kind, count in found.gres.items():
        last = f"[0-{count - 1}]" if count > 1 else "0"
        name = f"Name={kind.gres},Type={kind.type}" if kind.type else f"Name={kind.gres}"
        lines.append(f"{name},Count={count},File=/dev/{kind.gres}/{kind.type or 'any'}/{last}")
    return "+".join(lines)


def gres_differs(there: Mapping[GresKind, int], found: DeviceInventory, name: str) -> bool:
    """Whether Slurm has other devices of a name than the drivers of the node offer."""
    mine = {kind: count for kind, count in found.gres.items() if kind.gres == name}
    return mine != {kind: count for kind, count in there.items() if kind.gres == name}


def parse_gres(text: str) -> dict[GresKind, int]:
    """Slurm's words as counts, in its order and whatever it adds about sockets."""
    found: dict[GresKind, int] = {}
    for term in re.sub(r"\([^)]*\)", "", text).split(","):
        parts = term.split(":")
        if len(parts) >= 2 and parts[-1].isdigit():
            kind = GresKind(parts[0], ":".join(parts[1:-1]))
            found[kind] = found.get(kind, 0) + int(parts[-1])
    return found
