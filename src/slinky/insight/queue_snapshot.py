# SPDX-License-Identifier: Apache-2.0
"""A Slurm cluster at one moment, as explanations and forecasts read it. Pure.

`QueueSnapshot` holds the objects of the Slurm library as they are, and indexes of them that are built when first used.
What could not be read is empty; `unknown` names it, so that an explanation can say what it does not know.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from slinky.slurm.hostlist import HostlistError, expand
from slinky.slurm.model.accounting_jobs import AccountingJob
from slinky.slurm.model.accounts import Association
from slinky.slurm.model.partitions import Partition
from slinky.slurm.model.qos import Qos
from slinky.slurm.model.statistics import Diag
from slinky.slurm.model.views import Host, Job, License, Reservation, Share

#: Reasons with which a pending job does not take part in scheduling at all.
INELIGIBLE = frozenset(
    [
        "JobHeldUser",
        "JobHeldAdmin",
        "JobHoldMaxRequeue",
        "Dependency",
        "DependencyNeverSatisfied",
        "BeginTime",
        "ReservationDeleted",
        "ReservationInvalid",
        "InvalidAccount",
        "InvalidQOS",
        "AccountNotAllowed",
        "QOSNotAllowed",
        "PartitionDown",
        "PartitionInactive",
        "PartitionTimeLimit",
        "BadConstraints",
    ]
)
#: Flags of nodes that come back without a person, so that a forecast may count on them.
_RETURNING = frozenset({"MAINTENANCE", "POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN"})


@dataclass(frozen=True)
class QueueSnapshot:
    """One cluster; times are in seconds since the epoch. `conf` is slurmctld's running configuration."""

    now: float
    jobs: tuple[Job, ...] = ()
    hosts: tuple[Host, ...] = ()
    partitions: tuple[Partition, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    licenses: tuple[License, ...] = ()
    qos: tuple[Qos, ...] = ()
    associations: tuple[Association, ...] = ()
    shares: tuple[Share, ...] = ()
    history: tuple[AccountingJob, ...] = ()
    diag: Diag | None = None
    conf: Mapping[str, object] = field(default_factory=dict)
    #: What could not be read, in words: `accounting (connection refused)`.
    unknown: tuple[str, ...] = ()

    @cached_property
    def jobs_by_id(self) -> Mapping[int, Job]:
        """Jobs by id."""
        return {job.job_id: job for job in self.jobs}

    @cached_property
    def hosts_by_name(self) -> Mapping[str, Host]:
        """Slurm nodes by name."""
        return {host.name: host for host in self.hosts}

    @cached_property
    def stopped_hosts(self) -> Mapping[str, Host]:
        """Slurm nodes that start no jobs until a person acts, by name."""
        return {host.name: host for host in self.hosts if not is_usable(host)}

    @cached_property
    def partitions_by_name(self) -> Mapping[str, Partition]:
        """Partitions by name."""
        return {partition.name: partition for partition in self.partitions}

    @cached_property
    def hosts_by_partition(self) -> Mapping[str, tuple[Host, ...]]:
        """Slurm nodes by partition."""
        hosts: dict[str, list[Host]] = {name: [] for name in self.partitions_by_name}
        for host in self.hosts:
            for name in host.partitions:
                hosts.setdefault(name, []).append(host)
        return {name: tuple(members) for name, members in hosts.items()}

    @cached_property
    def pending(self) -> tuple[Job, ...]:
        """Pending jobs in the order in which Slurm looks at them: tier of the partition, priority, age."""
        return tuple(sorted((job for job in self.jobs if job.state.pending), key=self.order))

    @cached_property
    def _positions(self) -> Mapping[int, int]:
        return {job.job_id: index for index, job in enumerate(self.pending)}

    def pending_ahead(self, job: Job) -> tuple[Job, ...]:
        """The pending jobs that Slurm looks at before this job, in their order."""
        position = self._positions.get(job.job_id)
        if position is not None:
            return self.pending[:position]
        own = self.order(job)
        return tuple(other for other in self.pending if self.order(other) < own)

    @cached_property
    def running(self) -> tuple[Job, ...]:
        """Jobs that hold nodes."""
        return tuple(job for job in self.jobs if job.state.holds_nodes)

    def order(self, job: Job) -> tuple[bool, int, int, int]:
        """The sort key of the queue: smaller is earlier."""
        tier = self._tiers.get(job.partition)
        if tier is None:
            known = (self.partitions_by_name.get(name) for name in names(job.partition))
            tier = self._tiers[job.partition] = max((entry.priority.tier for entry in known if entry), default=0)
        return not job.resv_name, -tier, -job.priority.whole, job.job_id

    @cached_property
    def _tiers(self) -> dict[str, int]:
        """The highest tier of each list of partitions, which many jobs share."""
        return {}

    def is_eligible(self, job: Job) -> bool:
        """Whether Slurm considers the job for a start now; held jobs and jobs with open dependencies are not."""
        return not job.hold and job.priority.value != 0 and job.state_reason not in INELIGIBLE

    def candidate_hosts(self, job: Job) -> tuple[Host, ...]:
        """The nodes of the job's partitions, each once."""
        found: dict[str, Host] = {}
        for name in names(job.partition):
            found.update((host.name, host) for host in self.hosts_by_partition.get(name, ()))
        return tuple(found.values())


def is_usable(host: Host) -> bool:
    """Whether jobs can run on the node now, or when a reservation or power saving ends."""
    state = host.state
    return state.schedulable or (
        state.base in {"IDLE", "MIXED", "ALLOCATED"} and not state.draining and bool(state.flags & _RETURNING)
    )


@lru_cache(maxsize=4096)
def names(text: str) -> tuple[str, ...]:
    """The names of a list that is separated by commas."""
    return tuple(part for word in text.split(",") if (part := word.strip()))


def host_names(text: str) -> tuple[str, ...]:
    """The nodes of a hostlist; a text that is no hostlist counts as one name."""
    try:
        return tuple(expand(text))
    except HostlistError:
        return (text,)
