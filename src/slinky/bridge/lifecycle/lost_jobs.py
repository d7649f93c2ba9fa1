# SPDX-License-Identifier: Apache-2.0
"""Recovers running pods whose job Slurm has lost: a new job on their nodes, or a limited number of evictions.

slurmctld forgets the last seconds before a crash, and everything if its state is lost. The containers keep running, so
Slurm must not give their nodes to other jobs, and the pods must not all be deleted. A rejection of the new job alone
evicts no pod: a drained host, a missing account or a partition that is down may be repaired. A pod is evicted if its
node was reallocated, is gone, or if Slurm might choose other devices or cores for the new job.
"""

import contextlib
from collections.abc import Iterable, Sequence

from slinky.bridge import metrics, names
from slinky.bridge.lifecycle.pod_writer import PodWriter, for_each_pod
from slinky.bridge.lifecycle.submit import Submitter
from slinky.bridge.state.cluster import ClusterState
from slinky.bridge.status.reasons import ConditionText, Reason
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import pod_state
from slinky.bridge.workload.grouping import Workload
from slinky.bridge.workload.job_spec import JobSpec
from slinky.kube import Key, Later
from slinky.kube.conditions import find_condition
from slinky.kube.rate_limit import RateLimit
from slinky.observe import Clock, Log
from slinky.slurm import Busy, JobRequest, Mirror, Rejected, SlurmClient, SlurmNotFound

log = Log("slinky.bridge.lifecycle.lost_jobs")

#: Reasons on pods that run without a job.
WITHOUT_JOB = frozenset({Reason.LOST_JOB_NOT_REPLACED.token, Reason.EVICTION_LIMITED.token})
#: Seconds until pods that reached the limit of evictions are checked again.
LIMITED_RETRY = 60.0
#: Seconds in which `lost_pods_evicted` pods may be evicted. A job that slurmctld reports as ended is a fact, and its
#: pods are evicted at once, however many. A job that slurmctld no longer knows may be the fault of a database, a
#: restored backup or a wrong address, so an administrator should have time to act.
EVICTION_WINDOW = 600.0
#: Seconds until a rejected replacement is tried again, if no other job has the nodes.
REJECTED_RETRY = 30.0
#: The same for a host that Slurm does not know: the node reconciler is registering it again.
UNKNOWN_HOST_RETRY = 3.0


class LostJobs:
    """Replaces the lost jobs of running pods."""

    def __init__(
        self,
        client: SlurmClient,
        mirror: Mirror,
        cluster: ClusterState,
        submitter: Submitter,
        writer: PodWriter,
        evictions_per_window: int,
        clock: Clock,
    ) -> None:
        self._client, self._mirror, self._cluster = client, mirror, cluster
        self._submitter, self._writer = submitter, writer
        self._evictions, self._evictions_per_window = RateLimit(EVICTION_WINDOW), evictions_per_window
        self._clock = clock

    async def recover(
        self, workload: Workload, job_spec: JobSpec | None, pods: tuple[WorkloadPod, ...], end: ConditionText
    ) -> None:
        """Submit new jobs for these pods on their nodes; evict pods that cannot have one. Raises `Later`.

        Every role gets a job of its own: a heterogeneous job would wait for backfill, and its purpose, a common start,
        no longer matters.
        """
        if self._hosts(pods) is None:
            await self._evict(pods, end)
            return
        if job_spec is None:
            await self._keep_running(pods, end, "the requests of the lost job are no longer known", REJECTED_RETRY)
            return
        retries: list[Later] = []
        for part in job_spec.split_by_role():
            try:
                await self._replace_job(workload, part, end)
            except Later as error:
                retries.append(error)
        if retries:
            raise retries[0]

    async def _replace_job(self, workload: Workload, job_spec: JobSpec, end: ConditionText) -> None:
        """Submit a new job for the pods of one role."""
        (pods,) = job_spec.roles
        hosts = self._hosts(pods)
        if hosts is None or not _is_repeatable(job_spec):
            await self._evict(pods, end)
            return
        try:
            job = await self._submitter.submit_replacement(workload, job_spec, hosts)
            sluid = (await self._client.job(job)).sluid
        except Rejected as error:
            log.info("Slurm rejected the replacement of a lost job", workload=str(workload), error=error)
            if await self._is_reallocated(error, job_spec.request, hosts):
                await self._evict(pods, end)
                return
            retry = UNKNOWN_HOST_RETRY if isinstance(error, SlurmNotFound) else REJECTED_RETRY
            await self._keep_running(pods, end, f"Slurm rejected a new job on its nodes ({error})", retry)
        else:
            log.info("replaced a lost job", workload=str(workload), job=job, pods=len(pods))
            metrics.RECOVERED_PODS.labels("kept").inc(len(pods))
            await for_each_pod(pods, lambda pod: self._writer.replace_label(pod, job, sluid))

    async def _keep_running(
        self, pods: tuple[WorkloadPod, ...], end: ConditionText, problem: str, retry: float
    ) -> None:
        """Leave pods running and write why they have no job. Raises `Later`."""
        text = Reason.LOST_JOB_NOT_REPLACED.text(end=end.message, problem=problem)
        await self._writer.write_conditions(pods, text)
        raise Later(text.message, after=retry)

    def _hosts(self, pods: Iterable[WorkloadPod]) -> list[str] | None:
        """The hosts of the pods; None if the node of one of them is gone."""
        nodes = [self._cluster.nodes.get(Key("", pod.spec.node_name)) for pod in pods]
        hosts = [pod_state.host_of(node) for node in nodes if node is not None]
        return sorted(set(hosts)) if len(hosts) == len(nodes) else None

    async def _is_reallocated(self, error: Rejected, request: JobRequest, hosts: Sequence[str]) -> bool:
        """Whether a host was rejected because other jobs have it, by a list of hosts read after the rejection.

        On a shared host that accepts no jobs at all, other jobs prove nothing.
        """
        if not isinstance(error, Busy):
            return False
        with contextlib.suppress(TimeoutError):
            await self._mirror.refresh()
            states = [self._mirror.nodes[host].state for host in hosts if host in self._mirror.nodes]
            in_use = any(state.busy and (bool(request.shared) or state.schedulable) for state in states)
            return in_use and self._mirror.nodes.unconfirmed_loss is None
        return False

    async def _evict(self, pods: tuple[WorkloadPod, ...], end: ConditionText) -> None:
        for pod in pods:
            now = self._clock.monotonic()
            if not self._evictions.remaining(self._evictions_per_window, now):
                text = Reason.EVICTION_LIMITED.text(end=end.message)
                await self._writer.write_condition(pod, text)
                raise Later(text.message, after=LIMITED_RETRY)
            self._evictions.record(now)
            metrics.RECOVERED_PODS.labels("evicted").inc()
            await self._writer.evict(pod, end)


def is_new_loss(pods: Iterable[WorkloadPod]) -> bool:
    """Whether the loss has not been reported on the pods yet. Submissions pause only once for each loss."""
    conditions = (find_condition(pod.status.conditions, names.SCHEDULED) for pod in pods)
    return not all(condition is not None and condition.reason in WITHOUT_JOB for condition in conditions)


def _is_repeatable(job_spec: JobSpec) -> bool:
    """Whether a new job gets the same devices and cores as the lost one. On a node that is shared with other jobs,
    Slurm may choose others.
    """
    return bool(job_spec.request.shared) or not job_spec.needs_device_ids
