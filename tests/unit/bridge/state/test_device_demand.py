# SPDX-License-Identifier: Apache-2.0
"""The devices of a workload before its job is submitted: how many, and on which nodes."""

from typing import Any

import pytest
from tests.unit.bridge.build import GPU_DRIVER, cpu_groups, cpu_singles, gpus, needing, node, pod
from tests.unit.bridge.device_cluster import DeviceCluster, gpu_node

from slinky.bridge.devices.inventory import CPUS, GresKind
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload.annotations import OptionError
from slinky.slurm import Host

GPU = GresKind("gpu", GPU_DRIVER)
GPUS, CPU_RESOURCE = "example.com/gpu", "example.com/cpu"


def build_cluster() -> DeviceCluster:
    cluster = DeviceCluster()
    cluster.add_class("gpu", resource=GPUS)
    cluster.add_class("cpu", 'device.driver == "dra.cpu"', resource=CPU_RESOURCE)
    return cluster


def claiming(cluster: DeviceCluster, *counts: int) -> WorkloadPod:
    """A pod with one claim that has a request for each of these numbers of GPUs."""
    requests = [{"name": f"r{n}", "exactly": {"deviceClassName": "gpu", "count": c}} for n, c in enumerate(counts)]
    cluster.add_claim("mine", *requests)
    return pod(spec={"resourceClaims": [{"name": "g", "resourceClaimName": "mine"}]})


def containers(*amounts: dict[str, str]) -> WorkloadPod:
    return pod(spec={"containers": [{"name": f"c{n}", "resources": {"limits": own}} for n, own in enumerate(amounts)]})


# --- the size of a claim


@pytest.mark.parametrize(
    ("amounts", "total"),
    [
        ([{CPU_RESOURCE: "30", GPUS: "4"}], 34),
        ([{CPU_RESOURCE: "20"}, {CPU_RESOURCE: "20"}], 40),
        ([{GPUS: "20"}, {GPUS: "13"}], 33),
        ([{GPUS: "33"}], 33),
    ],
)
async def test_more_devices_than_a_claim_can_have_are_refused_before_submission(
    amounts: list[dict[str, str]], total: int
) -> None:
    cluster = build_cluster()
    cluster.publish(cpu_singles(cores=64))
    with pytest.raises(OptionError, match=f"of pod p: {total} devices are requested in sum, .* at most 32 devices"):
        await cluster.demand.compute([containers(*amounts)])


async def test_the_requests_of_a_users_claim_are_counted_in_sum() -> None:
    cluster = build_cluster()
    with pytest.raises(OptionError, match=r"resource claim g: 40 devices are requested in sum, .* at most 32 devices"):
        await cluster.demand.compute([claiming(cluster, 20, 20)])
    other = build_cluster()
    needs = await other.demand.compute([claiming(other, 16, 16)])
    assert needs.by_pod == {"uid-p": {GPU: 32}}


async def test_groups_of_cpus_count_once_for_each_request() -> None:
    cluster = build_cluster()
    cluster.publish(cpu_singles(cores=64, node="single"))
    cluster.publish(cpu_groups({"numa0": "0-31", "numa1": "32-63"}, "0-63", node="grouped"))
    needs = await cluster.demand.compute([containers({CPU_RESOURCE: "30", GPUS: "4"})])
    assert needs.by_pod == {"uid-p": {CPUS: 30, GPU: 4}}
    assert (needs.suits_node("grouped"), needs.suits_node("single")) == (True, False)
    needs = await cluster.demand.compute([containers({CPU_RESOURCE: "28", GPUS: "4"})])
    assert needs.suits_node("single")


async def test_pods_of_one_template_need_the_same_devices_each() -> None:
    pods = [needing({GPUS: count}, name=f"p{number}") for number, count in enumerate(("2", "2", "1", "0", "0", "2"))]
    needs = await build_cluster().demand.compute(pods)
    assert needs.by_pod == {"uid-p0": {GPU: 2}, "uid-p1": {GPU: 2}, "uid-p2": {GPU: 1}, "uid-p5": {GPU: 2}}


# --- hosts whose devices differ from those of the drivers


async def suitable(cluster: DeviceCluster, count: int, pods_per_node: int = 1) -> set[str]:
    needs = await cluster.demand.compute([needing({GPUS: str(count)})])
    return {own.metadata.name for own in cluster.nodes if needs.suits_node(own.metadata.name, pods_per_node)}


async def test_a_host_with_a_slurmd_provides_at_most_what_its_drivers_offer() -> None:
    cluster = build_cluster()
    gpu_node(cluster, "hybrid", 4, f"gpu:{GPU_DRIVER}:8")
    gpu_node(cluster, "same", 8, f"gpu:{GPU_DRIVER}:8")
    gpu_node(cluster, "external", 4, f"gpu:{GPU_DRIVER}:8", "IDLE", "EXTERNAL")
    assert await suitable(cluster, 4) == {"hybrid", "same", "external"}
    assert await suitable(cluster, 5) == {"same", "external"}
    assert await suitable(cluster, 2, pods_per_node=3) == {"same", "external"}


async def test_a_host_is_excluded_while_its_real_devices_are_in_use() -> None:
    cluster = build_cluster()
    gres = f"gpu:{GPU_DRIVER}:8"
    gpu_node(cluster, "hybrid", 4, gres)
    cluster.set_host(Host("hybrid", words=("MIXED",), gres=gres, gres_used=f"gpu:{GPU_DRIVER}:4(IDX:0-2,5)"))
    assert await suitable(cluster, 1) == {"hybrid"}
    assert await suitable(cluster, 2) == set()
    cluster.set_host(Host("hybrid", words=("MIXED",), gres=gres, gres_used=f"gpu:{GPU_DRIVER}:3(IDX:1-2,5)"))
    assert cluster.notified == 1
    assert await suitable(cluster, 2) == {"hybrid"}


async def test_a_host_without_indexes_or_devices_is_excluded() -> None:
    cluster = build_cluster()
    gpu_node(cluster, "same", 1, f"gpu:{GPU_DRIVER}:1")
    gpu_node(cluster, "unindexed", 4, f"gpu:{GPU_DRIVER}:4")
    cluster.set_host(Host("unindexed", words=("IDLE",), gres=f"gpu:{GPU_DRIVER}:4", gres_used=f"gpu:{GPU_DRIVER}:0"))
    cluster.nodes.put(node("no-driver"))
    cluster.set_host(Host("no-driver", words=("IDLE",), gres=f"gpu:{GPU_DRIVER}:4"))
    assert await suitable(cluster, 1) == {"same"}


async def test_a_pod_without_devices_may_use_every_host() -> None:
    cluster = build_cluster()
    gpu_node(cluster, "hybrid", 4, f"gpu:{GPU_DRIVER}:8,nic:2")
    needs = await cluster.demand.compute([needing({"cpu": "1"})])
    assert not needs.restricts_nodes


@pytest.mark.parametrize("change", ["slices", "gres"])
async def test_waiting_jobs_are_revised_when_a_host_can_provide_more(change: str) -> None:
    cluster = build_cluster()
    gpu_node(cluster, "hybrid", 4, f"gpu:{GPU_DRIVER}:8")
    assert await suitable(cluster, 5) == set()
    assert cluster.notified == 0
    if change == "slices":
        cluster.publish(gpus(8, node="hybrid", generation=2))
    else:
        cluster.set_host(Host("hybrid", words=("IDLE",), gres=f"gpu:{GPU_DRIVER}:4"))
    assert cluster.notified == 1
    assert await suitable(cluster, 5 if change == "slices" else 4) == {"hybrid"}


async def test_an_incomplete_driver_is_not_a_mismatch() -> None:
    cluster = build_cluster()
    part: Any = gpus(4, node="hybrid", count=2)
    cluster.add_node("hybrid", part, Host("hybrid", words=("IDLE",), gres=f"gpu:{GPU_DRIVER}:8"))
    assert await suitable(cluster, 5) == {"hybrid"}
