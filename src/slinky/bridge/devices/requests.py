# SPDX-License-Identifier: Apache-2.0
"""The devices that a pod asks for: by extended resources of its containers, or by claims. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slinky.bridge.devices.classes import Catalog, Unclaimable
from slinky.bridge.state.views import Container, DeviceRequest, ExactRequest, ResourceClaimSpec, WorkloadPod
from slinky.bridge.workload import pod_resources
from slinky.kube import Quantity


@dataclass(frozen=True)
class ClassRequest:
    """So many devices of a class, under one name within a claim."""

    name: str
    device_class: str
    count: int
    container: str = ""
    resource: str = ""
    expressions: tuple[str, ...] = ()  # beyond those of the class
    capacity: str = ""  # the part of a shared device that is counted

    @property
    def names(self) -> set[str]:
        """How the rest of a claim may speak of it: an alternative is also called by the request that it is one of."""
        return {self.name, self.name.partition("/")[0]}

    def __str__(self) -> str:
        more = f" with the selectors of request {self.name}" if self.expressions else ""
        return f"device class {self.device_class}{more}"


def extended_resource_requests(pod: WorkloadPod, catalog: Catalog) -> list[ClassRequest]:
    """The requests that a pod makes by extended resources; every container has its own."""
    found: list[ClassRequest] = []
    containers: Sequence[Container] = (*pod.spec.init_containers, *pod.spec.containers)
    for number, container in enumerate(containers):
        amounts = pod_resources.requests_of(container.resources)
        for place, (resource, text) in enumerate(sorted(amounts.items())):
            kind = catalog.class_of(resource)
            if kind and (count := Quantity.parse(text).whole()) > 0:
                name = f"container-{number}-request-{place}"
                found.append(ClassRequest(name, kind, count, container.name, resource))
    return found


def claim_requests(spec: ResourceClaimSpec, offered: Callable[[ClassRequest], bool]) -> list[ClassRequest]:
    """The requests of a claim that a pod names. Raises `Unclaimable` for what Slurm cannot count.

    Slurm cannot be asked for one thing or another: of alternatives the first is chosen that some node has at all.
    """
    found = [_chosen(request, offered) for request in spec.devices.requests]
    for constraint in spec.devices.constraints:
        if constraint.distinct_attribute:
            raise Unclaimable(f"the constraint distinctAttribute {constraint.distinct_attribute} cannot be honoured")
    return found


def _chosen(request: DeviceRequest, offered: Callable[[ClassRequest], bool]) -> ClassRequest:
    if request.exactly is not None:
        return _counted(request.name, request.exactly)
    troubles: list[str] = []
    for option in request.first_available:
        try:
            ask = _counted(f"{request.name}/{option.name}", option)
        except Unclaimable as error:
            troubles.append(str(error))
            continue
        if offered(ask):
            return ask
        troubles.append(f"no node has {ask.count} of {ask}")
    raise Unclaimable(f"none of the alternatives of request {request.name} can be had: {'; '.join(troubles)}")


def _counted(name: str, exact: ExactRequest) -> ClassRequest:
    where = f"request {name}"
    if exact.admin_access:
        raise Unclaimable(f"{where} wants admin access, which is for looking after devices, not for jobs")
    if exact.allocation_mode != "ExactCount":
        raise Unclaimable(f"{where} wants all devices of a node; ask for a number of them")
    if len(exact.capacity.requests) > 1:
        raise Unclaimable(f"{where} wants several capacities of a shared device")
    expressions = tuple(one.cel.expression for one in exact.selectors if one.cel)
    ((capacity, amount),) = exact.capacity.requests.items() or [("", 1)]
    count = exact.count * Quantity.parse(amount).whole()
    return ClassRequest(name, exact.device_class_name, count, expressions=expressions, capacity=capacity)
