# SPDX-License-Identifier: Apache-2.0
"""A bridge that its chart has installed in the lab, and one namespace whose pods it schedules."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.bridge.views import OUR_PODS, WorkloadPod
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


class BridgeSite:
    """One namespace of the lab with the bridge."""

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

    def create_pod(
        self, name: str, command: str = "sleep 600", *, labels: dict[str, str] | None = None, **fields: Any
    ) -> None:
        self.apply("v1", "Pod", name, template(self.scheduler, command, **fields), labels=labels or {})

    async def wait_pods(self, count: int, check: Callable[[WorkloadPod], bool], what: str) -> list[WorkloadPod]:
        """Wait until the namespace has so many pods and each passes the check."""

        async def all_pass() -> list[WorkloadPod]:
            pods = await self.kube.list(OUR_PODS, namespace=self.namespace)
            states = {pod.metadata.name: (pod.status.phase, condition_text(pod)) for pod in pods}
            assert len(pods) == count, states
            assert all(check(pod) for pod in pods), states
            return pods

        return await eventually(all_pass, f"{count} pods {what}")

    async def wait_no_pods(self) -> None:
        """Wait until the namespace has no pods."""

        async def none_left() -> bool:
            return not await self.kube.list(OUR_PODS, namespace=self.namespace)

        await eventually(none_left, f"no pods in {self.namespace}")

    async def wait_log(self, pod: str, text: str = "\n") -> str:
        """Wait until the log of a pod has this text; a container that runs may not have written yet."""

        async def log() -> str:
            content = await asyncio.to_thread(self.lab.kubectl, "logs", pod, "-n", self.namespace)
            assert text in content, content
            return content

        return await eventually(log, f"{text!r} in the log of {pod}")

    async def jobs(self, pods: list[WorkloadPod]) -> list[Job]:
        """The Slurm jobs of some pods."""
        ids = {pod.metadata.labels[names.JOB_LABEL] for pod in pods}
        return [await self.ctld.job(job) for job in sorted(ids, key=int)]


def condition_text(pod: WorkloadPod) -> str:
    """Reason and message of the pod's condition."""
    condition = find_condition(pod.status.conditions, names.SCHEDULED)
    return f"{condition.reason}: {condition.message}" if condition else ""


def running(pod: WorkloadPod) -> bool:
    return pod.status.phase == "Running"


def succeeded(pod: WorkloadPod) -> bool:
    return pod.status.phase == "Succeeded"
