# SPDX-License-Identifier: Apache-2.0
"""The devices of a node in Kubernetes and in Slurm: by driver, pool and name, and by GRES type and index. Pure.

Devices of a type have a fixed order, and the types of a GRES name follow each other, because Slurm counts the index
over all types of a name. So an index identifies a device without any stored assignment. Only the newest generation of
a pool counts, and only once all of its ResourceSlices exist.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from slinky.bounds import INT32_MAX, parse_integer
from slinky.bridge.config import DeviceProfile
from slinky.bridge.devices import cel, cores, counters, profiles
from slinky.bridge.devices.cel import CompiledExpression
from slinky.bridge.devices.cel_values import (
    CostExceeded,
    Evaluation,
    EvaluationError,
    Fields,
    SemanticVersion,
    UnsupportedExpression,
)
from slinky.bridge.devices.cores import CpuTopology, DeviceId
from slinky.bridge.devices.counters import Counters
from slinky.bridge.views import Device, ResourceSlice
from slinky.kube import Quantity

#: Extended resources of device plugins that are GPUs of any model.
GPU_PLUGIN_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
_TRAILING_NUMBER = re.compile(r"(\d+)\Z")
#: Effects of device taints that prevent new allocations.
BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
#: How many results of expressions the inventory of a node stores.
SELECTIONS_MAX = 512

Expressions = tuple[str, ...]
"""The CEL expressions of a device class and a request; a device must satisfy all of them."""


class GresKind(NamedTuple):
    """A GRES name and type; without a type, any type of the name."""

    gres: str
    type: str = ""

    def __str__(self) -> str:
        return f"{self.gres}:{self.type}" if self.type else self.gres


ANY_GPU = GresKind("gpu")
#: CPUs that a driver offers as devices. In Slurm they are cores, not a GRES.
CPUS = GresKind("cpu")


class InventoryDevice(NamedTuple):
    """One device of a node."""

    id: DeviceId
    device: Device


@dataclass(frozen=True)
class DeviceInventory:
    """The devices of one node that are reported to Slurm."""

    kinds: Mapping[GresKind, tuple[InventoryDevice, ...]] = field(default_factory=dict)
    cpus: CpuTopology | None = None
    counters: Mapping[tuple[str, str], Counters] = field(default_factory=dict)  # by driver and pool
    incomplete_pools: tuple[str, ...] = ()  # pools whose ResourceSlices do not all exist yet
    problem: str = ""  # why these devices cannot be reported to Slurm
    _selections: dict[Expressions, Mapping[GresKind, int] | UnsupportedExpression] = field(
        default_factory=dict, compare=False, repr=False
    )

    def __bool__(self) -> bool:
        return bool(self.kinds)

    @cached_property
    def gres(self) -> dict[GresKind, int]:
        """The number of devices of each kind, in the order in which they are reported to Slurm."""
        return {kind: len(devices) for kind, devices in sorted(self.kinds.items()) if kind != CPUS}

    def count(self, kind: GresKind) -> int:
        """The number of devices of a kind; a kind without a type includes all types."""
        if kind == CPUS:
            return sum(map(len, self.cpus.cores)) if self.cpus else 0
        return sum(count for own, count in self.gres.items() if kind in (own, GresKind(own.gres)))

    def at_slurm_index(
        self, counts: Mapping[GresKind, int], name: str, index: int
    ) -> tuple[GresKind, InventoryDevice] | None:
        """The device at an index of a GRES name, for the counts and the order of its types in Slurm.

        None if Slurm has more devices of the type than the drivers of the node offer, and this is one of them.
        """
        for kind, count in counts.items():
            if kind.gres == name and index < count:
                devices = self.kinds.get(kind, ())
                return (kind, devices[index]) if index < len(devices) else None
            index -= count if kind.gres == name else 0
        return None

    def is_evaluated(self, expressions: Expressions) -> bool:
        """Whether it is stored which devices these expressions select."""
        return expressions in self._selections

    def store_selection(
        self, expressions: Expressions, selection: Mapping[GresKind, int] | UnsupportedExpression
    ) -> None:
        """Store how many devices of each kind all of these expressions select, or why that cannot be evaluated."""
        if len(self._selections) >= SELECTIONS_MAX:
            self._selections.pop(next(iter(self._selections)), None)
        self._selections[expressions] = selection

    def count_selected(self, expressions: Expressions) -> Mapping[GresKind, int]:
        """How many devices of each kind all of these expressions select, which must have been evaluated.

        Raises `UnsupportedExpression`.
        """
        selection = self._selections[expressions]
        if isinstance(selection, UnsupportedExpression):
            raise selection
        return selection

    @cached_property
    def fingerprint(self) -> str:
        """A digest that changes when an index refers to another device; empty without devices."""
        if not self.kinds:
            return ""
        lines = [f"{kind} {' '.join(map(str, self._identities(kind)))}" for kind in sorted(self.kinds)]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]

    def _identities(self, kind: GresKind) -> Iterable[object]:
        if kind == CPUS and self.cpus is not None:
            return (self.cpus.sockets, *self.cpus.cores)
        return ("/".join(device.id) for device in self.kinds[kind])


def expression_selects(test: CompiledExpression, device: InventoryDevice) -> bool:
    """Whether a compiled expression selects a device; an expression that fails for the device does not."""
    try:
        return test.evaluate(Evaluation({"device": cel_device(device)}))
    except (EvaluationError, CostExceeded):
        return False


def cel_device(device: InventoryDevice) -> dict[str, Any]:
    """The variable `device` of an expression; names without a domain belong to the domain of the driver."""
    view = device.device
    fields: dict[str, Fields] = {"attributes": Fields(), "capacity": Fields()}
    values: dict[str, dict[str, Any]] = {
        "attributes": {name: _plain_value(attribute) for name, attribute in view.attributes.items()},
        "capacity": {name: Quantity.parse(amount.value) for name, amount in view.capacity.items()},
    }
    for section, entries in values.items():
        for name, value in entries.items():
            domain, _, short = name.rpartition("/")
            fields[section].setdefault(domain or device.id.driver, {})[short] = value
    return {"driver": device.id.driver, **fields, "allowMultipleAllocations": view.allow_multiple_allocations}


def _plain_value(attribute: Any) -> Any:
    if attribute.version is not None:
        try:
            return SemanticVersion.parse(attribute.version)
        except EvaluationError:
            return attribute.version
    values = (attribute.boolean, attribute.number, attribute.text)
    return next((value for value in values if value is not None), None)


def attribute_value(device: InventoryDevice, name: str) -> Any:
    """The value of an attribute, named with or without the domain of the driver; None if there is none."""
    attributes, domain = device.device.attributes, f"{device.id.driver}/"
    attribute = attributes.get(name) or attributes.get(domain + name) or attributes.get(name.removeprefix(domain))
    return _plain_value(attribute) if attribute is not None else None


# --- from ResourceSlices to an inventory


def build_inventory(
    slices: Iterable[ResourceSlice], drivers: Iterable[str], configured: Sequence[DeviceProfile] = ()
) -> DeviceInventory:
    """The devices of a node that belong to these drivers, in the order that gives them their index."""
    drivers, known_profiles = frozenset(drivers), profiles.effective_profiles(configured)
    slices_by_pool: dict[tuple[str, str], list[ResourceSlice]] = {}
    for part in slices:
        if part.spec.driver in drivers:
            slices_by_pool.setdefault((part.spec.driver, part.spec.pool.name), []).append(part)
    kinds: dict[GresKind, list[tuple[DeviceProfile, InventoryDevice]]] = {}
    pool_counters: dict[tuple[str, str], Counters] = {}
    incomplete, problems = [], []
    for (driver, pool), parts in sorted(slices_by_pool.items()):
        current = _newest_generation(parts)
        if current is None:
            incomplete.append(f"{driver}/{pool}")
            continue
        devices = [device for part in current for device in part.spec.devices]
        sets = [counter_set for part in current for counter_set in part.spec.shared_counters]
        uses = {device.name: device.consumes_counters for device in devices}
        pool_counters[driver, pool] = counters.read_counters(sets, uses)
        reported = []
        for device in filter(_is_allocatable, devices):
            entry = InventoryDevice(DeviceId(driver, pool, device.name), device)
            if (profile := _matching_profile(entry, known_profiles)) is not None and not profile.ignore:
                kinds.setdefault(_kind_of(entry, profile), []).append((profile, entry))
                reported.append(device.name)
        if counter := pool_counters[driver, pool].exceeded(reported):
            problems.append(
                f"devices of {driver} overlap in the counter {counter}; select some with match in a device profile"
            )
    indexed = {kind: _sort_by_index(devices) for kind, devices in kinds.items()}
    topology = cores.read_topology(indexed[CPUS]) if CPUS in indexed else None
    return DeviceInventory(indexed, topology, pool_counters, tuple(incomplete), "; ".join(problems))


def _newest_generation(slices: Sequence[ResourceSlice]) -> list[ResourceSlice] | None:
    """The slices of the newest generation of a pool; None if some of them do not exist yet."""
    newest = max(part.spec.pool.generation for part in slices)
    current = [part for part in slices if part.spec.pool.generation == newest]
    return current if len(current) >= max(part.spec.pool.resource_slice_count for part in current) else None


def _is_allocatable(device: Device) -> bool:
    """Whether a device can be allocated without further conditions."""
    return not device.binding_conditions and not any(taint.effect in BLOCKING_EFFECTS for taint in device.taints)


def _matching_profile(device: InventoryDevice, known_profiles: Iterable[DeviceProfile]) -> DeviceProfile | None:
    of_driver = [profile for profile in known_profiles if profile.driver == device.id.driver]
    if not of_driver:
        return DeviceProfile(driver=device.id.driver)
    for profile in of_driver:
        if not profile.match or expression_selects(cel.compile_expression(profile.match), device):
            return profile
    return None


def _kind_of(device: InventoryDevice, profile: DeviceProfile) -> GresKind:
    if profile.cores:
        return CPUS
    attribute = attribute_value(device, profile.type_attribute) if profile.type_attribute else None
    return GresKind(profile.gres, profiles.gres_type(profile, attribute))


def _sort_by_index(entries: list[tuple[DeviceProfile, InventoryDevice]]) -> tuple[InventoryDevice, ...]:
    """Devices by their index attribute or the number in their name if that has no gaps, otherwise by name."""
    devices = [device for _, device in entries]
    by_attribute = {attribute_value(device, profile.index_attribute): device for profile, device in entries}
    for numbered in (by_attribute, {_trailing_number(device): device for device in devices}):
        if set(numbered) == set(range(len(devices))):
            return tuple(numbered[index] for index in range(len(devices)))
    return tuple(sorted(devices, key=lambda device: device.id))


def _trailing_number(device: InventoryDevice) -> int | None:
    match = _TRAILING_NUMBER.search(device.device.name)
    return int(match[1]) if match else None


# --- Slurm's notation of GRES


def format_gres(inventory: DeviceInventory) -> str:
    """The devices of a node as the parameter `Gres` of a Slurm node."""
    return ",".join(f"{kind}:{count}" for kind, count in inventory.gres.items())


def format_gres_conf(inventory: DeviceInventory) -> str:
    """The devices of a node as the parameter `GresConf`, for devices that slurmctld cannot see.

    The device files need not exist.
    """
    entries = []
    for kind, count in inventory.gres.items():
        indexes = f"[0-{count - 1}]" if count > 1 else "0"
        name = f"Name={kind.gres},Type={kind.type}" if kind.type else f"Name={kind.gres}"
        entries.append(f"{name},Count={count},File=/dev/{kind.gres}/{kind.type or 'any'}/{indexes}")
    return "+".join(entries)


def parse_gres(text: str) -> dict[GresKind, int]:
    """The number of devices of each kind in Slurm's notation, in its order; socket information is ignored."""
    counts: dict[GresKind, int] = {}
    for term in re.sub(r"\([^)]*\)", "", text).split(","):
        parts = term.split(":")
        if len(parts) >= 2 and (count := parse_integer(parts[-1], 0, INT32_MAX)) is not None:
            kind = GresKind(parts[0], ":".join(parts[1:-1]))
            counts[kind] = counts.get(kind, 0) + count
    return counts
