# SPDX-License-Identifier: Apache-2.0
"""Maps device classes to the GRES that a Slurm job requests. Pure.

A class selects devices by CEL expressions; Slurm counts devices by type. A request for a class becomes a request for a
type, and nodes where the class does not select all devices of that type are excluded. A class that selects only some
devices of a type on every node cannot be requested; the error says how a device profile helps.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slinky.bridge import names
from slinky.bridge.config import DeviceProfile
from slinky.bridge.devices import inventory
from slinky.bridge.devices.cel_values import UnsupportedExpression
from slinky.bridge.devices.inventory import CPUS, DeviceInventory, GresKind
from slinky.bridge.devices.profiles import effective_profiles, gres_type
from slinky.bridge.views import DeviceClass, Opaque

_DRIVER = re.compile(r"""device\.driver\s*==\s*["']([^"'\\]+)["']""")
#: An expression that selects all devices of a driver.
_DRIVER_ONLY = re.compile(rf"\s*{_DRIVER.pattern}\s*\Z")


class Unclaimable(ValueError):  # noqa: N818 -- a finding that is reported to the user
    """A request for devices cannot be satisfied; the message says why."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """The device classes of a cluster."""

    resources: Mapping[str, str] = field(default_factory=dict)  # class by extended resource
    expressions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by class
    configs: Mapping[str, tuple[Opaque, ...]] = field(default_factory=dict)  # by class

    def class_of(self, resource: str) -> str | None:
        """The device class of an extended resource; a class that is named in the resource need not exist."""
        if resource.startswith(names.DEVICE_CLASS_PREFIX):
            return resource.removeprefix(names.DEVICE_CLASS_PREFIX)
        return self.resources.get(resource)

    @property
    def drivers(self) -> frozenset[str]:
        """The drivers that classes refer to, in an expression or by the name of the class."""
        texts = (text for expressions in self.expressions.values() for text in expressions)
        return frozenset(driver for text in texts for driver in _DRIVER.findall(text)) | frozenset(self.expressions)


def build_catalog(classes: Iterable[DeviceClass]) -> Catalog:
    """The catalog of these device classes."""
    resources: dict[str, str] = {}
    expressions: dict[str, tuple[str, ...]] = {}
    configs: dict[str, tuple[Opaque, ...]] = {}
    for device_class in classes:
        name, spec = device_class.metadata.name, device_class.spec
        expressions[name] = tuple(selector.cel.expression for selector in spec.selectors if selector.cel)
        configs[name] = tuple(config.opaque for config in spec.config if config.opaque)
        for resource in (names.DEVICE_CLASS_PREFIX + name, spec.extended_resource_name):
            if resource:
                resources[resource] = name
    return Catalog(resources, expressions, configs)


@dataclass(frozen=True, slots=True)
class ClassMapping:
    """The GRES that a job requests for a class, and the nodes where that would allocate devices of other classes."""

    kind: GresKind
    unsuitable_nodes: frozenset[str] = frozenset()
    allowed_nodes: frozenset[str] | None = None  # the only nodes with such devices, where Slurm does not know it

    def suits_node(self, node: str) -> bool:
        """Whether the devices that Slurm would allocate on a node belong to the class."""
        return node not in self.unsuitable_nodes and (self.allowed_nodes is None or node in self.allowed_nodes)


def map_driver(expressions: tuple[str, ...], profiles: tuple[DeviceProfile, ...]) -> ClassMapping | None:
    """The mapping of an expression that selects all devices of a driver with one type; None for other expressions.

    It needs no devices, so such a class can be requested before any node has one.
    """
    if len(expressions) != 1 or (match := _DRIVER_ONLY.match(expressions[0])) is None:
        return None
    matching = [profile for profile in effective_profiles(profiles) if profile.driver == match[1]]
    profile = matching[0] if matching else DeviceProfile(driver=match[1])
    if profile.match or profile.type_attribute or profile.ignore:
        return None
    return ClassMapping(CPUS if profile.cores else GresKind(profile.gres, gres_type(profile)))


def map_class(request: str, expressions: tuple[str, ...], nodes: Mapping[str, DeviceInventory]) -> ClassMapping:
    """The mapping of a request with these expressions; `request` is for messages. Raises `Unclaimable`.

    The expressions must have been evaluated for all of these inventories.
    """
    try:
        selected = {node: devices.count_selected(expressions) for node, devices in nodes.items()}
    except UnsupportedExpression as error:
        raise Unclaimable(f"the bridge cannot evaluate an expression of {request}: {error}") from None
    complete: dict[GresKind, set[str]] = {}  # nodes where the class selects all devices of a kind
    partial: set[GresKind] = set()
    for node, counts in selected.items():
        for kind, count in counts.items():
            if count and count == len(nodes[node].kinds[kind]):
                complete.setdefault(kind, set()).add(node)
            elif count:
                partial.add(kind)
    if not complete:
        raise Unclaimable(_no_match(request, partial))
    if len(complete) > 1:
        return _map_to_name(request, sorted(complete), selected, nodes)
    ((kind, suitable),) = complete.items()
    return ClassMapping(kind, frozenset(node for node in nodes if kind in nodes[node].kinds and node not in suitable))


def _no_match(request: str, partial: set[GresKind]) -> str:
    if not partial:
        return f"{request} selects no device of any node"
    return (
        f"{request} selects only some of the devices that Slurm counts as {min(partial)}; "
        "give them a type of their own with typeAttribute in a device profile"
    )


def _map_to_name(
    request: str,
    kinds: list[GresKind],
    selected: Mapping[str, Mapping[GresKind, int]],
    nodes: Mapping[str, DeviceInventory],
) -> ClassMapping:
    """The mapping of several types to their GRES name, for nodes where the class selects all devices of that name."""
    gres = kinds[0].gres
    offering = {node: own for node, own in nodes.items() if any(kind.gres == gres for kind in own.kinds)}
    suitable = {
        node
        for node, own in offering.items()
        if all(selected[node][kind] == len(items) for kind, items in own.kinds.items() if kind.gres == gres)
    }
    if any(kind.gres != gres for kind in kinds) or not suitable:
        raise Unclaimable(
            f"{request} selects devices that Slurm counts as {' and '.join(map(str, kinds))}; "
            "a job can request only one of them"
        )
    return ClassMapping(GresKind(gres), frozenset(offering) - suitable)


def share_attribute(devices: DeviceInventory, kinds: Iterable[GresKind], attribute: str) -> bool:
    """Whether all devices of these kinds have the same value of an attribute."""
    values = {inventory.attribute_value(device, attribute) for kind in kinds for device in devices.kinds[kind]}
    return len(values) == 1 and None not in values
