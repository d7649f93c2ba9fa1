# SPDX-License-Identifier: Apache-2.0
"""The asynchronous client: one method per request of the endpoint table.

    async with SlurmClient("http://slurmrestd:6820", token) as slurm:
        job = await slurm.submit(JobRequest(name="hello", script="#!/bin/sh\\nhostname", ...))
        print(await slurm.job(job.job_id))

Methods return frozen views and raise the errors of `slinky.slurm.errors`. A list method with `since` returns None if
nothing has changed since then. The accounting database is under `SlurmClient.accounting`. In names of methods and
fields "node" is Slurm's own word for a host.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import msgspec

from slinky.slurm.errors import Malformed, Problem, error_for
from slinky.slurm.hostlist import fold
from slinky.slurm.model.partitions import Partition, PartitionsBody
from slinky.slurm.model.requests import (
    JobRequest,
    JobSelection,
    NewNodeBody,
    NodeUpdate,
    RequeueBody,
    ReservationRequest,
    ReservationsBody,
    SubmitBody,
    fold_hosts,
)
from slinky.slurm.model.responses import (
    CancelResponse,
    ConfResponse,
    DiagResponse,
    JobsResponse,
    LicensesResponse,
    NodesResponse,
    PartitionsResponse,
    PingResponse,
    RawJobs,
    RawNodes,
    RequeueResponse,
    ReservationsResponse,
    ResourcesResponse,
    Response,
    SharesResponse,
    StatesResponse,
    SubmitResponse,
    UpdateResponse,
)
from slinky.slurm.model.results import (
    Conf,
    Listing,
    SubmittedJob,
    checked_job_id,
    component_of,
    first_or_not_found,
    log_warnings,
    read_submission,
    translate_absence,
)
from slinky.slurm.model.statistics import ConfMeta, ControllerPing, Diag
from slinky.slurm.model.views import Host, Job, JobStatus, License, NodeResources, Reservation, Share
from slinky.slurm.tokens import FixedToken, TokenSource
from slinky.slurm.transport.decode import cancel_failures, decode_in_slices, require
from slinky.slurm.transport.endpoints import Endpoint, Slurmctld
from slinky.slurm.transport.request_transport import (
    CONNECTIONS,
    Query,
    RequestRecord,
    RequestTransport,
    TlsContext,
    build_query,
)
from slinky.slurm.transport.session import Session
from slinky.slurm.transport.versions import DataParserVersion

if TYPE_CHECKING:
    from slinky.slurm.accounting import AccountingClient
    from slinky.slurm.job_states import JobStateReader

R = TypeVar("R", bound=Response)


class SlurmClient:
    """An asynchronous client of one Slurm cluster."""

    def __init__(
        self,
        url: str,
        tokens: TokenSource | str,
        *,
        user: str | None = None,
        version: DataParserVersion | None = None,
        tls: TlsContext | None = None,
        tls_name: str | None = None,
        connections: int = CONNECTIONS,
        deadline: float | None = None,
        observe: Callable[[RequestRecord], None] | None = None,
        clock: Callable[[], float] = time.time,
        transport: RequestTransport | None = None,
    ) -> None:
        """Connect to the slurmrestd at `url` (http, https or `unix:/path`), as `user` if the token allows that.

        `deadline` shortens the deadline of every request; below 12 seconds, a slurmctld that is down is reported as a
        slurmrestd that does not respond. `tls` is a context, or a function that returns the current one. `observe` is
        called after every request. `transport` replaces the connections to `url`, for a slurmrestd that is reached in
        another way.
        """
        source = FixedToken(tokens) if isinstance(tokens, str) else tokens
        if transport is None:
            # Imported here: a command brings a transport that loads no aiohttp.
            from slinky.slurm.transport.http import HttpTransport

            transport = HttpTransport(url, tls=tls, tls_name=tls_name, connections=connections, observe=observe)
        self.session = Session(transport, source, user=user, version=version, deadline=deadline, clock=clock)

    @cached_property
    def accounting(self) -> "AccountingClient":
        """The client of the accounting database."""
        from slinky.slurm.accounting import AccountingClient

        return AccountingClient(self.session)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self.session.transport.close()

    async def version(self) -> DataParserVersion:
        """The data parser version that the session has negotiated."""
        return await self.session.version()

    # The cluster as a whole

    async def ping(self) -> tuple[ControllerPing, ...]:
        """Every slurmctld and whether it answers; fast even if none does."""
        response = await self.session.call(Slurmctld.PING, PingResponse)
        return require(response.pings, "pings")

    async def up(self) -> bool:
        """Whether any slurmctld answers. Raises `AuthError` if it refused the token."""
        return await self.session.up()

    async def diag(self) -> Diag:
        """The statistics of slurmctld."""
        return require((await self.session.call(Slurmctld.DIAG, DiagResponse)).statistics, "statistics")

    async def conf(self) -> Conf:
        """The running configuration and the start of slurmctld that it belongs to (v0.0.45)."""
        response = await self.session.call(Slurmctld.CONF, ConfResponse)
        return Conf(require(response.slurm_conf, "slurm_conf"), response.slurm_conf_meta or ConfMeta())

    async def reconfigure(self) -> None:
        """Make every daemon read its configuration again (administrators of Slurm only)."""
        await self.session.call(Slurmctld.RECONFIGURE, Response)

    async def licenses(self) -> tuple[License, ...]:
        """Licence pools."""
        return require((await self.session.call(Slurmctld.LICENSES, LicensesResponse)).licenses, "licenses")

    async def shares(self, *, accounts: Iterable[str] = (), users: Iterable[str] = ()) -> tuple[Share, ...]:
        """Fair shares of all accounts and users, or of these."""
        query = build_query(accounts=",".join(accounts) or None, users=",".join(users) or None)
        response = await self.session.call(Slurmctld.SHARES, SharesResponse, query=query)
        return require(response.shares, "shares").shares

    # Jobs

    async def job(self, job: int | str) -> Job:
        """A job by its id, or (v0.0.44) by its SLUID. The id of a heterogeneous job returns its leader."""
        return component_of(await self.job_components(job), job)

    async def job_components(self, job: int | str) -> tuple[Job, ...]:
        """Every component of a heterogeneous job, every task record of an array, or the one job."""
        response = await self.session.call(Slurmctld.JOB, JobsResponse, job_id=job)
        jobs = require(response.jobs, "jobs")
        if not jobs:
            raise Malformed(f"the response has neither errors nor job {job}")
        return jobs

    async def jobs(self, *, since: int | None = None) -> Listing[Job] | None:
        """Every job with all fields; None if nothing has changed since.

        Expensive: at 10,000 running jobs the response has 100 MB and takes half a minute. Use `job_states` or the
        mirror in loops.
        """
        response = await self.session.call(Slurmctld.JOBS, RawJobs, query=build_query(update_time=since))
        raw = require(response.jobs, "jobs")
        if since is not None and not raw and not response.last_update.whole:
            return None
        return Listing(await decode_in_slices(raw, Job), response.last_update.whole)

    async def job_states(self, jobs: Iterable[int | str] | None = None) -> tuple[JobStatus, ...]:
        """Id and state of every job, or of these: the cheapest request about jobs. Unknown jobs are left out."""
        if jobs is None:
            return await self._all_job_states.read()
        query = [("job_id", checked_job_id(job)) for job in jobs]
        return await self._read_states(query) if query else ()

    @cached_property
    def _all_job_states(self) -> "JobStateReader":
        from slinky.slurm.job_states import JobStateReader

        return JobStateReader(self._read_states, self._read_jobs, self.diag)

    async def _read_states(self, query: Query = ()) -> tuple[JobStatus, ...]:
        response = await self.session.call(Slurmctld.JOB_STATES, StatesResponse, query=query)
        return require(response.jobs, "jobs")

    async def _read_jobs(self) -> tuple[Job, ...]:
        listing = await self.jobs()
        return () if listing is None else listing.items

    async def resources(self, job: int) -> tuple[NodeResources, ...]:
        """Cores, memory and devices of a running job, by node (v0.0.44)."""
        return require((await self.session.call(Slurmctld.RESOURCES, ResourcesResponse, job_id=job)).nodes, "nodes")

    async def submit(self, job: JobRequest, *components: JobRequest) -> SubmittedJob:
        """Submit a job; several requests are the components of a heterogeneous job."""
        jobs = tuple(map(fold_hosts, (job, *components)))
        body = SubmitBody(jobs=jobs) if components else SubmitBody(job=jobs[0])
        return read_submission(await self.session.call(Slurmctld.SUBMIT, SubmitResponse, body=body))

    async def allocate(self, job: JobRequest) -> SubmittedJob:
        """Start a job now or raise `Busy`, within milliseconds.

        `immediate` is always set: without it the request would block a thread of slurmrestd until nodes are free. Each
        refusal leaves a FAILED job behind, so try once and then `submit`.
        """
        now = msgspec.structs.replace(fold_hosts(job), immediate=True)
        return read_submission(await self.session.call(Slurmctld.ALLOCATE, SubmitResponse, body=SubmitBody(job=now)))

    async def update_job(self, job: int, change: JobRequest) -> tuple[Problem, ...]:
        """Change a job; returns Slurm's warnings. Raises an error if the change of any of its records failed."""
        response = await self.session.call(Slurmctld.UPDATE_JOB, UpdateResponse, body=fold_hosts(change), job_id=job)
        failures = [result.problem() for result in response.results or () if result.error_code]
        if failures:
            raise error_for(failures)
        return log_warnings(response)

    async def cancel(self, job: int | str, *, signal: str | None = None, flags: Sequence[str] = ()) -> None:
        """Cancel a job, by id or SLUID. Raises `SlurmNotFound` or `Denied`, which slurmrestd reports in a 200 response.

        A signal other than KILL does not end an external job, and makes its external nodes NOT_RESPONDING; see
        docs/slurm-client.md.
        """
        query = build_query(signal=signal, flags=",".join(flags) or None)
        failures = cancel_failures(await self.session.call(Slurmctld.CANCEL, CancelResponse, query=query, job_id=job))
        if failures:
            raise error_for(failures)

    async def cancel_many(self, selection: JobSelection) -> tuple[Problem, ...]:
        """Cancel many jobs in one request; returns the failures, each with the job as its source."""
        if selection == JobSelection(signal=selection.signal, flags=selection.flags):
            raise ValueError("a bulk cancel needs a selection: an empty selection would cancel every job")
        if selection.jobs is not None and not selection.jobs:
            return ()
        return cancel_failures(await self.session.call(Slurmctld.CANCEL_MANY, CancelResponse, body=selection))

    async def requeue(self, jobs: Iterable[int | str], *, flags: Sequence[str] = ()) -> tuple[Problem, ...]:
        """Requeue batch jobs (v0.0.45); flags are Incomplete, Hold, SpecialExit. Returns the failures."""
        body = RequeueBody(jobs=[str(job) for job in jobs], flags=flags)
        response = await self.session.call(Slurmctld.REQUEUE, RequeueResponse, body=body)
        return tuple(result.problem() for results in response.status or () for result in results if result.error_code)

    # Nodes

    async def nodes(self, *, since: int | None = None, future: bool = False) -> Listing[Host] | None:
        """Every node, also potential ones (of the state FUTURE) with `future`; None if nothing has changed since."""
        flags = "FUTURE" if future else None
        response = await self._if_changed(Slurmctld.NODES, RawNodes, since, flags=flags)
        if response is None:
            return None
        return Listing(await decode_in_slices(require(response.nodes, "nodes"), Host), response.last_update.whole)

    async def node(self, name: str) -> Host:
        """One node. Slurm updates its allocation numbers and base state only when the full list is read."""
        with translate_absence(f"node {name}", 2018):
            response = await self.session.call(Slurmctld.NODE, NodesResponse, node_name=name)
        return first_or_not_found(response.nodes, 2018, f"node {name}")

    async def create_node(self, node_conf: str) -> None:
        """Create every node of a slurm.conf line, or none; `node_conf` builds the line (v0.0.44, administrators)."""
        await self.session.call(Slurmctld.CREATE_NODE, Response, body=NewNodeBody(node_conf))

    async def update_node(self, name: str, change: NodeUpdate) -> tuple[Problem, ...]:
        """Change one node, or every node of a hostlist; returns Slurm's warnings."""
        return log_warnings(await self.session.call(Slurmctld.UPDATE_NODE, Response, body=change, node_name=name))

    async def update_nodes(self, names: Iterable[str], change: NodeUpdate) -> tuple[Problem, ...]:
        """Change many nodes in one request; returns Slurm's warnings."""
        hosts = tuple(names)
        if not hosts:
            return ()
        body = msgspec.structs.replace(change, name=(fold(hosts),))
        return log_warnings(await self.session.call(Slurmctld.UPDATE_NODES, Response, body=body))

    async def delete_nodes(self, *names: str) -> None:
        """Delete dynamic nodes in one request. Raises `Busy` while one of them has a job."""
        if names:
            await self.session.call(Slurmctld.DELETE_NODES, Response, node_name=fold(names))

    # Partitions and reservations

    async def partitions(self, *, since: int | None = None) -> Listing[Partition] | None:
        """Every partition; None if nothing has changed since."""
        response = await self._if_changed(Slurmctld.PARTITIONS, PartitionsResponse, since)
        if response is None:
            return None
        return Listing(require(response.partitions, "partitions"), response.last_update.whole)

    async def partition(self, name: str) -> Partition:
        """One partition."""
        response = await self.session.call(Slurmctld.PARTITION, PartitionsResponse, partition_name=name)
        return first_or_not_found(response.partitions, 2000, f"partition {name}")

    async def write_partitions(self, *partitions: Partition) -> tuple[Problem, ...]:
        """Create or change partitions (v0.0.45). The next reconfigure reverts this. Returns Slurm's warnings."""
        body = PartitionsBody(partitions)
        return log_warnings(await self.session.call(Slurmctld.WRITE_PARTITIONS, Response, body=body))

    async def delete_partition(self, name: str) -> None:
        """Delete a partition (v0.0.45)."""
        await self.session.call(Slurmctld.DELETE_PARTITION, Response, partition_name=name)

    async def reservations(self, *, since: int | None = None) -> Listing[Reservation] | None:
        """Every reservation; None if nothing has changed since."""
        response = await self._if_changed(Slurmctld.RESERVATIONS, ReservationsResponse, since)
        if response is None:
            return None
        return Listing(require(response.reservations, "reservations"), response.last_update.whole)

    async def reservation(self, name: str) -> Reservation:
        """One reservation."""
        with translate_absence(f"reservation {name}", 2087):
            response = await self.session.call(Slurmctld.RESERVATION, ReservationsResponse, reservation_name=name)
        return first_or_not_found(response.reservations, 2087, f"reservation {name}")

    async def write_reservation(self, *reservations: ReservationRequest) -> tuple[Problem, ...]:
        """Create reservations, or change existing ones by name (v0.0.43); returns Slurm's warnings."""
        if len(reservations) == 1:
            return log_warnings(await self.session.call(Slurmctld.WRITE_RESERVATION, Response, body=reservations[0]))
        body = ReservationsBody(reservations)
        return log_warnings(await self.session.call(Slurmctld.WRITE_RESERVATIONS, Response, body=body))

    async def delete_reservation(self, name: str) -> None:
        """Delete a reservation."""
        await self.session.call(Slurmctld.DELETE_RESERVATION, Response, reservation_name=name)

    async def _if_changed(
        self, endpoint: Endpoint, kind: type[R], since: int | None, *, flags: str | None = None
    ) -> R | None:
        """The response, or None for a 304."""
        raw = await self.session.send(endpoint, query=build_query(update_time=since, flags=flags))
        if since is not None and raw.status == 304:
            return None
        return await self.session.decode(raw, endpoint, kind)
