# SPDX-License-Identifier: Apache-2.0
"""What slurmdbd keeps: accounts, users, associations, QOS, past jobs, TRES, clusters.

slurmdbd takes back the very objects that it hands out, so these structs are read and written alike; a field
left at its default is not sent. Limits are unset, a number, or infinite, as everywhere in Slurm.
"""

from __future__ import annotations

from .states import JobState
from .values import UNSET, ExitCode, Number, Tres, Value

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


class PerWhom(Value, frozen=True, gc=False):
    """A limit per account and per user."""

    account: Number = UNSET
    user: Number = UNSET


class ActiveJobs(Value, frozen=True, gc=False):
    """How many jobs may be active."""

    accruing: Number = UNSET
    count: Number = UNSET


class ActivePer(Value, frozen=True, gc=False):
    """How many jobs may be active per account and per user."""

    per: PerWhom = PerWhom()


class QosJobs(Value, frozen=True, gc=False):
    """How many jobs a QOS takes."""

    count: Number = UNSET
    active_jobs: ActivePer = ActivePer()
    per: PerWhom = PerWhom()


class QosTres(Value, frozen=True, gc=False):
    """How much of each resource a QOS grants."""

    total: Amounts = ()
    minutes: TresMinutes = TresMinutes()
    per: TresPer = TresPer()


class WallPer(Value, frozen=True, gc=False):
    """Longest run, in minutes."""

    qos: Number = UNSET
    job: Number = UNSET


class WallClock(Value, frozen=True, gc=False):
    """Limits on time."""

    per: WallPer = WallPer()


class QosMax(Value, frozen=True, gc=False):
    """Upper limits of a QOS."""

    active_jobs: ActiveJobs = ActiveJobs()
    jobs: QosJobs = QosJobs()
    tres: QosTres = QosTres()
    wall_clock: WallClock = WallClock()


class QosLimits(Value, frozen=True, gc=False):
    """Every limit of a QOS."""

    grace_time: int | None = None
    max: QosMax = QosMax()
    factor: Number = UNSET


class QosPreempt(Value, frozen=True, gc=False):
    """Whom a QOS preempts and how."""

    list: Words = ()
    mode: Words = ()
    exempt_time: Number = UNSET


class Qos(Value, frozen=True, gc=False):
    """A quality of service."""

    name: str
    description: str = ""
    id: int | None = None
    flags: Words = ()
    priority: Number = UNSET
    preempt: QosPreempt = QosPreempt()
    limits: QosLimits = QosLimits()
    usage_factor: Number = UNSET
    usage_threshold: Number = UNSET


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


class PastState(Value, frozen=True, gc=False):
    """The last state that was recorded of a job."""

    current: Words = ()
    reason: str = ""


class PastTime(Value, frozen=True, gc=False):
    """When things happened to a job, in seconds since 1970; 0 is never."""

    submission: int = 0
    eligible: int = 0
    start: int = 0
    end: int = 0
    elapsed: int = 0
    suspended: int = 0
    limit: Number = UNSET


class PastTres(Value, frozen=True, gc=False):
    """What a job asked for and got."""

    requested: Amounts = ()
    allocated: Amounts = ()


class PastComment(Value, frozen=True, gc=False):
    """Remarks kept with a job."""

    administrator: str = ""
    job: str = ""
    system: str = ""


class PastJob(Value, frozen=True, gc=False, rename={"past": "state"}):
    """A job as the accounting database remembers it."""

    job_id: int
    sluid: str = ""
    name: str = ""
    user: str = ""
    group: str = ""
    account: str = ""
    cluster: str = ""
    partition: str = ""
    qos: str = ""
    past: PastState = PastState()
    time: PastTime = PastTime()
    exit_code: ExitCode = ExitCode()
    derived_exit_code: ExitCode = ExitCode()
    nodes: str = ""
    allocation_nodes: int = 0
    failed_node: str = ""
    tres: PastTres = PastTres()
    comment: PastComment = PastComment()
    extra: str = ""
    flags: Words = ()
    restart_cnt: int = 0

    @property
    def state(self) -> JobState:
        """Base state and flags."""
        return JobState.of(self.past.current)


class Outcome(Value, frozen=True, gc=False):
    """What may be added to the record of a job after its end (v0.0.44)."""

    comment: PastComment | None = None
    extra: str | None = None
    derived_exit_code: ExitCode | None = None
    wckey: str | None = None


class Wckey(Value, frozen=True, gc=False):
    """A workload characterisation key."""

    name: str
    user: str = ""
    cluster: str = ""
    id: int | None = None
    flags: Words = ()


class AssociationSettings(Value, frozen=True, gc=False):
    """The settings of associations that are about to be added."""

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
    """Which accounts to add, with what, where. Slurm wants `association` even when it is empty."""

    accounts: Words
    association: AssociationSettings
    clusters: Words = ()


class AccountText(Value, frozen=True, gc=False):
    """Description and organisation of new accounts."""

    description: str
    organization: str


class NewAccounts(Value, frozen=True, gc=False):
    """Accounts to add together with their associations."""

    association_condition: AccountsCondition
    account: AccountText


class UsersCondition(Value, frozen=True, gc=False):
    """Which users to add, to which accounts, with what, where. Slurm wants `association` even when it is
    empty.
    """

    users: Words
    accounts: Words
    association: AssociationSettings
    clusters: Words = ()
    partitions: Words = ()


class UserText(Value, frozen=True, gc=False):
    """Rights and defaults of new users."""

    adminlevel: Words | None = None
    defaultaccount: str | None = None


class NewUsers(Value, frozen=True, gc=False):
    """Users to add together with their associations."""

    association_condition: UsersCondition
    user: UserText
