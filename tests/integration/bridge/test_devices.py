# SPDX-License-Identifier: Apache-2.0
"""Devices and cores from Slurm's grant to claims, on a real API server and a real slurmctld."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.integration.bridge.rack import Rack, exactly, gpus, grouped_cpus, rack, single_cpus
from tests.integration.bridge.scene import Event, eventually
from tests.integration.bridge.test_gangs import batch_job

from slinky.bridge import names
from slinky.bridge.config import DeviceProfile
from slinky.bridge.devices.cores import format_ranges, parse_bitmap, parse_ranges
from slinky.bridge.devices.state import allocated_devices
from slinky.bridge.state.views import OUR_PODS, RESOURCE_CLAIMS
from slinky.kube import EVENTS, NAMESPACES, NODES, Key, KubeClient
from slinky.slurm import SlurmClient as Slurm

SHARED = {names.OPTION + "exclusive": "false"}
CPU_PROFILE = {"device_profiles": lambda made: (DeviceProfile(driver=made.cpu, cores=True),)}


@pytest.fixture
async def bay(kube: KubeClient, ctld: Slurm) -> AsyncIterator[Rack]:
    """A running bridge, one node with four GPUs of one class, published in two parts."""
    async with rack(kube, ctld) as made:
        await made.device_class(made.gpu)
        await made.stage.start()
        name = f"{made.stage.name}-1"
        await made.publish(name, made.gpu, gpus(2), count=2)
        await made.stage.node(host=False)
        await eventually(lambda: _told_of_node(made, "DevicesUnclear"), "the complaint")
        await made.publish(name, made.gpu, gpus(2, first=2), count=2, part=1)
        await eventually(lambda: _registered(made, name, f"gpu:{made.gpu}:4"), "four GPUs in Slurm")
        yield made


async def _told_of_node(made: Rack, reason: str) -> bool:
    found = await made.client.list(EVENTS.viewed_as(Event), fields=f"involvedObject.name={made.stage.name}-1")
    return reason in {event.reason for event in found}


async def _registered(made: Rack, host: str, gres: str) -> bool:
    found = await made.stage.slurm.node(host)
    return found.gres == gres and found.comment.startswith("slurm-bridge ")


async def _granted(made: Rack, pod: str) -> Any:
    job = await made.stage.job_of(pod)
    (resources,) = await made.stage.slurm.resources(job.job_id)
    return resources


async def test_a_pod_gets_exactly_the_devices_that_slurm_granted(bay: Rack) -> None:
    for pod, count in (("one", 1), ("two", 2)):
        await bay.stage.pod(
            pod, requests={bay.resource: str(count)}, limits={bay.resource: str(count)}, annotations=SHARED
        )
        await bay.stage.bound(pod)
        (gres,) = (await _granted(bay, pod)).gres
        assert await bay.held_by(pod) == [f"gpu-{number}" for number in parse_ranges(gres.index or "")]
    assert not set(await bay.held_by("one")) & set(await bay.held_by("two"))
    await bay.stage.phase("two", "Succeeded", 0)
    await eventually(lambda: _released(bay, "two"), "the end of the claim")


async def _released(made: Rack, pod: str) -> bool:
    found = await made.client.list(RESOURCE_CLAIMS, namespace=made.stage.namespace)
    return not any(claim.metadata.name.startswith(f"{pod}-extended") for claim in found)


async def test_a_node_that_is_no_host_keeps_nobody_from_devices(bay: Rack) -> None:
    """Slurm refuses a job that names a host it does not know, and a control plane's node is none."""
    stranger = Key("", f"{bay.stage.name}-stranger")
    await bay.client.create(NODES, NODES.manifest(stranger))
    await bay.claim("mine", exactly(bay.gpu))
    await bay.stage.pod("p", resourceClaims=[{"name": "g", "resourceClaimName": "mine"}], annotations=SHARED)
    await bay.stage.bound("p")
    await bay.client.delete(NODES, stranger)


async def test_of_alternatives_the_first_that_some_node_has_is_given(bay: Rack) -> None:
    options = [
        {"name": "best", "deviceClassName": await bay.device_class(f"best.{bay.gpu}")},
        {"name": "many", "deviceClassName": bay.gpu, "count": 8},
        {"name": "few", "deviceClassName": bay.gpu, "count": 2},
        {"name": "one", "deviceClassName": bay.gpu},
    ]
    setting = {"driver": bay.gpu, "parameters": {"apiVersion": "example.com/v1", "kind": "Setting"}}
    config = [{"requests": [f"g/{name}"], "opaque": setting} for name in ("few", "one")]
    await bay.claim("mine", {"name": "g", "firstAvailable": options}, config=config)
    await bay.stage.pod("p", resourceClaims=[{"name": "g", "resourceClaimName": "mine"}], annotations=SHARED)
    await bay.stage.bound("p")
    given = (await bay.get_claim("mine")).status.allocation
    assert given is not None
    assert [result.request for result in given.devices.results] == ["g/few", "g/few"]
    assert [list(told.requests) for told in given.devices.config] == [["g/few"]]


async def test_a_device_that_another_claim_holds_is_told_and_waited_for(bay: Rack) -> None:
    await bay.claim("foreign", exactly(bay.gpu))
    await bay.give("foreign", bay.gpu, bay.stage.nodes[0], "gpu-0")
    await bay.stage.pod("all", requests={bay.resource: "4"}, limits={bay.resource: "4"})
    assert "1 of the granted" in await bay.stage.says("all", "DevicesHeld")
    assert not (await bay.stage.get("all")).spec.node_name
    await bay.free("foreign")
    await bay.stage.bound("all")


async def test_a_job_that_ends_before_its_pods_start_frees_what_they_claimed(bay: Rack) -> None:
    await bay.claim("foreign", exactly(bay.gpu))
    await bay.give("foreign", bay.gpu, bay.stage.nodes[0], "gpu-1")
    amount = {bay.resource: "2"}
    label = await batch_job(bay.stage, 2, **{names.OPTION + "pods-per-node": "2"})
    for number in range(2):
        await bay.stage.pod(f"gang-{number}", labels=label, requests=amount, limits=amount)
    await bay.stage.says("gang-1", "DevicesHeld")
    await eventually(lambda: _hold(bay, 2), "devices of the first pod")
    await bay.stage.slurm.cancel((await bay.stage.job_of("gang-0")).job_id)
    await eventually(lambda: _hold(bay, 0), "the end of all claims")
    await bay.free("foreign")
    for number in range(2):
        key = Key(bay.stage.namespace, f"gang-{number}")
        await bay.client.patch(OUR_PODS, key, {"metadata": {"labels": {names.JOB_LABEL: None}}})
    for number in range(2):
        await bay.stage.bound(f"gang-{number}")
    assert set(await bay.held_by("gang-0")) | set(await bay.held_by("gang-1")) == {f"gpu-{n}" for n in range(4)}


async def _hold(made: Rack, count: int) -> bool:
    found = await made.client.list(RESOURCE_CLAIMS, namespace=made.stage.namespace)
    return sum(len(allocated_devices(claim)) for claim in found if claim.metadata.name != "foreign") == count


async def test_a_claim_of_ones_own_is_filled_with_its_settings_and_protected(bay: Rack) -> None:
    index = f'device.attributes["{bay.gpu}"].index >= 0'
    setting = {"opaque": {"driver": bay.gpu, "parameters": {"sharing": "mps"}}}
    await bay.claim("mine", exactly(bay.gpu, count=2, selectors=[{"cel": {"expression": index}}]), config=[setting])
    await bay.stage.pod("p", resourceClaims=[{"name": "g", "resourceClaimName": "mine"}])
    await bay.stage.bound("p")
    claim = await bay.get_claim("mine")
    assert len(allocated_devices(claim)) == 2
    assert "resource.kubernetes.io/delete-protection" in claim.metadata.finalizers
    assert claim.status.allocation is not None
    (told,) = claim.status.allocation.devices.config
    assert (told.source, told.opaque.parameters if told.opaque else None) == ("FromClaim", {"sharing": "mps"})


async def test_pods_of_one_gang_share_a_claim_on_one_node(bay: Rack) -> None:
    await bay.claim("ours", exactly(bay.gpu, count=3))
    wanted = [{"name": "g", "resourceClaimName": "ours"}]
    label = await batch_job(bay.stage, 2, **{names.OPTION + "pods-per-node": "2"})
    for number in range(2):
        await bay.stage.pod(f"gang-{number}", labels=label, resourceClaims=wanted)
    for number in range(2):
        await bay.stage.bound(f"gang-{number}")
    claim = await bay.get_claim("ours")
    assert {user.name for user in claim.status.reserved_for} == {"gang-0", "gang-1"}
    assert len(allocated_devices(claim)) == 3
    # Another workload waits until the claim is free.
    await bay.stage.pod("other", resourceClaims=wanted, annotations=SHARED)
    assert "in use by pods gang-" in await bay.stage.says("other", "ClaimPending")
    for number in range(2):
        await bay.stage.phase(f"gang-{number}", "Succeeded", 0)
    await bay.free("ours")
    await bay.stage.bound("other")


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"adminAccess": True}, "admin access"),
        ({"allocationMode": "All"}, "all devices of a node"),
        ({"selectors": [{"cel": {"expression": "device.driver.matches('a+')"}}]}, "matches is not known here"),
        ({"selectors": [{"cel": {"expression": 'device.attributes["{gpu}"].index == 1'}}]}, "cannot tell apart"),
        ({"count": 33}, "more than the 32"),
        ({"deviceClassName": "nobody.example.com"}, "device class nobody.example.com does not exist"),
        ({"capacity": {"requests": {"{gpu}/memory": "10Gi"}}}, "Slurm gives whole devices"),
    ],
)
async def test_what_slurm_cannot_honour_is_refused_on_the_pod(bay: Rack, request_: dict[str, Any], said: str) -> None:
    if "adminAccess" in request_:
        marks = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
        await bay.client.patch(NAMESPACES, Key("", bay.stage.namespace), marks)
    filled = _filled(request_, bay.gpu)
    await bay.claim("mine", {"name": "r", "exactly": {"deviceClassName": bay.gpu, **filled}})
    await bay.stage.pod("p", resourceClaims=[{"name": "g", "resourceClaimName": "mine"}])
    assert said in await bay.stage.says("p", "InvalidOption")
    assert await bay.stage.jobs() == []


def _filled(value: Any, gpu: str) -> Any:
    if isinstance(value, dict):
        return {_filled(key, gpu): _filled(item, gpu) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, gpu) for item in value]
    return value.replace("{gpu}", gpu) if isinstance(value, str) else value


async def test_types_by_attribute_and_classes_by_expression(kube: KubeClient, ctld: Slurm) -> None:
    by_model = {"device_profiles": lambda made: (DeviceProfile(driver=made.gpu, type_attribute="model"),)}
    async with rack(kube, ctld, **by_model) as made:
        model = f'device.driver == "{made.gpu}" && device.attributes["{made.gpu}"].model'
        for name in ("a", "b"):
            await made.device_class(f"{name}.{made.gpu}", f'{model} == "{name.upper()}"')
        await made.stage.start()
        node = f"{made.stage.name}-1"
        await made.publish(node, made.gpu, [*gpus(2, model="B"), *gpus(2, model="A", first=2)])
        await made.stage.node()
        assert (await made.stage.slurm.node(node)).gres == "gpu:a:2,gpu:b:2"
        for name, expected in (("b", ["gpu-0", "gpu-1"]), ("a", ["gpu-2"])):
            resource = f"{names.DEVICE_CLASS_PREFIX}{name}.{made.gpu}"
            amount = {resource: str(len(expected))}
            await made.stage.pod(name, requests=amount, limits=amount, annotations=SHARED)
            await made.stage.bound(name)
            assert await made.held_by(name) == expected


async def test_parts_of_a_gpu_are_given_only_beside_parts(kube: KubeClient, ctld: Slurm) -> None:
    def part(name: str, *slices: int) -> dict[str, Any]:
        uses = {f"slice-{number}": {"value": "1"} for number in slices}
        told = {"profile": {"string": f"{len(slices)}g"}, "index": {"int": slices[0]}}
        return {"name": name, "attributes": told, "consumesCounters": [{"counterSet": "gpu-0", "counters": uses}]}

    async with rack(kube, ctld, device_profiles=_one_g) as made:
        await made.device_class(made.gpu)
        await made.stage.start()
        node = f"{made.stage.name}-1"
        counters = {f"slice-{number}": {"value": "1"} for number in range(2)}
        await made.publish(node, made.gpu, [], counters=[{"name": "gpu-0", "counters": counters}], count=2)
        await made.publish(node, made.gpu, [part("whole", 0, 1), part("p-0", 0), part("p-1", 1)], count=2, part=1)
        await made.stage.node()
        assert (await made.stage.slurm.node(node)).gres == "gpu:1g:2"
        # Somebody else has the whole GPU: no part of it can be given.
        await made.claim("foreign", exactly(made.gpu))
        await made.give("foreign", made.gpu, node, "whole")
        amount = {made.resource: "1"}
        await made.stage.pod("p", requests=amount, limits=amount)
        await made.stage.says("p", "DevicesHeld")
        await made.free("foreign")
        await made.stage.bound("p")
        assert await made.held_by("p") == ["p-0"]


def _one_g(made: Rack) -> tuple[DeviceProfile, ...]:
    match = f'device.attributes["{made.gpu}"].profile == "1g"'
    return (DeviceProfile(driver=made.gpu, match=match, type_attribute="profile"),)


async def test_cores_become_cpus_of_a_claim_and_more_than_32_need_groups(kube: KubeClient, ctld: Slurm) -> None:
    async with rack(kube, ctld, **CPU_PROFILE) as made:
        await made.device_class(made.cpu)
        await made.stage.start()
        single, grouped = (f"{made.stage.name}-{number}" for number in (1, 2))
        await made.publish(single, made.cpu, single_cpus(made.cpu, 8, threads=2))
        await made.publish(grouped, made.cpu, grouped_cpus(made.cpu, 64))
        await made.stage.node(1, amounts={"cpu": "16"})
        await made.stage.node(2, amounts={"cpu": "64"})
        host = await made.stage.slurm.node(single)
        assert (host.cpus, host.cores, host.threads) == (16, 8, 2)
        resource = names.DEVICE_CLASS_PREFIX + made.cpu
        where = {"nodeSelector": {"kubernetes.io/hostname": single}}
        for pod, count in (("three", 3), ("four", 4)):
            amount = {resource: str(count)}
            await made.stage.pod(pod, requests=amount, limits=amount, annotations=SHARED, **where)
            await made.stage.bound(pod)
            cores = {number % 8 for number in (int(name[-3:]) for name in await made.held_by(pod))}
            assert cores == set(parse_bitmap((await _granted(made, pod)).core_bitmap))
            assert len(await made.held_by(pod)) == count
        for pod in ("many", "rest"):
            amount = {resource: "40" if pod == "many" else "20"}
            await made.stage.pod(pod, requests=amount, limits=amount, annotations=SHARED)
            assert (await made.stage.bound(pod)).spec.node_name == grouped
            chosen = parse_bitmap((await _granted(made, pod)).core_bitmap)
            assert await made.held_by(pod) == sorted(f"cpu {number}" for number in chosen)
            claim = await made.get_claim(await _claim_name(made, pod))
            assert claim.status.allocation is not None
            (told,) = claim.status.allocation.devices.config
            assert told.opaque is not None
            assert told.opaque.parameters["cpuConfig"] == {"cpuset": format_ranges(chosen)}
        await made.claim("singly", exactly(made.cpu, count=33))
        await made.stage.pod("refused", resourceClaims=[{"name": "c", "resourceClaimName": "singly"}])
        told_ = await made.stage.says("refused", "InvalidOption")
        assert "33 CPUs" in told_


async def _claim_name(made: Rack, pod: str) -> str:
    status = (await made.stage.get(pod)).status.extended_resource_claim_status
    assert status is not None
    return status.resource_claim_name


async def test_a_node_whose_devices_change_is_registered_anew(bay: Rack) -> None:
    node = bay.stage.nodes[0]
    before = (await bay.stage.slurm.node(node)).comment
    amount = {bay.resource: "1"}
    await bay.stage.pod("p", requests=amount, limits=amount, annotations=SHARED)
    await bay.stage.bound("p")
    await bay.publish(node, bay.gpu, gpus(3), generation=2)
    # As long as a job has devices of the node, its indexes keep their meaning.
    await eventually(lambda: _draining(bay, node), "the drain")
    assert (await bay.stage.slurm.node(node)).comment == before
    await bay.stage.phase("p", "Succeeded", 0)
    await eventually(lambda: _registered(bay, node, f"gpu:{bay.gpu}:3"), "three GPUs in Slurm")


async def _draining(made: Rack, host: str) -> bool:
    return (await made.stage.slurm.node(host)).state.draining


async def test_on_a_shared_node_nobody_takes_the_place_of_a_pod_that_still_stops(bay: Rack) -> None:
    """A kubelet counts it until its containers are gone, and would turn the next one away for good."""
    amount = {"cpu": "3"}
    await bay.stage.pod("first", requests=amount, annotations=SHARED)
    await bay.stage.bound("first")
    await bay.stage.phase("first", "Running")
    await bay.stage.pod("second", requests=amount, annotations=SHARED)
    await bay.stage.state(await bay.stage.job_of("second"), "PENDING")
    await bay.stage.slurm.cancel((await bay.stage.job_of("first")).job_id)
    assert "first still uses cpu" in await bay.stage.says("second", "NodeClearing")
    assert not (await bay.stage.get("second")).spec.node_name
    await bay.stage.stopped("first")
    await bay.stage.bound("second")
