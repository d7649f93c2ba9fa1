# SPDX-License-Identifier: Apache-2.0
"""The client of the accounting database: one method per request to slurmdbd.

slurmdbd accepts the same structs that it returns, so a change is a read, a `msgspec.structs.replace` and a write. Every
method needs slurmdbd. slurmctld schedules jobs without slurmdbd, so a caller should also work while it is down.
"""

from collections.abc import Iterable

from slinky.slurm.model.account_requests import NewAccounts, NewUsers
from slinky.slurm.model.accounting_jobs import AccountingJob, JobOutcome
from slinky.slurm.model.accounting_responses import (
    AccountingJobsResponse,
    AccountsResponse,
    AssociationsResponse,
    ChangesResponse,
    ClustersResponse,
    QosResponse,
    TresResponse,
    UsersResponse,
    WckeysResponse,
)
from slinky.slurm.model.accounts import Account, Association, Cluster, User, Wckey
from slinky.slurm.model.qos import Qos
from slinky.slurm.model.responses import PingResponse, Response
from slinky.slurm.model.results import first_or_not_found
from slinky.slurm.model.statistics import ControllerPing
from slinky.slurm.model.values import Tres, Value
from slinky.slurm.transport.decode import require
from slinky.slurm.transport.endpoints import Slurmdbd
from slinky.slurm.transport.request_transport import build_query
from slinky.slurm.transport.session import Session


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
    """The accounting methods of a `SlurmClient`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def ping(self) -> tuple[ControllerPing, ...]:
        """Every slurmdbd and whether it answers."""
        return require((await self._session.call(Slurmdbd.PING, PingResponse)).pings, "pings")

    # Accounts

    async def accounts(self) -> tuple[Account, ...]:
        """Every account."""
        return require((await self._session.call(Slurmdbd.ACCOUNTS, AccountsResponse)).accounts, "accounts")

    async def account(self, name: str) -> Account:
        """One account."""
        response = await self._session.call(Slurmdbd.ACCOUNT, AccountsResponse, account_name=name)
        return first_or_not_found(response.accounts, 0, f"account {name}")

    async def add_accounts(self, new: NewAccounts) -> None:
        """Create accounts together with their associations, so that jobs can use them at once."""
        await self._session.call(Slurmdbd.ADD_ACCOUNTS, Response, body=new)

    async def write_accounts(self, *accounts: Account) -> None:
        """Create or change account records."""
        await self._session.call(Slurmdbd.WRITE_ACCOUNTS, Response, body=_Accounts(accounts))

    async def delete_account(self, name: str) -> None:
        """Delete an account and its associations."""
        await self._session.call(Slurmdbd.DELETE_ACCOUNT, Response, account_name=name)

    # Users

    async def users(self) -> tuple[User, ...]:
        """Every user."""
        return require((await self._session.call(Slurmdbd.USERS, UsersResponse)).users, "users")

    async def user(self, name: str) -> User:
        """One user."""
        return first_or_not_found(
            (await self._session.call(Slurmdbd.USER, UsersResponse, name=name)).users, 0, f"user {name}"
        )

    async def add_users(self, new: NewUsers) -> None:
        """Create users together with their associations."""
        await self._session.call(Slurmdbd.ADD_USERS, Response, body=new)

    async def write_users(self, *users: User) -> None:
        """Create or change user records."""
        await self._session.call(Slurmdbd.WRITE_USERS, Response, body=_Users(users))

    async def delete_user(self, name: str) -> None:
        """Delete a user and its associations."""
        await self._session.call(Slurmdbd.DELETE_USER, Response, name=name)

    # Associations

    async def associations(
        self, *, account: str | None = None, user: str | None = None, cluster: str | None = None
    ) -> tuple[Association, ...]:
        """All associations, or those that match every filter."""
        query = build_query(account=account, user=user, cluster=cluster)
        response = await self._session.call(Slurmdbd.ASSOCIATIONS, AssociationsResponse, query=query)
        return require(response.associations, "associations")

    async def write_associations(self, *associations: Association) -> None:
        """Create or change associations."""
        await self._session.call(Slurmdbd.WRITE_ASSOCIATIONS, Response, body=_Associations(associations))

    async def delete_associations(
        self, *, account: str | None = None, user: str | None = None, cluster: str | None = None
    ) -> None:
        """Delete the associations that match every filter; at least one filter is required."""
        query = build_query(account=account, user=user, cluster=cluster)
        if not query:
            raise ValueError("a filter is required: without one, every association would be deleted")
        await self._session.call(Slurmdbd.DELETE_ASSOCIATIONS, Response, query=query)

    # QOS

    async def qos(self) -> tuple[Qos, ...]:
        """Every QOS."""
        return require((await self._session.call(Slurmdbd.QOS, QosResponse)).qos, "qos")

    async def qos_by_name(self, name: str) -> Qos:
        """One QOS."""
        return first_or_not_found(
            (await self._session.call(Slurmdbd.QOS_BY_NAME, QosResponse, qos=name)).qos, 0, f"QOS {name}"
        )

    async def write_qos(self, *qos: Qos) -> None:
        """Create or change QOS."""
        await self._session.call(Slurmdbd.WRITE_QOS, Response, body=_Qos(qos))

    async def delete_qos(self, name: str) -> None:
        """Delete a QOS."""
        await self._session.call(Slurmdbd.DELETE_QOS, Response, qos=name)

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
    ) -> tuple[AccountingJob, ...]:
        """Recorded jobs, without their steps. Pass a start time: the whole history is expensive."""
        lists = {"users": users, "account": accounts, "partition": partitions, "state": states}
        query = build_query(
            start_time=start_time,
            end_time=end_time,
            skip_steps="true",
            **{name: ",".join(values) or None for name, values in lists.items()},
        )
        response = await self._session.call(Slurmdbd.JOBS, AccountingJobsResponse, query=query)
        return require(response.jobs, "jobs")

    async def job(self, job: int | str) -> AccountingJob:
        """A recorded job; if several have this id, the one that was submitted last."""
        response = await self._session.call(Slurmdbd.JOB, AccountingJobsResponse, job_id=job)
        records = sorted(require(response.jobs, "jobs"), key=lambda record: record.time.submission, reverse=True)
        return first_or_not_found(tuple(records), 0, f"job {job}")

    async def write_outcome(self, job: int | str, outcome: JobOutcome) -> None:
        """Add comments and an exit code to the record of a job that has ended (v0.0.44).

        Raises `SlurmNotFound` if slurmdbd has no record of the job yet; slurmrestd reports that as "not modified".
        """
        response = await self._session.call(Slurmdbd.WRITE_OUTCOME, ChangesResponse, body=outcome, job_id=job)
        first_or_not_found(response.results, 0, f"record of job {job}")

    # Trackable resources, clusters, workload characterization keys

    async def tres(self) -> tuple[Tres, ...]:
        """Every trackable resource."""
        return require((await self._session.call(Slurmdbd.TRES, TresResponse)).tres, "TRES")

    async def clusters(self) -> tuple[Cluster, ...]:
        """Every cluster."""
        return require((await self._session.call(Slurmdbd.CLUSTERS, ClustersResponse)).clusters, "clusters")

    async def cluster(self, name: str) -> Cluster:
        """One cluster."""
        response = await self._session.call(Slurmdbd.CLUSTER, ClustersResponse, cluster_name=name)
        return first_or_not_found(response.clusters, 0, f"cluster {name}")

    async def write_clusters(self, *clusters: Cluster) -> None:
        """Create or change cluster records."""
        await self._session.call(Slurmdbd.WRITE_CLUSTERS, Response, body=_Clusters(clusters))

    async def delete_cluster(self, name: str) -> None:
        """Delete a cluster from the database."""
        await self._session.call(Slurmdbd.DELETE_CLUSTER, Response, cluster_name=name)

    async def wckeys(self) -> tuple[Wckey, ...]:
        """Every workload characterization key."""
        return require((await self._session.call(Slurmdbd.WCKEYS, WckeysResponse)).wckeys, "wckeys")

    async def write_wckeys(self, *wckeys: Wckey) -> None:
        """Create workload characterization keys."""
        await self._session.call(Slurmdbd.WRITE_WCKEYS, Response, body=_Wckeys(wckeys))

    async def delete_wckey(self, identity: int) -> None:
        """Delete a workload characterization key."""
        await self._session.call(Slurmdbd.DELETE_WCKEY, Response, id=identity)
