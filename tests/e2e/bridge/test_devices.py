# SPDX-License-Identifier: Apache-2.0
"""Devices on real kubelets: the lab's driver refuses to prepare a device twice, and containers print their devices."""

import contextlib
import json
from typing import Any

from tests.e2e.bridge.bridge_site import BridgeSite, running, template
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.bridge.views import OUR_PODS, RESOURCE_CLAIMS
from slinky.slurm import SlurmError

GANG = {names.OPTION + "gang": "true"}
SHARED = {names.OPTION + "exclusive": "false"}
PRINT_DEVICES = "echo $GPU_DEVICES; sleep 600"


def claim(site: BridgeSite, name: str, **exactly: Any) -> list[dict[str, str]]:
    """A claim of GPUs; returns the field of a pod that refers to it."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", **exactly}}
    site.apply("resource.k8s.io/v1", "ResourceClaim", name, {"devices": {"requests": [request]}})
    return [{"name": "device", "resourceClaimName": name}]


async def printed_devices(site: BridgeSite, pod: str) -> set[str]:
    return set((await site.wait_log(pod)).strip().split(","))


async def test_pods_of_a_gang_share_the_devices_of_one_claim(site: BridgeSite) -> None:
    model = 'device.attributes["gpu.example.com"].model == "LAB-80G"'
    claims = claim(site, "ours", count=3, selectors=[{"cel": {"expression": model}}])
    container = {"resources": {"claims": [{"name": "device"}]}}
    spec = {
        "parallelism": 2,
        "completions": 2,
        "template": {"spec": template(site.scheduler, PRINT_DEVICES, container=container, resourceClaims=claims)},
    }
    site.apply("batch/v1", "Job", "j", spec, annotations={**GANG, names.OPTION + "pods-per-node": "2"})
    pods = await site.wait_pods(2, running, "run together")
    (job,) = await site.jobs(pods)
    assert "gres/gpu:gpu.example.com:3" in job.tres_per_node
    first, second = [await printed_devices(site, pod.metadata.name) for pod in pods]
    assert first == second
    assert len(first) == 3


async def test_devices_pass_from_pod_to_pod_and_are_never_prepared_twice(site: BridgeSite) -> None:
    """Ten pods request 15 GPUs of 8, and three of their jobs are cancelled; the driver accepts every start."""
    for number in range(10):
        limits = {"example.com/gpu": str(1 + number % 2), "cpu": "50m", "memory": "16Mi"}
        spec = template(site.scheduler, "sleep 2", container={"resources": {"limits": limits}})
        site.apply("v1", "Pod", f"p{number}", spec, annotations=SHARED)
    cancelled: set[str] = set()

    async def all_ended() -> bool:
        pods = await site.kube.list(OUR_PODS, namespace=site.namespace)
        for pod in [pod for pod in pods if running(pod) and not pod.metadata.deleting][: 3 - len(cancelled)]:
            with contextlib.suppress(SlurmError):  # the job may just have ended by itself
                await site.ctld.cancel(int(pod.metadata.labels[names.JOB_LABEL]))
                cancelled.add(pod.metadata.uid)
        return all(pod.status.phase in ("Succeeded", "Failed") for pod in pods)

    await eventually(all_ended, "the end of every pod")
    assert cancelled
    events = json.loads(site.lab.kubectl("get", "events", "-n", site.namespace, "-o", "json"))["items"]
    failures = [
        event["message"] for event in events if event["reason"] in {"FailedPrepareDynamicResources", "FailedBinding"}
    ]
    assert not failures

    async def nothing_allocated() -> bool:
        claims = await site.kube.list(RESOURCE_CLAIMS, namespace=site.namespace)
        return not [claim for claim in claims if claim.status.allocation]

    await eventually(nothing_allocated, "no allocated claim")
