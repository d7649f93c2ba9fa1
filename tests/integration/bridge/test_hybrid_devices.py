# SPDX-License-Identifier: Apache-2.0
"""Devices of nodes that run slurmd and a kubelet, where gres.conf differs from what the DRA driver offers."""

import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.integration.bridge.bridge_stage import GANG, SHARED
from tests.integration.bridge.device_stage import DeviceStage, device_stage, gpus
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.kube import EVENTS, NODES, Key, KubeClient, Unstructured
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import SlurmClient as Slurm
from slinky.slurm import SlurmError, SlurmNotFound

#: The port of the dynamic slurmd; the lab's own slurmd use those above 7000.
PORT = 16999


class NodeEvent(Unstructured, frozen=True):
    """An event of a node."""

    message: str = ""


@contextlib.contextmanager
def dynamic_slurmd(slurm: LabSlurm, host: str, gres: str, conf: str) -> Iterator[None]:
    """A slurmd that registers itself with these devices; `conf` is its part of gres.conf."""
    file = slurm.machine.folder / "keys" / "gres.conf"
    before, daemon = file.read_text(), f"slurmd-{host}"
    file.write_text(f"{before}NodeName={host} {conf}\n")
    settings = f"Feature=dyn CPUs=8 RealMemory=4000 Port={PORT} NodeAddr={slurm.address} Gres={gres}"
    slurm.exec("sh", "-c", "mkdir -p /run/gpus && touch " + " ".join(f"/run/gpus/{n}" for n in range(8)))
    try:
        slurm.exec("scontrol", "reconfigure")
        slurm.machine.start(daemon, ["slurmd", "-D", "-Z", "-N", host, "--conf", settings])
        yield
    finally:
        slurm.stop(daemon)
        file.write_text(before)


@contextlib.asynccontextmanager
async def hybrid_stage(kube: KubeClient, ctld: Slurm, slurm: LabSlurm, conf: str) -> AsyncIterator[DeviceStage]:
    """A running bridge with one node: 8 GPUs in gres.conf, 4 of the driver."""
    async with device_stage(kube, ctld, partition="dyn") as stage:
        host = f"{stage.name}-slurmd"
        with dynamic_slurmd(slurm, host, f"gpu:{stage.gpu}:8", conf.format(gpu=stage.gpu)):
            await eventually(lambda: _is_idle(ctld, host), f"host {host}")
            await stage.create_device_class(stage.gpu)
            await stage.start()
            node = f"{stage.name}-1"
            await stage.publish(node, stage.gpu, gpus(4))
            await kube.create(NODES, NODES.manifest(Key("", node), metadata={"labels": {names.HOST_LABEL: host}}))
            stage.nodes.append(node)
            await stage.report_node(node, amounts={"cpu": "8", "memory": "4000Mi"})
            yield stage
        await stage.clean_up()
        await eventually(lambda: _remove(ctld, host), "the end of the host")


@pytest.fixture
async def hybrid(kube: KubeClient, ctld: Slurm, slurm: LabSlurm) -> AsyncIterator[DeviceStage]:
    """A running bridge with one node, whose devices have indexes."""
    async with hybrid_stage(kube, ctld, slurm, "Name=gpu Type={gpu} File=/run/gpus/[0-7]") as stage:
        yield stage


async def _is_idle(ctld: Slurm, host: str) -> bool:
    try:
        return "IDLE" in (await ctld.node(host)).words
    except SlurmNotFound:
        return False


async def _remove(ctld: Slurm, host: str) -> bool:
    with contextlib.suppress(SlurmError):
        await ctld.delete_nodes(host)
    try:
        await ctld.node(host)
    except SlurmNotFound:
        return True
    return False


async def _message(stage: DeviceStage) -> str:
    """The message of the event about the devices of the node."""
    await stage.wait_event(stage.nodes[0], "DevicesDiffer")
    field = f"involvedObject.name={stage.nodes[0]},reason=DevicesDiffer"
    return " ".join(event.message for event in await stage.client.list(EVENTS.viewed_as(NodeEvent), fields=field))


async def test_pods_use_the_devices_that_gres_conf_and_the_driver_both_have(hybrid: DeviceStage) -> None:
    message = f"Slurm host {hybrid.name}-slurmd has 8 gpu:{hybrid.gpu}, the drivers of the node offer 4."
    assert message in await _message(hybrid)
    # A whole node: Slurm allocates the indexes 0 to 7, and the pod gets the first device.
    await hybrid.create_pod("whole", **hybrid.gpus(1))
    await hybrid.wait_bound("whole")
    assert await hybrid.devices_of("whole") == ["gpu-0"]
    await hybrid.report_phase("whole", "Succeeded", 0)
    # A gang of which two pods share the node.
    label = await hybrid.create_batch_job(2, options={**GANG, names.OPTION + "pods-per-node": "2"})
    for number in range(2):
        await hybrid.create_pod(f"gang-{number}", labels=label, **hybrid.gpus(2))
    for number in range(2):
        await hybrid.wait_bound(f"gang-{number}")
    assert sorted([*await hybrid.devices_of("gang-0"), *await hybrid.devices_of("gang-1")]) == [
        f"gpu-{index}" for index in range(4)
    ]


async def test_a_device_that_the_node_does_not_have_is_not_allocated(hybrid: DeviceStage) -> None:
    for number in range(4):
        await hybrid.create_pod(f"p{number}", annotations=SHARED, **hybrid.gpus(1))
        await hybrid.wait_bound(f"p{number}")
    devices = [device for number in range(4) for device in await hybrid.devices_of(f"p{number}")]
    assert sorted(devices) == [f"gpu-{index}" for index in range(4)]  # one of each pod
    await hybrid.create_pod("fifth", annotations=SHARED, **hybrid.gpus(1))
    await hybrid.create_pod("many", annotations=SHARED, **hybrid.gpus(5))
    await hybrid.wait_reason("many", "SlurmRefused")
    await hybrid.wait_reason("fifth", "SlurmRefused")
    assert len([job for job in await hybrid.jobs() if job.state.running]) == 4
    await hybrid.report_phase("p2", "Succeeded", 0)
    await hybrid.wait_bound("fifth")
    assert await hybrid.devices_of("fifth") == devices[2:3]


async def test_a_host_that_only_counts_its_devices_is_not_used(kube: KubeClient, ctld: Slurm, slurm: LabSlurm) -> None:
    async with hybrid_stage(kube, ctld, slurm, "Name=gpu Type={gpu} Count=8 Flags=CountOnly") as stage:
        assert f"Slurm host {stage.name}-slurmd has" in await _message(stage)
        assert "gpu without indexes" in await _message(stage)
        await stage.create_pod("p", annotations=SHARED, **stage.gpus(1))
        await stage.wait_reason("p", "SlurmRefused")
        assert not [job for job in await stage.jobs() if job.state.running]
