# SPDX-License-Identifier: Apache-2.0
"""Devices on real kubelets: the lab's driver refuses to prepare a device twice, and containers tell what they see."""

import asyncio
import contextlib
import json
from typing import Any

from tests.e2e.bridge.stage import Stage, running, succeeded, template

from slinky.bridge import names
from slinky.bridge.state.views import OUR_PODS, RESOURCE_CLAIMS
from slinky.slurm import SlurmError

GANG = {names.OPTION + "gang": "true"}
SHARED = {names.OPTION + "exclusive": "false"}
SEES = "echo $GPU_DEVICES; sleep 60"


def claim(scheduled: Stage, name: str, **exactly: Any) -> list[dict[str, str]]:
    """A claim of GPUs, and how a pod names it."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", **exactly}}
    scheduled.apply("resource.k8s.io/v1", "ResourceClaim", name, {"devices": {"requests": [request]}})
    return [{"name": "device", "resourceClaimName": name}]


def sees(scheduled: Stage, pod: str) -> set[str]:
    return set(scheduled.lab.kubectl("logs", pod, "-n", scheduled.namespace).strip().split(","))


async def test_pods_of_a_gang_share_the_devices_of_one_claim(stage: Stage) -> None:
    model = 'device.attributes["gpu.example.com"].model == "LAB-80G"'
    wanted = claim(stage, "ours", count=3, selectors=[{"cel": {"expression": model}}])
    container = {"resources": {"claims": [{"name": "device"}]}}
    spec = {
        "parallelism": 2,
        "completions": 2,
        "template": {"spec": template(stage.scheduler, SEES, container=container, resourceClaims=wanted)},
    }
    stage.apply("batch/v1", "Job", "j", spec, annotations={**GANG, names.OPTION + "pods-per-node": "2"})
    pods = await stage.pods(2, running, "run together")
    (job,) = await stage.jobs(pods)
    assert "gres/gpu:gpu.example.com:3" in job.tres_per_node
    first, second = (sees(stage, pod.metadata.name) for pod in pods)
    assert first == second
    assert len(first) == 3


async def test_devices_go_from_pod_to_pod_and_no_kubelet_sees_one_twice(stage: Stage) -> None:
    """Ten pods want 15 GPUs of 8, some of their jobs are cancelled; every start is a driver's yes."""
    mine = {"resources": {"limits": {"example.com/gpu": "2", "cpu": "50m", "memory": "16Mi"}}}
    for number in range(10):
        gpus = {"limits": {**mine["resources"]["limits"], "example.com/gpu": str(1 + number % 2)}}
        spec = template(stage.scheduler, "echo $GPU_DEVICES; sleep 2", container={"resources": gpus})
        stage.apply("v1", "Pod", f"p{number}", spec, annotations=SHARED)
    cancelled = 0
    async with asyncio.timeout(240):
        while True:
            pods = await stage.kube.list(OUR_PODS, namespace=stage.namespace)
            if cancelled < 3 and (some := [pod for pod in pods if running(pod) and not pod.metadata.deleting]):
                with contextlib.suppress(SlurmError):  # it may just have ended by itself
                    await stage.ctld.cancel(int(some[0].metadata.labels[names.JOB_LABEL]))
                    cancelled += 1
            left = [pod for pod in pods if not succeeded(pod) and pod.status.phase != "Failed"]
            if not left:
                break
            await asyncio.sleep(0.3)
    assert cancelled
    events = json.loads(stage.lab.kubectl("get", "events", "-n", stage.namespace, "-o", "json"))["items"]
    trouble = [
        event["message"] for event in events if event["reason"] in {"FailedPrepareDynamicResources", "FailedBinding"}
    ]
    assert not trouble
    for _ in range(100):
        if not [
            one for one in await stage.kube.list(RESOURCE_CLAIMS, namespace=stage.namespace) if one.status.allocation
        ]:
            break
        await asyncio.sleep(0.2)
    assert not [
        one for one in await stage.kube.list(RESOURCE_CLAIMS, namespace=stage.namespace) if one.status.allocation
    ]
