# SPDX-License-Identifier: Apache-2.0
"""Reads one tracked job: its identity, its resources, and its end from accounting if slurmctld has purged it."""

from collections.abc import Awaitable, Callable

from msgspec import structs

from slinky.bounds import JOB_ID_MAX, parse_integer
from slinky.observe import Log
from slinky.slurm.client import SlurmClient
from slinky.slurm.errors import SlurmError, SlurmNotFound, Unsupported
from slinky.slurm.mirror import job_record
from slinky.slurm.mirror.job_record import JobRead, JobRecord
from slinky.slurm.mirror.tracked_jobs import TrackedJob
from slinky.slurm.model.accounting_jobs import AccountingJob
from slinky.slurm.model.results import component_of
from slinky.slurm.model.states import JobState
from slinky.slurm.model.views import Job, NodeResources

log = Log("slinky.slurm.job_reader")

#: Reads the resources of a job whose detail was just read.
ResourceReader = Callable[[JobRecord], Awaitable[tuple[NodeResources, ...] | None]]


class JobReader:
    """Reads tracked jobs one by one."""

    def __init__(self, client: SlurmClient, clock: Callable[[], float], *, exact_resources: bool) -> None:
        """With `exact_resources` the cores and devices of a job are read, otherwise only the names of its nodes."""
        self._client, self._clock, self._exact_resources = client, clock, exact_resources

    async def read(
        self,
        record: JobRecord,
        tracked: TrackedJob,
        state: JobState | None,
        reads: JobRead,
        read_resources: ResourceReader | None = None,
    ) -> JobRecord:
        """The record of a job in this state with the facts that must be read. Raises errors of Slurm."""
        if JobRead.RESOURCES in reads and not self._exact_resources:
            reads, read_resources = reads | JobRead.DETAIL, _named_nodes
        if JobRead.DETAIL in reads:
            record = await self._read_detail(record.job_id, record, tracked)
        elif state is not None:
            record = structs.replace(record, state=state)
        if JobRead.RESOURCES in reads and record.state.running and not record.lost:
            reading = self.read_resources(record.job_id) if read_resources is None else read_resources(record)
            record = structs.replace(record, resources=await reading)
        return record

    async def read_resources(self, key: str) -> tuple[NodeResources, ...]:
        """The allocated resources of a job; empty with a data parser that does not have them."""
        job_id = parse_integer(key, 1, JOB_ID_MAX)  # the id of an array or of a step has further characters
        if job_id is None:
            return ()
        try:
            return await self._client.resources(job_id)
        except Unsupported:
            return ()

    async def _read_detail(self, key: str, record: JobRecord, tracked: TrackedJob) -> JobRecord:
        """The record with the full job; departed if slurmctld does not know the job or another job has its id."""
        try:
            job, running_tasks = await self._read_with_tasks(key)
        except SlurmNotFound:
            job, running_tasks = None, 0
        tracked.read_at = self._clock()
        if job is not None and job_record.is_same_job(record, job):
            tracked.sluid = job.sluid or tracked.sluid
            return job_record.with_detail(record, job, running_tasks)
        if record.state.ended and record.detail is not None:
            tracked.purged = True
            return record
        return job_record.with_departure(record, await self._read_accounting(key, record))

    async def _read_with_tasks(self, key: str) -> tuple[Job | None, int]:
        """A job, and how many of its tasks run if it is an array."""
        components = await self._client.job_components(key)
        job = component_of(components, key)
        return job, job_record.count_running_tasks(components)[job.job_id] if job.array_job_id.whole else 0

    async def _read_accounting(self, key: str, record: JobRecord) -> AccountingJob | None:
        """The accounting record of a job that slurmctld does not know, if there is one."""
        try:
            job = await self._client.accounting.job(key)
        except SlurmError as error:
            log.info("accounting has no record of the job", job=key, error=error)
            return None
        return job if job_record.is_same_accounting_job(record, job) else None


async def _named_nodes(record: JobRecord) -> tuple[NodeResources, ...]:
    return job_record.resources_by_node_name(record) or ()
