# SPDX-License-Identifier: Apache-2.0
"""Small objects for the bridge's laws."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from slinky.bridge import names
from slinky.bridge.views import Pod
from slinky.kube import Node
from slinky.slurm import Job, JobRecord, JobState, NodeResources

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def pod(name: str = "p", *, job: str = "", node: str = "", phase: str = "Pending", **more: Any) -> Pod:
    """A pod of ours; `more` are `labels`, `annotations`, `spec`, `deleted`, `held`, `uid`."""
    labels = {**more.get("labels", {}), **({names.JOB_LABEL: job} if job else {})}
    meta: dict[str, Any] = {
        "name": name,
        "namespace": more.get("namespace", "ns"),
        "uid": more.get("uid", f"uid-{name}"),
        "labels": labels,
        "annotations": dict(more.get("annotations", {})),
        "finalizers": [names.FINALIZER] if more.get("held", bool(job)) else [],
    }
    if when := more.get("deleted"):
        meta["deletionTimestamp"] = when
    spec = {"schedulerName": names.SCHEDULER, "nodeName": node, **more.get("spec", {})}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": phase, **more.get("status", {})}}, Pod)


def needing(amounts: Mapping[str, str], name: str = "p", **more: Any) -> Pod:
    """A pod with one container that asks for these."""
    spec = {"containers": [{"name": "c", "resources": {"requests": dict(amounts)}}], **more.pop("spec", {})}
    return pod(name, spec=spec, **more)


def node(name: str = "n1", **more: Any) -> Node:
    """A ready node; `more` are `labels`, `annotations`, `taints`, `unschedulable`, `ready`, `conditions`, `amounts`."""
    amounts = {"cpu": "4", "memory": "8Gi", **more.get("amounts", {})}
    ready = {"type": "Ready", "status": "True" if more.get("ready", True) else "Unknown"}
    found = {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": dict(more.get("labels", {})),
            "annotations": dict(more.get("annotations", {})),
        },
        "spec": {"unschedulable": more.get("unschedulable", False), "taints": more.get("taints", [])},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "addresses": more.get("addresses", [{"type": "InternalIP", "address": "10.0.0.1"}]),
            "conditions": [ready, *more.get("conditions", [])],
        },
    }
    return msgspec.convert(found, Node)


def record(job: str = "7", *words: str, hosts: tuple[str, ...] = (), reason: str = "", lost: bool = False) -> JobRecord:
    """A job as the mirror knows it."""
    detail = Job(int(job), job_state=words, state_reason=reason)
    resources = tuple(NodeResources(host) for host in hosts) if hosts else None
    return JobRecord(job, JobState.of(words), "sluid", detail, resources, lost=lost)
