# SPDX-License-Identifier: Apache-2.0
"""Devices and cores that Slurm grants become allocations of claims, on a real API server and a real slurmctld."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from tests.integration.bridge.bridge_stage import SHARED, BridgeStage
from tests.integration.bridge.device_stage import (
    DeviceStage,
    device_stage,
    exactly,
    gpus,
    grouped_cpus,
    registered,
    running_gpu_stage,
    single_cpus,
)
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.bridge.config import DeviceProfile
from slinky.bridge.devices.cores import format_ranges, parse_bitmap, parse_ranges
from slinky.bridge.state.devices import allocated_devices
from slinky.bridge.views import OUR_PODS, RESOURCE_CLAIMS
from slinky.kube import NAMESPACES, NODES, Key, KubeClient
from slinky.slurm import SlurmClient as Slurm

CPU_PROFILE = {"device_profiles": lambda stage: (DeviceProfile(driver=stage.cpu, cores=True),)}


@pytest.fixture
async def gpu_stage(kube: KubeClient, ctld: Slurm) -> AsyncIterator[DeviceStage]:
    async with running_gpu_stage(kube, ctld) as stage:
        yield stage


async def _granted(stage: DeviceStage, pod: str) -> Any:
    job = await stage.wait_job(pod)
    (resources,) = await stage.slurm.resources(job.job_id)
    return resources


async def test_a_pod_gets_exactly_the_devices_that_slurm_granted(gpu_stage: DeviceStage) -> None:
    for pod, count in (("one", 1), ("two", 2)):
        await gpu_stage.create_pod(
            pod,
            requests={gpu_stage.gpu_resource: str(count)},
            limits={gpu_stage.gpu_resource: str(count)},
            annotations=SHARED,
        )
        await gpu_stage.wait_bound(pod)
        (gres,) = (await _granted(gpu_stage, pod)).gres
        assert await gpu_stage.devices_of(pod) == [f"gpu-{number}" for number in parse_ranges(gres.index or "")]
    assert not set(await gpu_stage.devices_of("one")) & set(await gpu_stage.devices_of("two"))
    await gpu_stage.report_phase("two", "Succeeded", 0)
    await eventually(lambda: _released(gpu_stage, "two"), "the end of the claim")


async def _released(stage: DeviceStage, pod: str) -> bool:
    claims = await stage.client.list(RESOURCE_CLAIMS, namespace=stage.namespace)
    return not any(claim.metadata.name.startswith(f"{pod}-extended") for claim in claims)


async def test_a_node_that_is_no_host_does_not_block_devices(gpu_stage: DeviceStage) -> None:
    """Slurm refuses a job that names an unknown host, and the node of a control plane is no host."""
    stranger = Key("", f"{gpu_stage.name}-stranger")
    await gpu_stage.client.create(NODES, NODES.manifest(stranger))
    await gpu_stage.create_claim("mine", exactly(gpu_stage.gpu))
    await gpu_stage.create_pod("p", resourceClaims=[{"name": "g", "resourceClaimName": "mine"}], annotations=SHARED)
    await gpu_stage.wait_bound("p")
    await gpu_stage.client.delete(NODES, stranger)


async def test_the_first_alternative_that_some_node_has_is_allocated(gpu_stage: DeviceStage) -> None:
    options = [
        {"name": "best", "deviceClassName": await gpu_stage.create_device_class(f"best.{gpu_stage.gpu}")},
        {"name": "many", "deviceClassName": gpu_stage.gpu, "count": 8},
        {"name": "few", "deviceClassName": gpu_stage.gpu, "count": 2},
        {"name": "one", "deviceClassName": gpu_stage.gpu},
    ]
    setting = {"driver": gpu_stage.gpu, "parameters": {"apiVersion": "example.com/v1", "kind": "Setting"}}
    config = [{"requests": [f"g/{name}"], "opaque": setting} for name in ("few", "one")]
    await gpu_stage.create_claim("mine", {"name": "g", "firstAvailable": options}, config=config)
    await gpu_stage.create_pod("p", resourceClaims=[{"name": "g", "resourceClaimName": "mine"}], annotations=SHARED)
    await gpu_stage.wait_bound("p")
    allocation = (await gpu_stage.get_claim("mine")).status.allocation
    assert allocation is not None
    assert [result.request for result in allocation.devices.results] == ["g/few", "g/few"]
    assert [list(config.requests) for config in allocation.devices.config] == [["g/few"]]


async def test_a_pod_waits_for_a_device_of_another_claim_and_shows_it(gpu_stage: DeviceStage) -> None:
    await gpu_stage.create_claim("foreign", exactly(gpu_stage.gpu))
    await gpu_stage.allocate("foreign", gpu_stage.gpu, gpu_stage.nodes[0], "gpu-0")
    await gpu_stage.create_pod("all", requests={gpu_stage.gpu_resource: "4"}, limits={gpu_stage.gpu_resource: "4"})
    assert "1 of the allocated" in await gpu_stage.wait_reason("all", "DevicesHeld")
    assert not (await gpu_stage.get_pod("all")).spec.node_name
    await gpu_stage.deallocate("foreign")
    await gpu_stage.wait_bound("all")


async def test_a_job_that_ends_before_its_pods_start_frees_their_devices(gpu_stage: DeviceStage) -> None:
    await gpu_stage.create_claim("foreign", exactly(gpu_stage.gpu))
    await gpu_stage.allocate("foreign", gpu_stage.gpu, gpu_stage.nodes[0], "gpu-1")
    amount = {gpu_stage.gpu_resource: "2"}
    label = await gpu_stage.create_batch_job(2, options={names.OPTION + "pods-per-node": "2"})
    for number in range(2):
        await gpu_stage.create_pod(f"gang-{number}", labels=label, requests=amount, limits=amount)
    await gpu_stage.wait_reason("gang-1", "DevicesHeld")
    await eventually(lambda: _are_allocated(gpu_stage, 2), "devices of the first pod")
    await gpu_stage.slurm.cancel((await gpu_stage.wait_job("gang-0")).job_id)
    await eventually(lambda: _are_allocated(gpu_stage, 0), "no allocated device")
    await gpu_stage.deallocate("foreign")
    for number in range(2):
        key = Key(gpu_stage.namespace, f"gang-{number}")
        await gpu_stage.client.patch(OUR_PODS, key, {"metadata": {"labels": {names.JOB_LABEL: None}}})
    for number in range(2):
        await gpu_stage.wait_bound(f"gang-{number}")
    assert set(await gpu_stage.devices_of("gang-0")) | set(await gpu_stage.devices_of("gang-1")) == {
        f"gpu-{n}" for n in range(4)
    }


async def _are_allocated(stage: DeviceStage, count: int) -> bool:
    claims = await stage.client.list(RESOURCE_CLAIMS, namespace=stage.namespace)
    return sum(len(allocated_devices(claim)) for claim in claims if claim.metadata.name != "foreign") == count


async def test_a_users_claim_is_allocated_with_its_configuration_and_protected(gpu_stage: DeviceStage) -> None:
    index = f'device.attributes["{gpu_stage.gpu}"].index >= 0'
    setting = {"opaque": {"driver": gpu_stage.gpu, "parameters": {"sharing": "mps"}}}
    await gpu_stage.create_claim(
        "mine", exactly(gpu_stage.gpu, count=2, selectors=[{"cel": {"expression": index}}]), config=[setting]
    )
    await gpu_stage.create_pod("p", resourceClaims=[{"name": "g", "resourceClaimName": "mine"}])
    await gpu_stage.wait_bound("p")
    claim = await gpu_stage.get_claim("mine")
    assert len(allocated_devices(claim)) == 2
    assert "resource.kubernetes.io/delete-protection" in claim.metadata.finalizers
    assert claim.status.allocation is not None
    (config,) = claim.status.allocation.devices.config
    assert (config.source, config.opaque.parameters if config.opaque else None) == ("FromClaim", {"sharing": "mps"})


async def test_pods_of_one_gang_share_a_claim_on_one_node(gpu_stage: DeviceStage) -> None:
    await gpu_stage.create_claim("ours", exactly(gpu_stage.gpu, count=3))
    wanted = [{"name": "g", "resourceClaimName": "ours"}]
    label = await gpu_stage.create_batch_job(2, options={names.OPTION + "pods-per-node": "2"})
    for number in range(2):
        await gpu_stage.create_pod(f"gang-{number}", labels=label, resourceClaims=wanted)
    for number in range(2):
        await gpu_stage.wait_bound(f"gang-{number}")
    claim = await gpu_stage.get_claim("ours")
    assert {user.name for user in claim.status.reserved_for} == {"gang-0", "gang-1"}
    assert len(allocated_devices(claim)) == 3
    # Another workload waits until the claim is free.
    await gpu_stage.create_pod("other", resourceClaims=wanted, annotations=SHARED)
    assert "in use by pods gang-" in await gpu_stage.wait_reason("other", "ClaimPending")
    for number in range(2):
        await gpu_stage.report_phase(f"gang-{number}", "Succeeded", 0)
    await gpu_stage.deallocate("ours")
    await gpu_stage.wait_bound("other")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"adminAccess": True}, "has adminAccess, which is not supported"),
        ({"allocationMode": "All"}, "all devices of a node"),
        (
            {"selectors": [{"cel": {"expression": "device.driver.matches('a+')"}}]},
            "function matches is not supported",
        ),
        (
            {"selectors": [{"cel": {"expression": 'device.attributes["{gpu}"].index == 1'}}]},
            "selects only some of the devices that Slurm counts",
        ),
        ({"count": 33}, "at most 32 devices"),
        ({"deviceClassName": "nobody.example.com"}, "device class nobody.example.com does not exist"),
        ({"capacity": {"requests": {"{gpu}/memory": "10Gi"}}}, "Slurm allocates whole ones"),
    ],
)
async def test_an_unsupported_claim_is_refused_on_the_pod(
    gpu_stage: DeviceStage, request_: dict[str, Any], message: str
) -> None:
    if "adminAccess" in request_:
        labels = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
        await gpu_stage.client.patch(NAMESPACES, Key("", gpu_stage.namespace), labels)
    filled = _filled(request_, gpu_stage.gpu)
    await gpu_stage.create_claim("mine", {"name": "r", "exactly": {"deviceClassName": gpu_stage.gpu, **filled}})
    await gpu_stage.create_pod("p", resourceClaims=[{"name": "g", "resourceClaimName": "mine"}])
    assert message in await gpu_stage.wait_reason("p", "InvalidOption")
    assert await gpu_stage.jobs() == []


async def test_more_devices_in_sum_than_a_claim_can_have_are_refused_on_the_pod(gpu_stage: DeviceStage) -> None:
    requests = [{"name": name, "exactly": {"deviceClassName": gpu_stage.gpu, "count": 20}} for name in ("a", "b")]
    await gpu_stage.create_claim("mine", *requests)
    await gpu_stage.create_pod("claimed", resourceClaims=[{"name": "g", "resourceClaimName": "mine"}])
    await gpu_stage.create_pod("extended", **gpu_stage.gpus(33))
    assert "40 devices are requested in sum" in await gpu_stage.wait_reason("claimed", "InvalidOption")
    assert "33 devices are requested in sum" in await gpu_stage.wait_reason("extended", "InvalidOption")
    assert await gpu_stage.jobs() == []


def _filled(value: Any, gpu: str) -> Any:
    if isinstance(value, dict):
        return {_filled(key, gpu): _filled(item, gpu) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, gpu) for item in value]
    return value.replace("{gpu}", gpu) if isinstance(value, str) else value


async def test_gres_types_come_from_an_attribute_and_classes_from_expressions(kube: KubeClient, ctld: Slurm) -> None:
    by_model = {"device_profiles": lambda stage: (DeviceProfile(driver=stage.gpu, type_attribute="model"),)}
    async with device_stage(kube, ctld, **by_model) as stage:
        model = f'device.driver == "{stage.gpu}" && device.attributes["{stage.gpu}"].model'
        for name in ("a", "b"):
            await stage.create_device_class(f"{name}.{stage.gpu}", f'{model} == "{name.upper()}"')
        await stage.start()
        node = f"{stage.name}-1"
        await stage.publish(node, stage.gpu, [*gpus(2, model="B"), *gpus(2, model="A", first=2)])
        await stage.add_node()
        assert (await stage.slurm.node(node)).gres == "gpu:a:2,gpu:b:2"
        for name, expected in (("b", ["gpu-0", "gpu-1"]), ("a", ["gpu-2"])):
            resource = f"{names.DEVICE_CLASS_PREFIX}{name}.{stage.gpu}"
            amount = {resource: str(len(expected))}
            await stage.create_pod(name, requests=amount, limits=amount, annotations=SHARED)
            await stage.wait_bound(name)
            assert await stage.devices_of(name) == expected


async def test_partitions_of_a_gpu_are_not_allocated_beside_the_whole_gpu(kube: KubeClient, ctld: Slurm) -> None:
    def part(name: str, *slices: int) -> dict[str, Any]:
        uses = {f"slice-{number}": {"value": "1"} for number in slices}
        attributes = {"profile": {"string": f"{len(slices)}g"}, "index": {"int": slices[0]}}
        return {"name": name, "attributes": attributes, "consumesCounters": [{"counterSet": "gpu-0", "counters": uses}]}

    async with device_stage(kube, ctld, device_profiles=_one_g) as stage:
        await stage.create_device_class(stage.gpu)
        await stage.start()
        node = f"{stage.name}-1"
        counters = {f"slice-{number}": {"value": "1"} for number in range(2)}
        await stage.publish(node, stage.gpu, [], counters=[{"name": "gpu-0", "counters": counters}], parts=2)
        await stage.publish(node, stage.gpu, [part("whole", 0, 1), part("p-0", 0), part("p-1", 1)], parts=2, part=1)
        await stage.add_node()
        assert (await stage.slurm.node(node)).gres == "gpu:1g:2"
        # Another scheduler has allocated the whole GPU: no part of it is free.
        await stage.create_claim("foreign", exactly(stage.gpu))
        await stage.allocate("foreign", stage.gpu, node, "whole")
        amount = {stage.gpu_resource: "1"}
        await stage.create_pod("p", requests=amount, limits=amount)
        await stage.wait_reason("p", "DevicesHeld")
        await stage.deallocate("foreign")
        await stage.wait_bound("p")
        assert await stage.devices_of("p") == ["p-0"]


def _one_g(stage: DeviceStage) -> tuple[DeviceProfile, ...]:
    match = f'device.attributes["{stage.gpu}"].profile == "1g"'
    return (DeviceProfile(driver=stage.gpu, match=match, type_attribute="profile"),)


async def test_cores_become_cpus_of_a_claim_and_more_than_32_need_groups(kube: KubeClient, ctld: Slurm) -> None:
    async with device_stage(kube, ctld, **CPU_PROFILE) as stage:
        await stage.create_device_class(stage.cpu)
        await stage.start()
        single, grouped = (f"{stage.name}-{number}" for number in (1, 2))
        await stage.publish(single, stage.cpu, single_cpus(stage.cpu, 8, threads=2))
        await stage.publish(grouped, stage.cpu, grouped_cpus(stage.cpu, 64))
        await stage.add_node(1, amounts={"cpu": "16"})
        await stage.add_node(2, amounts={"cpu": "64"})
        host = await stage.slurm.node(single)
        assert (host.cpus, host.cores, host.threads) == (16, 8, 2)
        resource = names.DEVICE_CLASS_PREFIX + stage.cpu
        where = {"nodeSelector": {"kubernetes.io/hostname": single}}
        for pod, count in (("three", 3), ("four", 4)):
            amount = {resource: str(count)}
            await stage.create_pod(pod, requests=amount, limits=amount, annotations=SHARED, **where)
            await stage.wait_bound(pod)
            cores = {number % 8 for number in (int(name[-3:]) for name in await stage.devices_of(pod))}
            assert cores == set(parse_bitmap((await _granted(stage, pod)).core_bitmap))
            assert len(await stage.devices_of(pod)) == count
        for pod in ("many", "rest"):
            amount = {resource: "40" if pod == "many" else "20"}
            await stage.create_pod(pod, requests=amount, limits=amount, annotations=SHARED)
            assert (await stage.wait_bound(pod)).spec.node_name == grouped
            chosen = parse_bitmap((await _granted(stage, pod)).core_bitmap)
            assert await stage.devices_of(pod) == sorted(f"cpu {number}" for number in chosen)
            claim = await stage.extended_claim(pod)
            assert claim.status.allocation is not None
            (config,) = claim.status.allocation.devices.config
            assert config.opaque is not None
            assert config.opaque.parameters["cpuConfig"] == {"cpuset": format_ranges(chosen)}
        await stage.create_claim("singly", exactly(stage.cpu, count=33))
        await stage.create_pod("refused", resourceClaims=[{"name": "c", "resourceClaimName": "singly"}])
        assert "33 CPUs" in await stage.wait_reason("refused", "InvalidOption")


async def test_a_node_whose_devices_change_is_registered_again(gpu_stage: DeviceStage) -> None:
    node = gpu_stage.nodes[0]
    before = (await gpu_stage.slurm.node(node)).comment
    amount = {gpu_stage.gpu_resource: "1"}
    await gpu_stage.create_pod("p", requests=amount, limits=amount, annotations=SHARED)
    await gpu_stage.wait_bound("p")
    await gpu_stage.publish(node, gpu_stage.gpu, gpus(3), generation=2)
    # As long as a job has devices of the node, device indexes must not change.
    await eventually(lambda: _draining(gpu_stage, node), "the drain")
    assert (await gpu_stage.slurm.node(node)).comment == before
    await gpu_stage.report_phase("p", "Succeeded", 0)
    await eventually(lambda: registered(gpu_stage, node, f"gpu:{gpu_stage.gpu}:3"), "three GPUs in Slurm")


async def _draining(stage: DeviceStage, host: str) -> bool:
    return (await stage.slurm.node(host)).state.draining


async def test_on_a_shared_node_a_pod_waits_for_the_resources_of_a_stopping_pod(gpu_stage: DeviceStage) -> None:
    """A kubelet counts a pod until its containers are gone, and would reject the next pod for good."""
    amount = {"cpu": "3"}
    await gpu_stage.create_pod("first", requests=amount, annotations=SHARED)
    await gpu_stage.wait_bound("first")
    await gpu_stage.report_phase("first", "Running")
    await gpu_stage.create_pod("second", requests=amount, annotations=SHARED)
    await gpu_stage.wait_state(await gpu_stage.wait_job("second"), "PENDING")
    await gpu_stage.slurm.cancel((await gpu_stage.wait_job("first")).job_id)
    assert "first of an earlier job still uses cpu" in await gpu_stage.wait_reason("second", "NodeClearing")
    assert not (await gpu_stage.get_pod("second")).spec.node_name
    await gpu_stage.report_stopped("first")
    await gpu_stage.wait_bound("second")


async def test_gpus_of_a_device_plugin_are_never_given_to_more_pods_than_there_are(stage: BridgeStage) -> None:
    """A device plugin reports its GPUs in the status of the node; the kubelet chooses the devices of a pod."""
    resource = "nvidia.com/gpu"
    node = await stage.add_node(2, amounts={resource: "2"})
    assert (await stage.slurm.node(node)).gres == "gpu:2"
    waiting = {f"p{number}" for number in range(5)}
    for name in sorted(waiting):
        await stage.create_pod(name, requests={resource: "1"}, limits={resource: "1"}, annotations=SHARED)
    while waiting:
        running = await eventually(partial(_bound, stage, waiting, min(2, len(waiting))), "pods with GPUs")
        await stage.settle()
        assert await _bound(stage, waiting, 0) == running
        for name in sorted(running):
            assert (await stage.get_pod(name)).spec.node_name == node
            assert "gres/gpu:1" in (await stage.wait_job(name)).tres_per_node
            await stage.report_phase(name, "Succeeded", 0)
        waiting -= running
    assert not await stage.client.list(RESOURCE_CLAIMS, namespace=stage.namespace)


async def _bound(stage: BridgeStage, pods: set[str], count: int) -> set[str]:
    """Those of these pods that have a node, if at least so many have one; otherwise none."""
    bound = {name for name in pods if (await stage.get_pod(name)).spec.node_name}
    return bound if len(bound) >= count else set()
