# SPDX-License-Identifier: Apache-2.0
"""One namespace of the lab, and what tests ask of it."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

from slinky.bridge import names
from slinky.bridge.state.views import OUR_PODS, WorkloadPod
from slinky.kube import KubeClient
from slinky.kube.conditions import find_condition
from slinky.lab.lab import Lab
from slinky.lab.prepare.images import reference
from slinky.slurm import Job
from slinky.slurm import SlurmClient as Slurm


def template(scheduler: str, command: str = "sleep 3", **more: Any) -> dict[str, Any]:
    """The spec of a pod that runs a shell command."""
    container = {
        "name": "c",
        "image": reference("busybox"),
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", command],
        **more.pop("container", {}),
    }
    return {
        "schedulerName": scheduler,
        "terminationGracePeriodSeconds": 1,
        "restartPolicy": "Never",
        "containers": [container],
        **more,
    }


class Stage:
    """One namespace of the lab."""

    def __init__(self, lab: Lab, kube: KubeClient, ctld: Slurm, namespace: str, scheduler: str) -> None:
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

    async def pods(
        self, count: int, check: Callable[[WorkloadPod], bool], what: str, seconds: float = 60
    ) -> list[WorkloadPod]:
        end = time.monotonic() + seconds
        found: list[WorkloadPod] = []
        while time.monotonic() < end:
            found = await self.kube.list(OUR_PODS, namespace=self.namespace)
            if len(found) == count and all(check(pod) for pod in found):
                return found
            await asyncio.sleep(0.2)
        states = {pod.metadata.name: (pod.status.phase, said(pod)) for pod in found}
        raise AssertionError(f"{count} pods {what}: {states}")

    async def jobs(self, pods: list[WorkloadPod]) -> list[Job]:
        ids = {pod.metadata.labels[names.JOB_LABEL] for pod in pods}
        return [await self.ctld.job(job) for job in sorted(ids, key=int)]


def said(pod: WorkloadPod) -> str:
    condition = find_condition(pod.status.conditions, names.SCHEDULED)
    return f"{condition.reason}: {condition.message}" if condition else ""


def running(pod: WorkloadPod) -> bool:
    return pod.status.phase == "Running"


def succeeded(pod: WorkloadPod) -> bool:
    return pod.status.phase == "Succeeded"
