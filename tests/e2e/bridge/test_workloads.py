# SPDX-License-Identifier: Apache-2.0
"""Every kind of workload, made by its real controller, on real nodes."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from slinky.bridge import names
from slinky.bridge.views import OUR_PODS, Pod
from slinky.kube import Client
from slinky.kube.conditions import find
from slinky.lab.lab import Lab
from slinky.slurm import Client as Slurm
from slinky.slurm import Job

from .conftest import template

GANG = {names.OPTION + "gang": "true"}


class Stage:
    """One namespace of the lab."""

    def __init__(self, lab: Lab, kube: Client, ctld: Slurm, namespace: str, scheduler: str) -> None:
        self.lab, self.kube, self.ctld, self.namespace, self.scheduler = lab, kube, ctld, namespace, scheduler

    def apply(self, api: str, kind: str, name: str, spec: dict[str, Any], **meta: Any) -> None:
        document = {
            "apiVersion": api,
            "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace, **meta},
            "spec": spec,
        }
        self.lab.kubectl("apply", "-f", "-", input=json.dumps(document))

    def pod(self, name: str, command: str = "sleep 60", *, labels: dict[str, str] | None = None, **more: Any) -> None:
        self.apply("v1", "Pod", name, template(self.scheduler, command, **more), labels=labels or {})

    async def pods(self, count: int, check: Callable[[Pod], bool], what: str, seconds: float = 60) -> list[Pod]:
        end = time.monotonic() + seconds
        found: list[Pod] = []
        while time.monotonic() < end:
            found = await self.kube.list(OUR_PODS, namespace=self.namespace)
            if len(found) == count and all(check(pod) for pod in found):
                return found
            await asyncio.sleep(0.2)
        states = {pod.metadata.name: (pod.status.phase, _said(pod)) for pod in found}
        raise AssertionError(f"{count} pods {what}: {states}")

    async def jobs(self, pods: list[Pod]) -> list[Job]:
        ids = {pod.metadata.labels[names.JOB_LABEL] for pod in pods}
        return [await self.ctld.job(job) for job in sorted(ids, key=int)]


def _said(pod: Pod) -> str:
    condition = find(pod.status.conditions, names.SCHEDULED)
    return f"{condition.reason}: {condition.message}" if condition else ""


def running(pod: Pod) -> bool:
    return pod.status.phase == "Running"


def succeeded(pod: Pod) -> bool:
    return pod.status.phase == "Succeeded"


@pytest.fixture
async def stage(lab: Lab, kube: Client, ctld: Slurm, namespace: str, bridge: str) -> Any:
    yield Stage(lab, kube, ctld, namespace, bridge)
    lab.kubectl("delete", "pods,jobs,jobsets,leaderworkersets", "--all", "-n", namespace, "--wait=false")
    for _ in range(300):
        if not await kube.list(OUR_PODS, namespace=namespace):
            break
        await asyncio.sleep(0.2)


async def test_a_pod_runs_to_its_end_and_so_does_its_job(stage: Stage) -> None:
    stage.pod("p", "exit 0")
    pods = await stage.pods(1, succeeded, "end")
    (job,) = await stage.jobs(pods)
    for _ in range(50):
        if (await stage.ctld.job(job.job_id)).state.ended:
            break
        await asyncio.sleep(0.1)
    assert (await stage.ctld.job(job.job_id)).state.ended


async def test_a_batch_job_has_a_slurm_job_per_pod_and_options_from_itself(stage: Stage) -> None:
    spec = {"parallelism": 2, "completions": 2, "template": {"spec": template(stage.scheduler, "sleep 2")}}
    stage.apply("batch/v1", "Job", "j", spec, annotations={names.OPTION + "job-name": "chosen"})
    pods = await stage.pods(2, succeeded, "end")
    jobs = await stage.jobs(pods)
    assert [job.name for job in jobs] == ["chosen", "chosen"]


async def test_an_indexed_batch_job_can_be_a_gang_with_ranks_in_slurms_order(stage: Stage) -> None:
    spec = {
        "parallelism": 2,
        "completions": 2,
        "completionMode": "Indexed",
        "template": {"spec": template(stage.scheduler, "sleep 5")},
    }
    stage.apply("batch/v1", "Job", "j", spec, annotations=GANG)
    pods = await stage.pods(2, running, "run together")
    (job,) = await stage.jobs(pods)
    assert job.node_count.whole == 2
    order = [node.node for node in await stage.ctld.resources(job.job_id)]
    by_rank = sorted(pods, key=lambda pod: pod.metadata.annotations[names.JOB_INDEX])
    assert [pod.spec.node_name for pod in by_rank] == order


async def test_several_pods_of_a_gang_share_each_node(stage: Stage) -> None:
    spec = {
        "parallelism": 4,
        "completions": 4,
        "completionMode": "Indexed",
        "template": {"spec": template(stage.scheduler, "sleep 5")},
    }
    stage.apply("batch/v1", "Job", "j", spec, annotations={**GANG, names.OPTION + "pods-per-node": "2"})
    pods = await stage.pods(4, running, "run together")
    (job,) = await stage.jobs(pods)
    assert job.node_count.whole == 2
    assert sorted(pod.spec.node_name for pod in pods) == ["node1", "node1", "node2", "node2"]


async def test_a_pod_group_starts_whole_or_not_at_all(stage: Stage) -> None:
    stage.apply("scheduling.x-k8s.io/v1alpha1", "PodGroup", "g", {"minMember": 2})
    label = {names.POD_GROUP_LABEL: "g"}
    stage.pod("a", labels=label)
    await stage.pods(1, lambda pod: _said(pod).startswith("GangIncomplete: 1 of 2"), "wait for the other")
    stage.pod("b", labels=label)
    pods = await stage.pods(2, running, "run together")
    (job,) = await stage.jobs(pods)
    assert job.node_count.whole == 2


async def test_a_native_pod_group_starts_whole(stage: Stage) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    stage.apply("scheduling.k8s.io/v1alpha2", "PodGroup", "n", spec)
    for name in ("a", "b"):
        stage.pod(name, schedulingGroup={"podGroupName": "n"})
    pods = await stage.pods(2, running, "run together")
    (job,) = await stage.jobs(pods)
    assert (job.name, job.node_count.whole) == ("n", 2)
    wait = ("--for=condition=PodGroupScheduled", "--timeout=10s")
    stage.lab.kubectl("wait", *wait, "podgroups.v1alpha2.scheduling.k8s.io/n", "-n", stage.namespace)


async def test_a_leader_worker_set_has_one_job_per_group(stage: Stage) -> None:
    spec = {
        "replicas": 1,
        "leaderWorkerTemplate": {
            "size": 2,
            "workerTemplate": {"spec": {**template(stage.scheduler, "sleep 60"), "restartPolicy": "Always"}},
        },
    }
    stage.apply("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "l", spec)
    pods = await stage.pods(2, running, "run together")
    (job,) = await stage.jobs(pods)
    assert (job.name, job.node_count.whole) == ("l-0", 2)
    leader = min(pods, key=lambda pod: pod.metadata.labels[names.LWS_WORKER])
    assert leader.spec.node_name == (await stage.ctld.resources(job.job_id))[0].node


def job_set(scheduler: str) -> dict[str, Any]:
    inner = {"parallelism": 1, "completions": 1, "template": {"spec": template(scheduler, "sleep 3")}}
    return {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": inner}}]}


async def test_a_jobset_has_a_job_per_pod_or_is_a_gang_if_it_says_so(stage: Stage) -> None:
    stage.apply("jobset.x-k8s.io/v1alpha2", "JobSet", "s", job_set(stage.scheduler))
    assert len(await stage.jobs(await stage.pods(2, succeeded, "end"))) == 2
    stage.lab.kubectl("delete", "jobset", "s", "-n", stage.namespace)
    await stage.pods(0, succeeded, "leave")
    stage.apply("jobset.x-k8s.io/v1alpha2", "JobSet", "s", job_set(stage.scheduler), annotations=GANG)
    (job,) = await stage.jobs(await stage.pods(2, succeeded, "end"))
    assert job.name == "s"


async def test_a_pod_sees_exactly_the_devices_that_slurm_granted(stage: Stage) -> None:
    shared = {names.OPTION + "exclusive": "false"}
    gpus = {"limits": {"example.com/gpu": "2", "cpu": "500m", "memory": "64Mi"}}
    for name in ("a", "b"):
        spec = template(stage.scheduler, "env | grep -i gpu; sleep 60", container={"resources": gpus})
        stage.apply(
            "v1", "Pod", name, {**spec, "nodeSelector": {"kubernetes.io/hostname": "node1"}}, annotations=shared
        )
    pods = await stage.pods(2, running, "run")
    seen: dict[str, set[str]] = {}
    for pod, job in zip(sorted(pods, key=lambda p: p.metadata.name), await stage.jobs(pods), strict=True):
        log = stage.lab.kubectl("logs", pod.metadata.name, "-n", stage.namespace)
        (granted,) = await stage.ctld.resources(int(pod.metadata.labels[names.JOB_LABEL]))
        assert granted.gres[0].count == 2
        first, _, last = (granted.gres[0].index or "").partition("-")
        seen[pod.metadata.name] = {f"gpu-{i}" for i in range(int(first), int(last or first) + 1)}
        assert all(device in log for device in seen[pod.metadata.name]), (log, granted, job)
    assert not seen["a"] & seen["b"]


async def test_a_claim_that_a_pod_names_is_filled_by_slurm(stage: Stage) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 1}}
    stage.apply("resource.k8s.io/v1", "ResourceClaimTemplate", "one", {"spec": {"devices": {"requests": [request]}}})
    container = {"resources": {"claims": [{"name": "device"}]}}
    claims = [{"name": "device", "resourceClaimTemplateName": "one"}]
    stage.pod("p", "env | grep -i gpu; sleep 60", container=container, resourceClaims=claims)
    (pod,) = await stage.pods(1, running, "run")
    (job,) = await stage.jobs([pod])
    assert "gpu:gpu.example.com=1" in job.tres_req_str or "gpu" in job.tres_per_node
    assert "gpu-" in stage.lab.kubectl("logs", "p", "-n", stage.namespace)


async def test_a_volume_that_waits_for_its_first_pod_is_made_where_slurm_put_it(stage: Stage) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    stage.apply("v1", "PersistentVolumeClaim", "v", claim)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "v"}}]
    mounts = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    stage.pod("p", "echo hello > /data/x", container=mounts, volumes=volumes)
    (first,) = await stage.pods(1, succeeded, "end")
    stage.lab.kubectl("delete", "pod", "p", "-n", stage.namespace)
    stage.pod("q", "grep hello /data/x", container=mounts, volumes=volumes)
    (second,) = await stage.pods(1, succeeded, "end")
    assert first.spec.node_name == second.spec.node_name
