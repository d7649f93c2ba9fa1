# SPDX-License-Identifier: Apache-2.0
"""Bad luck between a real API server and a real Slurm."""

import asyncio
import contextlib
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web
from tests.integration.operator.stage import BAD, Stage, stage, until

from slinky.api.names import metadata
from slinky.api.nodeset import NODE_SETS
from slinky.kube import PODS, Key, NotFound
from slinky.lab.kubernetes.bare_plane import PlainPlane
from slinky.lab.slurm.cluster import Beside
from slinky.operator.slurm.clusters import LOOK
from slinky.slurm import JobRequest
from slinky.slurm import number as amount

pytestmark = pytest.mark.lab


@pytest.fixture
async def set_of_two(plane: PlainPlane, crds: None, alone: Beside, tmp_path: Path) -> AsyncIterator[Stage]:
    """Two workers, settled."""
    async with stage(plane, alone, tmp_path) as made:
        await made.workers(2)
        await until(partial(made.settled, 2), "two workers", 90)
        yield made


async def test_a_pod_that_goes_while_it_is_patched_stops_no_update(set_of_two: Stage) -> None:
    raced: list[str] = []

    async def snatch(request: web.Request) -> None:
        """Somebody deletes each worker once, just before the operator marks it."""
        path, name = request.path, request.path.rpartition("/")[2]
        if request.method == "PATCH" and path.endswith(f"/pods/{name}") and name not in raced:
            raced.append(name)
            with contextlib.suppress(NotFound):
                await set_of_two.client.delete(PODS, Key(set_of_two.namespace, name), grace=0)

    set_of_two.gates.meanwhile = snatch
    await set_of_two.workers(2, "v2")
    await until(partial(set_of_two.settled, 2, "v2"), "the update", 120)
    assert raced


async def test_a_bad_image_stops_its_update_before_it_costs_more_than_allowed(set_of_two: Stage) -> None:
    await set_of_two.workers(4)
    await until(partial(set_of_two.settled, 4), "four workers", 90)
    before = {pod.metadata.uid for pod in (await set_of_two.pods()).values()}
    set_of_two.least_ready = 4
    await set_of_two.workers(4, BAD, updateStrategy={"rollingUpdate": {"maxUnavailable": 2}})

    async def stuck() -> bool:
        """As many new ones as may be missing have come, and do not start."""
        pods = (await set_of_two.pods()).values()
        return sum(not pod.ready and bool(pod.spec.node_name) for pod in pods) == 2

    await until(stuck, "the bad ones", 60)
    # Each touch makes the operator look again; were there one more to take, it would take it now.
    for number in range(5):
        touch = {"metadata": {"annotations": {"test/look": str(number)}}}
        for name in await set_of_two.pods():
            with contextlib.suppress(NotFound):
                await set_of_two.client.patch(PODS, Key(set_of_two.namespace, name), touch)
        await asyncio.sleep(0.5)
    assert set_of_two.least_ready == 2
    assert len(before & {pod.metadata.uid for pod in (await set_of_two.pods()).values()}) == 2
    await set_of_two.workers(4, "v3", updateStrategy={"rollingUpdate": {"maxUnavailable": 2}})
    await until(partial(set_of_two.settled, 4, "v3"), "the good ones", 120)
    assert set_of_two.least_ready == 2
    assert not set_of_two.wrongs


@pytest.mark.parametrize("slowness", [1.5, 7.0])
async def test_a_job_that_started_a_moment_ago_decides_who_goes(set_of_two: Stage, slowness: float) -> None:
    """The higher number would go first if both were idle, as they were when Slurm was last looked at."""
    host = f"{set_of_two.prefix}1"
    wanted = JobRequest(
        name="moment",
        partition="ext",
        account="lab",
        flags=["EXTERNAL_JOB"],
        current_working_directory="/",
        tasks=1,
        required_nodes=[host],
        memory_per_node=amount(100),
    )
    # Whatever the operator asks of Slurm takes a while, so that it learns of the job only if it waits for the answer.
    set_of_two.gates.delays["slurm"] = slowness
    await asyncio.sleep(0.5)  # what was asked before is answered
    job = await set_of_two.slurm.allocate(wanted)
    await set_of_two.workers(1)
    if slowness > LOOK:
        await asyncio.sleep(LOOK + 3)  # it has asked and got no answer in time
        assert not any(metadata.POD_CONDEMNED in pod.metadata.annotations for pod in (await set_of_two.pods()).values())
        set_of_two.gates.delays.clear()

    async def one() -> bool:
        return len(await set_of_two.pods()) == 1

    await until(one, "the idle worker's end", 90)
    assert [name.rpartition("-")[2] for name in await set_of_two.pods()] == ["1"]
    await set_of_two.slurm.cancel(job.job_id)


async def test_a_slurmctld_that_lost_its_memory_costs_no_worker(set_of_two: Stage, alone: Beside) -> None:
    before = {pod.metadata.uid for pod in (await set_of_two.pods()).values()}
    alone.stop("slurmctld")
    alone.exec("sh", "-c", "rm -rf /var/lib/slurm/ctld/*")
    alone.start("slurmctld")

    async def idle(number: int) -> bool:
        found = await set_of_two.client.get(NODE_SETS, Key(set_of_two.namespace, "gpu"))
        return found.status.slurm_idle == number

    await until(partial(idle, 0), "the operator to see that Slurm has none of them", 90)
    pods = (await set_of_two.pods()).values()
    assert {pod.metadata.uid for pod in pods} == before
    assert not any(metadata.POD_CONDEMNED in pod.metadata.annotations for pod in pods)
    for number in range(2):
        await set_of_two.register(f"{set_of_two.prefix}{number}")  # as slurmd does when it hears of slurmctld again
    await until(partial(idle, 2), "both back", 90)
    await until(partial(set_of_two.settled, 2), "rest", 60)
    assert {pod.metadata.uid for pod in (await set_of_two.pods()).values()} == before


async def test_an_operator_that_cannot_see_all_pods_is_not_ready_and_does_nothing(set_of_two: Stage) -> None:
    lives = set_of_two.gates.lives
    assert lives is not None
    lives.kill()
    set_of_two.gates.closed.add("/pods")
    lives.begin()

    def readiness() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{lives.port}/readyz", timeout=5) as answer:
                return f"{answer.status}"
        except urllib.error.HTTPError as refused:
            return f"{refused.code} {refused.read().decode()}"
        except OSError:
            return ""

    async def waits() -> bool:
        said = await asyncio.to_thread(readiness)
        return said.startswith("503") and "pods" in said

    async def serves() -> bool:
        return await asyncio.to_thread(readiness) == "200"

    await until(waits, "a readiness that names what is missing", 30)
    await set_of_two.workers(3)
    assert len(await set_of_two.pods()) == 2
    set_of_two.gates.closed.clear()
    await until(serves, "readiness", 60)
    await until(partial(set_of_two.settled, 3), "three workers", 60)
