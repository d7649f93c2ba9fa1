# SPDX-License-Identifier: Apache-2.0
"""Runs workloads of all shapes at once in one namespace, and checks their jobs."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from tests.e2e.bridge.bridge_site import condition_text
from tests.e2e.bridge.workload_shapes import LABEL, Shape
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.bridge.views import OUR_PODS, WorkloadPod
from slinky.kube import KubeClient
from slinky.lab.lab import Lab


class JobRecord(NamedTuple):
    """What a run compares of a job."""

    name: str
    comment: str
    live: bool


#: Lists every job that slurmctld knows, by its id.
ListJobs = Callable[[], Awaitable[Mapping[str, JobRecord]]]


class ShapeRun:
    """One run of all shapes. A shape that lasts is deleted once it runs, so that the others get its place."""

    def __init__(self, lab: Lab, kube: KubeClient, namespace: str, jobs: ListJobs) -> None:
        self._lab, self._kube, self._namespace, self._jobs = lab, kube, namespace, jobs
        self._ids: dict[str, set[str]] = {}  # the ids of the jobs of each shape that is done

    async def run(self, shapes: dict[str, Shape]) -> None:
        """Run every shape to its end and compare its jobs; then no pod and no live job is left."""
        self._kubectl("create", *shapes.values())

        async def all_done() -> bool:
            await self._collect(shapes)
            return len(self._ids) == len(shapes)

        await eventually(all_done, "the end of every workload")
        jobs = await self._jobs()
        for name, shape in shapes.items():
            records = [jobs[job_id] for job_id in self._ids[name]]
            assert (name, len(records)) == (name, shape.jobs)
            assert {record.comment for record in records} == {name}
            assert not shape.job_name or {record.name for record in records} == {shape.job_name}
        self._kubectl("delete", *(shape for shape in shapes.values() if not shape.lasts))
        await eventually(self._nothing_left, "no pod and no live job")

    async def _collect(self, shapes: dict[str, Shape]) -> None:
        """Note the jobs of the shapes that are done; the others are the answer that a failed wait shows."""
        pods = await self._kube.list(OUR_PODS, namespace=self._namespace)
        for name, shape in shapes.items():
            members = [pod for pod in pods if pod.metadata.labels.get(LABEL) == name]
            if name not in self._ids and len(members) == shape.pods and all(is_done(pod, shape) for pod in members):
                self._ids[name] = {pod.metadata.labels[names.JOB_LABEL] for pod in members}
                if shape.lasts:
                    self._kubectl("delete", shape)
        states = [(pod.metadata.name, pod.status.phase, condition_text(pod)) for pod in pods]
        left = sorted(shapes.keys() - self._ids.keys())
        assert not left, (left, [state for state in states if state[1] != "Succeeded"])

    async def _nothing_left(self) -> bool:
        pods = [pod.metadata.name for pod in await self._kube.list(OUR_PODS, namespace=self._namespace)]
        jobs = await self._jobs()
        live = [job_id for ids in self._ids.values() for job_id in ids if job_id in jobs and jobs[job_id].live]
        assert (pods, live) == ([], [])
        return True

    def _kubectl(self, verb: str, *shapes: Shape) -> None:
        """Create or delete every object of some shapes."""
        items: list[Any] = [manifest for shape in shapes for manifest in shape.manifests]
        document = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        options = ("--wait=false",) if verb == "delete" else ()
        self._lab.kubectl(verb, "-n", self._namespace, "-f", "-", *options, input=document)


def is_done(pod: WorkloadPod, shape: Shape) -> bool:
    return pod.status.phase == ("Running" if shape.lasts else "Succeeded")
