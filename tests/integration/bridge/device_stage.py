# SPDX-License-Identifier: Apache-2.0
"""A bridge stage with devices: the test writes what DRA drivers and Kubernetes' claim controller would write."""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from tests.integration.bridge.bridge_stage import BridgeStage, create_namespace
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.bridge.state.devices import allocated_devices
from slinky.bridge.views import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES, ResourceClaim
from slinky.kube import Key, KubeClient, NotFound
from slinky.slurm import SlurmClient as Slurm


class DeviceStage(BridgeStage):
    """A bridge stage with a GPU driver and a CPU driver of its own."""

    def __init__(self, client: KubeClient, slurm: Slurm, namespace: str) -> None:
        super().__init__(client, slurm, namespace)
        self.gpu, self.cpu = f"gpu.{self.name}.example.com", f"cpu.{self.name}.example.com"
        self.slices: list[str] = []
        self.classes: list[str] = []

    @property
    def gpu_resource(self) -> str:
        """The extended resource of the GPUs."""
        return names.DEVICE_CLASS_PREFIX + self.gpu

    def gpus(self, count: int) -> dict[str, dict[str, str]]:
        """Requests and limits of a container with so many GPUs."""
        return same_limits({self.gpu_resource: str(count)})

    async def create_device_class(self, name: str, *expressions: str) -> str:
        """A device class; without `expressions` it selects the devices of the driver of the same name."""
        selectors = expressions or (f'device.driver == "{name}"',)
        spec = {"selectors": [{"cel": {"expression": text}} for text in selectors]}
        await self.client.create(DEVICE_CLASSES, DEVICE_CLASSES.manifest(Key("", name), spec=spec))
        self.classes.append(name)
        return name

    async def publish(
        self,
        node: str,
        driver: str,
        devices: Sequence[Mapping[str, Any]],
        *,
        generation: int = 1,
        part: int = 0,
        parts: int = 1,
        counters: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        """Publish a slice of a node's pool, which has so many `parts`."""
        name = f"{node}-{driver}-{generation}-{part}"
        pool = {"name": node, "generation": generation, "resourceSliceCount": parts}
        content = {"sharedCounters": list(counters)} if counters else {"devices": list(devices)}
        spec = {"driver": driver, "nodeName": node, "pool": pool, **content}
        await self.client.create(RESOURCE_SLICES, RESOURCE_SLICES.manifest(Key("", name), spec=spec))
        self.slices.append(name)
        return name

    async def create_claim(self, name: str, *requests: Mapping[str, Any], **fields: Any) -> list[dict[str, str]]:
        """A claim; returns the field of a pod that refers to it."""
        spec = {"devices": {"requests": list(requests), **fields}}
        manifest = RESOURCE_CLAIMS.manifest(Key(self.namespace, name), spec=spec)
        await self.client.create(RESOURCE_CLAIMS, manifest)
        return [{"name": "g", "resourceClaimName": name}]

    async def get_claim(self, name: str) -> ResourceClaim:
        return await self.client.get(RESOURCE_CLAIMS, Key(self.namespace, name))

    async def extended_claim(self, pod: str) -> ResourceClaim:
        """The claim that stands for a pod's extended resources."""
        status = (await self.get_pod(pod)).status.extended_resource_claim_status
        assert status is not None
        return await self.get_claim(status.resource_claim_name)

    async def devices_of(self, pod: str) -> list[str]:
        """The devices that are allocated for a pod's extended resources."""
        return sorted(device.device for device in allocated_devices(await self.extended_claim(pod)))

    async def allocate(self, claim: str, driver: str, pool: str, device: str) -> None:
        """Allocate a device to a claim as another scheduler would."""
        result = {"request": "r", "driver": driver, "pool": pool, "device": device}
        consumer = {"resource": "pods", "name": "stranger", "uid": "stranger"}
        allocation = {"devices": {"results": [result]}}
        await self._patch_claim(claim, {"allocation": allocation, "reservedFor": [consumer]})

    async def deallocate(self, claim: str) -> None:
        """Do what the claim controller does once no pod uses a claim."""
        await self._patch_claim(claim, {"allocation": None, "reservedFor": None})

    async def _patch_claim(self, claim: str, status: dict[str, Any]) -> None:
        key = Key(self.namespace, claim)
        await self.client.patch(RESOURCE_CLAIMS, key, {"status": status}, subresource="status")

    async def clean_up(self) -> None:
        """Remove the devices as well."""
        await super().clean_up()
        for name in self.slices:
            with contextlib.suppress(NotFound):
                await self.client.delete(RESOURCE_SLICES, Key("", name))
        for name in self.classes:
            with contextlib.suppress(NotFound):
                await self.client.delete(DEVICE_CLASSES, Key("", name))


@contextlib.asynccontextmanager
async def device_stage(client: KubeClient, slurm: Slurm, **settings: Any) -> AsyncIterator[DeviceStage]:
    """A stage with devices; a setting may be a function of the stage, because driver names differ per stage."""
    stage = DeviceStage(client, slurm, await create_namespace(client))
    stage.configure(**{key: value(stage) if callable(value) else value for key, value in settings.items()})
    try:
        yield stage
    finally:
        await stage.clean_up()


def same_limits(amounts: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Requests and limits of a container, both the same."""
    return {"requests": dict(amounts), "limits": dict(amounts)}


def exactly(name: str, **request: Any) -> dict[str, Any]:
    """A request for one device of a class, unless `request` has a count."""
    return {"name": "r", "exactly": {"deviceClassName": name, **request}}


def gpus(count: int, *, model: str = "m1", first: int = 0) -> list[dict[str, Any]]:
    """GPUs as the lab's driver publishes them."""
    return [
        {
            "name": f"gpu-{number}",
            "attributes": {"index": {"int": number}, "model": {"string": model}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for number in range(first, first + count)
    ]


def single_cpus(driver: str, cores: int, threads: int = 1) -> list[dict[str, Any]]:
    """Every CPU as a device; the second thread of core c has the number c + cores."""
    return [
        {
            "name": f"cpudev{cpu:03}",
            "attributes": {
                f"{driver}/cpuID": {"int": cpu},
                f"{driver}/coreID": {"int": cpu % cores},
                f"{driver}/socketID": {"int": 0},
            },
        }
        for cpu in range(cores * threads)
    ]


def grouped_cpus(driver: str, cores: int) -> list[dict[str, Any]]:
    """Two groups of CPUs with one thread per core."""
    half = cores // 2
    return [
        {
            "name": f"cpudevnuma{number:03}",
            "allowMultipleAllocations": True,
            "attributes": {
                f"{driver}/socketID": {"int": number},
                f"{driver}/cpuIDs": {"string": f"{number * half}-{(number + 1) * half - 1}"},
                f"{driver}/smtLayout": {"string": f"0-{cores - 1}"},
            },
            "capacity": {f"{driver}/cpu": {"value": str(half)}},
        }
        for number in range(2)
    ]


@contextlib.asynccontextmanager
async def running_gpu_stage(kube: KubeClient, ctld: Slurm) -> AsyncIterator[DeviceStage]:
    """A running bridge, one node with four GPUs of one class, published in two parts."""
    async with device_stage(kube, ctld) as stage:
        await stage.create_device_class(stage.gpu)
        bridge = await stage.start()
        name = f"{stage.name}-1"
        await stage.publish(name, stage.gpu, gpus(2), parts=2)
        slices = bridge.cluster.devices.slices
        await eventually(lambda: bool(slices.by("node", name)), "the slice in the cache of the bridge")
        await stage.add_node(host=False)
        await stage.wait_event(name, "DevicesUnclear")
        await stage.publish(name, stage.gpu, gpus(2, first=2), parts=2, part=1)
        await eventually(lambda: registered(stage, name, f"gpu:{stage.gpu}:4"), "four GPUs in Slurm")
        yield stage


async def registered(stage: DeviceStage, host: str, gres: str) -> bool:
    """Whether the bridge has registered a host with these devices."""
    found = await stage.slurm.node(host)
    return found.gres == gres and found.comment.startswith("slurm-bridge ")
