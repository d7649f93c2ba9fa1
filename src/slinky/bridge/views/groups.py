# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF012 -- msgspec gives each struct its own copy of an empty default
"""Grouping objects: batch jobs, JobSets, LeaderWorkerSets, and the PodGroup of the coscheduling project."""

from typing import Any

from slinky.bridge.views.pods import Amounts
from slinky.kube import Object, Resource, View


class WorkloadBatchJobSpec(View, frozen=True):
    """The spec of a batch job."""

    parallelism: int | None = None
    completions: int | None = None
    active_deadline_seconds: int | None = None


class WorkloadBatchJobStatus(View, frozen=True):
    """The status of a batch job."""

    succeeded: int = 0


class WorkloadBatchJob(Object, frozen=True):
    """A batch job."""

    spec: WorkloadBatchJobSpec = WorkloadBatchJobSpec()
    status: WorkloadBatchJobStatus = WorkloadBatchJobStatus()


class JobTemplate(View, frozen=True):
    """The template of the batch jobs of a JobSet."""

    spec: WorkloadBatchJobSpec = WorkloadBatchJobSpec()


class ReplicatedJob(View, frozen=True):
    """A batch job of a JobSet and the number of its replicas."""

    name: str = ""
    replicas: int = 1
    template: JobTemplate = JobTemplate()
    depends_on: tuple[Any, ...] = ()


class StartupPolicy(View, frozen=True):
    """Whether the batch jobs of a JobSet start in order."""

    startup_policy_order: str = ""


class JobSetSpec(View, frozen=True):
    """The spec of a JobSet."""

    replicated_jobs: tuple[ReplicatedJob, ...] = ()
    startup_policy: StartupPolicy | None = None


class JobSet(Object, frozen=True):
    """A JobSet."""

    spec: JobSetSpec = JobSetSpec()


class LeaderWorkerTemplate(View, frozen=True):
    """The template of the groups of a LeaderWorkerSet."""

    size: int = 1


class LwsSpec(View, frozen=True):
    """The spec of a LeaderWorkerSet."""

    leader_worker_template: LeaderWorkerTemplate = LeaderWorkerTemplate()
    startup_policy: str = ""


class LeaderWorkerSet(Object, frozen=True):
    """A LeaderWorkerSet."""

    spec: LwsSpec = LwsSpec()


class PodGroupSpec(View, frozen=True):
    """The spec of a PodGroup."""

    min_member: int = 0
    min_resources: Amounts = {}


class PodGroup(Object, frozen=True):
    """A PodGroup of scheduling.x-k8s.io."""

    spec: PodGroupSpec = PodGroupSpec()


BATCH_JOBS = Resource("batch/v1", "Job", "jobs", WorkloadBatchJob)
JOB_SETS = Resource("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets", JobSet)
LEADER_WORKER_SETS = Resource("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets", LeaderWorkerSet)
POD_GROUPS = Resource("scheduling.x-k8s.io/v1alpha1", "PodGroup", "podgroups", PodGroup)
