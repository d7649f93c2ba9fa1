# SPDX-License-Identifier: Apache-2.0
"""Which Slurm hosts a workload must not be given, answered once per shape and remembered until nodes change.

A host of the partition that is no Kubernetes node, or stands for a node of another cluster, is as unusable as one that
the pods cannot bear. Host ports come and go with other pods, so they are looked at anew each time.
"""

from collections.abc import Callable, Iterable

from slinky.bridge.feasibility import constraints
from slinky.bridge.feasibility.constraints import NodeRequirements
from slinky.bridge.feasibility.volume_state import VolumeState
from slinky.bridge.nodes.plan import elsewhere
from slinky.bridge.state.cluster import ClusterState
from slinky.bridge.state.host_ports import HostPortReservations
from slinky.bridge.state.views import WorkloadPod
from slinky.bridge.workload import pod_state
from slinky.kube import Key, Node
from slinky.slurm import Change, Host, Mirror, ObjectKind

#: With more shapes than these, all are forgotten when a node changes: to look at each would take longer.
CACHED_ANSWERS_MAX = 500


class Exclusions:
    """Knows what the nodes are like on both sides; `opened` is called when one suits a pod that it did not suit."""

    def __init__(
        self, stock: ClusterState, mirror: Mirror, storage: VolumeState, mark: str, opened: Callable[[], None]
    ) -> None:
        self._stock, self._mirror, self._storage = stock, mirror, storage
        self._mark, self._opened = mark, opened
        self._ports = HostPortReservations(stock.client, stock.pods, stock.settings.scheduler_name)
        self._answers: dict[tuple[NodeRequirements, str], frozenset[str]] = {}
        self._catalog = stock.catalog  # of which the answers are
        stock.nodes.listen(self._node_changed)
        mirror.listen(self._host_changed)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or _traits(old) != _traits(new):
            for name in {pod_state.host_of(node) for node in (old, new) if node is not None}:
                self._judge_anew(name)

    def _host_changed(self, change: Change) -> None:
        if change.kind is ObjectKind.MIRROR:
            self._answers.clear()
        if change.kind is not ObjectKind.NODE:
            return
        old, new = change.before, change.after
        if old is None or new is None or _place(old) != _place(new):
            self._judge_anew(change.key)

    def _judge_anew(self, host: str) -> None:
        """Answer anew for one host. Only where it opens is that news to jobs that wait: one that is given a host which
        closed meanwhile is given back, but one that leaves out a host for nothing may wait for ever.
        """
        opens = len(self._answers) > CACHED_ANSWERS_MAX
        if opens:
            self._answers.clear()
        for (shape, partition), known in self._answers.items():
            unfit = bool(self._unfit(shape, partition, [host]))
            if unfit != (host in known):
                self._answers[shape, partition] = known | {host} if unfit else known - {host}
                opens |= not unfit
        if opens and host in self._mirror.nodes:
            self._opened()

    def invalidate(self) -> None:
        """Slurm does not know a host that was left out: it has gone a moment ago."""
        self._answers.clear()
        self._mirror.request_refresh(nodes=True)

    async def excluded_hosts(self, pods: Iterable[WorkloadPod], partition: str) -> dict[str, frozenset[str]]:
        """The hosts of a partition that a pod cannot use, by its uid."""
        return {
            pod.metadata.uid: self._excluded(await self.requirements_of(pod), partition)
            | await self._without_ports(pod)
            for pod in pods
        }

    async def _without_ports(self, pod: WorkloadPod) -> frozenset[str]:
        """Hosts where a port that the pod needs is taken."""
        busy = await self._ports.nodes_in_conflict(pod)
        nodes = (self._stock.nodes.get(Key("", name)) for name in busy)
        hosts = (pod_state.host_of(node) for node in nodes if node is not None)
        return frozenset(host for host in hosts if host in self._mirror.nodes)

    def _excluded(self, shape: NodeRequirements, partition: str) -> frozenset[str]:
        if self._catalog is not self._stock.catalog:
            self._catalog = self._stock.catalog
            self._answers.clear()
        known = self._answers.get((shape, partition))
        if known is None:
            known = self._answers[shape, partition] = self._unfit(shape, partition, self._mirror.nodes)
        return known

    def _unfit(self, shape: NodeRequirements, partition: str, names: Iterable[str]) -> frozenset[str]:
        """Of these hosts, those of a partition, or of several, that a shape can never use."""
        wanted = set(filter(None, partition.split(",")))
        hosts = {name: host for name, host in self._hosts(names).items() if not wanted or wanted & {*host.partitions}}
        nodes = {name: self.node_of_host(name) for name in hosts}
        strangers = frozenset(name for name, node in nodes.items() if node is None)
        present = [node for node in nodes.values() if node is not None]
        return strangers | constraints.mismatching_hosts(shape, present, self._catalog)

    def node_of_host(self, host: str) -> Node | None:
        """The node behind a host; none if that is another cluster's, whatever its name."""
        known = self._mirror.nodes.get(host)
        return None if known is not None and elsewhere(known, self._mark) else self._stock.node_of_host(host)

    def _hosts(self, names: Iterable[str]) -> dict[str, Host]:
        """Hosts that can be named: not one that may have vanished, since Slurm refuses a job that names a stranger."""
        gone = self._mirror.nodes.unconfirmed_loss.missing if self._mirror.nodes.unconfirmed_loss else ()
        return {name: host for name in names if name not in gone and (host := self._mirror.nodes.get(name))}

    def hosts_not_matching(self, suits: Callable[[str], bool]) -> frozenset[str]:
        """Hosts whose node, by its name, does not suit. A node that is no host needs no mention."""
        nodes = {name: self._stock.node_of_host(name) for name in self._hosts(self._mirror.nodes)}
        return frozenset(name for name, node in nodes.items() if node is not None and not suits(node.metadata.name))

    def is_drained(self, node: Node) -> bool:
        """Whether Slurm gives a node to nobody else."""
        host = self._mirror.nodes.get(pod_state.host_of(node))
        return host is None or host.state.draining

    async def check_and_reserve(self, pod: WorkloadPod, node: Node) -> str:
        """Why a node does not suit a pod; nothing if it does."""
        lasting = constraints.mismatch_reason(await self.requirements_of(pod), node, self._stock.catalog)
        return lasting or await self._ports.reserve(pod, node.metadata.name)

    async def requirements_of(self, pod: WorkloadPod) -> NodeRequirements:
        """The shape of a pod, with the reach of its volumes."""
        return constraints.node_requirements_of(pod, await self._storage.node_selectors(pod))


def _place(host: Host) -> tuple[object, ...]:
    """What about a host decides whose it is, and which jobs may have it."""
    return host.partitions, host.comment


def _traits(node: Node) -> tuple[object, ...]:
    """What about a node decides which pods it suits."""
    return node.metadata.labels, node.spec.taints, node.status.allocatable
