# SPDX-License-Identifier: Apache-2.0
"""Caches of devices, device classes and resource claims, and what they mean for Slurm.

The inventory of a node is cached until its ResourceSlices change; the mapping of a class until a device or class
changes.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from slinky.bounds import CLAIM_DEVICES_MAX
from slinky.bridge.config import BridgeSettings
from slinky.bridge.devices import classes
from slinky.bridge.devices.allocation import MappedRequest, check_size, check_size_with_cpus
from slinky.bridge.devices.classes import Catalog, ClassMapping, Unclaimable
from slinky.bridge.devices.cores import GROUP_CPU_PREFIX, DeviceId, cpu_of_group, parse_ranges
from slinky.bridge.devices.inventory import CPUS, DeviceInventory, Expressions, GresKind, build_inventory
from slinky.bridge.devices.requests import ClassRequest
from slinky.bridge.state.selector_evaluator import SelectorEvaluator
from slinky.bridge.views import (
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
)
from slinky.kube import Runtime

#: How many mappings of classes and selectors are cached.
MAPPINGS_MAX = 4096


@dataclass(frozen=True, slots=True)
class ClaimMapping:
    """The GRES that a job requests for each request of a claim, and the nodes that can provide all of them."""

    requests: Sequence[MappedRequest]
    unsuitable_nodes: frozenset[str] = frozenset()
    allowed_nodes: frozenset[str] | None = None  # None: all nodes


class DeviceState:
    """The devices of one cluster."""

    def __init__(self, runtime: Runtime, settings: BridgeSettings, is_slurm_node: Callable[[str], bool]) -> None:
        """`is_slurm_node` tells whether Slurm has a host for a node, by the name of the node."""
        self._is_slurm_node = is_slurm_node
        self._profiles = settings.device_profiles
        self.slices = runtime.cache(RESOURCE_SLICES, indexes={"node": lambda part: (part.spec.node_name,)})
        self.classes = runtime.cache(DEVICE_CLASSES)
        indexes: dict[str, Callable[[ResourceClaim], Iterable[str]]] = {
            "device": lambda claim: map(device_key, allocated_devices(claim)),
            "pool": lambda claim: {pool_key(device.driver, device.pool) for device in allocated_devices(claim)},
            "user": lambda claim: [user.uid for user in claim.status.reserved_for],
        }
        self.claims = runtime.cache(RESOURCE_CLAIMS, indexes=indexes)
        self._catalog: Catalog | None = None
        self._inventories: dict[str, DeviceInventory] = {}
        self._mappings: dict[Expressions, ClassMapping | Unclaimable] = {}
        self._evaluator = SelectorEvaluator(lambda: self.inventories().values())
        self.classes.listen(self._class_changed)
        self.slices.listen(self._slice_changed)

    def _class_changed(self, _old: DeviceClass | None, _new: DeviceClass | None) -> None:
        self._catalog = None
        self._inventories.clear()
        self._mappings.clear()

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        for part in (old, new):
            if part is not None:
                self._inventories.pop(part.spec.node_name, None)
        self._mappings.clear()

    @property
    def catalog(self) -> Catalog:
        """The device classes."""
        if self._catalog is None:
            self._catalog = classes.build_catalog(self.classes)
        return self._catalog

    def inventory(self, node: str) -> DeviceInventory:
        """The devices of a node whose driver has a device class."""
        if node not in self._inventories:
            parts, drivers = self.slices.by("node", node), self.catalog.drivers
            self._inventories[node] = build_inventory(parts, drivers, self._profiles)
        return self._inventories[node]

    def inventories(self) -> dict[str, DeviceInventory]:
        """The devices of every node that has any."""
        return {node: self.inventory(node) for node in {part.spec.node_name for part in self.slices} if node}

    @property
    def threads_per_core(self) -> int:
        """The largest number of CPUs of a core, among the cores that a driver offers as devices."""
        threads = [own.cpus.threads_per_core for own in self.inventories().values() if own.cpus]
        return max(threads, default=1)

    # --- requests

    async def evaluate(self, requests: Collection[ClassRequest]) -> None:
        """Evaluate the expressions of some requests for all devices, before the requests are mapped.

        Devices and classes may change meanwhile, so it ends only when nothing is left to evaluate.
        """
        while pending := [own for own in map(self._expressions, requests) if self._is_pending(own)]:
            await self._evaluator.evaluate(pending)

    def _is_pending(self, expressions: Expressions) -> bool:
        if expressions in self._mappings or classes.map_driver(expressions, self._profiles) is not None:
            return False
        return self._evaluator.is_pending(expressions)

    def _expressions(self, request: ClassRequest) -> Expressions:
        return (*self.catalog.expressions.get(request.device_class, ()), *request.expressions)

    def map_request(self, request: ClassRequest) -> ClassMapping:
        """The GRES that a job requests for a request, whose expressions must have been evaluated.

        Raises `Unclaimable`.
        """
        mapping = self._map_class(request)
        if mapping.kind == CPUS:
            return ClassMapping(mapping.kind, mapping.unsuitable_nodes, self._nodes_offering_cpus(request))
        if request.capacity:
            raise Unclaimable(f"{request} asks for a part of a device ({request.capacity}); Slurm allocates whole ones")
        check_size([MappedRequest(request, mapping.kind)])
        return mapping

    def map_claim(self, requests: Sequence[ClassRequest]) -> ClaimMapping:
        """The GRES that a job requests for the requests of one claim. Raises `Unclaimable`."""
        mappings = [self.map_request(request) for request in requests]
        mapped = tuple(MappedRequest(request, own.kind) for request, own in zip(requests, mappings, strict=True))
        unsuitable = frozenset[str]().union(*(own.unsuitable_nodes for own in mappings))
        restricted = [own.allowed_nodes for own in mappings if own.allowed_nodes is not None]
        if not restricted:
            check_size(mapped)
            return ClaimMapping(mapped, unsuitable)
        nodes = restricted[0].intersection(*restricted[1:])
        topologies = {node: own for node in nodes if (own := self.inventory(node).cpus) is not None}
        return ClaimMapping(mapped, unsuitable, check_size_with_cpus(mapped, topologies))

    def _map_class(self, request: ClassRequest) -> ClassMapping:
        if request.device_class not in self.catalog.expressions:
            raise Unclaimable(f"device class {request.device_class} does not exist")
        expressions = self._expressions(request)
        if expressions not in self._mappings:
            if len(self._mappings) >= MAPPINGS_MAX:
                self._mappings.clear()
            try:
                of_driver = classes.map_driver(expressions, self._profiles)
                mapping = of_driver or classes.map_class(str(request), expressions, self.inventories())
                self._mappings[expressions] = mapping
            except Unclaimable as error:
                self._mappings[expressions] = error
        cached = self._mappings[expressions]
        if isinstance(cached, Unclaimable):
            raise cached
        return cached

    def is_offered(self, request: ClassRequest) -> bool:
        """Whether some node in Slurm has the requested devices, in use or not."""
        try:
            mapping = self.map_request(request)
        except Unclaimable:
            return False
        return any(
            own.count(mapping.kind) >= request.count
            for node, own in self.inventories().items()
            if mapping.suits_node(node) and self._is_slurm_node(node)
        )

    def _nodes_offering_cpus(self, request: ClassRequest) -> frozenset[str]:
        """The nodes whose CPU driver can satisfy a request. Raises `Unclaimable` if there are none."""
        offering = {node: own.cpus for node, own in self.inventories().items() if own.cpus}
        if not offering:
            raise Unclaimable(f"{request} needs a CPU driver that publishes its CPUs; no node has one")
        suitable = frozenset(node for node, cpus in offering.items() if _suits_driver(request, grouped=cpus.grouped))
        if not suitable:
            form = "groups" if request.count > CLAIM_DEVICES_MAX or request.capacity else "single CPUs"
            raise Unclaimable(f"{request.count} CPUs of {request} need a CPU driver that offers {form}")
        return suitable

    def nodes_with_different(self, kinds: Sequence[GresKind], attribute: str) -> set[str]:
        """The nodes whose devices of these kinds differ in an attribute.

        Raises `Unclaimable` if the devices differ on all nodes.
        """
        offering = {node: own for node, own in self.inventories().items() if all(kind in own.kinds for kind in kinds)}
        different = {node for node, own in offering.items() if not classes.share_attribute(own, kinds, attribute)}
        if len(different) == len(offering):
            raise Unclaimable(
                f"the constraint matchAttribute {attribute} is not satisfied by all devices of any node, "
                "and Slurm chooses the devices"
            )
        return different

    # --- devices in use

    def is_in_use(self, device: DeviceId, inventory: DeviceInventory) -> bool:
        """Whether a claim has a device, or another device that overlaps with it."""
        if self.claims.by("device", device_key(device)):
            return True
        if inventory.cpus is not None and device.device.startswith(GROUP_CPU_PREFIX):
            # A claim that has part of a group without naming the CPUs may use any CPU of the group.
            groups = set(inventory.cpus.device_of_cpu.values())
            return any(self.claims.by("device", device_key(group)) for group in groups)
        counters = inventory.counters.get((device.driver, device.pool))
        if counters is None or device.device not in counters.consumption:
            return False
        claims = self.claims.by("pool", pool_key(device.driver, device.pool))
        in_use = {allocated.device for claim in claims for allocated in allocated_devices(claim)}
        return bool(counters.exceeded({*in_use, device.device}))


def _suits_driver(request: ClassRequest, *, grouped: bool) -> bool:
    if not grouped and request.count > CLAIM_DEVICES_MAX:
        return False
    # The bridge writes the claim of an extended resource itself, in the form that the driver needs.
    return bool(request.resource) or grouped == bool(request.capacity)


def allocated_devices(claim: ResourceClaim) -> list[DeviceId]:
    """The devices of a claim, and the CPUs of devices that are groups."""
    allocation = claim.status.allocation
    if allocation is None:
        return []
    devices: list[DeviceId] = []
    for result in allocation.devices.results:
        device = DeviceId(result.driver, result.pool, result.device)
        cpus = _claimed_cpus(claim, result.driver, result.request) if result.share_id else []
        devices += [cpu_of_group(device, cpu) for cpu in cpus] or [device]
    return list(dict.fromkeys(devices))


def _claimed_cpus(claim: ResourceClaim, driver: str, request: str) -> list[int]:
    """The CPUs in the configuration of a claim for a driver of groups. The bridge writes its configuration last."""
    allocation = claim.status.allocation
    for config in reversed(allocation.devices.config) if allocation else ():
        opaque = config.opaque
        if opaque and opaque.driver == driver and (not config.requests or request in config.requests):
            cpu_config = opaque.parameters.get("cpuConfig") if isinstance(opaque.parameters, dict) else None
            if isinstance(cpu_config, dict) and "cpuset" in cpu_config:
                return parse_ranges(str(cpu_config["cpuset"]))
    return []


def device_key(device: DeviceId) -> str:
    """The key of a device in the index of claims."""
    return "/".join(device)


def pool_key(driver: str, pool: str) -> str:
    """The key of a pool in the index of claims."""
    return f"{driver}/{pool}"
