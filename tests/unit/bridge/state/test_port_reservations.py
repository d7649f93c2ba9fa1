# SPDX-License-Identifier: Apache-2.0
"""Host ports in use are found in the caches: no request is sent, and other pods are not searched."""

from typing import Any

import msgspec
from tests.unit.bridge.build import pod

from slinky.bridge.feasibility.node_usage import FOREIGN_PODS
from slinky.bridge.state.port_reservations import RESERVATION_SECONDS, HostPortReservations
from slinky.bridge.views import OUR_PODS, ForeignPod, WorkloadPod
from slinky.kube import Cache
from slinky.observe import ManualClock


def serving(name: str, *ports: int, node: str = "", phase: str = "Running", address: str = "") -> WorkloadPod:
    given = [{"hostPort": port, "hostIP": address} for port in ports]
    return pod(name, node=node, phase=phase, spec={"containers": [{"name": "c", "ports": given}]})


def daemon(name: str, port: int, node: str) -> bytes:
    spec = {"nodeName": node, "containers": [{"name": "c", "ports": [{"hostPort": port}]}]}
    meta: dict[str, Any] = {"name": name, "namespace": "kube-system", "uid": f"uid-{name}", "resourceVersion": "1"}
    return msgspec.json.encode({"metadata": meta, "spec": spec})


class Ports:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.pods: Cache[WorkloadPod] = Cache(OUR_PODS)
        self.foreign: Cache[ForeignPod] = Cache(FOREIGN_PODS)
        self.reservations = HostPortReservations(self.pods, self.foreign, self.clock)


def test_ports_of_bound_pods_of_every_scheduler_are_in_use() -> None:
    ports = Ports()
    ports.foreign.put(FOREIGN_PODS.decode(daemon("exporter", 9100, "n3")))
    for other in (
        serving("a", 80, node="n1"),
        serving("ended", 80, node="n2", phase="Succeeded"),
        serving("unbound", 80),
        serving("elsewhere", 81, node="n4"),
        serving("address", 82, node="n5", address="10.0.0.1"),
    ):
        ports.pods.put(other)
    for wanted, nodes in ((80, {"n1"}), (9100, {"n3"}), (82, {"n5"}), (7, set())):
        assert ports.reservations.nodes_in_conflict(serving("p", wanted)) == nodes
    assert ports.reservations.nodes_in_conflict(serving("p", 82, address="10.0.0.2")) == set()
    assert ports.reservations.nodes_in_conflict(serving("a", 80)) == set(), "a pod does not conflict with itself"


async def test_a_reserved_port_is_in_use_until_the_pod_is_seen_on_its_node() -> None:
    ports = Ports()
    assert ports.reservations.reserve(serving("a", 80), "n1") == ""
    assert "80/TCP is in use by pod ns/a" in ports.reservations.reserve(serving("b", 80), "n1")
    assert ports.reservations.reserve(serving("b", 80), "n2") == ""
    assert ports.reservations.reserve(serving("a", 80), "n1") == ""
    await ports.clock.advance(RESERVATION_SECONDS + 1)
    assert ports.reservations.reserve(serving("c", 80), "n1") == ""
    ports.pods.put(serving("d", 80, node="n9"))
    assert "pod ns/d" in ports.reservations.reserve(serving("e", 80), "n9")


def test_a_reservation_ends_when_the_pod_has_ended() -> None:
    ports = Ports()
    assert ports.reservations.reserve(serving("a", 80), "n1") == ""
    ports.pods.put(serving("a", 80, node="n1", phase="Succeeded"))
    assert ports.reservations.reserve(serving("b", 80), "n1") == ""
