# SPDX-License-Identifier: Apache-2.0
"""Binds the pods of an allocated job to its nodes: assign nodes, wait until they are usable, prepare, bind.

Placement waits for nodes that are not ready, for pods of earlier jobs that still run there, for devices and for
volumes. If the nodes do not suit the pods, or pods of other schedulers leave too little room there, it ends the job, so
that the pods are submitted again.
"""

from collections.abc import Iterable, Mapping, Sequence

from slinky.bridge import metrics
from slinky.bridge.devices.allocation import DevicesInUse
from slinky.bridge.feasibility.exclusions import Exclusions
from slinky.bridge.feasibility.node_room import REJECTED_SECONDS, NodeRoom
from slinky.bridge.feasibility.volume_state import VolumePending, VolumeState, volume_claims_of
from slinky.bridge.lifecycle import assignment
from slinky.bridge.lifecycle.assignment import Assignment, UnsuitableNodes
from slinky.bridge.lifecycle.claim_writer import ClaimWriter
from slinky.bridge.lifecycle.pod_writer import PodWriter, for_each_pod
from slinky.bridge.lifecycle.release import Releaser
from slinky.bridge.state.cluster import ClusterState
from slinky.bridge.state.job_registry import JobRegistry
from slinky.bridge.status.reasons import ConditionText, Reason
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import pod_state
from slinky.bridge.workload.grouping import Workload
from slinky.bridge.workload.job_spec import JobSpec
from slinky.kube import Key, Later
from slinky.slurm import JobRecord

#: Seconds between two checks of allocated devices that another claim still uses.
DEVICES_RETRY = 5.0
#: Seconds between two checks of a node where pods of earlier jobs still run.
CLEARING_RETRY = 0.5
#: Seconds between two checks of a node that is not ready, or cordoned.
NOT_READY_RETRY = 1.0

Assignments = Mapping[str, Assignment]
"""Assignments by pod uid."""


class OccupiedNode(UnsuitableNodes):
    """Pods of other schedulers leave too little room on a node of the job."""

    def __init__(self, node: str, pods: Sequence[WorkloadPod], problem: str) -> None:
        super().__init__(problem)
        self.node, self.pods = node, pods


class Placement:
    """Binds the pods of a job to the nodes that Slurm allocated."""

    def __init__(
        self,
        cluster: ClusterState,
        registry: JobRegistry,
        exclusions: Exclusions,
        room: NodeRoom,
        releaser: Releaser,
        writer: PodWriter,
        claims: ClaimWriter,
        volumes: VolumeState,
    ) -> None:
        self._cluster, self._registry, self._exclusions, self._room = cluster, registry, exclusions, room
        self._releaser, self._writer, self._claims, self._volumes = releaser, writer, claims, volumes

    async def place(
        self, workload: Workload, job: str, pods: tuple[WorkloadPod, ...], job_spec: JobSpec | None
    ) -> None:
        """Bind the pods of a job to its nodes. Raises `Later` if they have to wait."""
        record = self._registry.observe(job, pods, "").record
        if record is None or record.resources is None:
            raise Later(f"the nodes of Slurm job {job} are not known yet", after=NOT_READY_RETRY)
        try:
            assignments = await self._assign(job, record, pods, job_spec)
            await self._wait_for_ready_nodes(job, pods, assignments)
            exclusive = job_spec is not None and bool(job_spec.request.shared)
            if exclusive:
                await self._wait_for_empty_nodes(job, pods, {item.node for item in assignments.values()})
            await self._wait_for_room(job, pods, assignments, exclusive=exclusive)
            await self._bind_all(record, pods, assignments)
        except UnsuitableNodes as error:
            await self._return_nodes(job, pods, error)
            raise Later(str(error)) from error
        except DevicesInUse as error:
            # A claim that is released triggers a reconcile; this retry is for claims that are not watched.
            await self._write_waiting(job, pods, Reason.DEVICES_HELD.text(job=job, problem=error))
            raise Later(str(error), after=DEVICES_RETRY) from error
        except VolumePending as error:
            await self._write_waiting(job, pods, Reason.VOLUME_PENDING.text(job=job, problem=error))
            raise
        except Later:
            await self._label_unlabelled(pods, job)
            raise
        if any(pod.spec.scheduling_group for pod in pods):
            await self._cluster.report_groups_scheduled(pods)

    async def _bind_all(self, record: JobRecord, pods: tuple[WorkloadPod, ...], assignments: Assignments) -> None:
        """Prepare all pods, then bind them: no pod of a gang starts before all of them can start.

        The condition is written later, when no pod waits for a binding: see `pod_state.queue_priority`.
        """
        unbound = [pod for pod in pods if not pod_state.is_bound(pod) and not pod.metadata.deleting]
        with metrics.PLACE_SECONDS.time():
            with_claims = [pod for pod in unbound if self._claims.needs_claims(pod) or volume_claims_of(pod)]
            await for_each_pod(with_claims, lambda pod: self._prepare(pod, assignments[pod.metadata.uid]))
            await for_each_pod(
                unbound,
                lambda pod: self._writer.bind(pod, assignments[pod.metadata.uid].node, record.job_id, record.sluid),
            )

    async def _write_waiting(self, job: str, pods: tuple[WorkloadPod, ...], text: ConditionText) -> None:
        """Write why pods without a node wait, and label those that the binding would have labelled."""
        unbound = [pod for pod in pods if not pod_state.is_bound(pod)]
        await self._writer.write_conditions(unbound, text)
        await self._label_unlabelled(unbound, job)

    async def _return_nodes(self, job: str, pods: tuple[WorkloadPod, ...], error: UnsuitableNodes) -> None:
        """Write that the nodes do not suit. Unless some pods run already, end the job and submit the pods again."""
        unbound = [pod for pod in pods if not pod_state.is_bound(pod)]
        text = Reason.NODE_UNSUITABLE.text(job=job, problem=error)
        if isinstance(error, OccupiedNode):
            text = Reason.NODE_OCCUPIED.text(job=job, problem=error)
            self._room.block(error.node, error.pods)
        await self._writer.write_conditions(unbound, text)
        if len(unbound) == len(pods):
            await for_each_pod(unbound, self._claims.release)
            await for_each_pod(unbound, self._writer.remove_label)
            await self._releaser.end_job(job)

    async def _wait_for_ready_nodes(self, job: str, pods: tuple[WorkloadPod, ...], assignments: Assignments) -> None:
        """Bind no pod to a node that is cordoned or not ready. It may recover before it is drained in Slurm."""
        unbound = [pod for pod in pods if not pod_state.is_bound(pod)]
        for name in sorted({assignments[pod.metadata.uid].node for pod in unbound}):
            node = self._cluster.nodes.get(Key("", name))
            if node is None or not (problem := pod_state.unavailable_reason(node)):
                continue
            if self._exclusions.is_drained(node):
                raise UnsuitableNodes(f"node {name} {problem}")
            text = Reason.NODE_NOT_READY.text(job=job, node=name, problem=problem)
            await self._writer.write_conditions(unbound, text)
            raise Later(text.message, after=NOT_READY_RETRY)

    async def _wait_for_empty_nodes(self, job: str, pods: tuple[WorkloadPod, ...], nodes: set[str]) -> None:
        """Wait until whole nodes are empty: Slurm reallocates a node as soon as its job ends, before its pods stop."""
        for node in sorted(nodes):
            if leaving := self._cluster.other_pods_on(node, job):
                self._check_stuck(node, leaving)
                text = Reason.NODE_CLEARING.text(job=job, node=node, pod=leaving[0].key)
                await self._writer.write_conditions(pods, text)
                raise Later(text.message, after=CLEARING_RETRY)

    async def _wait_for_room(
        self, job: str, pods: tuple[WorkloadPod, ...], assignments: Assignments, *, exclusive: bool
    ) -> None:
        """Check that every node admits its pods now, beside all pods on it. Raises `Later` if pods of other jobs still
        have to leave, and `OccupiedNode` if pods of other schedulers are in the way.

        Slurm does not allocate more than a node has, so without foreign pods, the other pods belong to jobs that have
        ended: the mirror may have read the new job before the end of theirs.
        """
        by_node: dict[str, list[WorkloadPod]] = {}
        for pod in pods:
            by_node.setdefault(assignments[pod.metadata.uid].node, []).append(pod)
        for name, arriving in sorted(by_node.items()):
            if all(map(pod_state.is_bound, arriving)) or (exclusive and not self._room.has_foreign_pods(name)):
                continue
            others = self._cluster.other_pods_on(name, job)
            lack = self._room.find_shortage(name, arriving, others)
            if lack is None:
                continue
            staying = [pod for pod in others if not self._is_leaving(pod)]
            if self._is_occupied(name, arriving, staying):
                raise OccupiedNode(name, arriving, self._room.describe(name, lack))
            self._check_stuck(name, others)
            if others:
                text = Reason.NODE_FULL.text(job=job, node=name, pod=_next_to_leave(others).key, lack=lack.resource)
                await self._writer.write_conditions([pod for pod in arriving if not pod_state.is_bound(pod)], text)
            raise Later(f"node {name} does not have room yet: {lack}", after=CLEARING_RETRY)
        if not exclusive:
            for name, arriving in by_node.items():
                self._room.reserve(name, [pod for pod in arriving if not pod_state.is_bound(pod)])

    def _check_stuck(self, name: str, leaving: Iterable[WorkloadPod]) -> None:
        """Raise `UnsuitableNodes` if a pod does not stop on a node and its host has been drained for that: another
        host suits better than a long wait.
        """
        node = self._cluster.nodes.get(Key("", name))
        if node is None or not self._exclusions.is_drained(node):
            return
        if (stuck := self._cluster.find_stuck(leaving)) is not None:
            raise UnsuitableNodes(f"pod {stuck.key} of an earlier job does not stop on node {name}")

    def _is_occupied(self, node: str, arriving: Sequence[WorkloadPod], staying: Sequence[WorkloadPod]) -> bool:
        """Whether pods that Slurm does not account for are the reason why pods do not fit on a node."""
        accounted = [pod for pod in staying if pod_state.job_id(pod)]
        with_foreign = self._room.find_shortage(node, arriving, staying)
        return with_foreign is not None and self._room.find_shortage(node, arriving, accounted, foreign=False) is None

    def _is_leaving(self, pod: WorkloadPod) -> bool:
        job = pod_state.job_id(pod)
        return pod.metadata.deleting or (bool(job) and not self._registry.is_live(job))

    async def report_rejection(self, job: str, pod: WorkloadPod) -> None:
        """Write to a pod that its kubelet rejected it, and exclude the node for such pods for a while."""
        node, status = pod.spec.node_name, pod.status
        self._room.block(node, [pod], seconds=REJECTED_SECONDS)
        problem = status.message.strip().rstrip(".") or self._room.explain(node, pod)
        text = Reason.KUBELET_REJECTED.text(node=node, job=job, reason=status.reason, problem=problem)
        await self._writer.write_condition(pod, text)

    async def _assign(
        self, job: str, record: JobRecord, pods: tuple[WorkloadPod, ...], job_spec: JobSpec | None
    ) -> dict[str, Assignment]:
        """The assignment of each pod, by pod uid. Raises `UnsuitableNodes`."""
        components = self._registry.track_components(job) or [record]
        assignments: dict[str, Assignment] = {}
        groups = assignment.pods_by_component(pods, record, len(components))
        for component, group in zip(components, groups, strict=True):
            hosts = [allocated.node for allocated in component.resources or ()]
            nodes = {host: node for host in hosts if (node := self._exclusions.node_of_host(host)) is not None}
            per_node = job_spec.pods_per_node if job_spec else assignment.infer_pods_per_node(group, hosts)
            node_names = {host: node.metadata.name for host, node in nodes.items()}
            node_of_pod = assignment.assign(group, hosts, node_names, per_node)
            by_name = {node.metadata.name: node for node in nodes.values()}
            for pod in group:
                node = by_name[node_of_pod[pod.metadata.uid]]
                if not pod_state.is_bound(pod) and (problem := await self._exclusions.check_and_reserve(pod, node)):
                    raise UnsuitableNodes(f"node {node.metadata.name} does not suit pod {pod.metadata.name}: {problem}")
                assignments[pod.metadata.uid] = Assignment(node.metadata.name, component)
        return assignments

    async def _prepare(self, pod: WorkloadPod, assigned: Assignment) -> None:
        """Allocate devices and volumes: a bound pod must have all of them."""
        await self._claims.prepare(pod, assigned.node, assigned.component)
        node = self._cluster.nodes.get(Key("", assigned.node))
        if node is None:
            raise Later(f"node {assigned.node} no longer exists")
        await self._volumes.provide_volumes(pod, node)

    async def _label_unlabelled(self, pods: Iterable[WorkloadPod], job: str) -> None:
        """Label pods whose binding, which would have written the label, has to wait."""
        unlabelled = [pod for pod in pods if not pod_state.job_id(pod)]
        await for_each_pod(unlabelled, lambda pod: self._writer.label(pod, job))


def _next_to_leave(pods: Sequence[WorkloadPod]) -> WorkloadPod:
    """The pod that most likely stops next."""
    return max(pods, key=lambda pod: pod.metadata.deleting)
