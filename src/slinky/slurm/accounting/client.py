# SPDX-License-Identifier: Apache-2.0
"""The accounting database: one method per thing that slurmdbd can do.

slurmdbd hands out and takes back the same structs, so a change is a read, a `msgspec.structs.replace` and a
write. Everything here needs slurmdbd; slurmctld schedules on without it, and so should a caller.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from slinky.slurm.accounting.account_requests import NewAccounts, NewUsers
from slinky.slurm.accounting.accounting_jobs import JobOutcome, PastJob
from slinky.slurm.accounting.qos import Qos
from slinky.slurm.accounting.views import Account, Association, Cluster, User, Wckey
from slinky.slurm.errors import Problem, SlurmNotFound
from slinky.slurm.model.responses import (
    AccountsResponse,
    AssociationsResponse,
    ChangesResponse,
    ClustersResponse,
    PastJobsResponse,
    PingResponse,
    QosResponse,
    Response,
    TresResponse,
    UsersResponse,
    WckeysResponse,
)
from slinky.slurm.model.statistics import ControllerPing
from slinky.slurm.model.values import Tres, Value
from slinky.slurm.transport.decode import present
from slinky.slurm.transport.endpoints import Dbd
from slinky.slurm.transport.http import query_of
from slinky.slurm.transport.session import Session

T = TypeVar("T")


class _Accounts(Value, frozen=True, gc=False):
    accounts: tuple[Account, ...]


class _Users(Value, frozen=True, gc=False):
    users: tuple[User, ...]


class _Associations(Value, frozen=True, gc=False):
    associations: tuple[Association, ...]


class _Qos(Value, frozen=True, gc=False):
    qos: tuple[Qos, ...]


class _Clusters(Value, frozen=True, gc=False):
    clusters: tuple[Cluster, ...]


class _Wckeys(Value, frozen=True, gc=False):
    wckeys: tuple[Wckey, ...]


class AccountingClient:
    """The accounting side of a `Client`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def ping(self) -> tuple[ControllerPing, ...]:
        """Every slurmdbd and whether it answers."""
        return present((await self._session.call(Dbd.PING, PingResponse)).pings, "pings")

    # Accounts

    async def accounts(self) -> tuple[Account, ...]:
        """Every account."""
        return present((await self._session.call(Dbd.ACCOUNTS, AccountsResponse)).accounts, "accounts")

    async def account(self, name: str) -> Account:
        """One account."""
        answer = await self._session.call(Dbd.ACCOUNT, AccountsResponse, account_name=name)
        return _only(answer.accounts, f"account {name}")

    async def add_accounts(self, new: NewAccounts) -> None:
        """Create accounts together with their associations: the way that makes them usable at once."""
        await self._session.call(Dbd.ADD_ACCOUNTS, Response, body=new)

    async def write_accounts(self, *accounts: Account) -> None:
        """Create or change account records."""
        await self._session.call(Dbd.WRITE_ACCOUNTS, Response, body=_Accounts(accounts))

    async def delete_account(self, name: str) -> None:
        """Remove an account and its associations."""
        await self._session.call(Dbd.DELETE_ACCOUNT, Response, account_name=name)

    # Users

    async def users(self) -> tuple[User, ...]:
        """Every user."""
        return present((await self._session.call(Dbd.USERS, UsersResponse)).users, "users")

    async def user(self, name: str) -> User:
        """One user."""
        return _only((await self._session.call(Dbd.USER, UsersResponse, name=name)).users, f"user {name}")

    async def add_users(self, new: NewUsers) -> None:
        """Create users together with their associations."""
        await self._session.call(Dbd.ADD_USERS, Response, body=new)

    async def write_users(self, *users: User) -> None:
        """Create or change user records."""
        await self._session.call(Dbd.WRITE_USERS, Response, body=_Users(users))

    async def delete_user(self, name: str) -> None:
        """Remove a user and its associations."""
        await self._session.call(Dbd.DELETE_USER, Response, name=name)

    # Associations

    async def associations(
        self, *, account: str | None = None, user: str | None = None, cluster: str | None = None
    ) -> tuple[Association, ...]:
        """Associations, all or those that fit."""
        query = query_of(account=account, user=user, cluster=cluster)
        answer = await self._session.call(Dbd.ASSOCIATIONS, AssociationsResponse, query=query)
        return present(answer.associations, "associations")

    async def write_associations(self, *associations: Association) -> None:
        """Create or change associations."""
        await self._session.call(Dbd.WRITE_ASSOCIATIONS, Response, body=_Associations(associations))

    async def delete_associations(
        self, *, account: str | None = None, user: str | None = None, cluster: str | None = None
    ) -> None:
        """Remove the associations that fit; at least one filter is needed."""
        query = query_of(account=account, user=user, cluster=cluster)
        if not query:
            raise ValueError("a filter is needed: none would mean every association")
        await self._session.call(Dbd.DELETE_ASSOCIATIONS, Response, query=query)

    # QOS

    async def qos(self) -> tuple[Qos, ...]:
        """Every QOS."""
        return present((await self._session.call(Dbd.QOS, QosResponse)).qos, "qos")

    async def one_qos(self, name: str) -> Qos:
        """One QOS."""
        return _only((await self._session.call(Dbd.ONE_QOS, QosResponse, qos=name)).qos, f"qos {name}")

    async def write_qos(self, *qos: Qos) -> None:
        """Create or change QOS."""
        await self._session.call(Dbd.WRITE_QOS, Response, body=_Qos(qos))

    async def delete_qos(self, name: str) -> None:
        """Remove a QOS."""
        await self._session.call(Dbd.DELETE_QOS, Response, qos=name)

    # Jobs

    async def jobs(
        self,
        *,
        start_time: int | None = None,
        end_time: int | None = None,
        users: Iterable[str] = (),
        accounts: Iterable[str] = (),
        partitions: Iterable[str] = (),
        states: Iterable[str] = (),
    ) -> tuple[PastJob, ...]:
        """Jobs of the past, without their steps. Name a start time: the whole history is heavy."""
        lists = {"users": users, "account": accounts, "partition": partitions, "state": states}
        query = query_of(
            start_time=start_time,
            end_time=end_time,
            skip_steps="true",
            **{name: ",".join(values) or None for name, values in lists.items()},
        )
        answer = await self._session.call(Dbd.JOBS, PastJobsResponse, query=query)
        return present(answer.jobs, "jobs")

    async def job(self, job: int | str) -> PastJob:
        """A job of the past; of several with this id, the one submitted last."""
        found = present((await self._session.call(Dbd.JOB, PastJobsResponse, job_id=job)).jobs, "jobs")
        return _only(tuple(sorted(found, key=_submission, reverse=True)), f"job {job}")

    async def write_outcome(self, job: int | str, outcome: JobOutcome) -> None:
        """Add remarks and an exit code to the record of a job that has ended (v0.0.44).

        A job of which slurmdbd has no record yet is `NotFound`, though slurmrestd calls that "not modified".
        """
        answer = await self._session.call(Dbd.WRITE_JOB, ChangesResponse, body=outcome, job_id=job)
        _only(answer.results, f"record of job {job}")

    # The rest

    async def tres(self) -> tuple[Tres, ...]:
        """Every trackable resource."""
        return present((await self._session.call(Dbd.TRES, TresResponse)).tres, "TRES")

    async def clusters(self) -> tuple[Cluster, ...]:
        """Every cluster."""
        return present((await self._session.call(Dbd.CLUSTERS, ClustersResponse)).clusters, "clusters")

    async def cluster(self, name: str) -> Cluster:
        """One cluster."""
        answer = await self._session.call(Dbd.CLUSTER, ClustersResponse, cluster_name=name)
        return _only(answer.clusters, f"cluster {name}")

    async def write_clusters(self, *clusters: Cluster) -> None:
        """Create or change cluster records."""
        await self._session.call(Dbd.WRITE_CLUSTERS, Response, body=_Clusters(clusters))

    async def delete_cluster(self, name: str) -> None:
        """Remove a cluster from the database."""
        await self._session.call(Dbd.DELETE_CLUSTER, Response, cluster_name=name)

    async def wckeys(self) -> tuple[Wckey, ...]:
        """Every workload characterisation key."""
        return present((await self._session.call(Dbd.WCKEYS, WckeysResponse)).wckeys, "wckeys")

    async def write_wckeys(self, *wckeys: Wckey) -> None:
        """Create workload characterisation keys."""
        await self._session.call(Dbd.WRITE_WCKEYS, Response, body=_Wckeys(wckeys))

    async def delete_wckey(self, identity: int) -> None:
        """Remove a workload characterisation key."""
        await self._session.call(Dbd.DELETE_WCKEY, Response, id=identity)


def _submission(job: PastJob) -> int:
    return job.time.submission


def _only(found: tuple[T, ...] | None, what: str) -> T:
    if not found:
        raise SlurmNotFound(Problem(0, f"no {what}"))
    return found[0]
