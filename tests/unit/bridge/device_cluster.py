# SPDX-License-Identifier: Apache-2.0
"""A cluster with devices in memory: the real caches and states of the bridge, and an API server that stores claims."""

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import msgspec
from tests.unit.bridge.build import device_class, gpus, node

from slinky.bridge.config import BridgeSettings
from slinky.bridge.devices.inventory import DeviceInventory
from slinky.bridge.lifecycle.claim_writer import ClaimWriter
from slinky.bridge.state.device_demand import DeviceDemand
from slinky.bridge.state.device_mismatches import DeviceMismatches
from slinky.bridge.state.devices import DeviceState
from slinky.bridge.views import OUR_PODS, ResourceClaim, ResourceSlice, WorkloadPod
from slinky.bridge.workload import pod_state
from slinky.kube import NODES, Cache, Key, Node
from slinky.slurm import Change, Gres, Host, JobRecord, JobState, NodeResources, ObjectKind


class MemoryServer:
    """Stores resource claims. A request for an object whose name has a blocked beginning waits for the event."""

    def __init__(self) -> None:
        self.claims: dict[Key, ResourceClaim] = {}
        self.blocked: dict[str, asyncio.Event] = {}  # by beginning of the name
        self.version = 0

    async def create(self, _resource: Any, manifest: Mapping[str, Any]) -> ResourceClaim:
        claim = msgspec.convert(manifest, ResourceClaim)
        await self._wait(claim.key)
        return self._store(claim.key, dict(manifest))

    async def patch(self, resource: Any, key: Key, body: Mapping[str, Any], **_: Any) -> Any:
        await self._wait(key)
        if resource is OUR_PODS:
            meta = {"name": key.name, "namespace": key.namespace}
            return msgspec.convert({"metadata": meta, "status": body.get("status", {})}, WorkloadPod)
        raw = msgspec.to_builtins(self.claims[key])
        if "status" in body:
            raw["status"] = {**raw.get("status", {}), **body["status"]}
            raw["status"] = {name: value for name, value in raw["status"].items() if value is not None}
        raw["metadata"] |= {name: value for name, value in body["metadata"].items() if name == "finalizers"}
        return self._store(key, raw)

    async def delete(self, _resource: Any, key: Key, **_: Any) -> None:
        self.claims.pop(key, None)

    async def _wait(self, key: Key) -> None:
        for prefix, event in self.blocked.items():
            if key.name.startswith(prefix):
                await event.wait()

    def _store(self, key: Key, raw: dict[str, Any]) -> ResourceClaim:
        self.version += 1
        metadata = {**raw["metadata"], "uid": f"uid-{key.name}", "resourceVersion": str(self.version)}
        claim = self.claims[key] = msgspec.convert({**raw, "metadata": metadata}, ResourceClaim)
        return claim


class DeviceCluster:
    """Nodes with devices and their Slurm hosts."""

    def __init__(self, **settings: Any) -> None:
        self.server, self.notified, self.version = MemoryServer(), 0, 0
        runtime: Any = SimpleNamespace(cache=lambda resource, indexes=None: Cache(resource, indexes=indexes))
        self.hosts: dict[str, Host] = {}
        self._listeners: list[Callable[[Change], None]] = []
        self.nodes: Cache[Node] = Cache(NODES, indexes={"host": lambda own: (pod_state.host_of(own),)})
        self.devices = DeviceState(runtime, BridgeSettings(**settings), lambda name: name in self.hosts)
        self.pods: Cache[WorkloadPod] = Cache(OUR_PODS)
        mirror: Any = SimpleNamespace(nodes=self.hosts, listen=self._listeners.append)
        cluster: Any = self
        client: Any = self.server
        self.mismatches = DeviceMismatches(cluster, mirror, self._notify)
        self.demand = DeviceDemand(client, self.devices, self.mismatches)
        self.claims = ClaimWriter(client, cluster, mirror)

    def _notify(self) -> None:
        self.notified += 1

    def inventory(self, name: str) -> DeviceInventory:
        return self.devices.inventory(name)

    def node_of_host(self, host: str) -> Node | None:
        return next(iter(self.nodes.by("host", host)), None)

    def add_class(self, name: str, *expressions: str, resource: str = "") -> None:
        self.devices.classes.put(device_class(name, *expressions, resource=resource))

    def add_claim(self, name: str, *requests: Mapping[str, Any]) -> None:
        metadata = {"name": name, "namespace": "ns", "resourceVersion": "1"}
        spec = {"devices": {"requests": list(requests)}}
        self.devices.claims.put(msgspec.convert({"metadata": metadata, "spec": spec}, ResourceClaim))

    def publish(self, part: ResourceSlice) -> None:
        self.version += 1
        name = f"{part.spec.node_name}-{part.spec.driver}"
        metadata = msgspec.structs.replace(part.metadata, name=name, resource_version=str(self.version))
        self.devices.slices.put(msgspec.structs.replace(part, metadata=metadata))

    def set_host(self, host: Host) -> None:
        before, self.hosts[host.name] = self.hosts.get(host.name), host
        for listener in self._listeners:
            listener(Change(ObjectKind.NODE, host.name, before, host))

    def add_node(self, name: str, part: ResourceSlice, host: Host) -> None:
        self.nodes.put(node(name))
        self.publish(part)
        self.set_host(host)


def gpu_node(cluster: DeviceCluster, name: str, count: int, gres: str, *words: str) -> None:
    """A node with GPUs, whose host has these devices in Slurm."""
    cluster.add_node(name, gpus(count, node=name), Host(name, words=words or ("IDLE",), gres=gres))


def allocated(host: str, *gres: Gres) -> JobRecord:
    """The record of a job that has these devices of a host."""
    return JobRecord("7", JobState.of(("RUNNING",)), "sluid", None, (NodeResources(host, gres=gres),))
