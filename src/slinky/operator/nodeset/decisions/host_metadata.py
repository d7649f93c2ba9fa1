# SPDX-License-Identifier: Apache-2.0
"""Metadata of hosts in Slurm that follow the pod and its node, and metadata of pods that follow Slurm. Pure.

Each function returns only what differs, so that a settled worker costs no request.
"""

from collections.abc import Iterable, Sequence
from functools import cache

import msgspec

from slinky.api.fields.topology import node_topology
from slinky.api.names import metadata
from slinky.api.nodeset import NodeSet
from slinky.operator.nodeset.actions import AnnotateWorker, UpdateHost
from slinky.operator.nodeset.workers import STATE_CONDITION, Worker
from slinky.slurm import Host, NodeState, NodeUpdate


class HostComment(msgspec.Struct, frozen=True, rename="camel"):
    """The comment of a host: its pod, its node and its NodeSet."""

    namespace: str = ""
    pod_name: str = ""
    node: str = ""
    node_set_name: str = ""
    node_set_uid: str = msgspec.field(default="", name="nodeSetUID")

    def text(self) -> str:
        """The comment as JSON."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def parse(cls, text: str) -> "HostComment | None":
        """Parse a comment of the operator; None for any other comment."""
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


def host_updates(node_set: NodeSet, worker: Worker) -> Iterable[UpdateHost]:
    """Update the comment, topology and features of the worker's host."""
    host, meta = worker.host, node_set.metadata
    if host is None or not worker.ready:
        return
    comment = HostComment(meta.namespace, worker.meta.name, worker.pod.spec.node_name, meta.name, meta.uid).text()
    if host.comment != comment:
        yield UpdateHost(host.name, NodeUpdate(comment=comment), "comment")
    if worker.node is None:
        return
    topology = node_topology(worker.node.metadata.annotations)
    # Without the annotation, topology.yaml may give the position. It is cleared only if an annotation had set it.
    had_annotation = metadata.TOPOLOGY in worker.meta.annotations
    if (topology or had_annotation) and _units(topology) != _units(host.topology):
        yield UpdateHost(host.name, NodeUpdate(topology_str=topology), "topology")
    yield from _feature_updates(worker.node.metadata.annotations.get(metadata.FEATURES), host)


def _units(topology: str) -> set[str]:
    """The switches and blocks of a topology, which Slurm reports in any order."""
    return set(filter(None, topology.split(",")))


def _clears_topology(worker: Worker) -> bool:
    """Whether Slurm still has a position that the annotation of the pod names and that of the node no longer does."""
    node, host = worker.node, worker.host
    return bool(node and not node_topology(node.metadata.annotations) and host and host.topology)


def pod_updates(node_set: NodeSet, worker: Worker) -> Iterable[AnnotateWorker]:
    """Update the labels and annotations of the worker's pod that follow its node and Slurm."""
    labels = _protection(node_set, worker)
    if worker.pod.metadata.labels.get(metadata.POD_HOSTNAME) != worker.hostname and worker.pod.spec.node_name:
        labels[metadata.POD_HOSTNAME] = worker.hostname
    annotations: dict[str, str | None] = {}
    if worker.node is not None and not _clears_topology(worker):
        annotations[metadata.TOPOLOGY] = node_topology(worker.node.metadata.annotations) or None
    if worker.busy is False or (worker.busy and worker.jobs_end is not None):
        annotations[metadata.POD_DEADLINE] = worker.deadline or None
    if worker.kept_drain and worker.ready and worker.host is not None and worker.kept_drain.is_on(worker.host):
        annotations[metadata.POD_KEPT_DRAIN] = None
    annotations |= _disruption(node_set, worker)
    new_labels = {key: value for key, value in labels.items() if worker.meta.labels.get(key) != value}
    new_annotations = {key: value for key, value in annotations.items() if worker.meta.annotations.get(key) != value}
    if new_labels or new_annotations:
        yield AnnotateWorker(worker, new_labels, new_annotations)


#: Annotations with which node autoscalers leave the node of a pod alone.
_KEEPS_NODE = {metadata.DO_NOT_DISRUPT: "true", metadata.SAFE_TO_EVICT: "false"}


def _disruption(node_set: NodeSet, worker: Worker) -> dict[str, str | None]:
    """Annotations that keep the node of a busy worker; what the template of the NodeSet sets is left alone."""
    if worker.busy is None or not node_set.spec.workload_disruption_protection:
        return {}
    template = node_set.spec.template.metadata.annotations
    return {key: value if worker.busy else None for key, value in _KEEPS_NODE.items() if key not in template}


def _protection(node_set: NodeSet, worker: Worker) -> dict[str, str | None]:
    """The label with which the PodDisruptionBudget protects the pod from eviction."""
    if not node_set.spec.workload_disruption_protection:
        return {metadata.POD_PROTECT: None}
    if worker.busy is None:
        return {}  # not known: the label stays as it is
    protected = worker.busy or (node_set.spec.drain.protect_idle and not worker.drained)
    return {metadata.POD_PROTECT: "true" if protected else None}


def _feature_updates(annotation: str | None, host: Host) -> Iterable[UpdateHost]:
    """Update the features with our prefix; all other features are left as they are."""
    names = [name.strip() for name in (annotation or "").split(",")]
    ours = sorted({f"{metadata.FEATURE_PREFIX}{name}" for name in names if name})
    available, active = _with_ours(host.features, ours), _with_ours(host.active_features, ours)
    if (available, active) != (list(host.features), list(host.active_features)):
        yield UpdateHost(host.name, NodeUpdate(features=available, features_act=active), "features")


def _with_ours(features: Sequence[str], ours: list[str]) -> list[str]:
    if sorted(name for name in features if name.startswith(metadata.FEATURE_PREFIX)) == ours:
        return list(features)
    return [*(name for name in features if not name.startswith(metadata.FEATURE_PREFIX)), *ours]


def state_conditions(worker: Worker) -> dict[str, str] | None:
    """Messages of the pod conditions that show the state of the host, by type; None if the state is not known."""
    host = worker.host
    if host is None:
        return None
    return dict.fromkeys(_condition_types(host.state), host.reason)


#: States of Slurm that are shown as pod conditions.
SHOWN_STATES = frozenset(
    [
        "ALLOCATED",
        "DOWN",
        "ERROR",
        "FUTURE",
        "IDLE",
        "MIXED",
        "UNKNOWN",
        "COMPLETING",
        "DRAIN",
        "FAIL",
        "INVALID",
        "INVALID_REG",
        "MAINTENANCE",
        "NOT_RESPONDING",
        "UNDRAIN",
    ]
)


@cache
def _condition_types(state: NodeState) -> tuple[str, ...]:
    """Condition types of a state; cached, because there are few different states."""
    words = (state.base, *sorted(state.flags))
    return tuple(f"{STATE_CONDITION}{_camel_case(word)}" for word in words if word in SHOWN_STATES)


def _camel_case(word: str) -> str:
    return "".join(part.capitalize() for part in word.split("_"))
