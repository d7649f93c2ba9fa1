# SPDX-License-Identifier: Apache-2.0
"""Host ports: no two pods on a node may have the same, and no kubelet starts a pod whose port is taken. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from slinky.bridge.state.views import WorkloadPod
from slinky.bridge.workload import pod_state

EVERYWHERE = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 -- compared, not bound


class HostPort(NamedTuple):
    """A port of a node."""

    number: int
    protocol: str = "TCP"
    address: str = ""

    def clashes(self, other: "HostPort") -> bool:
        """Whether the two cannot be had on one node."""
        if (self.number, self.protocol) != (other.number, other.protocol):
            return False
        return self.address == other.address or bool({self.address, other.address} & EVERYWHERE)

    def __str__(self) -> str:
        return f"{self.number}/{self.protocol}"


def ports_of(pod: WorkloadPod) -> list[HostPort]:
    """The host ports that a pod needs."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return [
        HostPort(port.host_port, port.protocol, port.host_ip)
        for each in containers
        for port in each.ports
        if port.host_port
    ]


def clash(wanted: Iterable[HostPort], others: Iterable[WorkloadPod]) -> tuple[HostPort, WorkloadPod] | None:
    """The first port that another pod holds, and who."""
    held = [(port, pod) for pod in others if not pod_state.finished(pod) for port in ports_of(pod)]
    return next(((port, pod) for want in wanted for port, pod in held if want.clashes(port)), None)
