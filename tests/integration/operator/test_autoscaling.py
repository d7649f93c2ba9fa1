# SPDX-License-Identifier: Apache-2.0
"""The autoscaler on a real API server and a real slurmctld, with simulated workers that have devices."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.operator.stage import SlurmStage, slurm_stage
from tests.support.job_requests import external_job
from tests.support.waiting import eventually

from slinky.api.names import metadata
from slinky.api.nodeset import NODE_SETS, NodeSet
from slinky.kube import Key, Resource
from slinky.kube.views import Unstructured
from slinky.lab.kubernetes.bare_plane import BarePlane
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import number

pytestmark = pytest.mark.lab

#: gres.conf of the lab has devices for hosts with such names.
PREFIX = "k90"
SETTINGS = "CPUs=2 RealMemory=1000 Features=ext Gres=gpu:h100:8"
QUOTAS = Resource("v1", "ResourceQuota", "resourcequotas", Unstructured)
POLICY = {"maxReplicas": 3, "scaleIn": {"idleFor": "1s"}}


@pytest.fixture
async def stage(plane: BarePlane, crds: None, own_slurm: LabSlurm, tmp_path: Path) -> AsyncIterator[SlurmStage]:
    """A NodeSet without workers that follows the queue."""
    async with slurm_stage(plane, own_slurm, tmp_path) as stage:
        stage.prefix = PREFIX
        # Slurm starts gangs only on nodes of its topology.
        stage.shape |= {"Gres": "gpu:h100:8", "Topology": "default:leaf2"}
        yield stage
        own_slurm.exec("scancel", "--user=slurm")


async def apply(stage: SlurmStage, image: str = "v1", **policy: Any) -> None:
    """Apply the NodeSet without a number of workers, as the chart does."""
    spec = {
        "controllerRef": {"name": "slurm"},
        "slurmd": {"image": image},
        "template": {"spec": {"hostname": stage.prefix}},
        "extraConf": SETTINGS,
        "autoscaling": {**POLICY, **policy},
    }
    await stage.apply(NODE_SETS, "gpu", spec=spec)


async def apply_empty(stage: SlurmStage, **policy: Any) -> None:
    """Apply the NodeSet, and wait until its first worker, which is idle, is gone."""
    await apply(stage, **policy)

    async def is_empty() -> bool:
        return (await node_set(stage)).spec.replicas == 0 and not await stage.pods()

    await eventually(is_empty, "a NodeSet without workers")


async def node_set(stage: SlurmStage) -> NodeSet:
    return await stage.client.get(NODE_SETS, Key(stage.namespace, "gpu"))


async def wait_reason(stage: SlurmStage, *reasons: str) -> NodeSet:
    """Wait for a decision with one of these reasons."""

    async def decided() -> NodeSet | None:
        live = await node_set(stage)
        return live if live.status.autoscaling and live.status.autoscaling.reason in reasons else None

    return await eventually(decided, f"a decision with the reason {' or '.join(reasons)}")


async def wait_pods(stage: SlurmStage, count: int) -> None:
    async def exist() -> bool:
        return len(await stage.pods()) == count

    await eventually(exist, f"{count} workers")


async def retry(stage: SlurmStage) -> None:
    """Ask for a new attempt at once, as the documentation says."""
    annotation = {"metadata": {"annotations": {metadata.RETRY_GROWTH: "now"}}}
    await stage.client.patch(NODE_SETS, Key(stage.namespace, "gpu"), annotation)


async def submit(stage: SlurmStage, **fields: object) -> int:
    return (await stage.slurm.submit(external_job(**fields))).job_id


async def wait_running(stage: SlurmStage, job: int) -> None:
    async def runs() -> bool:
        return (await stage.slurm.job(job)).state.running

    await eventually(runs, f"start of job {job}")


async def test_workers_come_with_jobs_and_go_without(stage: SlurmStage) -> None:
    await apply(stage)
    await wait_pods(stage, 0)
    # A single job with devices.
    job = await submit(stage, tres_per_node="gres/gpu:h100:8")
    await wait_running(stage, job)
    assert len(await stage.pods()) == 1

    async def is_protected() -> bool:
        annotations = next(iter((await stage.pods()).values())).metadata.annotations
        return (annotations.get(metadata.DO_NOT_DISRUPT), annotations.get(metadata.SAFE_TO_EVICT)) == ("true", "false")

    await eventually(is_protected, "the annotations for node autoscalers")
    # A gang of two beside it, which needs whole workers: none of it starts on the first one.
    gang = await submit(stage, tasks=4, minimum_nodes=2, maximum_nodes=2, memory_per_node=number(900))
    await wait_running(stage, gang)
    assert len(await stage.pods()) == 3
    assert (await node_set(stage)).spec.replicas == 3
    for item in (job, gang):
        await stage.slurm.cancel(item)
    await wait_pods(stage, 0)
    status = (await node_set(stage)).status.autoscaling
    assert status is not None
    assert {(item.after > item.before, item.reason) for item in status.decisions} == {
        (True, "PendingJobs"),
        (False, "IdleWorkers"),
    }
    assert stage.undrained_deletions == []


async def test_a_job_that_can_never_run_is_told_why(stage: SlurmStage) -> None:
    await apply_empty(stage)
    job = await submit(stage, minimum_nodes=4, maximum_nodes=4, tasks=4)

    async def is_told() -> bool:
        status = (await node_set(stage)).status.autoscaling
        text = f"Job {job}: it needs 4 workers at the same time, more than the 3 that gpu may have"
        return status is not None and text in status.impossible_jobs

    await eventually(is_told, "the reason in the status")
    assert await stage.pods() == {}


async def test_a_quota_that_refuses_workers_is_named_in_its_own_words(stage: SlurmStage) -> None:
    await apply_empty(stage, scaleOut={"readyWithin": "3s"})
    await stage.apply(QUOTAS, "workers", spec={"hard": {"pods": "1"}})
    # The controller of quotas counts the pod of slurmrestd; here the test does.
    status = {"status": {"hard": {"pods": "1"}, "used": {"pods": "1"}}}
    await stage.client.patch(QUOTAS, Key(stage.namespace, "workers"), status, subresource="status")
    job = await submit(stage)
    live = await wait_reason(stage, "RetryLater")
    assert live.status.autoscaling is not None
    failure = next(item for item in live.status.autoscaling.decisions if item.reason == "CapacityMissing")
    assert "exceeded quota: workers" in failure.message
    assert live.spec.replicas == 0
    await stage.client.delete(QUOTAS, Key(stage.namespace, "workers"))
    await retry(stage)
    await wait_running(stage, job)


async def test_an_unknown_slurm_changes_nothing(stage: SlurmStage) -> None:
    await apply(stage, scaleIn={"idleFor": "0s"})
    job = await submit(stage)
    await wait_running(stage, job)
    stage.proxy.closed.add("/slurm")
    try:
        await stage.slurm.cancel(job)
        await wait_reason(stage, "SlurmUnknown")
        assert len(await stage.pods()) == 1
        assert (await stage.condition(NODE_SETS, "gpu", "AutoscalingActive"))[0] == "Unknown"
    finally:
        stage.proxy.closed.clear()
    await wait_pods(stage, 0)


async def test_a_dry_run_only_reports(stage: SlurmStage) -> None:
    await apply(stage, mode="DryRun")
    await stage.client.set_scale(NODE_SETS, Key(stage.namespace, "gpu"), 0)
    await wait_pods(stage, 0)
    await submit(stage)

    async def is_reported() -> bool:
        status = (await node_set(stage)).status.autoscaling
        return status is not None and (status.next_replicas, status.reason) == (1, "PendingJobs")

    await eventually(is_reported, "the next decision")
    await wait_pods(stage, 0)
    assert (await node_set(stage)).spec.replicas == 0
