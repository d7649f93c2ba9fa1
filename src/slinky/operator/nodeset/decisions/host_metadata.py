# SPDX-License-Identifier: Apache-2.0
"""What Slurm is told about a healthy worker, and what its pod is told about Slurm. Pure.

Each function gives what differs and nothing else, so that a settled worker costs no request.
"""

from collections.abc import Iterable, Sequence
from functools import cache

import msgspec

from slinky.api.names import metadata
from slinky.api.nodeset import NodeSet
from slinky.operator.nodeset.actions import AnnotateWorker, UpdateHost
from slinky.operator.nodeset.workers import STATE, Worker
from slinky.slurm import Host, NodeState, NodeUpdate


class HostComment(msgspec.Struct, frozen=True, rename="camel"):
    """What stands in a host's comment: whose it is and where it runs."""

    namespace: str = ""
    pod_name: str = ""
    node: str = ""
    node_set_name: str = ""
    node_set_uid: str = msgspec.field(default="", name="nodeSetUID")

    def text(self) -> str:
        """As it is written."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def parse(cls, text: str) -> "HostComment | None":
        """A comment of ours, or None for anything else."""
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None


def updates(of: NodeSet, worker: Worker) -> Iterable[UpdateHost]:
    """Changes to the worker's host."""
    host = worker.host
    if host is None or not worker.ready:
        return
    comment = HostComment(
        of.metadata.namespace, worker.meta.name, worker.pod.spec.node_name, of.metadata.name, of.metadata.uid
    ).text()
    if host.comment != comment:
        yield UpdateHost(host.name, NodeUpdate(comment=comment), "comment")
    if worker.node is None:
        return
    place = worker.node.metadata.annotations.get(metadata.TOPOLOGY, "")
    if place and set(place.split(",")) != set(host.topology.split(",")):
        yield UpdateHost(host.name, NodeUpdate(topology_str=place), "topology")
    yield from _features(worker.node.metadata.annotations.get(metadata.FEATURES), host)


def mark(of: NodeSet, worker: Worker) -> AnnotateWorker | None:
    """Labels and annotations that the worker's pod should have and has not."""
    labels = _protection(of, worker)
    if worker.pod.metadata.labels.get(metadata.POD_HOSTNAME) != worker.hostname and worker.pod.spec.node_name:
        labels[metadata.POD_HOSTNAME] = worker.hostname
    annotations: dict[str, str | None] = {}
    if worker.node is not None:
        annotations[metadata.TOPOLOGY] = worker.node.metadata.annotations.get(metadata.TOPOLOGY)
    if worker.busy is False or (worker.busy and worker.ends is not None):
        annotations[metadata.POD_DEADLINE] = worker.deadline or None
    new_labels = {key: value for key, value in labels.items() if worker.meta.labels.get(key) != value}
    new_annotations = {key: value for key, value in annotations.items() if worker.meta.annotations.get(key) != value}
    return AnnotateWorker(worker, new_labels, new_annotations) if new_labels or new_annotations else None


def _protection(of: NodeSet, worker: Worker) -> dict[str, str | None]:
    """Whether the budget refuses its eviction; one that is protected while idle is so before a job begins."""
    if not of.spec.workload_disruption_protection:
        return {metadata.POD_PROTECT: None}
    if worker.busy is None:
        return {}  # not known: whatever protects it stays
    guarded = worker.busy or (of.spec.drain.protect_idle and not worker.drained)
    return {metadata.POD_PROTECT: "true" if guarded else None}


def _features(asked: str | None, host: Host) -> Iterable[UpdateHost]:
    """Ours carry a prefix; all others are left as they are."""
    wanted = sorted({f"{metadata.FEATURE_PREFIX}{name.strip()}" for name in (asked or "").split(",") if name.strip()})
    available, active = _with(host.features, wanted), _with(host.active_features, wanted)
    if (available, active) != (list(host.features), list(host.active_features)):
        yield UpdateHost(host.name, NodeUpdate(features=available, features_act=active), "features")


def _with(held: Sequence[str], wanted: list[str]) -> list[str]:
    ours = [name for name in held if name.startswith(metadata.FEATURE_PREFIX)]
    if sorted(ours) == wanted:
        return list(held)
    return [*(name for name in held if not name.startswith(metadata.FEATURE_PREFIX)), *wanted]


def conditions(worker: Worker) -> dict[str, str] | None:
    """Pod conditions by type, with their messages: the host's state, word by word. None if it is not known."""
    host = worker.host
    if host is None:
        return None
    return dict.fromkeys(_types(host.state), host.reason)


#: States that are shown as pod conditions.
SHOWN = frozenset(
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
def _types(state: NodeState) -> tuple[str, ...]:
    """Condition types of a state; there are few different ones."""
    return tuple(f"{STATE}{_camel(word)}" for word in (state.base, *sorted(state.flags)) if word in SHOWN)


def _camel(word: str) -> str:
    return "".join(part.capitalize() for part in word.split("_"))
