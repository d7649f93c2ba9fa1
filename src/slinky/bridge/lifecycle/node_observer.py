# SPDX-License-Identifier: Apache-2.0
"""Observes the nodes that the pods of an allocated job would be bound to: if they suit, are ready and have room."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from slinky.bridge.feasibility.exclusions import Exclusions
from slinky.bridge.feasibility.node_room import NodeRoom
from slinky.bridge.lifecycle.decide import assignment
from slinky.bridge.lifecycle.decide.assignment import Assignment, UnsuitableNodes
from slinky.bridge.lifecycle.snapshot import AvoidedHost, PlacementFacts, PlacementNode
from slinky.bridge.state.cluster import ClusterState
from slinky.bridge.state.job_registry import JobRegistry
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import pod_state
from slinky.bridge.workload.job_spec import JobSpec
from slinky.kube import Key, Node
from slinky.slurm import JobRecord


class NodeObserver:
    """Observes the nodes that the pods of an allocated job would be bound to."""

    def __init__(self, cluster: ClusterState, registry: JobRegistry, exclusions: Exclusions, room: NodeRoom) -> None:
        self._cluster, self._registry, self._exclusions, self._room = cluster, registry, exclusions, room

    def assign(self, record: JobRecord, pods: Sequence[WorkloadPod], job_spec: JobSpec | None) -> PlacementFacts | None:
        """The node of each pod, without facts about the nodes; None if the nodes of the job are not known."""
        if record.resources is None:
            return None
        exclusive = job_spec is not None and bool(job_spec.request.shared)
        try:
            assignments = self._assign(record, pods, job_spec)
        except UnsuitableNodes as error:
            return PlacementFacts(misplaced=AvoidedHost(error.host, str(error), 0.0), exclusive=exclusive)
        return PlacementFacts(assignments, exclusive=exclusive)

    def _assign(
        self, record: JobRecord, pods: Sequence[WorkloadPod], job_spec: JobSpec | None
    ) -> dict[str, Assignment]:
        """The assignment of each pod, by pod uid. Raises `UnsuitableNodes`."""
        components = self._registry.track_components(record.job_id) or [record]
        assignments: dict[str, Assignment] = {}
        for component, group in zip(
            components, assignment.pods_by_component(pods, record, len(components)), strict=True
        ):
            hosts = [allocated.node for allocated in component.resources or ()]
            nodes = {host: node for host in hosts if (node := self._exclusions.node_of_host(host)) is not None}
            per_node = job_spec.pods_per_node if job_spec else assignment.infer_pods_per_node(group, hosts)
            node_names = {host: node.metadata.name for host, node in nodes.items()}
            node_of_pod = assignment.assign(group, hosts, node_names, per_node)
            by_name = {node.metadata.name: node for node in nodes.values()}
            self._check([(pod, by_name[node_of_pod[pod.metadata.uid]]) for pod in group if not pod_state.is_bound(pod)])
            assignments |= {pod.metadata.uid: Assignment(node_of_pod[pod.metadata.uid], component) for pod in group}
        return assignments

    def _check(self, arriving: Sequence[tuple[WorkloadPod, Node]]) -> None:
        """Raises `UnsuitableNodes` if a pod cannot use its node."""
        requirements = self._exclusions.requirements_of(pod for pod, _ in arriving)
        for (pod, node), (_, required) in zip(arriving, requirements, strict=True):
            if problem := self._exclusions.mismatch_reason(required, node):
                text = f"node {node.metadata.name} does not suit pod {pod.metadata.name}: {problem}"
                raise UnsuitableNodes(text, pod_state.host_of(node))

    def observe(self, job: str, pods: Iterable[WorkloadPod], facts: PlacementFacts) -> PlacementFacts:
        """The same facts with the present state of the nodes."""
        by_node: dict[str, list[WorkloadPod]] = {}
        for pod in pods:
            if (assigned := facts.assignments.get(pod.metadata.uid)) is not None:
                by_node.setdefault(assigned.node, []).append(pod)
        nodes = [self._observe_node(job, name, by_node[name], facts.exclusive) for name in sorted(by_node)]
        return replace(facts, nodes=nodes)

    def _observe_node(self, job: str, name: str, pods: list[WorkloadPod], exclusive: bool) -> PlacementNode:
        node = self._cluster.nodes.get(Key("", name))
        arriving = tuple(pod for pod in pods if not pod_state.is_bound(pod))
        others = tuple(self._cluster.other_pods_on(name, job))
        facts = PlacementNode(
            name,
            pod_state.host_of(node) if node is not None else name,
            arriving,
            pod_state.unavailable_reason(node) if node is not None else "no longer exists",
            self._exclusions.is_drained(node) if node is not None else True,
            others,
            self._cluster.find_stuck(others),
        )
        if not arriving or (exclusive and not self._room.has_foreign_pods(name)):
            return facts
        shortage = self._room.find_shortage(name, pods, others)
        if shortage is None:
            return facts
        occupied = self._room.describe(name, shortage) if self._is_occupied(name, pods, others) else ""
        return replace(facts, shortage=shortage, occupied=occupied)

    def _is_occupied(self, node: str, pods: Sequence[WorkloadPod], others: Iterable[WorkloadPod]) -> bool:
        """Whether pods that Slurm does not account for are the reason why pods do not fit on a node."""
        staying = [pod for pod in others if not self._is_leaving(pod)]
        accounted = [pod for pod in staying if pod_state.job_id(pod)]
        with_foreign = self._room.find_shortage(node, pods, staying)
        return with_foreign is not None and self._room.find_shortage(node, pods, accounted, foreign=False) is None

    def _is_leaving(self, pod: WorkloadPod) -> bool:
        job = pod_state.job_id(pod)
        return pod.metadata.deleting or (bool(job) and not self._registry.is_live(job))
