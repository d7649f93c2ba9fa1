# SPDX-License-Identifier: Apache-2.0
"""Which devices of a grant go to which request of a pod. Pure.

Slurm grants devices of a node to a job by type and index; a pod's requests take theirs from these, in order, and
never one that somebody else holds. A job that owns the whole node has more than its pods ask for: the rest stays
free.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slinky.bridge import demand, devices
from slinky.bridge.devices import Catalog, Inventory, Located
from slinky.bridge.views import Container, Pod, ResourceClaimSpec
from slinky.kube import Quantity
from slinky.slurm import NodeResources


class Unclaimable(ValueError):  # noqa: N818 -- a finding, told to the user
    """A request for devices that cannot be met this way; the message says why."""


class Held(Exception):  # noqa: N818 -- a reason to wait
    """Granted devices are still somebody else's."""


@dataclass(frozen=True)
class Ask:
    """So many devices of a class, under one name within a claim."""

    name: str
    device_class: str
    count: int
    container: str = ""
    resource: str = ""


def asks(pod: Pod, catalog: Catalog) -> list[Ask]:
    """The requests that a pod makes by extended resources, container by container."""
    found: list[Ask] = []
    containers: Sequence[Container] = (*pod.spec.init_containers, *pod.spec.containers)
    for number, container in enumerate(containers):
        amounts = demand.requests(container.resources)
        for place, (resource, text) in enumerate(sorted(amounts.items())):
            kind, count = catalog.class_of(resource), Quantity.parse(text).whole()
            if kind and count > 0:
                name = f"container-{number}-request-{place}"
                found.append(Ask(name, kind, count, container.name, resource))
    return found


def asks_of_claim(spec: ResourceClaimSpec) -> list[Ask]:
    """The requests of a claim that a pod names. Raises `Unclaimable` for what Slurm cannot count."""
    found: list[Ask] = []
    for request in spec.devices.requests:
        exact = request.exactly
        if exact is None:
            raise Unclaimable(f"request {request.name} lists alternatives, of which Slurm cannot choose")
        if exact.allocation_mode != "ExactCount" or exact.admin_access:
            raise Unclaimable(f"request {request.name} does not ask for a number of devices")
        if exact.selectors:
            raise Unclaimable(f"request {request.name} selects devices by expression; use a device class instead")
        found.append(Ask(request.name, exact.device_class_name, exact.count))
    return found


def counted(found: Iterable[Ask], catalog: Catalog) -> dict[str, int]:
    """The requests as GRES types and counts."""
    counts: dict[str, int] = {}
    for ask in found:
        kind = catalog.drivers.get(ask.device_class, ask.device_class)
        counts[kind] = counts.get(kind, 0) + ask.count
    return counts


def granted(resources: NodeResources, inventory: Inventory) -> dict[str, list[Located]]:
    """The devices of a node that Slurm gave to a job, by driver. Raises `Unclaimable` if it does not tell which."""
    found: dict[str, list[Located]] = {}
    for gres in resources.gres:
        known = inventory.get(gres.type, ())
        if gres.name != "gpu" or not known:
            continue
        numbers = devices.indexes(gres.index)
        if gres.count and not numbers:
            raise Unclaimable(f"Slurm granted {gres.count} of {gres.type} without saying which")
        if any(number >= len(known) for number in numbers):
            raise Unclaimable(f"Slurm granted a {gres.type} that node {resources.node} does not have")
        found.setdefault(gres.type, []).extend(known[number] for number in numbers)
    return found


def share(
    wanted: Sequence[Ask], given: Mapping[str, Sequence[Located]], catalog: Catalog, taken: Callable[[Located], bool]
) -> dict[str, list[Located]]:
    """The devices of each request. Raises `Held` if enough were granted but some are still taken, else
    `Unclaimable`.
    """
    left = {kind: list(found) for kind, found in given.items()}
    result: dict[str, list[Located]] = {}
    for ask in wanted:
        kind = catalog.drivers.get(ask.device_class, ask.device_class)
        if len(given.get(kind, ())) < ask.count:
            raise Unclaimable(f"Slurm granted {len(given.get(kind, ()))} of {kind}, the pod needs {ask.count}")
        free = [device for device in left.get(kind, []) if not taken(device)]
        if len(free) < ask.count:
            raise Held(f"{ask.count - len(free)} of the granted {kind} are still held by another pod")
        result[ask.name] = free[: ask.count]
        left[kind] = [device for device in left[kind] if device not in result[ask.name]]
    return result


def allocation(shared: Mapping[str, Iterable[Located]], node: str) -> dict[str, Any]:
    """What goes into the status of a claim."""
    results = [
        {"request": name, "driver": device.driver, "pool": device.pool, "device": device.device}
        for name, found in shared.items()
        for device in found
    ]
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "devices": {"results": results},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
    }
