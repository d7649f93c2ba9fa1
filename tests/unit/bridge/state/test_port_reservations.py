# SPDX-License-Identifier: Apache-2.0
"""Host ports in use are found in the caches: no request is sent, and other pods are not searched."""

from typing import Any

import msgspec
from msgspec import structs
from tests.unit.bridge.build import pod

from slinky.bridge.feasibility.node_usage import FOREIGN_PODS
from slinky.bridge.state.port_reservations import RESERVATION_SECONDS, HostPortReservations
from slinky.bridge.views import OUR_PODS, ForeignPod, WorkloadPod
from slinky.kube import Cache
from slinky.observe import ManualClock


def serving(
    name: str, *ports: int, node: str = "", phase: str = "Running", address: str = "", version: int = 1
) -> WorkloadPod:
    given = [{"hostPort": port, "hostIP": address} for port in ports]
    made = pod(name, node=node, phase=phase, spec={"containers": [{"name": "c", "ports": given}]})
    return structs.replace(made, metadata=structs.replace(made.metadata, resource_version=str(version)))


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


async def test_a_reserved_port_is_in_use_until_the_pod_is_bound_or_gone() -> None:
    ports = Ports()
    for name in ("a", "b", "c"):
        ports.pods.put(serving(name, 80, phase="Pending", version=1))
    assert ports.reservations.reserve(serving("a", 80), "n1") == ""
    assert "80/TCP is in use by pod ns/a" in ports.reservations.reserve(serving("b", 80), "n1")
    assert ports.reservations.reserve(serving("b", 80), "n2") == ""
    assert ports.reservations.reserve(serving("a", 80), "n1") == "", "a pod does not conflict with itself"
    ports.pods.put(serving("a", 80, node="n1", version=2))
    assert "pod ns/a" in ports.reservations.reserve(serving("c", 80), "n1")
    ports.pods.put(serving("a", 80, node="n1", phase="Succeeded", version=3))
    assert ports.reservations.reserve(serving("c", 80), "n1") == "", "the pod has ended"
    ports.pods.remove(serving("b", 80, version=2).metadata)
    assert ports.reservations.reserve(serving("d", 80), "n2") == "", "the pod was deleted before it was bound"


async def test_a_reservation_ends_after_a_while() -> None:
    ports = Ports()
    ports.pods.put(serving("a", 80, phase="Pending", version=1))
    assert ports.reservations.reserve(serving("a", 80), "n1") == ""
    await ports.clock.advance(RESERVATION_SECONDS + 1)
    assert ports.reservations.reserve(serving("b", 80), "n1") == ""
