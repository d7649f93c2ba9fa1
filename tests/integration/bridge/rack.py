# SPDX-License-Identifier: Apache-2.0
"""Devices for scenes: what DRA drivers and Kubernetes' own controllers would write, under names of the scene's own."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from tests.integration.bridge.scene import Scene, scene

from slinky.bridge import names
from slinky.bridge.devices.state import allocated_devices
from slinky.bridge.state.views import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES, ResourceClaim
from slinky.kube import Key, KubeClient, NotFound
from slinky.slurm import SlurmClient as Slurm


class Rack:
    """The devices of one scene: a GPU driver and a CPU driver that nobody else has."""

    def __init__(self, stage: Scene) -> None:
        self.stage, self.client = stage, stage.client
        self.gpu, self.cpu = f"gpu.{stage.name}.example.com", f"cpu.{stage.name}.example.com"
        self.published: list[str] = []
        self.classes: list[str] = []

    @property
    def resource(self) -> str:
        """The extended resource of the GPUs."""
        return names.DEVICE_CLASS_PREFIX + self.gpu

    async def device_class(self, name: str, *expressions: str, **more: Any) -> str:
        """A device class; its selectors name the driver of the same name if nothing else is given."""
        chosen = expressions or (f'device.driver == "{name}"',)
        spec = {"selectors": [{"cel": {"expression": text}} for text in chosen], **more}
        await self.client.create(DEVICE_CLASSES, DEVICE_CLASSES.manifest(Key("", name), spec=spec))
        self.classes.append(name)
        return name

    async def publish(self, node: str, driver: str, devices: Sequence[Mapping[str, Any]], **more: Any) -> str:
        """A slice; `more` are `generation`, `count`, `part`, `counters`."""
        name = f"{node}-{driver}-{more.get('generation', 1)}-{more.get('part', 0)}"
        pool = {"name": node, "generation": more.get("generation", 1), "resourceSliceCount": more.get("count", 1)}
        spec = {"driver": driver, "nodeName": node, "pool": pool}
        given = {"sharedCounters": more["counters"]} if "counters" in more else {"devices": list(devices)}
        await self.client.create(RESOURCE_SLICES, RESOURCE_SLICES.manifest(Key("", name), spec={**spec, **given}))
        self.published.append(name)
        return name

    async def unpublish(self, name: str) -> None:
        with contextlib.suppress(NotFound):
            await self.client.delete(RESOURCE_SLICES, Key("", name))

    async def claim(self, name: str, *requests: Mapping[str, Any], **more: Any) -> ResourceClaim:
        """A claim that somebody makes."""
        spec = {"devices": {"requests": list(requests), **more}}
        return await self.client.create(
            RESOURCE_CLAIMS, RESOURCE_CLAIMS.manifest(Key(self.stage.namespace, name), spec=spec)
        )

    async def get_claim(self, name: str) -> ResourceClaim:
        return await self.client.get(RESOURCE_CLAIMS, Key(self.stage.namespace, name))

    async def held_by(self, pod: str) -> list[str]:
        """The devices of the claim behind a pod's extended resources."""
        status = (await self.stage.get(pod)).status.extended_resource_claim_status
        assert status is not None
        return sorted(at.device for at in allocated_devices(await self.get_claim(status.resource_claim_name)))

    async def give(self, claim: str, driver: str, pool: str, device: str) -> None:
        """Allocate a device to a claim as another scheduler would."""
        result = {"request": "r", "driver": driver, "pool": pool, "device": device}
        user = {"resource": "pods", "name": "stranger", "uid": "stranger"}
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
        await self.client.patch(
            RESOURCE_CLAIMS, Key(self.stage.namespace, claim), {"status": status}, subresource="status"
        )

    async def free(self, claim: str) -> None:
        """Do what the claim controller does once no pod uses a claim any more."""
        status = {"allocation": None, "reservedFor": None}
        await self.client.patch(
            RESOURCE_CLAIMS, Key(self.stage.namespace, claim), {"status": status}, subresource="status"
        )

    async def clear(self) -> None:
        for name in self.published:
            await self.unpublish(name)
        for name in self.classes:
            with contextlib.suppress(NotFound):
                await self.client.delete(DEVICE_CLASSES, Key("", name))


@contextlib.asynccontextmanager
async def rack(client: KubeClient, slurm: Slurm, **settings: Any) -> Any:
    """A scene with a rack; profiles in `settings` may be made from the scene's drivers by a function."""
    async with scene(client, slurm) as stage:
        made = Rack(stage)
        stage.configure(**{key: value(made) if callable(value) else value for key, value in settings.items()})
        try:
            yield made
        finally:
            await stage.crash()
            await made.clear()


def exactly(name: str, **request: Any) -> dict[str, Any]:
    """A request of one device of a class, or as `request` says."""
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
    """Every CPU as a device; siblings are numbered apart."""
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
    """Two groups of CPUs without siblings."""
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
