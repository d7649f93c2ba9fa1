# SPDX-License-Identifier: Apache-2.0
"""The host ports that pods request, and conflicts between them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import pod_state

WILDCARD_ADDRESSES = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 -- compared, not bound


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of a node."""

    number: int
    protocol: str = "TCP"
    address: str = ""

    def conflicts_with(self, other: "HostPort") -> bool:
        """Whether one node cannot provide both ports."""
        if (self.number, self.protocol) != (other.number, other.protocol):
            return False
        return self.address == other.address or bool({self.address, other.address} & WILDCARD_ADDRESSES)

    def __str__(self) -> str:
        return f"{self.number}/{self.protocol}"


def host_ports_of(pod: WorkloadPod) -> list[HostPort]:
    """The host ports that a pod requests."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return [
        HostPort(port.host_port, port.protocol, port.host_ip)
        for container in containers
        for port in container.ports
        if port.host_port
    ]


def find_port_conflict(ports: Iterable[HostPort], pods: Iterable[WorkloadPod]) -> tuple[HostPort, WorkloadPod] | None:
    """The first of the pods' ports that conflicts with one of `ports`, and the pod that uses it."""
    in_use = [(port, pod) for pod in pods if not pod_state.is_finished(pod) for port in host_ports_of(pod)]
    return next(((used, pod) for port in ports for used, pod in in_use if port.conflicts_with(used)), None)
