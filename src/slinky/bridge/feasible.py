# SPDX-License-Identifier: Apache-2.0
"""Which Slurm hosts a workload must not be given, answered once per shape and remembered until nodes change.

A host of the partition that is no Kubernetes node, or stands for a node of another cluster, is as unusable as one that
the pods cannot bear. Host ports come and go with other pods, so they are looked at anew each time.
"""

from collections.abc import Callable, Iterable

from slinky.bridge import constrain, intake
from slinky.bridge.constrain import Shape
from slinky.bridge.harbour import Harbour
from slinky.bridge.hosts import elsewhere
from slinky.bridge.stock import Stock
from slinky.bridge.views import (
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    NodeSelector,
    Pod,
    StorageClass,
    VolumeClaim,
)
from slinky.kube import Client, Key, Later, Node
from slinky.slurm import Change, Kind, Mirror
from slinky.slurm import Node as Host

WAIT_FOR_CONSUMER = "WaitForFirstConsumer"


class Feasible:
    """Knows what the nodes are like on both sides."""

    def __init__(self, stock: Stock, mirror: Mirror, mark: str) -> None:
        self._stock, self._mirror, self._mark = stock, mirror, mark
        self._ports = Harbour(stock)
        self._answers: dict[tuple[Shape, str], frozenset[str]] = {}
        stock.nodes.listen(self._node_changed)
        mirror.listen(self._host_changed)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or _traits(old) != _traits(new):
            self._answers.clear()

    def _host_changed(self, change: Change) -> None:
        if change.kind is Kind.SIGHT:
            self._answers.clear()
        if change.kind is not Kind.NODE:
            return
        old, new = change.before, change.after
        if old is None or new is None or _place(old) != _place(new):
            self._answers.clear()

    def look_again(self) -> None:
        """Slurm does not know a host that was left out: it has gone a moment ago."""
        self._answers.clear()
        self._mirror.poke(nodes=True)

    async def excluded(self, pods: Iterable[Pod], partition: str) -> dict[str, frozenset[str]]:
        """The hosts of a partition that a pod cannot use, by its uid."""
        return {
            pod.metadata.uid: self._excluded(await self.shape(pod), partition) | await self._without_ports(pod)
            for pod in pods
        }

    async def _without_ports(self, pod: Pod) -> frozenset[str]:
        """Hosts where a port that the pod needs is taken."""
        busy = await self._ports.busy(pod)
        nodes = (self._stock.nodes.get(Key("", name)) for name in busy)
        hosts = (intake.host_of(node) for node in nodes if node is not None)
        return frozenset(host for host in hosts if host in self._mirror.nodes)

    def _excluded(self, shape: Shape, partition: str) -> frozenset[str]:
        known = self._answers.get((shape, partition))
        if known is None:
            hosts = self._hosts()
            names = [name for name, host in hosts.items() if not partition or partition in host.partitions]
            nodes = {name: self.node_of(name) for name in names}
            strangers = frozenset(name for name, node in nodes.items() if node is None)
            present = [node for node in nodes.values() if node is not None]
            known = strangers | constrain.excluded(shape, present, self._stock.catalog)
            self._answers[shape, partition] = known
        return known

    def node_of(self, host: str) -> Node | None:
        """The node behind a host; none if that is another cluster's, whatever its name."""
        known = self._mirror.nodes.get(host)
        return None if known is not None and elsewhere(known, self._mark) else self._stock.node_of_host(host)

    def _hosts(self) -> dict[str, Host]:
        """Hosts that can be named: not one that may have vanished, since Slurm refuses a job that names a stranger."""
        gone = self._mirror.nodes.doubt.missing if self._mirror.nodes.doubt else ()
        return {name: host for name, host in self._mirror.nodes.items() if name not in gone}

    def unsuited(self, suits: Callable[[str], bool]) -> frozenset[str]:
        """Hosts whose node, by its name, does not suit. A node that is no host needs no mention."""
        nodes = {name: self._stock.node_of_host(name) for name in self._hosts()}
        return frozenset(name for name, node in nodes.items() if node is not None and not suits(node.metadata.name))

    def drained(self, node: Node) -> bool:
        """Whether Slurm gives a node to nobody else."""
        host = self._mirror.nodes.get(intake.host_of(node))
        return host is None or host.state.draining

    async def why_not(self, pod: Pod, node: Node) -> str:
        """Why a node does not suit a pod; nothing if it does."""
        lasting = constrain.why_not(await self.shape(pod), node, self._stock.catalog)
        return lasting or await self._ports.taken(pod, node.metadata.name)

    async def shape(self, pod: Pod) -> Shape:
        """The shape of a pod, with the reach of its volumes."""
        return constrain.shape_of(pod, [reach for claim in claims_of(pod) if (reach := await self._reach(claim))])

    async def _reach(self, key: Key) -> NodeSelector | None:
        """From where a claim's volume can be reached; None if from everywhere, or if it is not chosen yet."""
        client = self._stock.client
        claim = await client.find(VOLUME_CLAIMS, key)
        if claim is None:
            raise Later(f"volume claim {key} does not exist", after=5)
        if not claim.spec.volume_name:
            if not await waits_for_consumer(client, claim):
                raise Later(f"volume claim {key} has no volume yet", after=5)
            return None
        volume = await client.find(VOLUMES, Key("", claim.spec.volume_name))
        affinity = volume.spec.node_affinity if volume else None
        return affinity.required if affinity else None


def claims_of(pod: Pod) -> list[Key]:
    """The volume claims that a pod mounts."""
    found = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim:
            found.append(Key(pod.metadata.namespace, volume.persistent_volume_claim.claim_name))
        elif volume.ephemeral is not None:
            found.append(Key(pod.metadata.namespace, f"{pod.metadata.name}-{volume.name}"))
    return found


async def waits_for_consumer(client: Client, claim: VolumeClaim) -> bool:
    """Whether a claim gets its volume only once its pod has a node."""
    if not claim.spec.storage_class_name:
        return False
    found: StorageClass | None = await client.find(STORAGE_CLASSES, Key("", claim.spec.storage_class_name))
    return found is not None and found.volume_binding_mode == WAIT_FOR_CONSUMER


def _place(host: Host) -> tuple[object, ...]:
    """What about a host decides whose it is, and which jobs may have it."""
    return host.partitions, host.comment


def _traits(node: Node) -> tuple[object, ...]:
    """What about a node decides which pods it suits."""
    return node.metadata.labels, node.spec.taints, node.status.allocatable
