# SPDX-License-Identifier: Apache-2.0
"""The bridge is killed before and after every single step of a gang's life, and the next one carries on.

Each life is a gang of two pods with a device each: submit, label, claim, bind, end, let go. It is lived again and again
with the death one step later, until a life has no more steps.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from tests.integration.bridge.killer import Killer
from tests.integration.bridge.scene import Scene, eventually, scene
from tests.integration.bridge.test_gangs import GANG

from slinky.bridge import names
from slinky.bridge.app import assemble
from slinky.bridge.state.views import BATCH_JOBS, DEVICE_CLASSES, OUR_PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from slinky.kube import AlreadyExists, Key, KubeClient, connect
from slinky.lab.kubernetes.bare_plane import PlainPlane
from slinky.lab.slurm.cluster import Beside
from slinky.slurm import MintedToken
from slinky.slurm import SlurmClient as Slurm

DRIVER = "kill.example.com"
#: More steps than a life can have: a life that never ends is a failure.
MOST = 40


@pytest.fixture
async def rack(kube: KubeClient, ctld: Slurm) -> AsyncIterator[Scene]:
    """Two nodes with a device each."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    with contextlib.suppress(AlreadyExists):
        manifest = DEVICE_CLASSES.manifest(Key("", DRIVER), spec={"selectors": [selector]})
        await kube.create(DEVICE_CLASSES, manifest)
    async with scene(kube, ctld) as stage:
        for number in (1, 2):
            node = f"{stage.name}-{number}"
            pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]}
            await kube.create(RESOURCE_SLICES, RESOURCE_SLICES.manifest(Key("", node), spec=spec))
        await stage.start()
        for number in (1, 2):
            await stage.node(number)
        await stage.crash()
        yield stage
        for number in (1, 2):
            await kube.delete(RESOURCE_SLICES, Key("", f"{stage.name}-{number}"))


async def born(stage: Scene, life: str) -> list[str]:
    """A gang of two."""
    spec = {
        "parallelism": 2,
        "completions": 2,
        "template": {"spec": {**stage.manifest("x")["spec"], "restartPolicy": "Never"}},
    }
    key = Key(stage.namespace, life)
    await stage.client.create(BATCH_JOBS, BATCH_JOBS.manifest(key, metadata={"annotations": GANG}, spec=spec))
    pods = [f"{life}-{rank}" for rank in range(2)]
    for pod in pods:
        manifest = stage.manifest(pod, labels={names.JOB_NAME: life})
        wanted = {names.DEVICE_CLASS_PREFIX + DRIVER: "1"}
        manifest["spec"]["containers"][0]["resources"] = {"requests": wanted, "limits": wanted}
        await stage.client.create(OUR_PODS, manifest)
    return pods


async def held_once(stage: Scene, pods: list[str]) -> None:
    """One job, both pods on its nodes, a device each and no two the same."""
    (job,) = await stage.jobs()
    granted = [node.node for node in await stage.slurm.resources(job.job_id)]
    assert [(await stage.get(pod)).spec.node_name for pod in pods] == granted
    claims = await stage.client.list(RESOURCE_CLAIMS, namespace=stage.namespace)
    devices = [
        (result.pool, result.device)
        for claim in claims
        if claim.status.allocation
        for result in claim.status.allocation.devices.results
    ]
    assert len(devices) == len(set(devices)) == 2, claims


async def dead_and_gone(stage: Scene, pods: list[str]) -> bool:
    """Nothing is left: no job, no hold on any pod."""
    found = [await stage.find(pod) for pod in pods]
    return not await stage.jobs() and not any(pod and names.FINALIZER in pod.metadata.finalizers for pod in found)


async def live(stage: Scene, pods: list[str]) -> None:
    """What kubelets do: start the gang when it is bound, end it, and forget it."""
    for pod in pods:
        await stage.bound(pod, 60)
    await eventually(lambda: _same(stage, pods), "the gang to be held once", 30)
    for pod in pods:
        await stage.phase(pod, "Succeeded", 0)
    await eventually(lambda: dead_and_gone(stage, pods), "the end of the job and of our hold", 60)


async def _same(stage: Scene, pods: list[str]) -> bool:
    await held_once(stage, pods)
    return True


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_bridge_killed_at_any_step_is_carried_on_by_the_next(
    rack: Scene, plane: PlainPlane, slurm: Beside, after: bool
) -> None:
    tokens = MintedToken(lambda: slurm.jwt_key, "slurm")
    for step in range(1, MOST):
        killer = Killer(step, after=after)
        async with connect(plane.kubeconfig, manager="slurm-bridge") as client, Slurm(slurm.url, tokens) as ctld:
            killer.watch(client, ctld)
            task = asyncio.create_task((await assemble(rack.settings, client, ctld)).run())
            pods = await born(rack, f"life{step}")
            lived = asyncio.create_task(live(rack, pods))
            await asyncio.wait({lived, asyncio.create_task(killer.dead.wait())}, return_when=asyncio.FIRST_COMPLETED)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, BaseExceptionGroup):
                await task
        if killer.dead.is_set():
            await rack.start()
        await lived
        await rack.crash()
        await rack.client.delete(BATCH_JOBS, Key(rack.namespace, f"life{step}"))
        for pod in pods:
            await rack.client.delete(OUR_PODS, Key(rack.namespace, pod), grace=0)
        if not killer.dead.is_set():
            assert step > 8, killer.steps  # submit, two labels, claims, two binds, the end, two farewells
            return
    raise AssertionError(f"a life of more than {MOST} steps: {killer.steps}")
