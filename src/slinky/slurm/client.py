# SPDX-License-Identifier: Apache-2.0
"""The client: one method per thing that slurmctld can do, each a line over the endpoint table.

    async with Client("http://slurmrestd:6820", token) as slurm:
        job = await slurm.submit(JobRequest(name="hello", script="#!/bin/sh\\nhostname", ...))
        print(await slurm.job(job.job_id))

Methods return frozen views and raise the types of `slinky.slurm.errors`. Lists that can be asked for "only if
changed" return None when nothing has. The accounting database is under `Client.accounting`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from slinky.slurm.accounting.client import AccountingClient
from slinky.slurm.errors import Malformed, Problem, error_for
from slinky.slurm.hostlist import fold
from slinky.slurm.model.partitions import Partition, PartitionsBody
from slinky.slurm.model.requests import (
    JobRequest,
    JobSelection,
    NewNode,
    NodeUpdate,
    RequeueBody,
    ReservationRequest,
    ReservationsBody,
    SubmitBody,
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
from slinky.slurm.model.results import Conf, Listing, Submitted, absence, job_id, only, submitted, told
from slinky.slurm.model.statistics import ConfMeta, ControllerPing, Diag
from slinky.slurm.model.views import Host, Job, JobStatus, License, NodeResources, Reservation, Share
from slinky.slurm.tokens import FixedToken, TokenSource
from slinky.slurm.transport.decode import decode_slowly, kill_refusals, present
from slinky.slurm.transport.endpoints import Ctld, Endpoint
from slinky.slurm.transport.http import CONNECTIONS, Exchange, HttpTransport, query_of
from slinky.slurm.transport.session import Session
from slinky.slurm.transport.versions import DataParserVersion

A = TypeVar("A", bound=Response)


class SlurmClient:
    """An asynchronous client of one Slurm cluster."""

    def __init__(
        self,
        url: str,
        tokens: TokenSource | str,
        *,
        user: str | None = None,
        version: DataParserVersion | None = None,
        tls: ssl.SSLContext | None = None,
        connections: int = CONNECTIONS,
        deadline: float | None = None,
        observe: Callable[[Exchange], None] | None = None,
    ) -> None:
        """Talk to the slurmrestd at `url` (http, https or `unix:/path`), as `user` where the token may.

        `deadline` shortens how long any answer may take; below 12 seconds a dead slurmctld looks like a hung
        slurmrestd. `observe` is called with every exchange.
        """
        source = FixedToken(tokens) if isinstance(tokens, str) else tokens
        transport = HttpTransport(url, tls=tls, connections=connections, observe=observe)
        self.session = Session(transport, source, user=user, version=version, deadline=deadline)
        self.accounting = AccountingClient(self.session)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End every connection."""
        await self.session.transport.close()

    async def version(self) -> DataParserVersion:
        """The data parser in use."""
        return await self.session.version()

    # The cluster as a whole

    async def ping(self) -> tuple[ControllerPing, ...]:
        """Every slurmctld and whether it answers: quick even when none does."""
        answer = await self.session.call(Ctld.PING, PingResponse)
        return present(answer.pings, "pings")

    async def up(self) -> bool:
        """Whether any slurmctld answers. Raises `Auth` where it refused the token."""
        return await self.session.up()

    async def diag(self) -> Diag:
        """Statistics of slurmctld."""
        return present((await self.session.call(Ctld.DIAG, DiagResponse)).statistics, "statistics")

    async def conf(self) -> Conf:
        """The running configuration, and of which start it is (v0.0.45)."""
        answer = await self.session.call(Ctld.CONF, ConfResponse)
        return Conf(present(answer.slurm_conf, "slurm_conf"), answer.slurm_conf_meta or ConfMeta())

    async def reconfigure(self) -> None:
        """Make every daemon read its configuration again (operators only)."""
        await self.session.call(Ctld.RECONFIGURE, Response)

    async def licenses(self) -> tuple[License, ...]:
        """Licence pools."""
        return present((await self.session.call(Ctld.LICENSES, LicensesResponse)).licenses, "licenses")

    async def shares(self, *, accounts: Iterable[str] = (), users: Iterable[str] = ()) -> tuple[Share, ...]:
        """Fair shares, of everybody or of these."""
        query = query_of(accounts=",".join(accounts) or None, users=",".join(users) or None)
        answer = await self.session.call(Ctld.SHARES, SharesResponse, query=query)
        return present(answer.shares, "shares").shares

    # Jobs

    async def job(self, job: int | str) -> Job:
        """A job by its id, or (v0.0.44) by its SLUID. The id of a heterogeneous job stands for its leader."""
        found = await self.job_components(job)
        return next((each for each in found if str(each.job_id) == str(job)), found[0])

    async def job_components(self, job: int | str) -> tuple[Job, ...]:
        """Every component of a heterogeneous job or every task record of an array; otherwise the one job."""
        answer = await self.session.call(Ctld.JOB, JobsResponse, job_id=job)
        found = present(answer.jobs, "jobs")
        if not found:
            raise Malformed(f"an answer without errors and without job {job}")
        return found

    async def jobs(self, *, since: int | None = None) -> Listing[Job] | None:
        """Every job in full; None if nothing has changed since.

        Beware: at 10,000 running jobs this is 100 MB and half a minute. `job_states` or the mirror are for
        loops.
        """
        answer = await self.session.call(Ctld.JOBS, RawJobs, query=query_of(update_time=since))
        raw = present(answer.jobs, "jobs")
        if since is not None and not raw and not answer.last_update.whole:
            return None
        return Listing(await decode_slowly(raw, Job), answer.last_update.whole)

    async def job_states(self, jobs: Iterable[int | str] | None = None) -> tuple[JobStatus, ...]:
        """Id and state of every job, or of these: the cheapest question about jobs. Missing ones are left
        out.
        """
        if jobs is None:
            wanted: list[tuple[str, str]] = []
        else:
            wanted = [("job_id", job_id(job)) for job in jobs]
            if not wanted:
                return ()
        answer = await self.session.call(Ctld.JOB_STATES, StatesResponse, query=wanted)
        return present(answer.jobs, "jobs")

    async def resources(self, job: int) -> tuple[NodeResources, ...]:
        """Cores, memory and devices that a running job was granted, node by node (v0.0.44)."""
        return present((await self.session.call(Ctld.RESOURCES, ResourcesResponse, job_id=job)).nodes, "nodes")

    async def submit(self, job: JobRequest, *components: JobRequest) -> Submitted:
        """Queue a job; with more than one request, the components of a heterogeneous job."""
        body = SubmitBody(jobs=(job, *components)) if components else SubmitBody(job=job)
        return submitted(await self.session.call(Ctld.SUBMIT, SubmitResponse, body=body))

    async def allocate(self, job: JobRequest) -> Submitted:
        """Place a job now or raise `Busy`, in milliseconds.

        `immediate` is always set: without it the call would hold a thread of slurmrestd until nodes are free.
        Each refusal leaves a FAILED job record behind, so try once and then `submit`.
        """
        now = msgspec.structs.replace(job, immediate=True)
        return submitted(await self.session.call(Ctld.ALLOCATE, SubmitResponse, body=SubmitBody(job=now)))

    async def update_job(self, job: int, change: JobRequest) -> tuple[Problem, ...]:
        """Change a job; returns Slurm's warnings. Raises if any of its records refused."""
        answer = await self.session.call(Ctld.UPDATE_JOB, UpdateResponse, body=change, job_id=job)
        failed = [result.problem() for result in answer.results or () if result.error_code]
        if failed:
            raise error_for(failed)
        return told(answer)

    async def cancel(self, job: int | str, *, signal: str | None = None, flags: Sequence[str] = ()) -> None:
        """End a job, by id or SLUID. Raises `NotFound` or `Denied`, which slurmrestd reports with a 200.

        A signal other than KILL leaves an external job alone and poisons its external nodes: see
        docs/slurm-client.md.
        """
        query = query_of(signal=signal, flags=",".join(flags) or None)
        refused = kill_refusals(await self.session.call(Ctld.CANCEL_JOB, CancelResponse, query=query, job_id=job))
        if refused:
            raise error_for(refused)

    async def cancel_many(self, selection: JobSelection) -> tuple[Problem, ...]:
        """End many jobs in one request; returns what was refused, with the job as its source."""
        if selection == JobSelection(signal=selection.signal, flags=selection.flags):
            raise ValueError("a bulk cancel needs a selection: an empty one would mean every job")
        if selection.jobs is not None and not selection.jobs:
            return ()
        return kill_refusals(await self.session.call(Ctld.CANCEL_JOBS, CancelResponse, body=selection))

    async def requeue(self, jobs: Iterable[int | str], *, flags: Sequence[str] = ()) -> tuple[Problem, ...]:
        """Send batch jobs back to the queue (v0.0.45); flags are Incomplete, Hold, SpecialExit. Returns
        refusals.
        """
        body = RequeueBody(jobs=[str(job) for job in jobs], flags=flags)
        answer = await self.session.call(Ctld.REQUEUE, RequeueResponse, body=body)
        return tuple(result.problem() for results in answer.status or () for result in results if result.error_code)

    # Nodes

    async def nodes(self, *, since: int | None = None) -> Listing[Host] | None:
        """Every node; None if nothing has changed since."""
        answer = await self._if_changed(Ctld.NODES, RawNodes, since)
        if answer is None:
            return None
        return Listing(await decode_slowly(present(answer.nodes, "nodes"), Host), answer.last_update.whole)

    async def node(self, name: str) -> Host:
        """One node. Its allocation numbers and base state are as old as the last full list."""
        with absence(f"node {name}", 2018):
            answer = await self.session.call(Ctld.NODE, NodesResponse, node_name=name)
        return only(answer.nodes, 2018, f"node {name}")

    async def create_node(self, node_conf: str) -> None:
        """Add nodes by a slurm.conf line, best made by `node_conf` (v0.0.44, operators only). All or
        nothing.
        """
        await self.session.call(Ctld.NEW_NODE, Response, body=NewNode(node_conf))

    async def update_node(self, name: str, change: NodeUpdate) -> tuple[Problem, ...]:
        """Change one node, or a hostlist of them; returns Slurm's warnings."""
        return told(await self.session.call(Ctld.UPDATE_NODE, Response, body=change, node_name=name))

    async def update_nodes(self, names: Iterable[str], change: NodeUpdate) -> tuple[Problem, ...]:
        """Change many nodes in one request; returns Slurm's warnings."""
        wanted = tuple(names)
        if not wanted:
            return ()
        body = msgspec.structs.replace(change, name=(fold(wanted),))
        return told(await self.session.call(Ctld.UPDATE_NODES, Response, body=body))

    async def delete_nodes(self, *names: str) -> None:
        """Remove dynamic nodes in one request. Raises `Busy` while one has a job."""
        if names:
            await self.session.call(Ctld.DELETE_NODE, Response, node_name=fold(names))

    # Partitions and reservations

    async def partitions(self, *, since: int | None = None) -> Listing[Partition] | None:
        """Every partition; None if nothing has changed since."""
        answer = await self._if_changed(Ctld.PARTITIONS, PartitionsResponse, since)
        if answer is None:
            return None
        return Listing(present(answer.partitions, "partitions"), answer.last_update.whole)

    async def partition(self, name: str) -> Partition:
        """One partition."""
        answer = await self.session.call(Ctld.PARTITION, PartitionsResponse, partition_name=name)
        return only(answer.partitions, 2000, f"partition {name}")

    async def write_partitions(self, *partitions: Partition) -> tuple[Problem, ...]:
        """Create or change partitions until the next reconfigure (v0.0.45); returns Slurm's warnings."""
        body = PartitionsBody(partitions)
        return told(await self.session.call(Ctld.WRITE_PARTITIONS, Response, body=body))

    async def delete_partition(self, name: str) -> None:
        """Remove a partition (v0.0.45)."""
        await self.session.call(Ctld.DELETE_PARTITION, Response, partition_name=name)

    async def reservations(self, *, since: int | None = None) -> Listing[Reservation] | None:
        """Every reservation; None if nothing has changed since."""
        answer = await self._if_changed(Ctld.RESERVATIONS, ReservationsResponse, since)
        if answer is None:
            return None
        return Listing(present(answer.reservations, "reservations"), answer.last_update.whole)

    async def reservation(self, name: str) -> Reservation:
        """One reservation."""
        with absence(f"reservation {name}", 2087):
            answer = await self.session.call(Ctld.RESERVATION, ReservationsResponse, reservation_name=name)
        return only(answer.reservations, 2087, f"reservation {name}")

    async def write_reservation(self, *reservations: ReservationRequest) -> tuple[Problem, ...]:
        """Create reservations, or change those of that name (v0.0.43); returns Slurm's warnings."""
        if len(reservations) == 1:
            return told(await self.session.call(Ctld.WRITE_RESERVATION, Response, body=reservations[0]))
        body = ReservationsBody(reservations)
        return told(await self.session.call(Ctld.WRITE_RESERVATIONS, Response, body=body))

    async def delete_reservation(self, name: str) -> None:
        """Remove a reservation."""
        await self.session.call(Ctld.DELETE_RESERVATION, Response, reservation_name=name)

    async def _if_changed(self, endpoint: Endpoint, kind: type[A], since: int | None) -> A | None:
        """The answer, or None for a 304."""
        reply = await self.session.reply(endpoint, query=query_of(update_time=since))
        if since is not None and reply.status == 304:
            return None
        return await self.session.understand(reply, endpoint, kind)
