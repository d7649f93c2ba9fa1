# SPDX-License-Identifier: Apache-2.0
"""Objects of slurmdbd: accounts, users, associations, clusters and workload characterization keys.

slurmdbd accepts the same objects that it returns, so these structs are used in requests and responses; a field with its
default value is not sent. A limit is unset, a number, or infinite.
"""

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
    """The defaults of a user's jobs."""

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
    """The default QOS of an association's jobs."""

    qos: str = ""


class JobsPer(Value, frozen=True, gc=False):
    """Limits on the number and duration of jobs."""

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
    """Limits on the running jobs of an association and its children."""

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
    """The link between account, user, cluster and partition, with its limits."""

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
    """The address of a cluster's slurmctld; an empty host means that it is not connected to slurmdbd."""

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
