# SPDX-License-Identifier: Apache-2.0
"""Submits the job of a workload exactly once.

A live job that was submitted for exactly these pods is adopted. If enough hosts look idle, the submitter tries one
immediate allocation; a rejected one leaves a job record in Slurm, so similar jobs are not tried for a while. Otherwise
it submits the job to the queue. If it is not known whether a submission succeeded, Slurm is searched for the job before
the next submission. A request that is cancelled counts as one whose outcome is not known.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from slinky.bridge import metrics
from slinky.bridge.lifecycle.start_forecast import StartForecast
from slinky.bridge.state.job_discovery import JobDiscovery
from slinky.bridge.state.job_registry import JobEntry, JobRegistry
from slinky.bridge.status.rejections import REJECTIONS
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import identity
from slinky.bridge.workload.grouping import Workload
from slinky.bridge.workload.identity import AdminComment
from slinky.bridge.workload.job_spec import JobSpec
from slinky.kube import Later
from slinky.observe import Clock, Log
from slinky.slurm import (
    Busy,
    JobRequest,
    Mirror,
    Rejected,
    Retryable,
    SlurmClient,
    SlurmConflict,
    SlurmError,
    SlurmNotFound,
    number,
)

log = Log("slinky.bridge.lifecycle.submit")

MAX_PRIORITY = 2**31 - 1
#: Clears the excluded hosts of a job: Slurm ignores a field that is missing or an empty list in an update.
NO_HOST = ("",)
#: Fields that an update does not change. A hold must not be repeated: a user may have released the job.
FIXED_FIELDS = (*identity.IMMUTABLE_FIELDS, "hold", "immediate")

#: Stands for the digest of the requests of a job whose update may or may not have been applied.
OUTDATED_SPEC = "outdated"

#: Seconds without immediate allocations in a partition after one was rejected: first, and longest.
FIRST_PAUSE, LONGEST_PAUSE = 10.0, 1800.0


class JobOutgrown(Exception):  # noqa: N818 -- a property of a job; the caller decides what follows from it
    """A pending job cannot be updated to what its pods request now; it has to be replaced."""


class GangReshaped(JobOutgrown):
    """A pending job has other components than its pods need now."""


class AllocationPause(NamedTuple):
    """How many immediate allocations were rejected in a row, and until when none is tried."""

    rejections: int
    until: float


def has_other_user(request: JobRequest) -> bool:
    """Whether the job belongs to another user or group than the bridge's own.

    slurmrestd ignores both in an immediate allocation and starts the job as the user of the token.
    """
    return request.user_id is not None or request.group_id is not None


class Submitter:
    """Submits and updates the jobs of workloads."""

    def __init__(
        self,
        client: SlurmClient,
        mirror: Mirror,
        registry: JobRegistry,
        discovery: JobDiscovery,
        clock: Clock,
        *,
        allocate_first: bool,
    ) -> None:
        self._client, self._mirror, self._registry, self._discovery = client, mirror, registry, discovery
        self._clock = clock
        self._allocate_first = allocate_first
        self._forecast = StartForecast(mirror)
        # Workloads of which a submission may or may not have succeeded, and when it was given up or sent.
        self._uncertain: dict[Workload, float] = {}
        self._pauses: dict[tuple[str, str, str], AllocationPause] = {}  # by partition, account and QOS

    async def submit(self, workload: Workload, job_spec: JobSpec, *, allocate: bool) -> str:
        """Submit the job of a workload, with an immediate allocation if `allocate`; its id. Raises errors of Slurm."""
        with metrics.SUBMIT_SECONDS.time():
            return await self._submit_once(workload, job_spec, self._allocate if allocate else self._queue)

    async def submit_replacement(self, workload: Workload, job_spec: JobSpec, hosts: Sequence[str]) -> tuple[str, str]:
        """Submit a new job for running pods of one role on exactly these hosts; its id and SLUID. Raises errors of
        Slurm.

        The job has the highest priority, because it requests nothing that its pods do not already use. The number of
        nodes is the number of hosts: some of the pods that shared a node may have ended.
        """
        size = {"nodes": str(len(hosts)), "minimum_nodes": len(hosts), "maximum_nodes": len(hosts)}
        place = {"required_nodes": tuple(hosts), "excluded_nodes": None}
        # The pods run already, so nothing that delays a start concerns them any more.
        start = {"priority": number(MAX_PRIORITY), "begin_time": None, "dependency": None}
        fields = {**size, **place, **start}

        async def send(requests: Sequence[JobRequest]) -> str:
            request = msgspec.structs.replace(requests[0], **fields)
            if has_other_user(request):
                # A job that waits would leave the pods on nodes that Slurm has given to others.
                accepted = await self._client.submit(msgspec.structs.replace(request, immediate=True))
            else:
                accepted = await self._client.allocate(request)
            metrics.SUBMISSIONS.labels("reclaim").inc()
            return str(accepted.job_id)

        job = await self._submit_once(workload, job_spec, send)
        return job, (await self._client.job(job)).sluid

    async def is_reallocated(self, error: Rejected, request: JobRequest, hosts: Sequence[str]) -> bool:
        """Whether a replacement was rejected because other jobs have a host, by a list of hosts read after it.

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

    async def _submit_once(
        self, workload: Workload, job_spec: JobSpec, send: Callable[[Sequence[JobRequest]], Awaitable[str]]
    ) -> str:
        """The live job of these pods, or a new one. Searches Slurm first if an earlier submission is uncertain."""
        pods = [pod for role in job_spec.roles for pod in role]
        if not self._registry.is_searched_for(pods):
            raise Later("Slurm has not been searched for jobs of this bridge yet", after=1)
        if (since := self._uncertain.get(workload)) is not None:
            await self._discovery.search(since)
            del self._uncertain[workload]
        if (entry := self.find_live_job(workload, pods)) is not None:
            return entry.job
        signed = identity.sign(job_spec.requests, job_spec.roles, self._registry.bridge, str(workload))
        # Before the request is sent: a deadline, a stop or a lost lease may cancel it after slurmctld has received it.
        self._uncertain[workload] = self._clock.monotonic()
        try:
            job = await send(signed)
        except BaseException as error:
            # Only a search that begins after this moment can find the job.
            self._uncertain[workload] = self._clock.monotonic()
            if isinstance(error, SlurmError) and not (isinstance(error, Retryable) and error.maybe_applied):
                del self._uncertain[workload]
            raise
        del self._uncertain[workload]
        # Slurm reuses job ids after a loss of state: what is registered under this id belongs to another job.
        self._registry.forget(job)
        await self._registry.record_submitted(_entry(job, workload, signed[0], pods), exact=job_spec.needs_device_ids)
        return job

    def find_live_job(self, workload: Workload, pods: Iterable[WorkloadPod]) -> JobEntry | None:
        """A live job that was submitted for exactly these pods."""
        members = identity.members_digest(pods)
        entries = [entry for entry in self._registry.entries_of(workload) if entry.members_digest == members]
        return next((entry for entry in entries if self._registry.is_live(entry.job)), None)

    def would_start(self, job_spec: JobSpec) -> bool:
        """Whether an immediate allocation is worth a try. Heterogeneous jobs are started only by backfill."""
        if not self._allocate_first or len(job_spec.requests) != 1 or has_other_user(job_spec.request):
            return False
        return not self._is_paused(job_spec.request) and self._forecast.would_start(job_spec.request)

    @contextlib.contextmanager
    def reserve_start(self, job_spec: JobSpec) -> Iterator[bool]:
        """Whether an immediate allocation is worth a try; if it is, no other job counts on the same hosts meanwhile."""
        if not self.would_start(job_spec):
            yield False
            return
        with self._forecast.reserve(job_spec.request):
            yield True

    def _is_paused(self, request: JobRequest) -> bool:
        pause = self._pauses.get(_limits_of(request))
        return pause is not None and self._clock.monotonic() < pause.until

    async def _allocate(self, requests: Sequence[JobRequest]) -> str:
        if self._is_paused(requests[0]):
            return await self._queue(requests)  # another allocation was rejected meanwhile
        try:
            accepted = await self._client.allocate(requests[0])
        except Rejected as error:
            # An immediate allocation is also rejected for a limit that is reached now; the queue waits for it.
            if error.number in REJECTIONS:
                raise
            log.info("immediate allocation rejected, queueing the job instead", error=error)
            self._pause_allocations(requests[0])
            return await self._queue(requests)
        self._pauses.pop(_limits_of(requests[0]), None)
        metrics.SUBMISSIONS.labels("allocate").inc()
        return str(accepted.job_id)

    def _pause_allocations(self, request: JobRequest) -> None:
        """Queue similar jobs for a while: each rejected allocation leaves a FAILED record in Slurm."""
        key = _limits_of(request)
        rejections = self._pauses[key].rejections if key in self._pauses else 0
        delay = min(FIRST_PAUSE * 2.0 ** min(rejections, 20), LONGEST_PAUSE)
        self._pauses[key] = AllocationPause(rejections + 1, self._clock.monotonic() + delay)

    async def _queue(self, requests: Sequence[JobRequest]) -> str:
        accepted = await self._client.submit(*requests)
        metrics.SUBMISSIONS.labels("submit").inc()
        return str(accepted.job_id)

    async def revise(self, workload: Workload, job: str, job_spec: JobSpec, pods: Iterable[WorkloadPod]) -> bool:
        """Update a pending job; false if the job is no longer pending. Raises `JobOutgrown`."""
        group = list(pods)
        components = self._registry.track_components(job) or []
        if len(components) != len(job_spec.requests):
            raise GangReshaped(
                f"Slurm job {job} has {len(components)} components, but its pods need {len(job_spec.requests)}"
            )
        if problem := identity.update_obstacle(self._registry.signature_of(job), job_spec.requests):
            raise JobOutgrown(f"Slurm job {job} {problem}")
        signed = identity.sign(job_spec.requests, job_spec.roles, self._registry.bridge, str(workload))
        entries = [entry for entry in self._registry.entries_of(workload) if entry.job == job and entry.signature.v]
        # Before the request is sent: a cancelled update may have been applied, so the job counts as outdated after it.
        for entry in entries:
            self._registry.track(_outdated(entry, signed[0]))
        try:
            # The first component comes last: its signature marks the update of all components as complete.
            for component, request in reversed(list(zip(components, signed, strict=True))):
                fields = {**dict.fromkeys(FIXED_FIELDS), "excluded_nodes": request.excluded_nodes or NO_HOST}
                await self._client.update_job(int(component.job_id), msgspec.structs.replace(request, **fields))
        except Rejected as error:
            for entry in entries if len(components) == 1 else ():
                self._registry.track(entry)
            if not isinstance(error, SlurmConflict | SlurmNotFound):
                raise
            self._mirror.request_refresh()
            return False
        self._registry.track(_entry(job, workload, signed[0], group))
        return True


def _limits_of(request: JobRequest) -> tuple[str, str, str]:
    """What decides whether Slurm can start a job now, apart from its size."""
    return request.partition or "", request.account or "", request.qos or ""


def _entry(job: str, workload: Workload, signed: JobRequest, pods: list[WorkloadPod]) -> JobEntry:
    comment = identity.parse_comment(signed.admin_comment or "") or AdminComment()
    return JobEntry(job, workload, comment.slinky, frozenset(str(pod.key) for pod in pods))


def _outdated(entry: JobEntry, signed: JobRequest) -> JobEntry:
    """The entry of a job whose update is in flight: it has the fields of both versions, and the digest of neither."""
    comment = identity.parse_comment(signed.admin_comment or "") or AdminComment()
    fields = sorted({*entry.signature.set_fields, *comment.slinky.set_fields})
    return replace(entry, signature=msgspec.structs.replace(entry.signature, spec=OUTDATED_SPEC, set_fields=fields))
