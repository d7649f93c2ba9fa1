# SPDX-License-Identifier: Apache-2.0
"""The host ports that pods request, and conflicts between them. Pure."""

from dataclasses import dataclass

from slinky.bridge.views import ForeignPod, WorkloadPod

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


def host_ports_of(pod: WorkloadPod | ForeignPod) -> list[HostPort]:
    """The host ports that a pod requests."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return [
        HostPort(port.host_port, port.protocol, port.host_ip)
        for container in containers
        for port in container.ports
        if port.host_port
    ]


def host_ports_of_foreign(pod: ForeignPod) -> list[HostPort]:
    """The host ports of a pod of another scheduler."""
    return [HostPort(*port) for port in pod.host_ports]
