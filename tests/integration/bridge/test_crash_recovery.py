# SPDX-License-Identifier: Apache-2.0
"""The bridge crashes before and after every write of a gang's life, and the next bridge continues.

Each gang has two pods with a device each: submit, label, claim, bind, end, release. The test runs one gang after the
other and crashes one write later each time, until a gang ends before the crash.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.integration.bridge.bridge_stage import cancel
from tests.integration.bridge.crash_injection import CrashInjector
from tests.integration.bridge.device_stage import DeviceStage, device_stage
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.bridge.app import assemble
from slinky.bridge.views import BATCH_JOBS, RESOURCE_CLAIMS
from slinky.kube import Key, KubeClient, connect
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import MintedToken
from slinky.slurm import SlurmClient as Slurm

#: More writes than a gang can need: a gang that needs more never ends.
MOST_WRITES = 40
#: Submit, two labels, claims, two bindings, the end, two finalizers.
LEAST_WRITES = 8


@pytest.fixture
async def stage(kube: KubeClient, ctld: Slurm) -> AsyncIterator[DeviceStage]:
    """Two nodes with a device each, and no bridge."""
    async with device_stage(kube, ctld) as stage:
        await stage.create_device_class(stage.gpu)
        for number in (1, 2):
            await stage.publish(f"{stage.name}-{number}", stage.gpu, [{"name": "gpu-0"}])
        await stage.start()
        for number in (1, 2):
            await stage.add_node(number)
        await stage.crash()
        yield stage


async def create_gang(stage: DeviceStage, name: str) -> list[str]:
    """A gang of two pods with a device each."""
    label = await stage.create_batch_job(2, name, watched=False)
    pods = [f"{name}-{rank}" for rank in range(2)]
    for pod in pods:
        await stage.create_pod(pod, labels=label, **stage.gpus(1))
    return pods


async def has_one_job_and_distinct_devices(stage: DeviceStage, pods: list[str]) -> bool:
    (job,) = await stage.jobs()
    granted = [node.node for node in await stage.slurm.resources(job.job_id)]
    assert [(await stage.get_pod(pod)).spec.node_name for pod in pods] == granted
    claims = await stage.client.list(RESOURCE_CLAIMS, namespace=stage.namespace)
    devices = [
        (result.pool, result.device)
        for claim in claims
        if claim.status.allocation
        for result in claim.status.allocation.devices.results
    ]
    assert len(devices) == len(set(devices)) == 2, claims
    return True


async def is_released(stage: DeviceStage, pods: list[str]) -> bool:
    """No job is left, and no pod has the finalizer."""
    found = [await stage.find_pod(pod) for pod in pods]
    return not await stage.jobs() and not any(pod and names.FINALIZER in pod.metadata.finalizers for pod in found)


async def run_gang(stage: DeviceStage, pods: list[str]) -> None:
    """Do what kubelets do with a gang, from its start to its end."""
    for pod in pods:
        await stage.wait_bound(pod)
    await eventually(lambda: has_one_job_and_distinct_devices(stage, pods), "one job and distinct devices")
    for pod in pods:
        await stage.report_phase(pod, "Succeeded", 0)
    await eventually(lambda: is_released(stage, pods), "the end of the job and no finalizer")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_bridge_that_crashes_at_any_write_is_continued_by_the_next(
    stage: DeviceStage, plane: BarePlane, slurm: LabSlurm, after: bool
) -> None:
    tokens = MintedToken(lambda: slurm.jwt_key, "slurm")
    for write in range(1, MOST_WRITES):
        injector = CrashInjector(write, after=after)
        async with connect(plane.kubeconfig, manager="slurm-bridge") as client, Slurm(slurm.url, tokens) as ctld:
            injector.attach(client, ctld)
            bridge = asyncio.create_task((await assemble(stage.settings, client, ctld)).run())
            pods = await create_gang(stage, f"gang{write}")
            gang, crash = asyncio.create_task(run_gang(stage, pods)), asyncio.create_task(injector.crashed.wait())
            await asyncio.wait({gang, crash}, return_when=asyncio.FIRST_COMPLETED)
            crash.cancel()
            await cancel(bridge)
        if injector.crashed.is_set():
            await stage.start()
        await gang
        await stage.crash()
        await stage.client.delete(BATCH_JOBS, Key(stage.namespace, f"gang{write}"))
        for pod in pods:
            await stage.delete_pod(pod, grace=0)
        if not injector.crashed.is_set():
            assert write > LEAST_WRITES, injector.writes
            return
    raise AssertionError(f"a gang needs more than {MOST_WRITES} writes: {injector.writes}")
