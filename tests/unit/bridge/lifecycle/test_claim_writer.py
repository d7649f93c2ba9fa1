# SPDX-License-Identifier: Apache-2.0
"""Claims get exactly the devices of their job, none twice, and nodes do not wait for each other."""

import asyncio

import pytest
from tests.unit.bridge.build import GPU_DRIVER, needing
from tests.unit.bridge.device_cluster import DeviceCluster, allocated, gpu_node

from slinky.bridge.lifecycle.claim_writer import UnsuitableDevices
from slinky.bridge.state.devices import allocated_devices
from slinky.slurm import Gres

GPUS = "example.com/gpu"


def build_cluster() -> DeviceCluster:
    cluster = DeviceCluster()
    cluster.add_class("gpu", resource=GPUS)
    for name in ("n1", "n2"):
        gpu_node(cluster, name, 4, f"gpu:{GPU_DRIVER}:8")
    return cluster


def devices(cluster: DeviceCluster) -> list[str]:
    return sorted(
        f"{at.pool}/{at.device}" for claim in cluster.server.claims.values() for at in allocated_devices(claim)
    )


async def test_a_slow_request_delays_only_the_pods_of_its_node() -> None:
    cluster = build_cluster()
    cluster.server.blocked["slow"] = asyncio.Event()
    record = {name: allocated(name, Gres("gpu", GPU_DRIVER, 2, "0-1")) for name in ("n1", "n2")}
    slow = asyncio.create_task(cluster.claims.prepare(needing({GPUS: "1"}, "slow"), "n1", record["n1"]))
    beside = asyncio.create_task(cluster.claims.prepare(needing({GPUS: "1"}, "beside"), "n1", record["n1"]))
    await asyncio.wait_for(cluster.claims.prepare(needing({GPUS: "1"}, "other"), "n2", record["n2"]), 5)
    assert devices(cluster) == ["n2/gpu-0"]
    assert not slow.done()
    cluster.server.blocked["slow"].set()
    await asyncio.gather(slow, beside)
    assert devices(cluster) == ["n1/gpu-0", "n1/gpu-1", "n2/gpu-0"]


async def test_a_whole_node_job_uses_the_devices_that_the_node_has() -> None:
    cluster = build_cluster()
    await cluster.claims.prepare(needing({GPUS: "3"}), "n1", allocated("n1", Gres("gpu", GPU_DRIVER, 8, "0-7")))
    assert devices(cluster) == ["n1/gpu-0", "n1/gpu-1", "n1/gpu-2"]


async def test_an_allocation_without_devices_names_its_host_and_the_reason() -> None:
    cluster = build_cluster()
    with pytest.raises(UnsuitableDevices) as failure:
        await cluster.claims.prepare(needing({GPUS: "1"}), "n1", allocated("n1", Gres("gpu", GPU_DRIVER, 1, "5")))
    assert (failure.value.host, failure.value.node) == ("n1", "n1")
    assert failure.value.reason.endswith("the drivers of the node do not offer gpu 5")
    assert devices(cluster) == []
