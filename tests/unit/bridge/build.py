# SPDX-License-Identifier: Apache-2.0
"""Builders of the objects that the tests of the bridge use."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from slinky.bridge import names
from slinky.bridge.views import DeviceClass, ResourceSlice, WorkloadPod
from slinky.kube import Node
from slinky.slurm import Job, JobLookup, JobRecord, JobState, NodeResources, Presence

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def pod(name: str = "p", *, job: str = "", node: str = "", phase: str = "Pending", **more: Any) -> WorkloadPod:
    """A pod; `more` are `labels`, `annotations`, `spec`, `made`, `deleted`, `held`, `uid`, `owners`."""
    labels = {**more.get("labels", {}), **({names.JOB_LABEL: job} if job else {})}
    meta: dict[str, Any] = {
        "name": name,
        "namespace": more.get("namespace", "ns"),
        "uid": more.get("uid", f"uid-{name}"),
        "labels": labels,
        "annotations": dict(more.get("annotations", {})),
        "finalizers": [names.FINALIZER] if more.get("held", bool(job)) else [],
        "creationTimestamp": more.get("made", ""),
        "ownerReferences": more.get("owners", []),
    }
    if when := more.get("deleted"):
        meta["deletionTimestamp"] = when
    spec = {"schedulerName": names.SCHEDULER, "nodeName": node, **more.get("spec", {})}
    expected_text = {"reason": "Allocated", "message": f"Slurm job {job} has node {node}."}
    conditions = [{"type": names.SCHEDULED, "status": "True", **expected_text}] if job and node else []
    status = {"phase": phase, "conditions": conditions, **more.get("status", {})}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, WorkloadPod)


def needing(amounts: Mapping[str, str], name: str = "p", **more: Any) -> WorkloadPod:
    """A pod with one container that requests these amounts."""
    spec = {"containers": [{"name": "c", "resources": {"requests": dict(amounts)}}], **more.pop("spec", {})}
    return pod(name, spec=spec, **more)


def node(name: str = "n1", **more: Any) -> Node:
    """A ready node; `more` are `labels`, `annotations`, `taints`, `unschedulable`, `ready`, `conditions`, `amounts`."""
    amounts = {"cpu": "4", "memory": "8Gi", **more.get("amounts", {})}
    ready = {"type": "Ready", "status": "True" if more.get("ready", True) else "Unknown"}
    result = {
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
    return msgspec.convert(result, Node)


def record(job: str = "7", *words: str, hosts: tuple[str, ...] = (), reason: str = "", lost: bool = False) -> JobRecord:
    """The record of a job in the mirror."""
    detail = Job(int(job), job_state=words, state_reason=reason)
    resources = tuple(NodeResources(host) for host in hosts) if hosts else None
    return JobRecord(job, JobState.of(words), "sluid", detail, resources, lost=lost)


# --- devices

GPU_DRIVER = "gpu.example.com"


def device_class(name: str = "lab-gpu", *expressions: str, resource: str = "") -> DeviceClass:
    """A device class; without expressions, the lab's GPUs."""
    chosen = expressions or (f'device.driver == "{GPU_DRIVER}"',)
    spec = {"extendedResourceName": resource, "selectors": [{"cel": {"expression": text}} for text in chosen]}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, DeviceClass)


def slice_of(devices: list[dict[str, Any]], driver: str = GPU_DRIVER, **more: Any) -> ResourceSlice:
    """A slice of a node; `more` are `node`, `pool`, `generation`, `count`, `counters`."""
    place = more.get("node", "n1")
    pool = {
        "name": more.get("pool", place),
        "generation": more.get("generation", 1),
        "resourceSliceCount": more.get("count", 1),
    }
    spec = {"driver": driver, "pool": pool, "nodeName": place, "devices": devices}
    return msgspec.convert(
        {"metadata": {"name": "s"}, "spec": {**spec, "sharedCounters": more.get("counters", [])}}, ResourceSlice
    )


def gpus(number: int, model: str = "M1", first: int = 0, **more: Any) -> ResourceSlice:
    """A slice with GPUs, as the driver of the lab publishes them."""
    devices = [
        {
            "name": f"gpu-{i}",
            "attributes": {"index": {"int": i}, "model": {"string": model}, "driverVersion": {"version": "1.2.3"}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for i in range(first, first + number)
    ]
    return slice_of(devices, **more)


def cpu_singles(*, sockets: int = 1, cores: int = 4, threads: int = 1, **more: Any) -> ResourceSlice:
    """A slice in which every CPU is a device; siblings are numbered as in Linux."""
    total = sockets * cores
    devices = [
        {
            "name": f"cpudev{cpu:03}",
            "attributes": {
                "dra.cpu/cpuID": {"int": cpu},
                "dra.cpu/coreID": {"int": cpu % total % cores},
                "dra.cpu/socketID": {"int": cpu % total // cores},
                "dra.cpu/coreType": {"string": "standard"},
            },
        }
        for cpu in range(total * threads)
    ]
    return slice_of(devices, "dra.cpu", **more)


def cpu_groups(groups: Mapping[str, str], layout: str = "", **more: Any) -> ResourceSlice:
    """A slice in which groups of CPUs are devices: name to cpuset, one socket each."""
    devices = [
        {
            "name": name,
            "allowMultipleAllocations": True,
            "attributes": {
                "dra.cpu/socketID": {"int": number},
                "dra.cpu/cpuIDs": {"string": cpus},
                "dra.cpu/smtLayout": {"string": layout},
            },
            "capacity": {"dra.cpu/cpu": {"value": "64"}},
        }
        for number, (name, cpus) in enumerate(groups.items())
    ]
    return slice_of(devices, "dra.cpu", **more)


class FakeMirror:
    """A mirror that shows one job."""

    def __init__(self, shown: JobRecord) -> None:
        self.jobs = {shown.job_id: shown}

    def lookup_job(self, job: str) -> JobLookup:
        """The record of the job, or None."""
        return JobLookup(Presence.PRESENT, self.jobs.get(job))

    def track(self, job: str, sluid: str = "") -> None:
        """Do nothing."""

    def forget(self, job: str) -> None:
        """Remove the record."""
        self.jobs.pop(job, None)
