# SPDX-License-Identifier: Apache-2.0
"""Requests that create accounts or users together with their associations."""

from slinky.slurm.model.values import Number, Tres, Value

Words = tuple[str, ...]
Amounts = tuple[Tres, ...]


class AssociationSettings(Value, frozen=True, gc=False):
    """The settings of new associations."""

    parent: str | None = None
    fairshare: int | None = None
    defaultqos: str | None = None
    qoslevel: Words | None = None
    priority: Number | None = None
    maxjobs: Number | None = None
    maxsubmitjobs: Number | None = None
    maxwalldurationperjob: Number | None = None
    maxtresperjob: Amounts | None = None
    grpjobs: Number | None = None
    grpsubmitjobs: Number | None = None
    grptres: Amounts | None = None
    grpwall: Number | None = None
    comment: str | None = None


class AccountsCondition(Value, frozen=True, gc=False):
    """The new accounts, their settings and clusters. Slurm requires `association` even if it is empty."""

    accounts: Words
    association: AssociationSettings
    clusters: Words = ()


class AccountDescription(Value, frozen=True, gc=False):
    """Description and organization of new accounts."""

    description: str
    organization: str


class NewAccounts(Value, frozen=True, gc=False):
    """Accounts to create together with their associations."""

    association_condition: AccountsCondition
    account: AccountDescription


class UsersCondition(Value, frozen=True, gc=False):
    """The new users, their accounts, settings and clusters. Slurm requires `association` even if it is empty."""

    users: Words
    accounts: Words
    association: AssociationSettings
    clusters: Words = ()
    partitions: Words = ()


class UserSettings(Value, frozen=True, gc=False):
    """Administrator level and default account of new users."""

    adminlevel: Words | None = None
    defaultaccount: str | None = None


class NewUsers(Value, frozen=True, gc=False):
    """Users to create together with their associations."""

    association_condition: UsersCondition
    user: UserSettings
