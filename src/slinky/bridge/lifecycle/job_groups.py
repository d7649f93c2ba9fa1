# SPDX-License-Identifier: Apache-2.0
"""Which pods of a workload belong to which of its jobs, and what the jobs of these groups need next. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from slinky.bridge import names
from slinky.bridge.state.observed_job import JobKnowledge, ObservedJob
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import identity, pod_state
from slinky.bridge.workload.job_spec import JobSpec
from slinky.slurm import JobRecord


def labelled_jobs(pods: Iterable[WorkloadPod]) -> dict[str, str]:
    """The jobs of pods that are not finished and released, with the SLUID if a bound pod has it."""
    jobs: dict[str, str] = {}
    for pod in pods:
        job = pod_state.job_id(pod)
        if job and (pod_state.has_finalizer(pod) or not pod_state.is_gone(pod)):
            sluid = pod.metadata.annotations.get(names.SLUID_ANNOTATION, "") if pod_state.is_bound(pod) else ""
            jobs[job] = jobs.get(job) or sluid
    return jobs


def pods_without_job(pods: Sequence[WorkloadPod], groups: Mapping[str, list[WorkloadPod]]) -> list[WorkloadPod]:
    """The waiting pods without a job."""
    in_jobs = {pod.metadata.uid for group in groups.values() for pod in group}
    return [pod for pod in pods if pod_state.is_waiting(pod) and pod.metadata.uid not in in_jobs]


def active_pods(pods: Iterable[WorkloadPod]) -> tuple[WorkloadPod, ...]:
    """The pods that have not ended."""
    return tuple(pod for pod in pods if not pod_state.is_gone(pod))


def running_pods(pods: Iterable[WorkloadPod]) -> list[WorkloadPod]:
    """The pods that have a node and that nothing ends."""
    return [pod for pod in active_pods(pods) if pod_state.is_bound(pod) and not pod.metadata.deleting]


def has_ended_jobs(observed: Mapping[str, ObservedJob]) -> bool:
    """Whether a job is over, belongs to other pods, or has other nodes than its pods."""
    return any(job.knowledge not in (JobKnowledge.LIVE, JobKnowledge.UNKNOWN) for job in observed.values())


def pending_record(observed: ObservedJob) -> JobRecord | None:
    """The record of a live job that is pending; None for any other job."""
    record = observed.record
    return record if record and observed.knowledge is JobKnowledge.LIVE and record.state.pending else None


def jobs_to_place(groups: Mapping[str, list[WorkloadPod]], observed: Mapping[str, ObservedJob]) -> dict[str, JobRecord]:
    """The allocated jobs with pods that have no node yet."""
    return {
        job: record
        for job, pods in groups.items()
        if observed[job].knowledge is JobKnowledge.LIVE
        and (record := observed[job].record) is not None
        and record.state.ready
        and any(not pod_state.is_bound(pod) for pod in active_pods(pods))
    }


def running_pods_of_lost_jobs(
    groups: Mapping[str, list[WorkloadPod]], observed: Mapping[str, ObservedJob]
) -> dict[str, list[WorkloadPod]]:
    """The running pods of each job that Slurm no longer knows, or has on other nodes."""
    lost = {}
    for job, pods in groups.items():
        entry = observed[job]
        over = entry.knowledge is JobKnowledge.OVER and entry.record is not None and entry.record.lost
        is_lost = over or entry.knowledge in (JobKnowledge.FOREIGN, JobKnowledge.MOVED)
        if is_lost and (running := running_pods(pods)):
            lost[job] = running
    return lost


def ending_jobs(
    groups: Mapping[str, list[WorkloadPod]], observed: Mapping[str, ObservedJob], silent_nodes: Collection[str]
) -> list[str]:
    """The jobs that may have no active pod any more."""

    def may_be_gone(pod: WorkloadPod) -> bool:
        return pod_state.is_gone(pod) or (pod.metadata.deleting and pod.spec.node_name in silent_nodes)

    return [
        job
        for job, pods in groups.items()
        if (observed[job].knowledge is JobKnowledge.LIVE or observed[job].live_components)
        and all(map(may_be_gone, pods))
    ]


def spec_digest_of(job_spec: JobSpec | None, pods: Iterable[WorkloadPod]) -> str:
    """A digest of the job spec; empty if the job spec is not that of exactly these pods."""
    waiting = [pod for pod in pods if pod_state.is_waiting(pod)]
    return identity.spec_digest(job_spec.requests) if job_spec and job_spec.is_for(waiting) else ""
