# SPDX-License-Identifier: Apache-2.0
"""What asking for a device class means to Slurm. Pure.

A class chooses devices by expressions, Slurm counts them by type. The two agree where a node's devices of a type all
fit; other nodes are left out. A class that fits a part of the devices of a type wherever there are any cannot be
honoured, and that is told with what would help.
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
from slinky.bridge.state.views import DeviceClass, Opaque

_DRIVER = re.compile(r"""device\.driver\s*==\s*["']([^"'\\]+)["']""")
#: An expression that says no more than the driver.
_BARE = re.compile(rf"\s*{_DRIVER.pattern}\s*\Z")


class Unclaimable(ValueError):  # noqa: N818 -- a finding, told to the user
    """A request for devices that cannot be met this way; the message says why."""


@dataclass(frozen=True)
class Catalog:
    """The device classes of a cluster."""

    resources: Mapping[str, str] = field(default_factory=dict)  # extended resource to class
    expressions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by class
    settings: Mapping[str, tuple[Opaque, ...]] = field(default_factory=dict)  # by class

    def class_of(self, resource: str) -> str | None:
        """The device class behind an extended resource, whether it exists or not."""
        if resource.startswith(names.DEVICE_CLASS_PREFIX):
            return resource.removeprefix(names.DEVICE_CLASS_PREFIX)
        return self.resources.get(resource)

    @property
    def drivers(self) -> frozenset[str]:
        """Drivers that some class names, in an expression or by its own name."""
        told = (driver for found in self.expressions.values() for text in found for driver in _DRIVER.findall(text))
        return frozenset(told) | frozenset(self.expressions)


def build_catalog(classes: Iterable[DeviceClass]) -> Catalog:
    """What the device classes of a cluster say."""
    resources: dict[str, str] = {}
    expressions: dict[str, tuple[str, ...]] = {}
    settings: dict[str, tuple[Opaque, ...]] = {}
    for found in classes:
        name = found.metadata.name
        expressions[name] = tuple(one.cel.expression for one in found.spec.selectors if one.cel)
        settings[name] = tuple(one.opaque for one in found.spec.config if one.opaque)
        for resource in (names.DEVICE_CLASS_PREFIX + name, found.spec.extended_resource_name):
            if resource:
                resources[resource] = name
    return Catalog(resources, expressions, settings)


@dataclass(frozen=True)
class ClassMapping:
    """What to ask Slurm for, and the nodes where that would give devices that do not fit."""

    kind: GresKind
    unfit: frozenset[str] = frozenset()
    only: frozenset[str] | None = None  # the only nodes that have any, where Slurm would not know

    def suits(self, node: str) -> bool:
        """Whether what a node gives would fit."""
        return node not in self.unfit and (self.only is None or node in self.only)


def map_driver(expressions: tuple[str, ...], profiles: tuple[DeviceProfile, ...]) -> ClassMapping | None:
    """The meaning of expressions that name a driver whose devices are all alike: no device need be looked at."""
    if len(expressions) != 1 or (found := _BARE.match(expressions[0])) is None:
        return None
    own = [profile for profile in effective_profiles(profiles) if profile.driver == found[1]]
    profile = own[0] if own else DeviceProfile(driver=found[1])
    if profile.match or profile.type_attribute or profile.ignore:
        return None
    return ClassMapping(CPUS if profile.cores else GresKind(profile.gres, gres_type(profile)))


def map_class(what: str, expressions: tuple[str, ...], nodes: Mapping[str, DeviceInventory]) -> ClassMapping:
    """What `what`, which these expressions choose, means on these nodes. Raises `Unclaimable`."""
    try:
        chosen = {node: found.fitting(expressions) for node, found in nodes.items()}
    except UnsupportedExpression as error:
        raise Unclaimable(f"{what} chooses devices in a way that cannot be decided here: {error}") from None
    whole: dict[GresKind, set[str]] = {}
    part: set[GresKind] = set()
    for node, found in chosen.items():
        for kind, count in found.items():
            if count and count == len(nodes[node].kinds[kind]):
                whole.setdefault(kind, set()).add(node)
            elif count:
                part.add(kind)
    if not whole:
        raise Unclaimable(_nowhere(what, part))
    if len(whole) == 1:
        ((kind, fit),) = whole.items()
        return ClassMapping(kind, frozenset(node for node in nodes if kind in nodes[node].kinds and node not in fit))
    return _untyped(what, sorted(whole), chosen, nodes)


def _nowhere(what: str, part: set[GresKind]) -> str:
    if not part:
        return f"{what} fits no device of any node"
    return (
        f"{what} fits some of the devices that Slurm counts as {min(part)}, which it cannot tell apart; "
        "give them a type of their own by a device profile with typeAttribute"
    )


def _untyped(
    what: str, kinds: list[GresKind], chosen: Mapping[str, Mapping[GresKind, int]], nodes: Mapping[str, DeviceInventory]
) -> ClassMapping:
    """Several types fit: they are asked for by their common name, where every device of that name fits."""
    gres = kinds[0].gres
    having = {node: found for node, found in nodes.items() if any(kind.gres == gres for kind in found.kinds)}
    fit = {
        node
        for node, found in having.items()
        if all(chosen[node][kind] == len(items) for kind, items in found.kinds.items() if kind.gres == gres)
    }
    if any(kind.gres != gres for kind in kinds) or not fit:
        raise Unclaimable(
            f"{what} fits devices that Slurm counts as {' and '.join(map(str, kinds))}; a job can ask for one of them"
        )
    return ClassMapping(GresKind(gres), frozenset(having) - fit)


def share_attribute(own: DeviceInventory, kinds: Iterable[GresKind], attribute: str) -> bool:
    """Whether all devices of these kinds have one value of an attribute."""
    found = {inventory.attribute_value(item, attribute) for kind in kinds for item in own.kinds[kind]}
    return len(found) == 1 and None not in found
