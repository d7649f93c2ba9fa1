# SPDX-License-Identifier: Apache-2.0
"""Host ports: which nodes have them in use, and reservations for pods that are about to be bound.

A kubelet rejects a pod whose host port is in use. Nodes where a port is in use are therefore excluded from the job, and
checked once more before the pod is bound. Both caches of pods, those of this scheduler and those of others, list bound
pods by port, so a check costs no request and does not depend on the number of pods.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from slinky.bridge.views import ForeignPod, WorkloadPod
from slinky.bridge.workload import pod_state
from slinky.bridge.workload.host_ports import HostPort, host_ports_of, host_ports_of_foreign
from slinky.kube import Cache, Key
from slinky.observe import Clock

#: How long a reservation lasts at most: by then the watch has reported the pod on its node.
RESERVATION_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class PortUse:
    """A host port that a pod uses on a node, or is about to use."""

    node: str
    port: HostPort
    pod: Key
    uid: str


@dataclass(frozen=True, slots=True)
class PortReservation:
    """The host ports of a pod that is about to be bound."""

    time: float
    uses: tuple[PortUse, ...]


class HostPortReservations:
    """Host ports in use on nodes, by bound pods and by pods that are about to be bound."""

    def __init__(self, pods: Cache[WorkloadPod], foreign_pods: Cache[ForeignPod], clock: Clock) -> None:
        self._pods, self._foreign_pods, self._clock = pods, foreign_pods, clock
        self._reservations: dict[str, PortReservation] = {}  # by pod uid
        pods.add_indexes({"port": _ports_in_use})
        foreign_pods.add_indexes({"port": lambda pod: map(str, host_ports_of_foreign(pod))})

    def nodes_in_conflict(self, pod: WorkloadPod) -> frozenset[str]:
        """The nodes where a bound pod uses a host port of this pod."""
        return frozenset(use.node for use in self._conflicts(pod, self._uses_by_bound_pods))

    def reserve(self, pod: WorkloadPod, node: str) -> str:
        """Reserve the host ports of a pod on a node. Returns why that is not possible, or an empty string."""
        ports = host_ports_of(pod)
        if not ports:
            return ""
        conflicts = chain(self._conflicts(pod, self._reserved_uses), self._conflicts(pod, self._uses_by_bound_pods))
        if conflict := next((use for use in conflicts if use.node == node), None):
            return f"host port {conflict.port} is in use by pod {conflict.pod}"
        uid = pod.metadata.uid
        uses = tuple(PortUse(node, port, pod.key, uid) for port in ports)
        self._reservations[uid] = PortReservation(self._clock.monotonic(), uses)
        return ""

    def _conflicts(self, pod: WorkloadPod, uses_of: Callable[[HostPort], Iterator[PortUse]]) -> Iterator[PortUse]:
        """The uses of ports by other pods that conflict with a port of this pod."""
        for port in host_ports_of(pod):
            for use in uses_of(port):
                if use.uid != pod.metadata.uid and port.conflicts_with(use.port):
                    yield use

    def _uses_by_bound_pods(self, port: HostPort) -> Iterator[PortUse]:
        for pod in self._pods.by("port", str(port)):
            for used in host_ports_of(pod):
                yield PortUse(pod.spec.node_name, used, pod.key, pod.metadata.uid)
        for foreign in self._foreign_pods.by("port", str(port)):
            for used in host_ports_of_foreign(foreign):
                yield PortUse(foreign.spec.node_name, used, foreign.key, foreign.metadata.uid)

    def _reserved_uses(self, _: HostPort) -> Iterator[PortUse]:
        oldest = self._clock.monotonic() - RESERVATION_SECONDS
        self._reservations = {
            uid: entry
            for uid, entry in self._reservations.items()
            if entry.time > oldest and self._is_unbound(uid, entry)
        }
        return (use for entry in self._reservations.values() for use in entry.uses)

    def _is_unbound(self, uid: str, reservation: PortReservation) -> bool:
        """Whether the pod of a reservation still waits: once it is bound, its own ports count, until it ends."""
        pod = self._pods.get(reservation.uses[0].pod)
        return pod is not None and pod.metadata.uid == uid and not pod_state.is_bound(pod)


def _ports_in_use(pod: WorkloadPod) -> tuple[str, ...]:
    if not pod_state.is_bound(pod) or pod_state.is_finished(pod):
        return ()
    return tuple({str(port) for port in host_ports_of(pod)})
