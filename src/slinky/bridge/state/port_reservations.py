# SPDX-License-Identifier: Apache-2.0
"""Host ports: which nodes have them in use, and reservations for pods that are about to be bound.

A kubelet rejects a pod whose host port is in use. Nodes where a port is in use are therefore excluded from the job, and
checked once more before the pod is bound. Pods of other schedulers are not watched; they are listed at most every
`LIST_SECONDS`, and only if a pod requests a host port.
"""

from dataclasses import dataclass

from slinky.bridge.views import OUR_PODS, WorkloadPod
from slinky.bridge.workload import pod_state
from slinky.bridge.workload.host_ports import find_port_conflict, host_ports_of
from slinky.kube import Cache, KubeClient

#: Maximum age of the list of other schedulers' pods when nodes are excluded from a job.
LIST_SECONDS = 15.0
#: How long a reservation lasts: by then the API server lists the pod on its node.
RESERVATION_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class PortReservation:
    """The host ports of a pod that is about to be bound to a node."""

    time: float
    node: str
    pod: WorkloadPod


class HostPortReservations:
    """Host ports in use on nodes, by bound pods and by pods that are about to be bound."""

    def __init__(self, client: KubeClient, pods: Cache[WorkloadPod], scheduler_name: str) -> None:
        self._client, self._pods, self._scheduler_name = client, pods, scheduler_name
        self._listed: tuple[float, list[WorkloadPod]] = (float("-inf"), [])  # pods of other schedulers
        self._reservations: dict[str, PortReservation] = {}  # by pod uid

    async def nodes_in_conflict(self, pod: WorkloadPod) -> frozenset[str]:
        """The nodes where a host port of this pod is in use."""
        ports = host_ports_of(pod)
        if not ports:
            return frozenset()
        pods_by_node: dict[str, list[WorkloadPod]] = {}
        for other in await self._pods_with_ports():
            if other.metadata.uid != pod.metadata.uid and pod_state.is_bound(other):
                pods_by_node.setdefault(other.spec.node_name, []).append(other)
        return frozenset(node for node, others in pods_by_node.items() if find_port_conflict(ports, others))

    async def reserve(self, pod: WorkloadPod, node: str) -> str:
        """Reserve the host ports of a pod on a node. Returns why that is not possible, or an empty string."""
        ports = host_ports_of(pod)
        if not ports:
            return ""
        listed = await self._client.list(OUR_PODS, fields=f"spec.nodeName={node}")
        others = {other.metadata.uid: other for other in (*self._reserved_on(node), *listed)}
        others.pop(pod.metadata.uid, None)
        if conflict := find_port_conflict(ports, others.values()):
            return f"host port {conflict[0]} is in use by pod {conflict[1].key}"
        self._reservations[pod.metadata.uid] = PortReservation(self._client.clock.monotonic(), node, pod)
        return ""

    def _reserved_on(self, node: str) -> list[WorkloadPod]:
        oldest = self._client.clock.monotonic() - RESERVATION_SECONDS
        self._reservations = {uid: entry for uid, entry in self._reservations.items() if entry.time > oldest}
        return [entry.pod for entry in self._reservations.values() if entry.node == node]

    async def _pods_with_ports(self) -> list[WorkloadPod]:
        """Pods with host ports: those of other schedulers from the last list, ours from the cache."""
        now = self._client.clock.monotonic()
        if now - self._listed[0] > LIST_SECONDS:
            pods = [pod for pod in await self._client.list(OUR_PODS) if host_ports_of(pod)]
            self._listed = now, [pod for pod in pods if not pod_state.uses_scheduler(pod, self._scheduler_name)]
        return [*self._listed[1], *(pod for pod in self._pods if host_ports_of(pod))]
