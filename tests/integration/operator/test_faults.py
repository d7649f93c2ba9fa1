# SPDX-License-Identifier: Apache-2.0
"""Races, slow answers, lost state and closed connections between a real API server and a real Slurm."""

import asyncio
import contextlib
import secrets
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from tests.integration.operator.stage import BAD, SlurmStage, slurm_stage
from tests.support.waiting import eventually, quiescent

from slinky.api.names import metadata
from slinky.api.nodeset import NODE_SETS
from slinky.kube import PODS, Key, NotFound
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.slurm.cluster import LabSlurm
from slinky.operator.slurm.clusters import REFRESH_TIMEOUT
from slinky.slurm import JobRequest
from slinky.slurm import number as amount

pytestmark = pytest.mark.lab


@pytest.fixture
async def stage(plane: BarePlane, crds: None, own_slurm: LabSlurm, tmp_path: Path) -> AsyncIterator[SlurmStage]:
    """Two workers in service."""
    async with slurm_stage(plane, own_slurm, tmp_path) as stage:
        await stage.apply_workers(2)
        await stage.wait_workers(2)
        yield stage


async def touch_pods(stage: SlurmStage) -> None:
    """Make the operator reconcile the NodeSet."""
    touch = {"metadata": {"annotations": {"example.test/touched": secrets.token_hex(4)}}}
    for name in await stage.pods():
        with contextlib.suppress(NotFound):
            await stage.client.patch(PODS, Key(stage.namespace, name), touch)


async def idle_count(stage: SlurmStage) -> int:
    """How many idle hosts the NodeSet reports."""
    node_set = await stage.client.get(NODE_SETS, Key(stage.namespace, "gpu"))
    return int(node_set.status.slurm_idle)


def lose_state(slurm: LabSlurm) -> None:
    """Restart slurmctld without its saved state."""
    slurm.stop("slurmctld")
    slurm.exec("sh", "-c", "rm -rf /var/lib/slurm/ctld/*")
    slurm.start("slurmctld")


async def test_a_pod_that_is_deleted_while_it_is_patched_stops_no_update(stage: SlurmStage) -> None:
    deleted: list[str] = []

    async def delete_pod(request: web.Request) -> None:
        """Delete each worker once, just before the operator patches it."""
        path, name = request.path, request.path.rpartition("/")[2]
        if request.method == "PATCH" and path.endswith(f"/pods/{name}") and name not in deleted:
            deleted.append(name)
            with contextlib.suppress(NotFound):
                await stage.client.delete(PODS, Key(stage.namespace, name), grace=0)

    stage.proxy.before_write = delete_pod
    await stage.apply_workers(2, "v2")
    await stage.wait_workers(2, "v2")
    assert deleted


async def test_a_bad_image_stops_its_update_before_it_costs_more_than_allowed(stage: SlurmStage) -> None:
    await stage.apply_workers(4)
    await stage.wait_workers(4)
    before = await stage.pod_uids()
    stage.least_ready = 4
    await stage.apply_workers(4, BAD, updateStrategy={"rollingUpdate": {"maxUnavailable": 2}})

    async def is_stuck() -> bool:
        """Whether as many new workers as may be unavailable exist and do not start."""
        pods = (await stage.pods()).values()
        return sum(not pod.ready and bool(pod.spec.node_name) for pod in pods) == 2

    await eventually(is_stuck, "two workers with the bad image")
    # Each touch makes the operator reconcile; it would replace a further worker now if that were allowed.
    for _ in range(3):
        await touch_pods(stage)
        await quiescent(stage.pod_uids, "the set of workers")
    assert stage.least_ready == 2
    assert len(before & await stage.pod_uids()) == 2
    await stage.apply_workers(4, "v3", updateStrategy={"rollingUpdate": {"maxUnavailable": 2}})
    await stage.wait_workers(4, "v3")
    assert stage.least_ready == 2
    assert not stage.undrained_deletions


@pytest.mark.parametrize("delay", [1.5, REFRESH_TIMEOUT + 2])
async def test_a_job_that_started_a_moment_ago_protects_its_worker(stage: SlurmStage, delay: float) -> None:
    """The higher ordinal would be deleted first if both were idle, as they were in the last answer of Slurm."""
    request = JobRequest(
        name="moment",
        partition="ext",
        account="lab",
        flags=["EXTERNAL_JOB"],
        current_working_directory="/",
        tasks=1,
        required_nodes=[f"{stage.prefix}1"],
        memory_per_node=amount(100),
    )
    # Every answer of Slurm takes long, so the operator learns of the job only if it waits for the answer.
    stage.proxy.delays["slurm"] = delay
    await asyncio.sleep(0.5)  # requests from before the delay are answered
    job = await stage.slurm.allocate(request)
    await stage.apply_workers(1)
    if delay > REFRESH_TIMEOUT:

        async def is_reconciled() -> bool:
            node_set = await stage.get(NODE_SETS, "gpu")
            return bool(node_set.status["observedGeneration"] == node_set.metadata.generation)

        await eventually(is_reconciled, "the end of the reconcile that got no answer in time")
        assert not any(metadata.POD_CONDEMNED in pod.metadata.annotations for pod in (await stage.pods()).values())
        stage.proxy.delays.clear()

    async def is_scaled() -> bool:
        return len(await stage.pods()) == 1

    await eventually(is_scaled, "deletion of the idle worker")
    assert [name.rpartition("-")[2] for name in await stage.pods()] == ["1"]
    await stage.slurm.cancel(job.job_id)


async def test_a_slurmctld_that_lost_its_state_costs_no_worker(stage: SlurmStage, own_slurm: LabSlurm) -> None:
    before = await stage.pod_uids()
    lose_state(own_slurm)

    async def sees(count: int) -> bool:
        return await idle_count(stage) == count

    await eventually(lambda: sees(0), "a status without idle hosts")
    await touch_pods(stage)
    await quiescent(stage.pod_uids, "the set of workers")
    assert await stage.pod_uids() == before
    assert not any(metadata.POD_CONDEMNED in pod.metadata.annotations for pod in (await stage.pods()).values())
    for number in range(2):
        await stage.register(f"{stage.prefix}{number}")  # a slurmd registers when slurmctld answers again
    await eventually(lambda: sees(2), "a status with both hosts")
    await stage.wait_workers(2)
    assert await stage.pod_uids() == before


async def test_an_operator_that_cannot_list_pods_is_not_ready_and_does_nothing(stage: SlurmStage) -> None:
    operator = stage.proxy.operator
    assert operator is not None
    operator.kill()
    stage.proxy.closed.add("/pods")
    operator.start()

    def readiness() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{operator.port}/readyz", timeout=5) as answer:
                return f"{answer.status}"
        except urllib.error.HTTPError as error:
            return f"{error.code} {error.read().decode()}"
        except OSError:
            return ""

    async def is_unready() -> bool:
        answer = await asyncio.to_thread(readiness)
        return answer.startswith("503") and "pods" in answer

    async def is_ready() -> bool:
        return await asyncio.to_thread(readiness) == "200"

    await eventually(is_unready, "an answer that names the missing resource")
    await stage.apply_workers(3)
    assert len(await stage.pods()) == 2
    stage.proxy.closed.clear()
    await eventually(is_ready, "readiness")
    await stage.wait_workers(3)
