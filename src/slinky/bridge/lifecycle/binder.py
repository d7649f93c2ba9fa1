# SPDX-License-Identifier: Apache-2.0
"""Binds the pods of an allocated job to its nodes: reserve room and ports, allocate devices and volumes, bind.

No pod of a gang is bound before all of them are prepared. What prevents that is returned as an obstacle; the next
decision says what follows from it.
"""

import asyncio
from collections.abc import Sequence

from slinky.bridge import metrics
from slinky.bridge.devices.allocation import DevicesInUse
from slinky.bridge.feasibility.exclusions import Exclusions
from slinky.bridge.feasibility.node_room import REJECTED_SECONDS, NodeRoom
from slinky.bridge.feasibility.volume_state import VolumePending, VolumeState, volume_claims_of
from slinky.bridge.lifecycle.claim_writer import ClaimWriter
from slinky.bridge.lifecycle.decide.actions import BindPods, BlockNode
from slinky.bridge.lifecycle.decide.assignment import Assignment, UnsuitableNodes
from slinky.bridge.lifecycle.pod_writer import PodWriter, for_each_pod
from slinky.bridge.lifecycle.snapshot import Obstacle, ObstacleKind
from slinky.bridge.state.cluster import ClusterState
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import pod_state
from slinky.bridge.workload.host_ports import host_ports_of
from slinky.kube import Key, Later


class Binder:
    """Prepares and binds pods."""

    def __init__(
        self,
        cluster: ClusterState,
        exclusions: Exclusions,
        room: NodeRoom,
        claims: ClaimWriter,
        volumes: VolumeState,
        writer: PodWriter,
    ) -> None:
        self._cluster, self._exclusions, self._room = cluster, exclusions, room
        self._claims, self._volumes, self._writer = claims, volumes, writer

    def reserve_room(self, action: BindPods) -> None:
        """Count the pods on their nodes from now on, before anything else happens."""
        by_node: dict[str, list[WorkloadPod]] = {}
        for pod in _unbound(action):
            by_node.setdefault(action.assignments[pod.metadata.uid].node, []).append(pod)
        for node, pods in by_node.items():
            self._room.reserve(node, pods)

    async def bind(self, action: BindPods) -> Obstacle | None:
        """Bind pods to their nodes; returns what prevented it.

        The condition is written later, when no pod waits for a binding: see `pod_state.queue_priority`.
        """
        record, assignments, unbound = action.record, action.assignments, _unbound(action)
        await asyncio.sleep(0)  # the snapshot and the decision before it are long for a large gang
        try:
            with metrics.PLACE_SECONDS.time():
                await for_each_pod(
                    [pod for pod in unbound if self._needs_preparation(pod)],
                    lambda pod: self._prepare(pod, assignments[pod.metadata.uid]),
                )
                await for_each_pod(
                    unbound,
                    lambda pod: self._writer.bind(pod, assignments[pod.metadata.uid].node, record.job_id, record.sluid),
                )
        except UnsuitableNodes as error:
            return Obstacle(ObstacleKind.MISPLACED, str(error), host=error.host)
        except DevicesInUse as error:
            return Obstacle(ObstacleKind.DEVICES_HELD, str(error))
        except VolumePending as error:
            return Obstacle(ObstacleKind.VOLUME_PENDING, str(error), retry=error.after)
        except Later as error:
            return Obstacle(ObstacleKind.NOT_PREPARED, str(error), retry=error.after)
        return None

    def _needs_preparation(self, pod: WorkloadPod) -> bool:
        return bool(self._claims.needs_claims(pod) or volume_claims_of(pod) or host_ports_of(pod))

    async def _prepare(self, pod: WorkloadPod, assigned: Assignment) -> None:
        """Reserve ports and allocate devices and volumes: a bound pod must have all of them."""
        node = self._cluster.nodes.get(Key("", assigned.node))
        if node is None:
            raise Later(f"node {assigned.node} no longer exists")
        if problem := self._exclusions.reserve_ports(pod, assigned.node):
            text = f"node {assigned.node} does not suit pod {pod.metadata.name}: {problem}"
            raise UnsuitableNodes(text, pod_state.host_of(node))
        await self._claims.prepare(pod, assigned.node, assigned.component)
        await self._volumes.provide_volumes(pod, node)

    def block_node(self, action: BlockNode) -> None:
        """Do not use a node for pods of this size for a while."""
        if action.rejected:
            self._room.block(action.node, action.pods, seconds=REJECTED_SECONDS)
        else:
            self._room.block(action.node, action.pods)

    async def release_devices(self, pod: WorkloadPod) -> None:
        """Release the devices of a pod that lost its job before it was bound."""
        await self._claims.release(pod)

    async def delete_claim(self, pod: WorkloadPod) -> None:
        """Delete the claim that the bridge created for a pod that has ended."""
        await self._claims.delete_own_claim(pod)

    async def report_groups_scheduled(self, pods: Sequence[WorkloadPod]) -> None:
        """Write to the native PodGroups of these pods that they have their nodes."""
        if any(pod.spec.scheduling_group for pod in pods):
            await self._cluster.report_groups_scheduled(pods)


def _unbound(action: BindPods) -> list[WorkloadPod]:
    return [pod for pod in action.pods if not pod_state.is_bound(pod) and not pod.metadata.deleting]
