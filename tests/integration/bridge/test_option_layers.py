# SPDX-License-Identifier: Apache-2.0
"""Options on every object above a pod: native PodGroup, Job, JobSet, Workload, Deployment, CronJob."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from tests.integration.bridge.bridge_stage import GANG, BridgeStage, bridge_stage
from tests.integration.bridge.native_version import NATIVE_VERSION, WORKLOAD_REFERENCE
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.bridge.views import BATCH_JOBS, JOB_SETS
from slinky.bridge.views.native import native_groups, native_workloads
from slinky.kube import Key, KubeClient, Object, Resource
from slinky.kube.conditions import is_condition_true
from slinky.slurm import Job
from slinky.slurm import SlurmClient as Slurm

DEPLOYMENTS = Resource("apps/v1", "Deployment", "deployments", Object)
REPLICA_SETS = Resource("apps/v1", "ReplicaSet", "replicasets", Object)
CRON_JOBS = Resource("batch/v1", "CronJob", "cronjobs", Object)
HELD = {"hold": "true"}


def options(**values: str) -> dict[str, str]:
    return {names.OPTION + name.replace("_", "-"): value for name, value in values.items()}


def owned_by(resource: Resource[Any], item: Object) -> list[dict[str, Any]]:
    reference = resource.reference(item)
    return [
        {
            "apiVersion": reference.api_version,
            "kind": reference.kind,
            "name": reference.name,
            "uid": reference.uid,
            "controller": True,
        }
    ]


@pytest.fixture
async def stage(kube: KubeClient, ctld: Slurm, job_sets: None) -> AsyncIterator[BridgeStage]:
    """A running bridge with three nodes."""
    async with bridge_stage(kube, ctld) as stage:
        bridge = await stage.start()
        assert "JobSet" in bridge.cluster.group_kinds
        for number in (1, 2, 3):
            await stage.add_node(number)
        yield stage


class Tree:
    """Creates a JobSet, its Jobs, their native PodGroups and their pods, as the controllers of Kubernetes do."""

    def __init__(self, stage: BridgeStage) -> None:
        self.stage, self.client = stage, stage.client
        found = native_groups([NATIVE_VERSION])
        assert found is not None
        self.groups = found

    def key(self, name: str) -> Key:
        return Key(self.stage.namespace, name)

    async def job_set(self, annotations: dict[str, str], *replicated: str, parallelism: int = 1) -> Object:
        template = {"spec": {"parallelism": parallelism, "completions": parallelism}}
        jobs = [{"name": name, "replicas": 1, "template": template} for name in replicated]
        manifest = JOB_SETS.manifest(
            self.key("s"), metadata={"annotations": annotations}, spec={"replicatedJobs": jobs}
        )
        return await self.client.create(JOB_SETS, manifest)

    async def job(self, name: str, owners: list[dict[str, Any]], annotations: dict[str, str], size: int = 1) -> Object:
        template = {"spec": {**self.stage.pod_manifest("x")["spec"], "restartPolicy": "Never"}}
        spec = {"parallelism": size, "completions": size, "template": template, "activeDeadlineSeconds": 5400}
        metadata = {"annotations": annotations, "ownerReferences": owners}
        return await self.client.create(BATCH_JOBS, BATCH_JOBS.manifest(self.key(name), metadata=metadata, spec=spec))

    async def group(self, name: str, job: Object, size: int, annotations: dict[str, str]) -> None:
        metadata = {"annotations": annotations, "ownerReferences": owned_by(BATCH_JOBS, job)}
        spec = {"schedulingPolicy": {"gang": {"minCount": size}}}
        await self.client.create(self.groups, self.groups.manifest(self.key(name), metadata=metadata, spec=spec))

    async def pod(self, name: str, job: Object, group: str, annotations: dict[str, str] | None = None) -> None:
        labels = {names.JOBSET_NAME: "s", names.JOB_NAME: job.metadata.name}
        await self.stage.create_pod(
            name,
            labels=labels,
            annotations=annotations or {},
            ownerReferences=owned_by(BATCH_JOBS, job),
            schedulingGroup={"podGroupName": group},
        )

    async def is_scheduled(self, group: str) -> bool:
        found = await self.client.get(self.groups, self.key(group))
        return is_condition_true(found.status.conditions, "PodGroupScheduled")


async def only_job(stage: BridgeStage) -> Job:
    (job,) = await stage.jobs()
    return job


async def test_options_of_every_object_above_a_pod_of_a_native_group_count(stage: BridgeStage) -> None:
    tree = Tree(stage)
    above = await tree.job_set(options(comment="of the JobSet"), "w")
    job = await tree.job("s-w-0", owned_by(JOB_SETS, above), options(comment="of the Job", wckey="w1"), 2)
    await tree.group("generated-5c8584c488", job, 2, options(comment="of the group"))
    old = {names.OLD_OPTION + "licenses": "lic:1"}
    for name in ("a", "b"):
        await tree.pod(name, job, "generated-5c8584c488", old)
    for name in ("a", "b"):
        await stage.wait_bound(name)
    result = await only_job(stage)
    assert (result.comment, result.wckey, result.licenses) == ("of the JobSet", "w1", "lic:1")
    assert (result.name, result.node_count.whole, result.time_limit.whole) == ("s-w-0", 2, 90)
    await stage.wait_event("a", "JobOption")
    await eventually(lambda: tree.is_scheduled("generated-5c8584c488"), "the group to be marked as scheduled")


async def test_gang_on_a_jobset_makes_one_job_of_all_native_groups(stage: BridgeStage) -> None:
    tree = Tree(stage)
    above = await tree.job_set({**GANG, **options(job_name="training")}, "driver", "worker")
    for part in ("driver", "worker"):
        job = await tree.job(f"s-{part}-0", owned_by(JOB_SETS, above), {})
        await tree.group(f"g-{part}", job, 1, {})
        await tree.pod(part, job, f"g-{part}")
        if part == "driver":
            assert "1 of 2" in await stage.wait_reason("driver", "GangIncomplete")
    for part in ("driver", "worker"):
        await stage.wait_bound(part)
        await eventually(partial(tree.is_scheduled, f"g-{part}"), "both groups to be marked as scheduled")
    result = await only_job(stage)
    assert (result.name, result.node_count.whole) == ("training", 2)


async def test_a_changed_option_of_a_workload_reaches_the_pending_job(stage: BridgeStage) -> None:
    tree, workloads = Tree(stage), native_workloads(NATIVE_VERSION)
    template = {"name": "t", "schedulingPolicy": {"gang": {"minCount": 1}}}
    manifest = workloads.manifest(
        tree.key("w"), metadata={"annotations": options(**HELD)}, spec={"podGroupTemplates": [template]}
    )
    await stage.client.create(workloads, manifest)
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 1}},
        **WORKLOAD_REFERENCE,
    }
    await stage.client.create(tree.groups, tree.groups.manifest(tree.key("g"), spec=spec))
    await stage.create_pod("a", schedulingGroup={"podGroupName": "g"})
    job = await stage.wait_job("a")
    await stage.client.patch(workloads, tree.key("w"), {"metadata": {"annotations": options(comment="later")}})

    async def is_changed() -> bool:
        return (await stage.slurm.job(job.job_id)).comment == "later"

    await eventually(is_changed, "the new comment")


async def test_options_of_a_deployment_and_of_a_cronjob_count(stage: BridgeStage) -> None:
    tree, pod = Tree(stage), {"metadata": {"labels": {"app": "x"}}, "spec": stage.pod_manifest("x")["spec"]}
    selector = {"selector": {"matchLabels": {"app": "x"}}, "template": pod}
    noted = options(comment="from above", **HELD)
    manifest = DEPLOYMENTS.manifest(tree.key("d"), metadata={"annotations": noted}, spec=selector)
    deployment = await stage.client.create(DEPLOYMENTS, manifest)
    below = {"ownerReferences": owned_by(DEPLOYMENTS, deployment)}
    replica_set = await stage.client.create(
        REPLICA_SETS, REPLICA_SETS.manifest(tree.key("d-1"), metadata=below, spec=selector)
    )
    await stage.create_pod("d-1-a", ownerReferences=owned_by(REPLICA_SETS, replica_set))
    batch = {"spec": {"template": {"spec": {**pod["spec"], "restartPolicy": "Never"}}}}
    manifest = CRON_JOBS.manifest(
        tree.key("c"), metadata={"annotations": noted}, spec={"schedule": "0 0 1 1 *", "jobTemplate": batch}
    )
    job = await tree.job("c-1", owned_by(CRON_JOBS, await stage.client.create(CRON_JOBS, manifest)), {})
    await stage.create_pod("c-1-a", ownerReferences=owned_by(BATCH_JOBS, job), labels={names.JOB_NAME: "c-1"})
    for name in ("d-1-a", "c-1-a"):
        assert (await stage.wait_job(name)).comment == "from above"


async def test_absurd_numbers_of_running_and_waiting_pods(stage: BridgeStage) -> None:
    await stage.run_pod("runs")
    job = await stage.wait_job("runs")
    absurd = {names.JOB_INDEX: "9" * 5000}
    await stage.patch_pod("runs", {"metadata": {"annotations": absurd}})
    await stage.create_pod("waits", annotations=absurd)
    assert "job-completion-index of pod waits" in await stage.wait_reason("waits", "InvalidOption")
    await stage.report_phase("runs", "Succeeded", 0)
    await stage.wait_state(job, "CANCELLED", "COMPLETED")
    await stage.wait_released("runs")
    tree, largest = Tree(stage), 2**31 - 1
    jobs = [{"name": "w", "replicas": largest, "template": {"spec": {"parallelism": 1}}}]
    manifest = JOB_SETS.manifest(tree.key("s"), metadata={"annotations": GANG}, spec={"replicatedJobs": jobs})
    await stage.client.create(JOB_SETS, manifest)
    await stage.create_pod("one", labels={names.JOBSET_NAME: "s"})
    assert f"1 of {largest}" in await stage.wait_reason("one", "GangIncomplete")
