# SPDX-License-Identifier: Apache-2.0
"""Jobs of the bridge that only Slurm knows are found and ended, and jobs of others are left alone."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from tests.integration.bridge.bridge_stage import BridgeStage, bridge_stage
from tests.integration.bridge.test_lost_jobs import SlurmctldState
from tests.support.job_requests import external_job
from tests.support.slurmrestd_proxy import SlurmrestdProxy
from tests.support.waiting import eventually

from slinky.bridge import metrics, names
from slinky.bridge.state import job_discovery
from slinky.bridge.workload import identity
from slinky.kube import KubeClient
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import Job, JobRequest, MintedToken, number
from slinky.slurm import SlurmClient as Slurm
from slinky.slurm.transport.http import HttpTransport


@pytest.fixture
async def two_nodes(kube: KubeClient, ctld: Slurm) -> AsyncIterator[BridgeStage]:
    """A running bridge with two nodes."""
    async with bridge_stage(kube, ctld) as stage:
        await stage.start()
        await stage.add_node(1)
        await stage.add_node(2)
        yield stage


def count_returned() -> float:
    """Jobs that the bridge found alive after their end."""
    samples = (sample for metric in metrics.JOBS_FOUND.collect() for sample in metric.samples)
    return sum(sample.value for sample in samples if sample.name.endswith("_total"))


async def no_job_is_left(stage: BridgeStage) -> bool:
    return await stage.jobs() == []


async def test_jobs_whose_end_slurmctld_has_lost_are_ended_again(two_nodes: BridgeStage, slurm: LabSlurm) -> None:
    """Whether their pods still exist or not."""
    stage, state = two_nodes, SlurmctldState(slurm)
    for pod in ("kept", "removed"):
        await stage.run_pod(pod)
    jobs = [await stage.wait_job(pod) for pod in ("kept", "removed")]
    await state.save()
    for pod, job in zip(("kept", "removed"), jobs, strict=True):
        await stage.report_phase(pod, "Succeeded", 0)
        await stage.wait_state(job, "CANCELLED")
        await stage.wait_released(pod)
    await stage.delete_pod("removed", grace=0)
    await stage.settle()
    found = count_returned()
    await state.crash()

    async def found_and_ended() -> bool:
        return count_returned() == found + 2 and await no_job_is_left(stage)

    await eventually(found_and_ended, "the second end of both jobs")
    await stage.create_pod("next")
    await stage.wait_bound("next")


async def test_a_submission_that_is_carried_out_late_is_ended(
    kube: KubeClient, ctld: Slurm, slurm: LabSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request is carried out after the search for it, when the pod has another job already."""
    monkeypatch.setattr(job_discovery, "SEARCH_INTERVAL", 1.0)
    late: list[tuple[str, dict[str, str], bytes]] = []

    async def delay_first(request: web.BaseRequest) -> web.StreamResponse | None:
        if request.method != "POST" or not request.path.endswith(("submit", "allocate")) or late:
            return None
        headers = {name: value for name, value in request.headers.items() if name.upper().startswith("X-SLURM")}
        late.append((request.raw_path, headers, await request.read()))
        if request.transport is not None:
            request.transport.close()
        return web.Response()

    tokens, transport = MintedToken(lambda: slurm.jwt_key, "slurm"), HttpTransport(slurm.url)
    async with (
        SlurmrestdProxy(slurm.url) as proxy,
        Slurm(proxy.url, tokens) as client,
        bridge_stage(kube, client) as stage,
    ):
        await stage.start()
        await stage.add_node()
        proxy.fault, stage.slurm = delay_first, ctld
        await stage.run_pod()
        job = await stage.wait_job()
        ((path, headers, body),) = late
        queued = path.replace("/allocate", "/submit"), body.replace(b'"immediate":true', b'"immediate":false')
        reply = await transport.send("POST", queued[0], headers=headers, body=queued[1], deadline=60)
        assert reply.status == 200
        await transport.close()
        assert len(await stage.jobs()) == 2

        async def one_is_left() -> bool:
            return [found.sluid for found in await stage.jobs()] == [job.sluid]

        await eventually(one_is_left, "the end of the second job")
        assert not (await stage.get_pod()).metadata.deleting
        assert not [path for _, path in proxy.requests if path.endswith("/jobs/")]  # the full list is never read


async def test_a_bridge_with_a_new_id_keeps_its_waiting_jobs_and_ends_those_without_pods(stage: BridgeStage) -> None:
    await stage.run_pod("first")
    jobs: dict[str, Job] = {}
    for pod in ("waiting", "removed"):
        await stage.create_pod(pod)
        jobs[pod] = await stage.wait_job(pod)
    await stage.crash()
    await stage.patch_pod("removed", {"metadata": {"finalizers": None}})
    await stage.delete_pod("removed", grace=0)
    former = stage.settings.bridge_name
    stage.configure(bridge_id=f"{former}-renamed", former_bridge_ids=(former,))
    await stage.start()
    await stage.wait_state(jobs["removed"], "CANCELLED")

    async def signed_again() -> bool:
        job = await stage.slurm.job(jobs["waiting"].sluid)
        comment = identity.parse_comment(job.admin_comment)
        return comment is not None and comment.slinky.bridge == stage.settings.bridge_name

    await eventually(signed_again, "the new name in the signature of the waiting job")
    await stage.report_phase("first", "Succeeded", 0)
    await stage.wait_bound("waiting")
    assert (await stage.wait_job("waiting")).sluid == jobs["waiting"].sluid


async def test_a_bridge_with_a_new_id_keeps_its_waiting_jobs_even_if_the_old_id_is_not_listed(
    stage: BridgeStage,
) -> None:
    await stage.run_pod("first")
    await stage.create_pod("waiting")
    job = await stage.wait_job("waiting")
    await stage.crash()
    stage.configure(bridge_id=f"{stage.settings.bridge_name}-renamed")
    await stage.start()
    await stage.report_phase("first", "Succeeded", 0)
    await stage.wait_bound("waiting")
    assert (await stage.wait_job("waiting")).sluid == job.sluid


async def test_a_pod_that_claims_the_job_of_another_user_does_not_end_it(stage: BridgeStage) -> None:
    """The pod looks as if the bridge had bound it to its node for this job."""
    request = JobRequest(
        name="native",
        script="#!/bin/sh\nsleep 600\n",
        account="lab",
        partition="work",
        hold=True,
        current_working_directory="/tmp",
        environment=("PATH=/bin:/usr/bin",),
        time_limit=number(60),
    )
    native = await stage.slurm.job((await stage.slurm.submit(request)).job_id)
    try:
        metadata = {
            "labels": {names.JOB_LABEL: str(native.job_id)},
            "annotations": {names.SLUID_ANNOTATION: native.sluid, names.NODE_ANNOTATION: stage.nodes[0]},
        }
        await stage.create_pod("forged", nodeName=stage.nodes[0], **metadata)
        await stage.report_phase("forged", "Succeeded", 0)
        await stage.settle()
        assert (await stage.slurm.job(native.sluid)).state.pending
    finally:
        await stage.slurm.cancel(native.job_id)


async def test_a_search_reads_no_job_twice(stage: BridgeStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_discovery, "SEARCH_INTERVAL", 0.1)
    native = [(await stage.slurm.submit(external_job(name="other", hold=True))).job_id for _ in range(3)]
    reads: list[int | str] = []
    searches = asyncio.Event()
    read, listed, seen = stage.slurm.job, stage.slurm.job_states, 0

    async def count_reads(job: int | str) -> Job:
        reads.append(job)
        return await read(job)

    async def count_lists(*jobs: object) -> object:
        nonlocal seen
        seen += not jobs
        if seen >= 5:
            searches.set()
        return await listed(*jobs)  # type: ignore[arg-type]

    monkeypatch.setattr(stage.slurm, "job", count_reads)
    monkeypatch.setattr(stage.slurm, "job_states", count_lists)
    try:
        await stage.crash()
        await stage.start()
        await searches.wait()
        assert sorted(job for job in reads if int(job) in native) == sorted(map(str, native))
    finally:
        for job in native:
            await stage.slurm.cancel(job)
