# SPDX-License-Identifier: Apache-2.0
"""Workloads of every shape that users of slurm-bridge submit: one builder per kind of its example manifests.

The options of a shape are on its root, and `comment` is the name of the shape, so that its jobs show whether the
options were read. Every pod has the name of its shape in the label `shape`.
"""

from dataclasses import dataclass
from typing import Any

from tests.e2e.bridge.bridge_site import template

from slinky.bridge import names

Manifest = dict[str, Any]

LABEL = "shape"
GPU = "deviceclass.resource.kubernetes.io/gpu.example.com"
COSCHEDULING, NATIVE = "scheduling.x-k8s.io/v1alpha1", "scheduling.k8s.io/v1alpha2"
JOBSET, LWS = "jobset.x-k8s.io/v1alpha2", "leaderworkerset.x-k8s.io/v1"
#: A pod without requests would have the memory of its whole host.
SMALL = {"cpu": "50m", "memory": "16Mi"}


@dataclass(frozen=True)
class Shape:
    """The objects of a workload, and how many pods and jobs they become.

    The pods of a shape that `lasts` run until they are deleted. `job_name` is the name that its options give to a job.
    """

    manifests: tuple[Manifest, ...]
    pods: int
    jobs: int
    lasts: bool = False
    job_name: str = ""


class ShapeBuilder:
    """Builds shapes for one scheduler."""

    def __init__(self, scheduler: str) -> None:
        self._scheduler = scheduler

    def all(self) -> dict[str, Shape]:
        """Every shape by its name; those that last first, because Slurm starts the others in their place."""
        return {
            "leader-worker-set": self.leader_worker_set("leader-worker-set"),
            "replica-set": self.replicated("replica-set", "ReplicaSet"),
            "stateful-set": self.replicated("stateful-set", "StatefulSet"),
            "pod": self.pod("pod"),
            "pod-cpu": self.pod("pod-cpu", requests={"cpu": "1", "memory": "16Mi"}),
            "pod-gpu": self.pod("pod-gpu", gpus=1),
            "pod-two-gpus": self.pod("pod-two-gpus", gpus=2),
            "job": self.job("job", 1, 1),
            "job-large": self.job("job-large", 3, 2),
            "job-gpu": self.job("job-gpu", 1, 1, gpus=1),
            "jobset": self.jobset("jobset", {"w": 1}, {names.OLD_OPTION + "job-name": "named"}, job_name="named"),
            "jobset-large": self.jobset("jobset-large", {"a": 2, "b": 2}),
            "jobset-coordinator": self.jobset("jobset-coordinator", {"driver": 1, "w": 1}, coordinator="driver"),
            "jobset-depends-on": self.jobset("jobset-depends-on", {"init": 1, "w": 1}, order=("init", "w")),
            "pod-group": self.pod_group("pod-group"),
            "pod-group-gpu": self.pod_group("pod-group-gpu", gpus=1),
            "workload": self.workload("workload"),
            "workload-job": self.workload_of_job("workload-job"),
        }

    def pod(self, name: str, **resources: Any) -> Shape:
        """A pod by itself."""
        return Shape((self._root("v1", "Pod", name, self._pod(**resources), labels={LABEL: name}),), 1, 1)

    def job(self, name: str, completions: int, parallelism: int, **resources: Any) -> Shape:
        """A batch job: every pod has a job of its own."""
        spec = {"completions": completions, "parallelism": parallelism, "template": self._template(name, **resources)}
        return Shape((self._root("batch/v1", "Job", name, spec),), completions, completions)

    def jobset(
        self,
        name: str,
        replicated: dict[str, int],
        options: dict[str, str] | None = None,
        *,
        coordinator: str = "",
        order: tuple[str, ...] = (),
        job_name: str = "",
    ) -> Shape:
        """A JobSet with so many pods in each batch job; with a coordinator, or one batch job after the other.

        Kubernetes makes a gang of each batch job with several indexed pods, so each batch job has one Slurm job.
        """
        jobs = [
            {
                "name": part,
                "template": {"spec": {"completions": pods, "parallelism": pods, "template": self._template(name)}},
                **({"dependsOn": [{"name": order[0], "status": "Complete"}]} if part in order[1:] else {}),
            }
            for part, pods in replicated.items()
        ]
        spec = {"replicatedJobs": jobs, **({"coordinator": {"replicatedJob": coordinator}} if coordinator else {})}
        root = self._root(JOBSET, "JobSet", name, spec, options)
        return Shape((root,), sum(replicated.values()), len(replicated), job_name=job_name)

    def leader_worker_set(self, name: str) -> Shape:
        """Two pods that start together and run until they are deleted."""
        worker = self._template(name, command="sleep 600", restartPolicy="Always")
        spec = {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": worker}}
        return Shape((self._root(LWS, "LeaderWorkerSet", name, spec),), 2, 1, lasts=True)

    def pod_group(self, name: str, **resources: Any) -> Shape:
        """A PodGroup of the coscheduling project, and a batch job without options whose pods are in it."""
        group = self._root(COSCHEDULING, "PodGroup", name, {"minMember": 2})
        pod = self._template(name, labels={names.POD_GROUP_LABEL: name}, **resources)
        return Shape((group, member("batch/v1", "Job", name, pair_of(pod))), 2, 1)

    def workload(self, name: str) -> Shape:
        """A native Workload with the options, its PodGroup, and two pods."""
        group = {"podGroupName": name}
        pods = [
            member("v1", "Pod", f"{name}-{number}", self._pod(schedulingGroup=group), labels={LABEL: name})
            for number in range(2)
        ]
        return Shape((*self._native_group(name), *pods), 2, 1)

    def workload_of_job(self, name: str) -> Shape:
        """A native Workload with the options, its PodGroup, and a batch job whose pods are in it."""
        pod = self._template(name, schedulingGroup={"podGroupName": name})
        return Shape((*self._native_group(name), member("batch/v1", "Job", name, pair_of(pod))), 2, 1)

    def replicated(self, name: str, kind: str) -> Shape:
        """A ReplicaSet or StatefulSet of one pod, which runs until it is deleted."""
        pod = self._template(name, command="sleep 600", restartPolicy="Always")
        spec = {"replicas": 1, "selector": {"matchLabels": {LABEL: name}}, "template": pod}
        return Shape((self._root("apps/v1", kind, name, spec),), 1, 1, lasts=True)

    def _native_group(self, name: str) -> tuple[Manifest, Manifest]:
        policy = {"gang": {"minCount": 2}}
        templates = {"podGroupTemplates": [{"name": "t", "schedulingPolicy": policy}]}
        source = {"workload": {"workloadName": name, "podGroupTemplateName": "t"}}
        group = {"schedulingPolicy": policy, "podGroupTemplateRef": source}
        return self._root(NATIVE, "Workload", name, templates), member(NATIVE, "PodGroup", name, group)

    def _root(
        self, api: str, kind: str, name: str, spec: Manifest, options: dict[str, str] | None = None, **meta: Any
    ) -> Manifest:
        """The object of a workload that has its options."""
        options = {names.OPTION + "comment": name, names.OPTION + "exclusive": "false", **(options or {})}
        return member(api, kind, name, spec, annotations=options, **meta)

    def _template(self, name: str, labels: dict[str, str] | None = None, **more: Any) -> Manifest:
        return {"metadata": {"labels": {LABEL: name, **(labels or {})}}, "spec": self._pod(**more)}

    def _pod(self, command: str = "true", gpus: int = 0, **more: Any) -> Manifest:
        """A pod that succeeds only with the number of GPUs that it requests."""
        resources: Manifest = {"requests": more.pop("requests", SMALL)}
        if gpus:
            command, resources["limits"] = f"test $(echo $GPU_DEVICES | tr , ' ' | wc -w) = {gpus}", {GPU: str(gpus)}
        return template(self._scheduler, command, container={"resources": resources}, **more)


def member(api: str, kind: str, name: str, spec: Manifest, **meta: Any) -> Manifest:
    """An object of a workload without options."""
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **meta}, "spec": spec}


def pair_of(pod: Manifest) -> Manifest:
    """The spec of a batch job of two pods."""
    return {"completions": 2, "parallelism": 2, "template": pod}
