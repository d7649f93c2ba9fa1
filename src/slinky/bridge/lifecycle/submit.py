# SPDX-License-Identifier: Apache-2.0
"""A wish becomes a job, once.

A job that already stands for exactly these pods is adopted. If the cluster seems to have room, the job is placed at
once (one try: every refusal leaves a record), otherwise and always else it is queued. When nobody knows whether a
submission went through, Slurm is searched before the next one.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec

from slinky.bridge.lifecycle.start_forecast import StartForecast
from slinky.bridge.state.job_registry import JobEntry, JobRegistry
from slinky.bridge.state.views import WorkloadPod
from slinky.bridge.status import reasons
from slinky.bridge.workload import identity
from slinky.bridge.workload.grouping import Workload
from slinky.bridge.workload.identity import AdminComment
from slinky.bridge.workload.job_spec import JobSpec
from slinky.kube import Later
from slinky.observe import Clock, Log, counter, histogram
from slinky.slurm import JobRequest, Mirror, Rejected, Retryable, SlurmClient, SlurmConflict, SlurmNotFound, number

log = Log("slinky.bridge.lifecycle.submit")

SUBMITTED = counter("slinky_bridge_submissions_total", "Jobs submitted, by how.", "how")
SUBMIT_SECONDS = histogram("slinky_bridge_submit_seconds", "How long Slurm took to accept a job.")

HIGHEST = 2**31 - 1
#: How long pods that run are given the first choice after a loss of jobs.
QUIET = 5.0
#: How an update says that no host is left out any more: what it does not mention, or gives no names for, stays.
NO_HOST = ("",)
#: What an update leaves alone: a hold is somebody's to release, not ours to repeat.
FIXED = (*identity.IMMUTABLE_FIELDS, "hold", "immediate")


class Outgrown(Exception):  # noqa: N818 -- a finding, judged by its caller
    """A waiting job cannot be brought up to what its pods ask for now: it can only be replaced."""

    reason = "JobOutgrown"


class Reshaped(Outgrown):
    """It has other components than its pods need now."""

    reason = "GangReshaped"


class Submitter:
    """Gives units their jobs."""

    def __init__(
        self, client: SlurmClient, mirror: Mirror, ledger: JobRegistry, clock: Clock, *, allocate_first: bool
    ) -> None:
        self._client, self._mirror, self._ledger, self._clock = client, mirror, ledger, clock
        self._allocate_first = allocate_first
        self._outlook = StartForecast(mirror)
        self._doubtful: set[Workload] = set()
        self._quiet_until = float("-inf")

    async def submit(self, unit: Workload, wish: JobSpec, *, at_once: bool) -> str:
        """The job that stands for the pods of a wish, placed now if it can be. Raises what Slurm answers."""
        if (left := self._quiet_until - self._clock.monotonic()) > 0:
            raise Later("Slurm has lost jobs; pods that run get theirs back first", after=left)
        with SUBMIT_SECONDS.time():
            return await self._once(unit, wish, self._place if at_once else self._queue)

    def pause(self) -> None:
        """Slurm has lost a job: for a short while nothing new is submitted that could take nodes of running pods."""
        self._quiet_until = self._clock.monotonic() + QUIET

    async def reclaim(self, unit: Workload, wish: JobSpec, hosts: Sequence[str]) -> str:
        """A new job for pods of one role that run already, on exactly these hosts. Raises what Slurm answers.

        Its priority is the highest there is: it asks for nothing that its pods do not have. Some of those that once
        shared a node may have ended: it is the hosts that are counted.
        """
        size = {"nodes": str(len(hosts)), "minimum_nodes": len(hosts), "maximum_nodes": len(hosts)}
        here = {**size, "required_nodes": tuple(hosts), "excluded_nodes": None, "priority": number(HIGHEST)}

        async def send(requests: Sequence[JobRequest]) -> str:
            accepted = await self._client.allocate(msgspec.structs.replace(requests[0], **here))
            SUBMITTED.labels("reclaim").inc()
            return str(accepted.job_id)

        return await self._once(unit, wish, send)

    async def _once(self, unit: Workload, wish: JobSpec, send: Callable[[Sequence[JobRequest]], Awaitable[str]]) -> str:
        """The job that already stands for these pods, or a new one. When nobody knows, Slurm is searched first."""
        if not self._ledger.searched.is_set():
            raise Later("Slurm has not been searched for our jobs yet", after=1)
        if unit in self._doubtful:
            await self._ledger.search()
            self._doubtful.discard(unit)
        pods = [pod for role in wish.roles for pod in role]
        if (known := self.standing(unit, pods)) is not None:
            return known.job
        signed = identity.sign(wish.requests, wish.roles, self._ledger.bridge, str(unit))
        try:
            job = await send(signed)
        except Retryable as error:
            if error.maybe_applied:
                self._doubtful.add(unit)
            raise
        # Ids are used again after a loss: whatever was known under this one is about another job.
        self._ledger.forget(job)
        await self._ledger.record_submitted(_entry(job, unit, signed[0], pods), exact=wish.needs_device_ids)
        return job

    def standing(self, unit: Workload, pods: Iterable[WorkloadPod]) -> JobEntry | None:
        """A live job that already stands for exactly these pods."""
        members = identity.members_digest(pods)
        fitting = [entry for entry in self._ledger.entries_of(unit) if entry.members_digest == members]
        return next((entry for entry in fitting if self._ledger.is_live(entry.job)), None)

    def at_once(self, wish: JobSpec) -> bool:
        """Whether the job would probably start now. Slurm places heterogeneous jobs by its backfill alone."""
        return self._allocate_first and len(wish.requests) == 1 and self._outlook.fits(wish.request)

    async def _place(self, requests: Sequence[JobRequest]) -> str:
        try:
            with self._outlook.asking(requests[0]):
                accepted = await self._client.allocate(requests[0])
        except Rejected as error:
            # Also a limit that others are at is refused at once, and waited for in the queue.
            if error.number in reasons.REFUSED:
                raise
            log.info("not at once after all, queueing instead", why=str(error))
            return await self._queue(requests)
        SUBMITTED.labels("allocate").inc()
        return str(accepted.job_id)

    async def _queue(self, requests: Sequence[JobRequest]) -> str:
        accepted = await self._client.submit(*requests)
        SUBMITTED.labels("submit").inc()
        return str(accepted.job_id)

    async def revise(self, unit: Workload, job: str, wish: JobSpec, pods: Iterable[WorkloadPod]) -> bool:
        """Bring a waiting job up to a new wish; False if it does not wait any more. Raises `Outgrown`."""
        group = list(pods)
        parts = self._ledger.track_components(job) or []
        if len(parts) != len(wish.requests):
            raise Reshaped(f"Slurm job {job} has {len(parts)} components, its pods need {len(wish.requests)}")
        if why := identity.update_obstacle(self._ledger.signature_of(job), wish.requests):
            raise Outgrown(f"Slurm job {job} waits and {why}")
        signed = identity.sign(wish.requests, wish.roles, self._ledger.bridge, str(unit))
        try:
            # The first component last: its signature says that all of it is done.
            for part, request in reversed(list(zip(parts, signed, strict=True))):
                rest = {**dict.fromkeys(FIXED), "excluded_nodes": request.excluded_nodes or NO_HOST}
                await self._client.update_job(int(part.job_id), msgspec.structs.replace(request, **rest))
        except (SlurmConflict, SlurmNotFound):
            self._mirror.request_refresh()
            return False
        self._ledger.track(_entry(job, unit, signed[0], group))
        return True


def _entry(job: str, unit: Workload, signed: JobRequest, pods: list[WorkloadPod]) -> JobEntry:
    comment = identity.parse_comment(signed.admin_comment or "") or AdminComment()
    return JobEntry(job, unit, comment.slinky, frozenset(str(pod.key) for pod in pods))
