# SPDX-License-Identifier: Apache-2.0
"""Every kind of workload, created by its real controller, on real nodes, with the bridge that its chart installs."""

import asyncio
import json
from typing import Any

import pytest
from tests.e2e.bridge.bridge_site import BridgeSite, condition_text, running, succeeded, template
from tests.e2e.bridge.conftest import MANAGED, NODES, SCHEDULER, SPACE
from tests.e2e.bridge.shape_run import JobRecord, ShapeRun
from tests.e2e.bridge.workload_shapes import ShapeBuilder
from tests.support.command_line import slinky_output
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.lab.errors import LabError
from slinky.lab.kubernetes.node import VOLUMES

GANG = {names.OPTION + "gang": "true"}


def outcomes(pods: dict[str, str], site: BridgeSite) -> dict[str, str]:
    """State and exit code of jobs in accounting, by the name of their pod."""
    output = site.lab.slurm.exec("sacct", "-anXP", "-o", "JobID,State,ExitCode", "-j", ",".join(pods.values()))
    rows = [line.split("|") for line in output.splitlines()]
    by_job = {job: f"{state.split()[0]} {code}" for job, state, code in rows}
    return {name: by_job.get(job, "") for name, job in pods.items()}


async def test_every_shape_runs_on_external_nodes(site: BridgeSite) -> None:
    async def jobs() -> dict[str, JobRecord]:
        listing = await site.ctld.jobs()
        return {
            str(job.job_id): JobRecord(job.name, job.comment, job.state.live)
            for job in (listing.items if listing else ())
        }

    await ShapeRun(site.lab, site.kube, site.namespace, jobs).run(ShapeBuilder(site.scheduler).all())


async def test_a_job_ends_with_the_outcome_of_its_pod(site: BridgeSite) -> None:
    shared = {names.OPTION + "exclusive": "false"}
    for name, command in {"good": "exit 0", "bad": "exit 3", "withdrawn": "sleep 600"}.items():
        small = {"resources": {"requests": {"cpu": "100m", "memory": "16Mi"}}}
        site.apply("v1", "Pod", name, template(site.scheduler, command, container=small), annotations=shared)
    pods = await site.wait_pods(3, lambda pod: pod.status.phase in ("Running", "Succeeded", "Failed"), "start")
    jobs = {pod.metadata.name: pod.metadata.labels[names.JOB_LABEL] for pod in pods}
    site.lab.kubectl("delete", "pod", "withdrawn", "-n", site.namespace)

    async def recorded() -> bool:
        current = await asyncio.to_thread(outcomes, jobs, site)
        assert current == {"good": "COMPLETED 0:0", "bad": "FAILED 3:0", "withdrawn": "CANCELLED 0:0"}
        return True

    await eventually(recorded, "the outcome of each pod in accounting")


async def test_the_command_prints_the_logs_of_the_pods_of_a_job(site: BridgeSite) -> None:
    site.create_pod("talker", "echo one; echo two; sleep 600")
    await site.wait_log("talker", "two")
    pods = await site.wait_pods(1, running, "run")
    job = pods[0].metadata.labels[names.JOB_LABEL]
    access = {"KUBECONFIG": str(site.lab.kubeconfig), "SLURM_JWT": site.lab.slurm.token()}
    argv = ("logs", job, "--url", site.lab.slurm.url, "--container", "c", "--tail", "1")
    assert await asyncio.to_thread(slinky_output, *argv, **access) == "two\n"


async def test_another_replica_takes_over_when_the_leader_is_gone(site: BridgeSite) -> None:
    def leader() -> str:
        return site.lab.kubectl("get", "lease", SCHEDULER, "-n", SPACE, "-o", "jsonpath={.spec.holderIdentity}")

    former = leader()
    for name in ("a", "b", "late"):
        site.create_pod(name)
    await site.wait_pods(3, lambda pod: names.JOB_LABEL in pod.metadata.labels, "be submitted")
    # The identity is the name of the pod and nine characters for the process.
    site.lab.kubectl("delete", "pod", former[:-9], "-n", SPACE, "--grace-period=0", "--force")
    site.lab.kubectl("delete", "pod", "a", "-n", site.namespace, "--wait=false")
    pods = await site.wait_pods(2, running, "run")
    assert leader() != former
    assert len(await site.jobs(pods)) == 2
    site.lab.kubectl("rollout", "status", f"deployment/{SPACE}-scheduler", "-n", SPACE, "--timeout=280s")


async def test_pods_of_a_managed_namespace_get_the_scheduler_and_are_validated(site: BridgeSite) -> None:
    site.lab.kubectl("label", "namespace", site.namespace, f"{MANAGED}=yes")
    spec = template("default-scheduler", "exit 0")
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    site.lab.kubectl("create", "-n", site.namespace, "-f", "-", input=json.dumps(document))
    (pod,) = await site.wait_pods(1, succeeded, "end")
    assert pod.spec.scheduler_name == site.scheduler
    document["metadata"] = {"name": "q", "annotations": {names.OPTION + "timelimit": "soon"}}
    with pytest.raises(LabError, match="timelimit"):
        site.lab.kubectl("create", "-n", site.namespace, "-f", "-", input=json.dumps(document))


async def test_a_batch_job_has_a_slurm_job_per_pod_and_options_from_itself(site: BridgeSite) -> None:
    spec = {"parallelism": 2, "completions": 2, "template": {"spec": template(site.scheduler, "sleep 2")}}
    site.apply("batch/v1", "Job", "j", spec, annotations={names.OPTION + "job-name": "chosen"})
    pods = await site.wait_pods(2, succeeded, "end")
    jobs = await site.jobs(pods)
    assert [job.name for job in jobs] == ["chosen", "chosen"]


async def test_a_batch_job_can_fail_when_its_slurm_job_is_cancelled(site: BridgeSite) -> None:
    rules = [
        {"action": "FailJob", "onPodConditions": [{"type": names.ENDED, "status": "True"}]},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]
    pod = template(site.scheduler, "trap 'sleep 1; exit 1' TERM; sleep 600 & wait", terminationGracePeriodSeconds=20)
    site.apply("batch/v1", "Job", "j", {"podFailurePolicy": {"rules": rules}, "template": {"spec": pod}})
    (job,) = await site.jobs(await site.wait_pods(1, running, "run"))
    await site.ctld.cancel(job.job_id)
    site.lab.kubectl("wait", "--for=condition=Failed", "--timeout=60s", "job/j", "-n", site.namespace)
    why = "jsonpath={.status.conditions[?(@.type=='Failed')].reason} {.status.failed}"
    assert site.lab.kubectl("get", "job", "j", "-n", site.namespace, "-o", why) == "PodFailurePolicy 1"


async def test_an_indexed_batch_job_can_be_a_gang_with_ranks_in_slurms_order(site: BridgeSite) -> None:
    spec = {
        "parallelism": 2,
        "completions": 2,
        "completionMode": "Indexed",
        "template": {"spec": template(site.scheduler, "sleep 600")},
    }
    site.apply("batch/v1", "Job", "j", spec, annotations=GANG)
    pods = await site.wait_pods(2, running, "run together")
    (job,) = await site.jobs(pods)
    assert job.node_count.whole == 2
    order = [node.node for node in await site.ctld.resources(job.job_id)]
    by_rank = sorted(pods, key=lambda pod: pod.metadata.annotations[names.JOB_INDEX])
    assert [pod.spec.node_name for pod in by_rank] == order


async def test_a_gang_with_more_completions_than_pods_at_once_comes_to_its_end(site: BridgeSite) -> None:
    spec = {"parallelism": 2, "completions": 3, "template": {"spec": template(site.scheduler, "sleep 1")}}
    site.apply("batch/v1", "Job", "j", spec, annotations=GANG)
    await site.wait_pods(3, succeeded, "end")


async def test_several_pods_of_a_gang_share_each_node(site: BridgeSite) -> None:
    spec = {
        "parallelism": 4,
        "completions": 4,
        "completionMode": "Indexed",
        "template": {"spec": template(site.scheduler, "sleep 600")},
    }
    site.apply("batch/v1", "Job", "j", spec, annotations={**GANG, names.OPTION + "pods-per-node": "2"})
    pods = await site.wait_pods(4, running, "run together")
    (job,) = await site.jobs(pods)
    assert job.node_count.whole == 2
    assert sorted(pod.spec.node_name for pod in pods) == ["node1", "node1", "node2", "node2"]


async def test_a_pod_group_starts_whole_or_not_at_all(site: BridgeSite) -> None:
    site.apply("scheduling.x-k8s.io/v1alpha1", "PodGroup", "g", {"minMember": 2})
    label = {names.POD_GROUP_LABEL: "g"}
    site.create_pod("a", labels=label)
    await site.wait_pods(1, lambda pod: condition_text(pod).startswith("GangIncomplete: 1 of 2"), "wait for the other")
    site.create_pod("b", labels=label)
    pods = await site.wait_pods(2, running, "run together")
    (job,) = await site.jobs(pods)
    assert job.node_count.whole == 2


async def test_a_native_pod_group_starts_whole(site: BridgeSite) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    site.apply("scheduling.k8s.io/v1alpha2", "PodGroup", "n", spec)
    for name in ("a", "b"):
        site.create_pod(name, schedulingGroup={"podGroupName": "n"})
    pods = await site.wait_pods(2, running, "run together")
    (job,) = await site.jobs(pods)
    assert (job.name, job.node_count.whole) == ("n", 2)
    wait = ("--for=condition=PodGroupScheduled", "--timeout=10s")
    site.lab.kubectl("wait", *wait, "podgroups.v1alpha2.scheduling.k8s.io/n", "-n", site.namespace)


async def test_a_leader_worker_set_has_one_job_per_group(site: BridgeSite) -> None:
    spec = {
        "replicas": 1,
        "leaderWorkerTemplate": {
            "size": 2,
            "workerTemplate": {"spec": {**template(site.scheduler, "sleep 600"), "restartPolicy": "Always"}},
        },
    }
    site.apply("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "l", spec)
    pods = await site.wait_pods(2, running, "run together")
    (job,) = await site.jobs(pods)
    assert (job.name, job.node_count.whole) == ("l-0", 2)
    leader = min(pods, key=lambda pod: pod.metadata.labels[names.LWS_WORKER])
    assert leader.spec.node_name == (await site.ctld.resources(job.job_id))[0].node


def sized(scheduler: str, memory: str, command: str = "sleep 600") -> dict[str, Any]:
    """A pod spec that requests so much memory."""
    return template(scheduler, command, container={"resources": {"requests": {"cpu": "100m", "memory": memory}}})


async def assert_one_hetjob(site: BridgeSite) -> None:
    """Two pods of different size run as the components of one job, each on its own node."""
    pods = await site.wait_pods(2, running, "run together")
    (first,) = {pod.metadata.labels[names.JOB_LABEL] for pod in pods}
    components = await site.ctld.job_components(first)
    assert [job.node_count.whole for job in components] == [1, 1]
    granted = [node.node for job in components for node in await site.ctld.resources(job.job_id)]
    assert sorted(pod.spec.node_name for pod in pods) == sorted(granted) == ["node1", "node2"]


async def test_a_leader_and_workers_of_different_size_are_one_heterogeneous_job(site: BridgeSite) -> None:
    roles = {
        "leaderTemplate": {"spec": {**sized(site.scheduler, "96Mi"), "restartPolicy": "Always"}},
        "workerTemplate": {"spec": {**sized(site.scheduler, "32Mi"), "restartPolicy": "Always"}},
    }
    spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 2, **roles}}
    site.apply("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "mixed", spec)
    await assert_one_hetjob(site)


async def test_replicated_jobs_of_different_size_are_one_heterogeneous_job(site: BridgeSite) -> None:
    jobs = [
        {"name": name, "replicas": 1, "template": {"spec": {"template": {"spec": sized(site.scheduler, memory)}}}}
        for name, memory in (("driver", "96Mi"), ("worker", "32Mi"))
    ]
    site.apply("jobset.x-k8s.io/v1alpha2", "JobSet", "mixed", {"replicatedJobs": jobs}, annotations=GANG)
    await assert_one_hetjob(site)


async def test_a_pod_group_of_mixed_pods_is_one_heterogeneous_job(site: BridgeSite) -> None:
    site.apply("scheduling.x-k8s.io/v1alpha1", "PodGroup", "mixed", {"minMember": 2})
    for name, memory in (("big", "96Mi"), ("small", "32Mi")):
        label = {names.POD_GROUP_LABEL: "mixed"}
        site.apply("v1", "Pod", name, sized(site.scheduler, memory), labels=label)
    await assert_one_hetjob(site)


def job_set(scheduler: str) -> dict[str, Any]:
    inner = {"parallelism": 1, "completions": 1, "template": {"spec": template(scheduler, "sleep 3")}}
    return {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": inner}}]}


async def test_a_jobset_has_a_job_per_pod_or_is_a_gang_if_it_says_so(site: BridgeSite) -> None:
    site.apply("jobset.x-k8s.io/v1alpha2", "JobSet", "s", job_set(site.scheduler))
    assert len(await site.jobs(await site.wait_pods(2, succeeded, "end"))) == 2
    site.lab.kubectl("delete", "jobset", "s", "-n", site.namespace)
    await site.wait_no_pods()
    site.apply("jobset.x-k8s.io/v1alpha2", "JobSet", "s", job_set(site.scheduler), annotations=GANG)
    (job,) = await site.jobs(await site.wait_pods(2, succeeded, "end"))
    assert job.name == "s"


async def test_options_of_a_jobset_count_above_the_group_that_kubernetes_creates(site: BridgeSite) -> None:
    """Kubernetes creates a native PodGroup for each Job with completion indexes and more than one parallel pod."""
    pod = {"template": {"spec": template(site.scheduler, "sleep 3")}}
    inner = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", **pod}
    spec = {"replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": inner}}]}
    options = {names.OPTION + "comment": "of the JobSet", names.OPTION + "exclusive": "false"}
    site.apply("jobset.x-k8s.io/v1alpha2", "JobSet", "s", spec, annotations=options)
    pods = await site.wait_pods(2, succeeded, "end")
    assert all(pod.spec.scheduling_group for pod in pods)
    (job,) = await site.jobs(pods)
    assert (job.name, job.comment) == ("s-w-0", "of the JobSet")


async def test_a_pod_sees_exactly_the_devices_that_slurm_granted(site: BridgeSite) -> None:
    shared = {names.OPTION + "exclusive": "false"}
    gpus = {"limits": {"example.com/gpu": "2", "cpu": "500m", "memory": "64Mi"}}
    for name in ("a", "b"):
        spec = template(site.scheduler, "env | grep -i gpu; sleep 600", container={"resources": gpus})
        site.apply("v1", "Pod", name, {**spec, "nodeSelector": {"kubernetes.io/hostname": "node1"}}, annotations=shared)
    pods = await site.wait_pods(2, running, "run")
    seen: dict[str, set[str]] = {}
    for pod, job in zip(sorted(pods, key=lambda p: p.metadata.name), await site.jobs(pods), strict=True):
        log = await site.wait_log(pod.metadata.name, "gpu-")
        (granted,) = await site.ctld.resources(int(pod.metadata.labels[names.JOB_LABEL]))
        assert granted.gres[0].count == 2
        first, _, last = (granted.gres[0].index or "").partition("-")
        seen[pod.metadata.name] = {f"gpu-{i}" for i in range(int(first), int(last or first) + 1)}
        assert all(device in log for device in seen[pod.metadata.name]), (log, granted, job)
    assert not seen["a"] & seen["b"]


async def test_a_claim_of_a_pod_is_allocated_by_slurm(site: BridgeSite) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 1}}
    site.apply("resource.k8s.io/v1", "ResourceClaimTemplate", "one", {"spec": {"devices": {"requests": [request]}}})
    container = {"resources": {"claims": [{"name": "device"}]}}
    claims = [{"name": "device", "resourceClaimTemplateName": "one"}]
    site.create_pod("p", "env | grep -i gpu; sleep 600", container=container, resourceClaims=claims)
    (pod,) = await site.wait_pods(1, running, "run")
    (job,) = await site.jobs([pod])
    assert "gres/gpu:gpu.example.com:1" in job.tres_per_node
    await site.wait_log("p", "gpu-")


async def test_a_volume_that_waits_for_its_first_pod_is_provisioned_on_its_node(site: BridgeSite) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    site.apply("v1", "PersistentVolumeClaim", "v", claim)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "v"}}]
    mounts = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    site.create_pod("p", "echo hello > /data/x", container=mounts, volumes=volumes)
    (first,) = await site.wait_pods(1, succeeded, "end")
    site.lab.kubectl("delete", "pod", "p", "-n", site.namespace)
    site.create_pod("q", "grep hello /data/x", container=mounts, volumes=volumes)
    (second,) = await site.wait_pods(1, succeeded, "end")
    assert first.spec.node_name == second.spec.node_name


async def test_a_local_volume_is_reserved_for_the_pod_on_its_node(site: BridgeSite) -> None:
    name, node = site.namespace, NODES[1]
    match = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": name}
    volume = {
        **common,
        "capacity": {"storage": "1Mi"},
        "local": {"path": VOLUMES},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [match]}]}},
    }
    kind = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    for document in (
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, **kind},
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume},
    ):
        site.lab.kubectl("apply", "-f", "-", input=json.dumps(document))
    try:
        site.apply("v1", "PersistentVolumeClaim", "v", {**common, "resources": {"requests": {"storage": "1Mi"}}})
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "v"}}]
        site.create_pod(
            "p", "test -d /data", container={"volumeMounts": [{"name": "data", "mountPath": "/data"}]}, volumes=volumes
        )
        (pod,) = await site.wait_pods(1, succeeded, "end")
        assert pod.spec.node_name == node
    finally:
        site.lab.kubectl("delete", "pod", "p", "-n", site.namespace, "--ignore-not-found")
        site.lab.kubectl("delete", "pvc", "v", "-n", site.namespace, "--ignore-not-found")
        site.lab.kubectl("delete", "pv,storageclass", name, "--ignore-not-found")
