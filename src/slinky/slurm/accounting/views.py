# SPDX-License-Identifier: Apache-2.0
"""What slurmdbd keeps: accounts, users, associations, QOS, past jobs, TRES, clusters.

slurmdbd takes back the very objects that it hands out, so these structs are read and written alike; a field
left at its default is not sent. Limits are unset, a number, or infinite, as everywhere in Slurm.
"""

from __future__ import annotations

from slinky.slurm.model.values import UNSET, Number, Tres, Value

Words = tuple[str, ...]
Amounts = tuple[Tres, ...]


class AssociationRef(Value, frozen=True, gc=False):
    """The key of an association."""

    account: str = ""
    cluster: str = ""
    partition: str = ""
    user: str = ""
    id: int | None = None


class Coordinator(Value, frozen=True, gc=False):
    """A user who may manage an account."""

    name: str = ""
    direct: bool = False


class Account(Value, frozen=True, gc=False):
    """An account of the accounting tree."""

    name: str
    description: str = ""
    organization: str = ""
    coordinators: tuple[Coordinator, ...] = ()
    associations: tuple[AssociationRef, ...] = ()
    flags: Words = ()


class UserDefaults(Value, frozen=True, gc=False):
    """What a user's jobs get when they do not say."""

    account: str | None = None
    wckey: str | None = None


class User(Value, frozen=True, gc=False):
    """A user of the accounting database."""

    name: str
    administrator_level: Words = ()
    default: UserDefaults = UserDefaults()
    associations: tuple[AssociationRef, ...] = ()
    coordinators: tuple[Coordinator, ...] = ()
    flags: Words = ()


class AssociationDefault(Value, frozen=True, gc=False):
    """The QOS that an association's jobs get by default."""

    qos: str = ""


class JobsPer(Value, frozen=True, gc=False):
    """Limits on how many jobs, and for how long."""

    count: Number = UNSET
    accruing: Number = UNSET
    submitted: Number = UNSET
    wall_clock: Number = UNSET


class JobLimits(Value, frozen=True, gc=False):
    """Limits on an association's jobs."""

    per: JobsPer = JobsPer()
    active: Number = UNSET
    accruing: Number = UNSET
    total: Number = UNSET


class TresPer(Value, frozen=True, gc=False):
    """Limits on resources per job, node, user or account."""

    job: Amounts = ()
    node: Amounts = ()
    user: Amounts = ()
    account: Amounts = ()
    qos: Amounts = ()


class TresMinutes(Value, frozen=True, gc=False):
    """Limits on resources multiplied by time."""

    total: Amounts = ()
    per: TresPer = TresPer()


class TresGroup(Value, frozen=True, gc=False):
    """Limits on what runs at once below an association."""

    minutes: Amounts = ()
    active: Amounts = ()


class AssociationTres(Value, frozen=True, gc=False):
    """Limits on an association's resources."""

    total: Amounts = ()
    group: TresGroup = TresGroup()
    minutes: TresMinutes = TresMinutes()
    per: TresPer = TresPer()


class AssociationMax(Value, frozen=True, gc=False):
    """Upper limits of an association."""

    jobs: JobLimits = JobLimits()
    tres: AssociationTres = AssociationTres()


class Association(Value, frozen=True, gc=False):
    """What a user may use, of which account, on which cluster and partition."""

    account: str
    cluster: str = ""
    user: str = ""
    partition: str = ""
    id: int | None = None
    parent_account: str = ""
    is_default: bool = False
    default: AssociationDefault = AssociationDefault()
    qos: Words = ()
    shares_raw: int | None = None
    priority: Number = UNSET
    max: AssociationMax = AssociationMax()
    comment: str = ""
    lineage: str = ""
    flags: Words = ()


class ClusterController(Value, frozen=True, gc=False):
    """Where a cluster's slurmctld was last seen by slurmdbd; an empty host means that it is not connected."""

    host: str = ""
    port: int = 0


class Cluster(Value, frozen=True, gc=False):
    """A cluster that slurmdbd accounts for."""

    name: str
    controller: ClusterController = ClusterController()
    nodes: str = ""
    rpc_version: int = 0
    tres: Amounts = ()
    flags: Words = ()


class Wckey(Value, frozen=True, gc=False):
    """A workload characterization key."""

    name: str
    user: str = ""
    cluster: str = ""
    id: int | None = None
    flags: Words = ()
