# SPDX-License-Identifier: Apache-2.0
"""Sample objects for tests of the operator; a test sets only the fields that it is about."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from slinky.api.accounting import Accounting
from slinky.api.controller import Controller
from slinky.api.names import metadata
from slinky.api.nodeset import NodeSet
from slinky.kube.types import Condition, ObjectMeta
from slinky.kube.views import Node, NodeSpec, NodeStatus, Pod, PodSpec, PodStatus, Taint
from slinky.operator.nodeset.plan import NodeSetSnapshot
from slinky.operator.nodeset.workers import Worker, build_worker
from slinky.operator.slurm.snapshot import SlurmSnapshot
from slinky.slurm import Host

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
REVISION = "rev2"


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def controller(name: str = "slurm", **spec: Any) -> Controller:
    base = {
        "slurmKeyRef": {"name": "slurm-auth-slurm", "key": "slurm.key"},
        "jwtKeyRef": {"name": "slurm-auth-jwt", "key": "jwt.key"},
    }
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "generation": 1}
    return msgspec.convert({"metadata": meta, "spec": {**base, **spec}}, Controller)


def accounting(**spec: Any) -> Accounting:
    base = {
        "slurmKeyRef": {"name": "slurm-auth-slurm", "key": "slurm.key"},
        "jwtKeyRef": {"name": "slurm-auth-jwt", "key": "jwt.key"},
        "storageConfig": {"host": "db", "passwordKeyRef": {"name": "db", "key": "password"}},
    }
    meta = {"name": "slurm", "namespace": "ns", "uid": "uid-acct"}
    return msgspec.convert({"metadata": meta, "spec": {**base, **spec}}, Accounting)


def node_set(name: str = "gpu", *, deleting: float | None = None, status: Any = None, **spec: Any) -> NodeSet:
    meta: dict[str, Any] = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "generation": 3}
    meta["annotations"] = spec.pop("annotations", {})
    if deleting is not None:
        meta["deletionTimestamp"] = ago(deleting)
    body = {"metadata": meta, "spec": {"controllerRef": {"name": "slurm"}, **spec}, "status": status or {}}
    return msgspec.convert(body, NodeSet)


def pod(
    name: str = "gpu-0",
    *,
    node: str = "node1",
    ready: float | None = 1000,
    phase: str = "Running",
    revision: str = REVISION,
    mode: str = "StatefulSet",
    deleting: bool = False,
    age: float = 2000,
    labels: dict[str, str] | None = None,
    shown: str = "",
    unscheduled: str = "",
    **annotations: str,
) -> Pod:
    """A worker's pod; `shown` is the state of Slurm that it shows, `unscheduled` why it is on no node."""
    healthy = () if ready is None else (Condition("Ready", "True", last_transition_time=ago(ready)),)
    waiting = (Condition("PodScheduled", "False", "Unschedulable", unscheduled),) if unscheduled else ()
    conditions = (*healthy, *waiting, *(Condition(f"SlurmNodeState{word}", "True") for word in shown.split()))
    own_annotations = {getattr(metadata, key.upper(), key): value for key, value in annotations.items()}
    own = {metadata.REVISION: revision, metadata.SCALING_MODE: mode, metadata.POD_HOSTNAME: name}
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="ns",
            uid=f"uid-{name}",
            labels={**own, **(labels or {})},
            annotations=own_annotations,
            created=ago(age),
            deletion_timestamp=ago(1) if deleting else None,
        ),
        spec=PodSpec(node_name="" if unscheduled else node, hostname=name),
        status=PodStatus(phase=phase, conditions=conditions),
    )


def node(name: str = "node1", *, cordoned: bool = False, taints: tuple[Taint, ...] = (), **more: Any) -> Node:
    return Node(
        ObjectMeta(name=name, labels=more.get("labels", {}), annotations=more.get("annotations", {})),
        NodeSpec(unschedulable=cordoned, taints=taints),
        NodeStatus(conditions=more.get("conditions", ())),
    )


def host(name: str = "gpu-0", state: str = "IDLE", reason: str = "", **more: Any) -> Host:
    words = tuple(state.split("+"))
    return Host(name=name, words=(*words, "DYNAMIC_NORM"), reason=reason, **more)


def trusted_snapshot(*hosts: Host, trusted: bool = True) -> SlurmSnapshot:
    return SlurmSnapshot(connected=True, trusted=trusted, hosts={item.name: item for item in hosts})


UNTRUSTED = SlurmSnapshot(connected=True, trusted=False)


def worker_of(
    pod: Pod, slurm: SlurmSnapshot = UNTRUSTED, owner: NodeSet | None = None, on: Node | None = None
) -> Worker:
    """The worker of a pod, as the operator sees it."""
    return build_worker(owner or node_set(), pod, on or node(pod.spec.node_name), slurm, NOW)


def node_set_snapshot(
    owner: NodeSet, pods: list[Pod], slurm: SlurmSnapshot = UNTRUSTED, nodes: list[Node] | None = None, **more: Any
) -> NodeSetSnapshot:
    """A snapshot of a NodeSet with these pods; by default there are two nodes."""
    known = {item.metadata.name: item for item in (nodes if nodes is not None else [node("node1"), node("node2")])}
    workers = tuple(build_worker(owner, pod, known.get(pod.spec.node_name), slurm, NOW) for pod in pods)
    return NodeSetSnapshot(owner, workers, known, slurm, REVISION, NOW, **more)
