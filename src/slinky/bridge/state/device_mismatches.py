# SPDX-License-Identifier: Apache-2.0
"""The nodes whose Slurm host has more devices than the drivers of the node offer.

A host with a slurmd has the devices of gres.conf. A job must not get such a node while it has fewer free devices than
the job needs, and jobs that wait are revised when a node can provide more. The bridge sizes external hosts itself, so
these are not compared: a difference is only temporary, until the host is registered again.
"""

from collections.abc import Callable, Collection, Mapping

from slinky.bridge.devices import host_gres
from slinky.bridge.devices.host_gres import UsableCounts
from slinky.bridge.devices.inventory import GresKind
from slinky.bridge.state.cluster import ClusterState
from slinky.bridge.views import DeviceClass, ResourceSlice
from slinky.bridge.workload import pod_state
from slinky.kube import Key, Node
from slinky.slurm import Change, Host, Mirror, ObjectKind


class DeviceMismatches:
    """Compares the devices of nodes and hosts, one node at a time as they change."""

    def __init__(self, cluster: ClusterState, mirror: Mirror, on_usable: Callable[[], None]) -> None:
        """`on_usable` is called when jobs can use more devices of a node than before."""
        self._cluster, self._mirror, self._on_usable = cluster, mirror, on_usable
        self._usable: dict[str, UsableCounts] = {}  # by node
        self._changed: set[str] = set()  # nodes
        cluster.nodes.listen(self._node_changed)
        cluster.devices.slices.listen(self._slice_changed)
        cluster.devices.classes.listen(self._class_changed)
        mirror.listen(self._host_changed)

    def usable_counts(self, kinds: Collection[GresKind]) -> Mapping[str, UsableCounts]:
        """The nodes of whose devices of these kinds Slurm may allocate more than a job can use."""
        for node in self._changed:
            self._update(node)
        self._changed.clear()
        return {node: counts for node, counts in self._usable.items() if any(kind in counts for kind in kinds)}

    def _update(self, name: str) -> None:
        self._usable.pop(name, None)
        node = self._cluster.nodes.get(Key("", name))
        host = self._mirror.nodes.get(pod_state.host_of(node)) if node is not None else None
        if host is None or host.state.external:
            return
        inventory = self._cluster.inventory(name)
        if not inventory.incomplete_pools and (usable := host_gres.usable_counts(host, inventory)):
            self._usable[name] = usable

    # --- changes

    def _mark_changed(self, node: str) -> None:
        self._changed.add(node)
        if node in self._usable:
            # Jobs that wait do not ask again: they must learn that the node can provide more.
            before = self._usable[node]
            self._update(node)
            after = self._usable.get(node, {})
            if any(after.get(kind, count + 1) > count for kind, count in before.items()):
                self._on_usable()

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or pod_state.host_of(old) != pod_state.host_of(new):
            for node in (old, new):
                if node is not None:
                    self._mark_changed(node.metadata.name)

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        for node in {part.spec.node_name for part in (old, new) if part is not None}:
            self._mark_changed(node)

    def _class_changed(self, _old: DeviceClass | None, _new: DeviceClass | None) -> None:
        self._changed.update(node.metadata.name for node in self._cluster.nodes)

    def _host_changed(self, change: Change) -> None:
        if change.kind is ObjectKind.MIRROR:
            self._changed.update(node.metadata.name for node in self._cluster.nodes)
        if change.kind is not ObjectKind.NODE or _device_traits(change.before) == _device_traits(change.after):
            return
        if (node := self._cluster.node_of_host(change.key)) is not None:
            self._mark_changed(node.metadata.name)


def _device_traits(host: Host | None) -> tuple[object, ...]:
    """The fields of a host that decide which of its devices can be used."""
    if host is None:
        return ()
    return host.gres, host.gres_used, host.state.external, host.sockets, host.cores
