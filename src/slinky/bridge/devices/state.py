# SPDX-License-Identifier: Apache-2.0
"""Devices, their classes and the claims on them, in memory, and what they mean to Slurm.

What a node offers is worked out once and remembered until its slices change; what a class means, until any device or
class does.
"""

from collections.abc import Callable, Iterable, Sequence

from slinky.bridge.config import BridgeSettings
from slinky.bridge.devices import classes
from slinky.bridge.devices import inventory as supply
from slinky.bridge.devices.allocation import CLAIM_DEVICES_MAX
from slinky.bridge.devices.classes import Catalog, ClassMapping, Unclaimable
from slinky.bridge.devices.cores import GROUP_CPU_PREFIX, DeviceId, cpu_of_group, parse_ranges
from slinky.bridge.devices.inventory import CPUS, DeviceInventory, GresKind
from slinky.bridge.devices.requests import ClassRequest
from slinky.bridge.state.views import (
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
)
from slinky.kube import Runtime


class DeviceState:
    """Devices of one cluster."""

    def __init__(self, runtime: Runtime, settings: BridgeSettings, is_slurm_node: Callable[[str], bool]) -> None:
        """`is_slurm_node` tells whether Slurm has a host for a node, by the node's name."""
        self._is_slurm_node = is_slurm_node
        self._profiles = settings.device_profiles
        self.slices = runtime.cache(RESOURCE_SLICES, indexes={"node": lambda part: (part.spec.node_name,)})
        self.classes = runtime.cache(DEVICE_CLASSES)
        indexes: dict[str, Callable[[ResourceClaim], Iterable[str]]] = {
            "device": lambda claim: [device_key(at) for at in allocated_devices(claim)],
            "pool": lambda claim: {pool_key(at.driver, at.pool) for at in allocated_devices(claim)},
            "user": lambda claim: [user.uid for user in claim.status.reserved_for],
        }
        self.claims = runtime.cache(RESOURCE_CLAIMS, indexes=indexes)
        self._catalog: Catalog | None = None
        self._inventories: dict[str, DeviceInventory] = {}
        self._meanings: dict[tuple[str, ...], ClassMapping | Unclaimable] = {}
        self.classes.listen(self._class_changed)
        self.slices.listen(self._slice_changed)

    def _class_changed(self, _old: DeviceClass | None, _new: DeviceClass | None) -> None:
        self._catalog = None
        self._inventories.clear()
        self._meanings.clear()

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        for part in (old, new):
            if part is not None:
                self._inventories.pop(part.spec.node_name, None)
        self._meanings.clear()

    @property
    def catalog(self) -> Catalog:
        """The device classes."""
        if self._catalog is None:
            self._catalog = classes.build_catalog(self.classes)
        return self._catalog

    def inventory(self, node: str) -> DeviceInventory:
        """The devices of a node that some class offers."""
        if node not in self._inventories:
            parts, drivers = self.slices.by("node", node), self.catalog.drivers
            self._inventories[node] = supply.build_inventory(parts, drivers, self._profiles)
        return self._inventories[node]

    def inventories(self) -> dict[str, DeviceInventory]:
        """The devices of every node that has any."""
        return {node: self.inventory(node) for node in {part.spec.node_name for part in self.slices} if node}

    @property
    def threads(self) -> int:
        """CPUs of a core, of the largest cores that a driver offers as devices."""
        found = [own.cores.threads for own in self.inventories().values() if own.cores]
        return max(found, default=1)

    # --- what asking means

    def meaning(self, ask: ClassRequest) -> ClassMapping:
        """What a request means to Slurm. Raises `Unclaimable`."""
        if ask.device_class not in self.catalog.expressions:
            raise Unclaimable(f"device class {ask.device_class} does not exist")
        expressions = (*self.catalog.expressions[ask.device_class], *ask.expressions)
        if expressions not in self._meanings:
            try:
                plain = classes.map_driver(expressions, self._profiles)
                found = plain or classes.map_class(str(ask), expressions, self.inventories())
                self._meanings[expressions] = found
            except Unclaimable as error:
                self._meanings[expressions] = error
        known = self._meanings[expressions]
        if isinstance(known, Unclaimable):
            raise known
        if known.kind != CPUS:
            if ask.capacity:
                raise Unclaimable(f"{ask} is asked for in parts ({ask.capacity}); Slurm gives whole devices")
            if ask.count > CLAIM_DEVICES_MAX:
                raise Unclaimable(f"{ask.count} devices are more than the {CLAIM_DEVICES_MAX} that a claim can hold")
            return known
        return ClassMapping(known.kind, known.unfit, self._offering_cpus(ask))

    def offers(self, ask: ClassRequest) -> bool:
        """Whether some node that Slurm has could give what is asked for, in use or not."""
        try:
            wanted = self.meaning(ask)
        except Unclaimable:
            return False
        there = (
            (node, own) for node, own in self.inventories().items() if wanted.suits(node) and self._is_slurm_node(node)
        )
        return any(own.count(wanted.kind) >= ask.count for _, own in there)

    def _offering_cpus(self, ask: ClassRequest) -> frozenset[str]:
        """Nodes whose CPUs are offered in the way that a request needs. Raises `Unclaimable` if there are none."""
        offering = {node: own.cores for node, own in self.inventories().items() if own.cores}
        if not offering:
            raise Unclaimable(f"{ask} needs a CPU driver that tells its CPUs; no node has one")
        fit = frozenset(node for node, own in offering.items() if _suits(ask, grouped=own.grouped))
        if not fit:
            want = "groups" if ask.count > CLAIM_DEVICES_MAX or ask.capacity else "single CPUs"
            raise Unclaimable(f"{ask.count} CPUs of {ask} need a CPU driver that offers {want}")
        return fit

    def unrelated(self, kinds: Sequence[GresKind], attribute: str) -> set[str]:
        """Nodes whose devices of these kinds do not all have the same value of an attribute.

        Raises `Unclaimable` if there is no node where they do.
        """
        having = {node: own for node, own in self.inventories().items() if all(kind in own.kinds for kind in kinds)}
        apart = {node for node, own in having.items() if not classes.share_attribute(own, kinds, attribute)}
        if len(apart) == len(having):
            raise Unclaimable(f"the constraint matchAttribute {attribute} holds on no node for whatever Slurm grants")
        return apart

    # --- who has what

    def taken(self, at: DeviceId, own: DeviceInventory) -> bool:
        """Whether some claim holds a device, or another that is a part of it."""
        if self.claims.by("device", device_key(at)):
            return True
        if own.cores is not None and at.device.startswith(GROUP_CPU_PREFIX):
            # A claim that has a part of a group without saying which may have any of it.
            return any(self.claims.by("device", device_key(group)) for group in set(own.cores.offers.values()))
        counters = own.pools.get((at.driver, at.pool))
        if counters is None or at.device not in counters.taken_by:
            return False
        there = {
            one.device
            for claim in self.claims.by("pool", pool_key(at.driver, at.pool))
            for one in allocated_devices(claim)
        }
        return bool(counters.exceeded({*there, at.device}))


def _suits(ask: ClassRequest, *, grouped: bool) -> bool:
    if not grouped and ask.count > CLAIM_DEVICES_MAX:
        return False
    # The claim behind an extended resource is ours, and written as the driver wants it.
    return bool(ask.resource) or grouped == bool(ask.capacity)


def allocated_devices(claim: ResourceClaim) -> list[DeviceId]:
    """What a claim holds: devices, or CPUs of devices."""
    given = claim.status.allocation
    if given is None:
        return []
    found: list[DeviceId] = []
    for result in given.devices.results:
        at = DeviceId(result.driver, result.pool, result.device)
        cpus = _cpus(claim, result.driver, result.request) if result.share_id else []
        found += [cpu_of_group(at, cpu) for cpu in cpus] or [at]
    return list(dict.fromkeys(found))


def _cpus(claim: ResourceClaim, driver: str, request: str) -> list[int]:
    """The CPUs that a claim names to a driver of groups."""
    given = claim.status.allocation
    for setting in given.devices.config if given else ():
        opaque = setting.opaque
        if opaque and opaque.driver == driver and (not setting.requests or request in setting.requests):
            told = opaque.parameters.get("cpuConfig", {}) if isinstance(opaque.parameters, dict) else {}
            return parse_ranges(str(told.get("cpuset", ""))) if isinstance(told, dict) else []
    return []


def device_key(at: DeviceId) -> str:
    """One device, as the index of claims knows it."""
    return "/".join(at)


def pool_key(driver: str, pool: str) -> str:
    """One pool, as the index of claims knows it."""
    return f"{driver}/{pool}"
