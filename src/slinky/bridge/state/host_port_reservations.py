# SPDX-License-Identifier: Apache-2.0
"""Which host ports are taken where.

Nodes where a port is taken are left out of the job, and looked at once more before the pod is bound. Pods of other
schedulers are not watched, only listed: rarely, and only while somebody wants a host port.
"""

from slinky.bridge.state.cluster import ClusterState
from slinky.bridge.state.host_ports import clash, ports_of
from slinky.bridge.state.views import OUR_PODS, WorkloadPod
from slinky.bridge.workload import pod_state

#: How old a list of everybody's pods may be when nodes are left out of a job.
REMEMBERED = 15.0
#: A pod that was just bound may not show on its node yet.
UNSEEN = 30.0


class HostPortReservations:
    """Knows which ports are taken where."""

    def __init__(self, stock: ClusterState) -> None:
        self._stock, self._client = stock, stock.client
        self._listed: tuple[float, list[WorkloadPod]] = (float("-inf"), [])
        self._promised: dict[
            str, tuple[float, str, WorkloadPod]
        ] = {}  # by uid: pods that are about to be bound, and where

    async def busy(self, pod: WorkloadPod) -> frozenset[str]:
        """The nodes where a port of this pod is taken now."""
        wanted = ports_of(pod)
        if not wanted:
            return frozenset()
        by_node: dict[str, list[WorkloadPod]] = {}
        for other in await self._everybody():
            if other.metadata.uid != pod.metadata.uid and pod_state.bound(other):
                by_node.setdefault(other.spec.node_name, []).append(other)
        return frozenset(node for node, others in by_node.items() if clash(wanted, others))

    async def taken(self, pod: WorkloadPod, node: str) -> str:
        """Why a pod cannot have its ports on a node; if it can, they are its own from now on."""
        wanted = ports_of(pod)
        if not wanted:
            return ""
        there = await self._client.list(OUR_PODS, fields=f"spec.nodeName={node}")
        others = {other.metadata.uid: other for other in (*self._due_on(node), *there)}
        others.pop(pod.metadata.uid, None)
        if found := clash(wanted, others.values()):
            return f"host port {found[0]} is taken by {found[1].key}"
        self._promised[pod.metadata.uid] = (self._client.clock.monotonic(), node, pod)
        return ""

    def _due_on(self, node: str) -> list[WorkloadPod]:
        now = self._client.clock.monotonic()
        self._promised = {uid: kept for uid, kept in self._promised.items() if now - kept[0] < UNSEEN}
        return [pod for _, where, pod in self._promised.values() if where == node]

    async def _everybody(self) -> list[WorkloadPod]:
        """Pods of other schedulers as of a short while ago, ours as of now."""
        now = self._client.clock.monotonic()
        if now - self._listed[0] > REMEMBERED:
            found = [pod for pod in await self._client.list(OUR_PODS) if ports_of(pod)]
            self._listed = now, [pod for pod in found if pod.spec.scheduler_name != self._stock.settings.scheduler_name]
        return [*self._listed[1], *(pod for pod in self._stock.pods if ports_of(pod))]
