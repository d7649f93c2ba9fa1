# SPDX-License-Identifier: Apache-2.0
"""The devices that a pod asks for: by extended resources of its containers, or by claims. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from slinky.bridge import demand
from slinky.bridge.devices.classes import Catalog, Unclaimable
from slinky.bridge.views import Container, Pod, ResourceClaimSpec
from slinky.kube import Quantity


@dataclass(frozen=True)
class Ask:
    """So many devices of a class, under one name within a claim."""

    name: str
    device_class: str
    count: int
    container: str = ""
    resource: str = ""
    expressions: tuple[str, ...] = ()  # beyond those of the class
    capacity: str = ""  # the part of a shared device that is counted

    def __str__(self) -> str:
        more = f" with the selectors of request {self.name}" if self.expressions else ""
        return f"device class {self.device_class}{more}"


def of_pod(pod: Pod, catalog: Catalog) -> list[Ask]:
    """The requests that a pod makes by extended resources; every container has its own."""
    found: list[Ask] = []
    containers: Sequence[Container] = (*pod.spec.init_containers, *pod.spec.containers)
    for number, container in enumerate(containers):
        amounts = demand.requests(container.resources)
        for place, (resource, text) in enumerate(sorted(amounts.items())):
            kind = catalog.class_of(resource)
            if kind and (count := Quantity.parse(text).whole()) > 0:
                name = f"container-{number}-request-{place}"
                found.append(Ask(name, kind, count, container.name, resource))
    return found


def of_claim(spec: ResourceClaimSpec) -> list[Ask]:
    """The requests of a claim that a pod names. Raises `Unclaimable` for what Slurm cannot count."""
    found: list[Ask] = []
    for request in spec.devices.requests:
        where, exact = f"request {request.name}", request.exactly
        if exact is None:
            raise Unclaimable(f"{where} lists alternatives, of which Slurm cannot choose")
        if exact.admin_access:
            raise Unclaimable(f"{where} wants admin access, which is for looking after devices, not for jobs")
        if exact.allocation_mode != "ExactCount":
            raise Unclaimable(f"{where} wants all devices of a node; ask for a number of them")
        if len(exact.capacity.requests) > 1:
            raise Unclaimable(f"{where} wants several capacities of a shared device")
        expressions = tuple(one.cel.expression for one in exact.selectors if one.cel)
        ((capacity, amount),) = exact.capacity.requests.items() or [("", 1)]
        count = exact.count * Quantity.parse(amount).whole()
        found.append(Ask(request.name, exact.device_class_name, count, expressions=expressions, capacity=capacity))
    for constraint in spec.devices.constraints:
        if constraint.distinct_attribute:
            raise Unclaimable(f"the constraint distinctAttribute {constraint.distinct_attribute} cannot be honoured")
    return found
