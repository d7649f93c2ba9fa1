# SPDX-License-Identifier: Apache-2.0
"""The devices that a pod requests, by extended resources of its containers or by resource claims. Pure."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from slinky.bridge.devices.classes import Catalog, Unclaimable
from slinky.bridge.views import DeviceRequest, ExactRequest, ResourceClaimSpec, WorkloadPod
from slinky.bridge.workload import pod_resources
from slinky.kube import Quantity


@dataclass(frozen=True, slots=True)
class ClassRequest:
    """A request for a number of devices of a class, with its name within the claim."""

    name: str
    device_class: str
    count: int
    container: str = ""
    resource: str = ""
    expressions: tuple[str, ...] = ()  # in addition to those of the class
    capacity: str = ""  # the capacity of a shared device that `count` refers to

    @property
    def names(self) -> set[str]:
        """The names that constraints of the claim can use; for an alternative also the name of its request."""
        return {self.name, self.name.partition("/")[0]}

    def __str__(self) -> str:
        selectors = f" with the selectors of request {self.name}" if self.expressions else ""
        return f"device class {self.device_class}{selectors}"


def extended_resource_requests(pod: WorkloadPod, catalog: Catalog) -> list[ClassRequest]:
    """The requests for extended resources that have a device class, one for each container and resource."""
    requests: list[ClassRequest] = []
    for number, container in enumerate((*pod.spec.init_containers, *pod.spec.containers)):
        amounts = pod_resources.requests_of(container.resources)
        for position, (resource, amount) in enumerate(sorted(amounts.items())):
            device_class = catalog.class_of(resource)
            if device_class and (count := Quantity.parse(amount).whole()) > 0:
                name = f"container-{number}-request-{position}"
                requests.append(ClassRequest(name, device_class, count, container.name, resource))
    return requests


def claim_requests(spec: ResourceClaimSpec, is_offered: Callable[[ClassRequest], bool]) -> list[ClassRequest]:
    """The requests of a resource claim. Raises `Unclaimable` for a request that cannot be expressed in Slurm.

    A Slurm job cannot request alternatives. Of the alternatives of a request, the first one that some node offers is
    chosen.
    """
    requests = [_choose_alternative(request, is_offered) for request in spec.devices.requests]
    for constraint in spec.devices.constraints:
        if constraint.distinct_attribute:
            raise Unclaimable(f"the constraint distinctAttribute {constraint.distinct_attribute} is not supported")
    for config in spec.devices.config:
        parameters = config.opaque.parameters if config.opaque else None
        if isinstance(parameters, dict) and "cpuConfig" in parameters:
            raise Unclaimable("its configuration has cpuConfig, but Slurm chooses the CPUs")
    return requests


def class_requests(spec: ResourceClaimSpec) -> list[ClassRequest]:
    """All requests of a claim, and all alternatives, that can be expressed in Slurm."""
    requests: list[ClassRequest] = []
    for request in spec.devices.requests:
        for exact in (request.exactly, *request.first_available):
            with contextlib.suppress(Unclaimable):
                requests += [_class_request(request.name, exact)] if exact is not None else []
    return requests


def _choose_alternative(request: DeviceRequest, is_offered: Callable[[ClassRequest], bool]) -> ClassRequest:
    if request.exactly is not None:
        return _class_request(request.name, request.exactly)
    problems: list[str] = []
    for alternative in request.first_available:
        try:
            choice = _class_request(f"{request.name}/{alternative.name}", alternative)
        except Unclaimable as error:
            problems.append(str(error))
            continue
        if is_offered(choice):
            return choice
        problems.append(f"no node has {choice.count} of {choice}")
    raise Unclaimable(f"no alternative of request {request.name} is available: {'; '.join(problems)}")


def _class_request(name: str, exact: ExactRequest) -> ClassRequest:
    if exact.admin_access:
        raise Unclaimable(f"request {name} has adminAccess, which is not supported for jobs")
    if exact.allocation_mode != "ExactCount":
        raise Unclaimable(f"request {name} asks for all devices of a node; ask for a number of devices")
    if len(exact.capacity.requests) > 1:
        raise Unclaimable(f"request {name} asks for several capacities of a shared device")
    expressions = tuple(selector.cel.expression for selector in exact.selectors if selector.cel)
    ((capacity, amount),) = exact.capacity.requests.items() or [("", 1)]
    count = exact.count * Quantity.parse(amount).whole()
    return ClassRequest(name, exact.device_class_name, count, expressions=expressions, capacity=capacity)
