# SPDX-License-Identifier: Apache-2.0
"""The structs of slurmrestd's responses about the accounting database; see `slinky.slurm.model.responses`."""

from slinky.slurm.model.accounting_jobs import AccountingJob
from slinky.slurm.model.accounts import Account, Association, Cluster, User, Wckey
from slinky.slurm.model.qos import Qos
from slinky.slurm.model.responses import Response
from slinky.slurm.model.values import Tres


class AccountsResponse(Response, frozen=True, gc=False):
    """`accounts/`."""

    accounts: tuple[Account, ...] | None = None


class UsersResponse(Response, frozen=True, gc=False):
    """`users/`."""

    users: tuple[User, ...] | None = None


class AssociationsResponse(Response, frozen=True, gc=False):
    """`associations/`."""

    associations: tuple[Association, ...] | None = None


class QosResponse(Response, frozen=True, gc=False):
    """`qos/`."""

    qos: tuple[Qos, ...] | None = None


class AccountingJobsResponse(Response, frozen=True, gc=False):
    """`jobs/` of slurmdbd."""

    jobs: tuple[AccountingJob, ...] | None = None


class ChangesResponse(Response, frozen=True, gc=False):
    """What a write to slurmdbd has changed, as text."""

    results: tuple[str, ...] | None = None


class TresResponse(Response, frozen=True, gc=False, rename={"tres": "TRES"}):
    """`tres/`."""

    tres: tuple[Tres, ...] | None = None


class ClustersResponse(Response, frozen=True, gc=False):
    """`clusters/`."""

    clusters: tuple[Cluster, ...] | None = None


class WckeysResponse(Response, frozen=True, gc=False):
    """`wckeys/`."""

    wckeys: tuple[Wckey, ...] | None = None
