# SPDX-License-Identifier: Apache-2.0
"""What the pods of other schedulers request on each node: DaemonSets, Slurm workers, static pods.

Slurm does not account for these pods, but the kubelet does. All of them are watched, in a compact form: after decoding,
each pod keeps only its identity, its node, its role in Slurm and its requests, of which equal ones are shared. The API
server leaves out pods without a node and pods that have ended. The sums by node are updated with the difference of each
event.
"""

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import force_setattr

from slinky.bridge.feasibility import kubelet_capacity
from slinky.bridge.feasibility.kubelet_capacity import Requests
from slinky.bridge.nodes.foreign_pods import is_expected
from slinky.bridge.nodes.slurm_pods import INDEXES as SLURM_POD_INDEXES
from slinky.bridge.nodes.slurm_pods import mark_slurm_pod
from slinky.bridge.views.pods import ForeignPod, ForeignPodSpec
from slinky.bridge.workload.host_ports import host_ports_of
from slinky.kube import PODS, Cache, Runtime
from slinky.kube.interning import intern_text

#: Different requests that are shared between pods; there are about as many as there are pod templates.
SHARED_REQUESTS_MAX = 10_000
_shared_requests: dict[Requests, Requests] = {}
#: The indexes of the cache of foreign pods.
INDEXES: Mapping[str, Callable[[ForeignPod], Iterable[str]]] = {
    "node": lambda pod: (pod.spec.node_name,),
    "unexpected": lambda pod: () if pod.is_expected else (pod.spec.node_name,),
    **SLURM_POD_INDEXES,
}


def compact_pod(pod: ForeignPod) -> None:
    """Reduce a decoded pod to its identity, its node, its role in Slurm, its requests and its host ports."""
    requests = kubelet_capacity.requests_of(pod)
    if len(_shared_requests) > SHARED_REQUESTS_MAX:
        _shared_requests.clear()
    force_setattr(pod, "requests", _shared_requests.setdefault(requests, requests))
    ports = tuple((port.number, intern_text(port.protocol), port.address) for port in host_ports_of(pod))
    force_setattr(pod, "host_ports", ports)
    mark_slurm_pod(pod)
    force_setattr(pod, "is_expected", is_expected(pod))
    force_setattr(pod, "spec", ForeignPodSpec(intern_text(pod.spec.node_name)))
    force_setattr(pod.metadata, "namespace", intern_text(pod.metadata.namespace))
    for name, empty in (("labels", {}), ("annotations", {}), ("owner_references", ())):
        force_setattr(pod.metadata, name, empty)


FOREIGN_PODS = PODS.viewed_as(ForeignPod, intern=compact_pod)


def watch_foreign_pods(runtime: Runtime, scheduler: str) -> Cache[ForeignPod]:
    """A cache of the pods on nodes that another scheduler has bound and that have not ended."""
    selection = f"spec.nodeName!=,spec.schedulerName!={scheduler},status.phase!=Succeeded,status.phase!=Failed"
    return runtime.cache(FOREIGN_PODS, fields=selection, indexes=INDEXES)


class NodeUsage:
    """The sums of the requests of foreign pods by node."""

    def __init__(self, pods: Cache[ForeignPod]) -> None:
        self._pods = pods
        self._sums: dict[str, dict[str, int]] = {}
        self._listeners: list[Callable[[str], None]] = []
        pods.listen(self._pod_changed)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with the name of each node whose sums change."""
        self._listeners.append(listener)

    def on(self, node: str) -> Mapping[str, int]:
        """The requests of the foreign pods on a node, in billionths by resource."""
        return self._sums.get(node, {})

    def largest_holder(self, node: str, resource: str) -> str:
        """The foreign pod that requests most of a resource on a node, with the amount; empty if there is none."""
        amounts = {pod.key: dict(pod.requests).get(resource, 0) for pod in self._pods.by("node", node)}
        key = max(sorted(amounts), key=lambda key: amounts[key], default=None)
        if key is None or not amounts[key]:
            return ""
        return f"pod {key} holds {kubelet_capacity.format_amount(resource, amounts[key])}"

    def _pod_changed(self, old: ForeignPod | None, new: ForeignPod | None) -> None:
        before, after = (None if pod is None else (pod.spec.node_name, pod.requests) for pod in (old, new))
        if before == after:
            return
        for entry, sign in ((before, -1), (after, 1)):
            if entry is not None:
                self._add(*entry, sign)
        for node in {entry[0] for entry in (before, after) if entry is not None}:
            for listener in self._listeners:
                listener(node)

    def _add(self, node: str, requests: Requests, sign: int) -> None:
        total = self._sums.setdefault(node, {})
        for name, nano in requests:
            total[name] = total.get(name, 0) + sign * nano
            if not total[name]:
                del total[name]
        if not total:
            del self._sums[node]
