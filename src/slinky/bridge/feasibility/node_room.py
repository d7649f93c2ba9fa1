# SPDX-License-Identifier: Apache-2.0
"""Which nodes have room for a pod beside the pods of other schedulers, as their kubelets count it.

Slurm accounts for the pods of this bridge, so only the requests of foreign pods count when hosts are excluded from a
job. Results are cached by demand, and updated for the nodes that changed since the last query. When the result of a
demand changes, the workloads that wait with this demand are reconciled, first those that have waited longest and then
a limited number per second: each of them updates a job in Slurm.

Before pods are bound, all pods on the node count: foreign ones, those of other jobs, and those that are about to be
bound. A node that fails this check, or whose kubelet rejected a pod, is excluded for this demand: at least for a time
that doubles with each repetition, and then until the pod fits or the exclusion expires.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from slinky.bridge.feasibility import kubelet_capacity
from slinky.bridge.feasibility.kubelet_capacity import Requests, Shortage
from slinky.bridge.feasibility.node_usage import NodeUsage
from slinky.bridge.state.cluster import ClusterState
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import pod_state
from slinky.bridge.workload.grouping import Workload
from slinky.kube import Key, Node, Quantity
from slinky.observe import Clock, Timer

#: Changes of nodes are collected for this many seconds.
COLLECT_SECONDS = 0.1
#: Pods whose workloads are reconciled when the room of nodes changes: at once, and per second afterwards.
WAKE_FIRST, WAKE_RATE = 100, 20
#: Cached demands without waiting pods are dropped when there are more results than this.
CACHED_DEMANDS_MAX = 500
#: Seconds for which a node is excluded after a failed check: at least, at least after repetitions, and at most.
BLOCK_SECONDS, BLOCK_SECONDS_MAX, BLOCK_EXPIRY = 2.0, 120.0, 300.0
#: How long a node is excluded at least after its kubelet rejected a pod that should have fitted.
REJECTED_SECONDS = 30.0
#: How long a reservation lasts if the watch does not report the binding.
RESERVATION_SECONDS = 30.0


class Demand(NamedTuple):
    """What one pod requests, and how many such pods share a node."""

    requests: Requests
    per_node: int = 1


def demands_of(pods: Iterable[tuple[WorkloadPod, Requests]], pods_per_node: int) -> dict[Demand, list[WorkloadPod]]:
    """The pods of a workload by demand.

    Pods that request the same from Slurm, which counts whole CPUs and MiB, get the largest demand of them: otherwise
    small differences would split a gang into the components of a heterogeneous job.
    """
    by_requests: dict[Requests, list[WorkloadPod]] = {}
    for pod, requests in pods:
        by_requests.setdefault(requests, []).append(pod)
    groups: dict[Requests, tuple[dict[str, int], list[WorkloadPod]]] = {}
    for requests, equal_pods in by_requests.items():
        largest, members = groups.setdefault(_round(requests), ({}, []))
        members += equal_pods
        for name, nano in requests:
            largest[name] = max(largest.get(name, 0), nano)
    return {
        Demand(tuple(sorted(largest.items())), min(pods_per_node, len(members))): members
        for largest, members in groups.values()
    }


def _round(requests: Requests) -> Requests:
    units = {"cpu": Quantity.of(1).nano, "memory": Quantity.of(2**20).nano}
    return tuple((name, -(-nano // units.get(name, 1))) for name, nano in requests)


@dataclass(slots=True)
class _Answer:
    """The nodes without room for a demand, and the pods that wait with this demand."""

    requested: dict[str, int]
    hosts: dict[str, str] = field(default_factory=dict)  # Slurm host by node name
    pods: dict[Key, None] = field(default_factory=dict)
    excluded: frozenset[str] | None = None  # the hosts as a set


@dataclass(frozen=True, slots=True)
class _Block:
    """A node that pods must not use although it seems to have room."""

    earliest: float
    latest: float
    repetitions: int = 0


class NodeRoom:
    """The room of nodes for the pods of this bridge."""

    def __init__(
        self, cluster: ClusterState, usage: NodeUsage, clock: Clock, enqueue: Callable[[Workload], None]
    ) -> None:
        self._cluster, self._usage, self._clock, self._enqueue = cluster, usage, clock, enqueue
        self._allocatable: dict[str, dict[str, int]] = {}  # by node name
        self._answers: dict[Demand, _Answer] = {}
        self._demands: dict[Key, Demand] = {}  # of waiting pods
        self._blocks: dict[str, dict[Requests, _Block]] = {}  # by node name
        self._reserved: dict[str, dict[str, tuple[float, Requests]]] = {}  # by node name and pod uid
        self._changed: set[str] = set()  # nodes whose room changed since the last update of the answers
        self._to_wake: dict[Key, None] = {}
        self._update_timer: Timer | None = None
        self._wake_timer: Timer | None = None
        cluster.nodes.listen(self._node_changed)
        cluster.pods.listen(self._pod_changed)
        usage.listen(self.mark_changed)

    # --- exclusion of hosts from jobs

    def hosts_without_room(
        self, pods: Iterable[tuple[WorkloadPod, Requests]], pods_per_node: int
    ) -> dict[str, frozenset[str]]:
        """The hosts where these pods do not fit beside foreign pods, by pod uid."""
        self._update()
        hosts: dict[str, frozenset[str]] = {}
        for demand, members in demands_of(pods, pods_per_node).items():
            answer = self._answer(demand)
            if answer.excluded is None:
                answer.excluded = frozenset(answer.hosts.values())
            for pod in members:
                self._register(pod, demand)
                hosts[pod.metadata.uid] = answer.excluded
        return hosts

    def _answer(self, demand: Demand) -> _Answer:
        if (answer := self._answers.get(demand)) is None:
            if len(self._answers) > CACHED_DEMANDS_MAX:
                self._answers = {key: cached for key, cached in self._answers.items() if cached.pods}
            requested = {name: nano * demand.per_node for name, nano in demand.requests}
            answer = self._answers[demand] = _Answer(requested)
            for node in self._cluster.nodes:
                self._evaluate(demand, answer, node.metadata.name, self._host_of(node.metadata.name))
        return answer

    def _host_of(self, name: str) -> str:
        """The Slurm host of a node; empty if there is none."""
        node = self._cluster.nodes.get(Key("", name))
        return pod_state.host_of(node) if node is not None and self._cluster.is_slurm_node(name) else ""

    def _evaluate(self, demand: Demand, answer: _Answer, name: str, host: str) -> bool:
        """Update an answer for one node; whether it changed."""
        if host and self._has_room(demand, answer, name):
            host = ""
        if answer.hosts.get(name, "") == host:
            return False
        if host:
            answer.hosts[name] = host
        else:
            del answer.hosts[name]
        answer.excluded = None
        return True

    def _has_room(self, demand: Demand, answer: _Answer, name: str) -> bool:
        if name in self._blocks and self._is_blocked(name, demand.requests):
            return False
        allocatable = self._allocatable.get(name, {})
        return kubelet_capacity.find_shortage(allocatable, self._usage.on(name), answer.requested) is None

    def _register(self, pod: WorkloadPod, demand: Demand) -> None:
        """Remember that a pod waits with this demand, until the pod no longer waits."""
        if (old := self._demands.get(pod.key)) == demand or not pod_state.is_waiting(pod):
            return
        if old is not None and old in self._answers:
            self._answers[old].pods.pop(pod.key, None)
        self._demands[pod.key] = demand
        self._answers[demand].pods[pod.key] = None

    # --- changes

    def mark_changed(self, node: str) -> None:
        """Update the answers for a node soon, and reconcile the workloads that this concerns."""
        if not self._answers:
            return
        self._changed.add(node)
        if self._update_timer is None:
            self._update_timer = self._clock.call_later(COLLECT_SECONDS, self._update)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            if old is not None:
                name = old.metadata.name
                self._allocatable.pop(name, None)
                self._blocks.pop(name, None)
                self._reserved.pop(name, None)
                self._mark_claimants(old)
            return
        if old is None or old.status.allocatable != new.status.allocatable:
            self._allocatable[new.metadata.name] = kubelet_capacity.parse_allocatable(new.status.allocatable)
        elif pod_state.host_of(old) == pod_state.host_of(new):
            return
        if old is not None:
            self._mark_claimants(old)
        self._mark_claimants(new)

    def _mark_claimants(self, node: Node) -> None:
        """Update the answers for a node, and for other nodes that claim its host: one of them may get or lose it."""
        self.mark_changed(node.metadata.name)
        for other in self._cluster.claimants(pod_state.host_of(node)):
            self.mark_changed(other.metadata.name)

    def _pod_changed(self, old: WorkloadPod | None, new: WorkloadPod | None) -> None:
        """Forget what is known about a pod that no longer waits. A pod that leaves a blocked node may end the block."""
        pod = new or old
        if pod is None or (new is not None and pod_state.is_waiting(new)):
            return
        demand = self._demands.pop(pod.key, None)
        if demand is not None and demand in self._answers:
            self._answers[demand].pods.pop(pod.key, None)
        node = pod.spec.node_name
        if node in self._reserved:
            self._reserved[node].pop(pod.metadata.uid, None)
        if node in self._blocks and (new is None or pod_state.is_finished(new)):
            self.mark_changed(node)

    def _update(self) -> None:
        """Evaluate the changed nodes for all cached demands."""
        if self._update_timer is not None:
            self._update_timer.cancel()
            self._update_timer = None
        nodes, self._changed = self._changed, set()
        hosts = [(name, self._host_of(name)) for name in nodes]
        for demand, answer in self._answers.items():
            changed = [name for name, host in hosts if self._evaluate(demand, answer, name, host)]
            if changed:
                self._to_wake.update(answer.pods)
        if self._to_wake and self._wake_timer is None:
            self._wake(WAKE_FIRST)

    def _wake(self, count: int) -> None:
        """Reconcile the workloads of some pods now, and the others at a limited rate."""
        self._wake_timer = None
        for key in list(itertools.islice(self._to_wake, count)):
            del self._to_wake[key]
            if (pod := self._cluster.pods.get(key)) is not None:
                self._enqueue(self._cluster.workload_of(pod))
        if self._to_wake:
            self._wake_timer = self._clock.call_later(1.0, lambda: self._wake(WAKE_RATE))

    # --- the check before pods are bound

    def has_foreign_pods(self, node: str) -> bool:
        """Whether pods of other schedulers are on a node."""
        return bool(self._usage.on(node))

    def find_shortage(
        self, node: str, arriving: Sequence[WorkloadPod], present: Iterable[WorkloadPod], *, foreign: bool = True
    ) -> Shortage | None:
        """What a node lacks for arriving pods beside present ones, beside pods that are about to be bound, and beside
        foreign pods unless `foreign` is false.
        """
        pods = {pod.metadata.uid: kubelet_capacity.requests_of(pod) for pod in present}
        pods |= self._reservations(node)
        for pod in arriving:
            pods.pop(pod.metadata.uid, None)
        used = kubelet_capacity.sum_requests((*pods.values(), *((tuple(self._usage.on(node).items()),) * foreign)))
        requested = kubelet_capacity.sum_requests(map(kubelet_capacity.requests_of, arriving))
        return kubelet_capacity.find_shortage(self._allocatable.get(node, {}), used, requested)

    def _reservations(self, node: str) -> dict[str, Requests]:
        now = self._clock.monotonic()
        entries = self._reserved.get(node, {})
        return {uid: requests for uid, (until, requests) in entries.items() if until > now}

    def reserve(self, node: str, pods: Iterable[WorkloadPod]) -> None:
        """Count pods that are about to be bound to a node, until the watch reports them there."""
        now = self._clock.monotonic()
        current = {uid: entry for uid, entry in self._reserved.get(node, {}).items() if entry[0] > now}
        for pod in pods:
            current[pod.metadata.uid] = now + RESERVATION_SECONDS, kubelet_capacity.requests_of(pod)
        self._reserved[node] = current

    # --- nodes that do not suit for a while

    def block(self, node: str, pods: Iterable[WorkloadPod], *, seconds: float = BLOCK_SECONDS) -> None:
        """Exclude a node for pods with these requests: they did not fit there although the node seemed to have room."""
        now = self._clock.monotonic()
        for requests in {self._requests_of(pod) for pod in pods}:
            old = self._blocks.get(node, {}).get(requests)
            repetitions = old.repetitions + 1 if old is not None and now < old.latest else 0
            delay = min(seconds * 2**repetitions, BLOCK_SECONDS_MAX)
            self._blocks.setdefault(node, {})[requests] = _Block(now + delay, now + BLOCK_EXPIRY, repetitions)
            for end in (delay, BLOCK_EXPIRY):
                self._clock.call_later(end, lambda: self.mark_changed(node))
        self.mark_changed(node)

    def _requests_of(self, pod: WorkloadPod) -> Requests:
        """The requests under which the pod is excluded from hosts."""
        demand = self._demands.get(pod.key)
        return demand.requests if demand is not None else kubelet_capacity.requests_of(pod)

    def _is_blocked(self, node: str, requests: Requests) -> bool:
        block = self._blocks.get(node, {}).get(requests)
        if block is None or (now := self._clock.monotonic()) >= block.latest:
            return False
        return now < block.earliest or self._shortage_of_all(node, requests) is not None

    def _shortage_of_all(self, node: str, requests: Requests) -> Shortage | None:
        """What a node lacks for a pod beside all other pods on it."""
        pods = (pod for pod in self._cluster.pods.by("node", node) if not pod_state.is_finished(pod))
        parts = (*map(kubelet_capacity.requests_of, pods), tuple(self._usage.on(node).items()))
        used = kubelet_capacity.sum_requests(parts)
        return kubelet_capacity.find_shortage(self._allocatable.get(node, {}), used, dict(requests))

    # --- explanation

    def explain(self, node: str, pod: WorkloadPod) -> str:
        """Why a waiting pod does not fit on a node."""
        demand = self._demands.get(pod.key) or Demand(kubelet_capacity.requests_of(pod))
        requested = {name: nano * demand.per_node for name, nano in demand.requests}
        allocatable: Mapping[str, int] = self._allocatable.get(node, {})
        shortage = kubelet_capacity.find_shortage(allocatable, self._usage.on(node), requested)
        shortage = shortage or self._shortage_of_all(node, demand.requests)
        return self.describe(node, shortage)

    def describe(self, node: str, shortage: Shortage | None) -> str:
        """What a node lacks, with the foreign pod that requests most of it."""
        if shortage is None:
            return f"node {node}: it did not admit a pod of this size a short time ago"
        holder = self._usage.largest_holder(node, shortage.resource)
        return f"node {node}: " + "; ".join(filter(None, (f"{shortage}", holder)))
