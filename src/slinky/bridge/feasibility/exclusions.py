# SPDX-License-Identifier: Apache-2.0
"""The Slurm hosts that are excluded from the job of a workload.

A host is excluded if its node never meets the requirements of a pod, if it has no Kubernetes node, or if it stands for
a node of another cluster. These results are cached by requirements and partition, and updated when a node or host
changes. Host ports come and go with other pods, so they are checked every time. Hosts without room beside pods of
other schedulers are excluded too: see `node_room`.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from slinky.bridge.feasibility import constraints, job_size, kubelet_capacity, unknown_names
from slinky.bridge.feasibility.constraints import NodeRequirements
from slinky.bridge.feasibility.node_room import NodeRoom
from slinky.bridge.feasibility.volume_state import VolumeState
from slinky.bridge.nodes.ownership import is_of_other_cluster
from slinky.bridge.state.cluster import ClusterState
from slinky.bridge.state.port_reservations import HostPortReservations
from slinky.bridge.status.reasons import ConditionText, Reason
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import pod_state
from slinky.bridge.workload.job_spec import JobSpec
from slinky.kube import Key, Node
from slinky.slurm import Change, Host, Mirror, ObjectKind

#: Cached results. One result names up to all hosts, and a changed node updates all of them.
CACHED_ANSWERS_MAX = 500


class HostShortage(NamedTuple):
    """A job needs more hosts than its partition has for it, or larger ones."""

    free: int
    needed: int
    problem: str


class Exclusions:
    """Excluded hosts, from the nodes of Kubernetes and the hosts of Slurm."""

    def __init__(
        self,
        cluster: ClusterState,
        mirror: Mirror,
        volumes: VolumeState,
        ports: HostPortReservations,
        room: NodeRoom,
        signature: str,
        on_host_usable: Callable[[], None],
    ) -> None:
        """`signature` is that of this bridge's hosts; `on_host_usable` is called when pods can use another host."""
        self._cluster, self._mirror, self._volumes, self._room = cluster, mirror, volumes, room
        self._signature, self._on_host_usable = signature, on_host_usable
        self._ports = ports
        self._answers: dict[tuple[NodeRequirements, str], frozenset[str]] = {}  # the result used last comes last
        self._dropped = False  # a result was dropped, so a change of hosts may concern jobs without a result
        self._catalog = cluster.catalog  # the device classes that the cached results were computed with
        self._partition_hosts: dict[str, list[Host]] = {}  # by partition or list of partitions
        cluster.nodes.listen(self._node_changed)
        mirror.listen(self._host_changed)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or node_traits(old) != node_traits(new):
            for host in {pod_state.host_of(node) for node in (old, new) if node is not None}:
                self._update_host(host)

    def _host_changed(self, change: Change) -> None:
        if change.kind is ObjectKind.MIRROR:
            self._answers.clear()
            self._partition_hosts.clear()
        if change.kind is not ObjectKind.NODE:
            return
        old, new = change.before, change.after
        if old is None or new is None or _host_size(old) != _host_size(new):
            self._partition_hosts.clear()
        if old is None or new is None or _host_traits(old) != _host_traits(new):
            self._update_host(change.key)
            if (node := self._cluster.node_of_host(change.key)) is not None:
                self._room.mark_changed(node.metadata.name)

    def _update_host(self, host: str) -> None:
        """Update the cached results for one host, and notify if the host became usable.

        Pending jobs must learn that a host became usable, otherwise they may wait forever. A host that became unusable
        needs no notification: a job that gets it is given back.
        """
        usable, self._dropped = self._dropped, False
        for (requirements, partition), hosts in self._answers.items():
            is_excluded = bool(self._compute(requirements, partition, [host]))
            if is_excluded != (host in hosts):
                self._answers[requirements, partition] = hosts | {host} if is_excluded else hosts - {host}
                usable |= not is_excluded
        if usable and host in self._mirror.nodes:
            self._on_host_usable()

    def invalidate(self) -> None:
        """Clear the cache and read the hosts again: Slurm rejected an excluded host that it no longer has."""
        self._answers.clear()
        self._mirror.request_refresh(nodes=True)

    def excluded_hosts(
        self, pods: Sequence[WorkloadPod], partition: str, pods_per_node: int = 1
    ) -> dict[str, frozenset[str]]:
        """The hosts of a partition that each pod cannot use, by pod uid."""
        requirements = self.requirements_of(pods)
        full = self._full_hosts(requirements, partition, pods_per_node)
        unfit = {required: self._lookup(required, partition) for required in {own for _, own in requirements}}
        return {
            pod.metadata.uid: unfit[required] | self._hosts_with_used_ports(pod) | full[pod.metadata.uid]
            for pod, required in requirements
        }

    def _full_hosts(
        self, requirements: Sequence[tuple[WorkloadPod, NodeRequirements]], partition: str, pods_per_node: int
    ) -> dict[str, frozenset[str]]:
        """The hosts of a partition where each pod does not fit beside pods of other schedulers, by pod uid."""
        requests = ((pod, kubelet_capacity.count_pod(required.amounts)) for pod, required in requirements)
        full = self._room.hosts_without_room(requests, pods_per_node)
        in_partition = {hosts: self._restrict(hosts, partition) for hosts in set(full.values())}
        return {uid: in_partition[hosts] for uid, hosts in full.items()}

    def _restrict(self, hosts: Iterable[str], partition: str) -> frozenset[str]:
        """Those of these hosts that are in a partition or a list of partitions."""
        partitions = set(filter(None, partition.split(",")))
        known = self._known_hosts(hosts).items()
        return frozenset(name for name, host in known if not partitions or partitions & {*host.partitions})

    def find_host_shortage(self, job_spec: JobSpec) -> HostShortage | None:
        """Why a job can never run on the hosts of its partition as they are now; None if it can.

        Slurm would reject the job and record it as failed. A partition with too few hosts is left to Slurm: it queues
        the job until the partition grows, or knows that the partition does not exist. Nothing is said while hosts are
        missing from Slurm's list for no known reason.
        """
        for request in job_spec.requests if self._mirror.nodes.unconfirmed_loss is None else ():
            hosts = self._hosts_of_partition(request.partition or "")
            if not hosts:
                continue
            needed, excluded = int(request.nodes or 1), set(request.excluded_nodes or ())
            free = sum(host.name not in excluded for host in hosts) if excluded else len(hosts)
            if excess := job_size.find_excess(request, hosts):
                return HostShortage(0, needed, excess)
            if free < needed <= len(hosts):
                where = f"partition {request.partition}" if request.partition else "the partition"
                problem = f"{needed} nodes are requested; {free} of the {len(hosts)} hosts of {where} suit the pods."
                return HostShortage(free, needed, problem)
        return None

    def _hosts_of_partition(self, partition: str) -> list[Host]:
        hosts = self._partition_hosts.get(partition)
        if hosts is None:
            names = self._restrict(self._mirror.nodes, partition)
            hosts = self._partition_hosts[partition] = [self._mirror.nodes[name] for name in names]
        return hosts

    def existing_hosts(self, names: Iterable[str]) -> frozenset[str]:
        """Those of these hosts that surely exist: Slurm rejects a job that excludes an unknown host."""
        return frozenset(self._known_hosts(names))

    def describe_unknown_name(self, number: int, job_spec: JobSpec) -> str:
        """A sentence about the name that Slurm rejected with this error, and the nearest known one; may be empty."""
        sentences = (
            unknown_names.describe_unknown_name(number, request, self._known_names) for request in job_spec.requests
        )
        return next(filter(None, sentences), "")

    def _known_names(self, field: str) -> Collection[str]:
        if field == "constraints":
            return {feature for host in self._mirror.nodes.values() for feature in host.features}
        if field == "partition":
            return self._mirror.partitions
        return self._mirror.reservations if field == "reservation" else ()

    def room_shortage(self, job_spec: JobSpec) -> ConditionText | None:
        """Why the pods of other schedulers leave too few nodes for a job; None if there are enough, or if there would
        be too few without these pods too.
        """
        for request, pods in zip(job_spec.requests, job_spec.roles, strict=True):
            needed, excluded = int(request.nodes or 1), set(request.excluded_nodes or ())
            partition = request.partition or ""
            free = len(self._restrict(self._mirror.nodes, partition) - excluded) if excluded else needed
            if free >= needed:
                continue
            requirements = self.requirements_of(pods)
            full = self._full_hosts(requirements, partition, job_spec.pods_per_node)[pods[0].metadata.uid]
            full -= self._lookup(requirements[0][1], partition)
            if free + len(full) < needed:
                continue
            nodes = (node for host in sorted(full) if (node := self.node_of_host(host)) is not None)
            problem = self._room.explain(next(nodes).metadata.name, pods[0])
            return Reason.NODES_FULL.text(free=free, needed=needed, problem=problem)
        return None

    def _hosts_with_used_ports(self, pod: WorkloadPod) -> frozenset[str]:
        """The hosts where a host port of the pod is in use."""
        names = filter(self._cluster.is_slurm_node, self._ports.nodes_in_conflict(pod))
        nodes = (self._cluster.nodes.get(Key("", name)) for name in names)
        return frozenset(pod_state.host_of(node) for node in nodes if node is not None)

    def _lookup(self, requirements: NodeRequirements, partition: str) -> frozenset[str]:
        if self._catalog is not self._cluster.catalog:
            self._catalog = self._cluster.catalog
            self._answers.clear()
        hosts = self._answers.pop((requirements, partition), None)
        if hosts is None:
            hosts = self._compute(requirements, partition, self._mirror.nodes)
            while len(self._answers) >= CACHED_ANSWERS_MAX:
                del self._answers[next(iter(self._answers))]
                self._dropped = True
        self._answers[requirements, partition] = hosts
        return hosts

    def _compute(self, requirements: NodeRequirements, partition: str, names: Iterable[str]) -> frozenset[str]:
        """Those of these hosts, in a partition or a list of partitions, that never meet the requirements."""
        partitions = set(filter(None, partition.split(",")))
        hosts = self._known_hosts(names).items()
        nodes = {
            name: self.node_of_host(name) for name, host in hosts if not partitions or partitions & {*host.partitions}
        }
        without_node = frozenset(name for name, node in nodes.items() if node is None)
        present = [node for node in nodes.values() if node is not None]
        return without_node | constraints.mismatching_hosts(requirements, present, self._catalog)

    def node_of_host(self, name: str) -> Node | None:
        """The node of a host; None if the host belongs to another cluster, even if a node has the same name."""
        host = self._mirror.nodes.get(name)
        return (
            None
            if host is not None and is_of_other_cluster(host, self._signature)
            else self._cluster.node_of_host(name)
        )

    def _known_hosts(self, names: Iterable[str]) -> dict[str, Host]:
        """The hosts that surely exist: Slurm rejects a job that excludes an unknown host."""
        loss = self._mirror.nodes.unconfirmed_loss
        missing = loss.missing if loss else ()
        return {name: host for name in names if name not in missing and (host := self._mirror.nodes.get(name))}

    def hosts_not_matching(self, suits: Callable[[str], bool]) -> frozenset[str]:
        """The hosts whose node does not satisfy a predicate on its name."""
        nodes = {name: self._cluster.node_of_host(name) for name in self._known_hosts(self._mirror.nodes)}
        return frozenset(name for name, node in nodes.items() if node is not None and not suits(node.metadata.name))

    def is_drained(self, node: Node) -> bool:
        """Whether Slurm allocates a node to no further job."""
        host = self._mirror.nodes.get(pod_state.host_of(node))
        return host is None or host.state.draining

    def mismatch_reason(self, requirements: NodeRequirements, node: Node) -> str:
        """Why a pod with these requirements cannot use a node; empty if it can."""
        return constraints.mismatch_reason(requirements, node, self._cluster.catalog)

    def reserve_ports(self, pod: WorkloadPod, node: str) -> str:
        """Reserve the host ports of a pod on a node; returns why that is not possible, or an empty string."""
        return self._ports.reserve(pod, node)

    def requirements_of(self, pods: Iterable[WorkloadPod]) -> list[tuple[WorkloadPod, NodeRequirements]]:
        """Each pod with its requirements, computed once for neighbours of one template. Raises `VolumePending`."""
        requirements: list[tuple[WorkloadPod, NodeRequirements]] = []
        for pod in pods:
            if requirements and not pod.spec.volumes and pod.spec == requirements[-1][0].spec:
                required = requirements[-1][1]
            else:
                required = constraints.node_requirements_of(pod, self._volumes.node_selectors(pod))
            requirements.append((pod, required))
        return requirements


def _host_size(host: Host) -> tuple[object, ...]:
    """The fields of a host that decide how large a job may be."""
    return host.partitions, host.cpus, host.real_memory


def _host_traits(host: Host) -> tuple[object, ...]:
    """The fields of a host that decide which bridge and which jobs may use it."""
    return host.partitions, host.comment


def node_traits(node: Node) -> tuple[object, ...]:
    """The fields of a node that decide which pods can use it."""
    return node.metadata.labels, node.spec.taints, node.status.allocatable
