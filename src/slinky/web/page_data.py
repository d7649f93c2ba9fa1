# SPDX-License-Identifier: Apache-2.0
"""A cluster at one moment as every page shows it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from slinky.api.nodeset import NodeSet
from slinky.bounds import is_job_id
from slinky.insight.forecast import StartRange
from slinky.insight.listed_jobs import job_label
from slinky.insight.queue_snapshot import QueueSnapshot, host_names
from slinky.slurm import Host, Job
from slinky.slurm.hostlist import natural_sort_key
from slinky.slurm.model.accounts import User


@dataclass(frozen=True)
class KnownNodeSets:
    """The NodeSets of the cluster. `read` is false until they were read; `fault` says why they cannot be read now."""

    items: tuple[NodeSet, ...] = ()
    #: Names of NodeSets that cannot be decoded, of this or another Controller.
    unreadable: tuple[str, ...] = ()
    read: bool = True
    fault: str = ""


@dataclass(frozen=True)
class PageData:
    """A snapshot, forecasts, and how old they are. `whole` has also the jobs that this viewer may not see."""

    snapshot: QueueSnapshot
    whole: QueueSnapshot
    ranges: Mapping[int, StartRange] = field(default_factory=dict)
    users: tuple[User, ...] = ()
    #: None if the page shows no NodeSets.
    node_sets: KnownNodeSets | None = None
    cluster: str = ""
    release: str = ""
    #: Seconds since slurmctld confirmed jobs and nodes, when the snapshot was taken.
    age: float = 0.0
    #: Why Slurm cannot be read; empty if it can.
    fault: str = ""
    #: The number of this data; it rises by one with each.
    serial: int = 0

    @property
    def now(self) -> float:
        """When the snapshot was taken, in seconds since the epoch."""
        return self.snapshot.now

    @cached_property
    def jobs_by_host(self) -> Mapping[str, tuple[Job, ...]]:
        """The jobs on each Slurm node."""
        jobs: dict[str, list[Job]] = {}
        for job in self.snapshot.running:
            for name in host_names(job.nodes) if job.nodes else ():
                jobs.setdefault(name, []).append(job)
        return {name: tuple(members) for name, members in jobs.items()}

    @cached_property
    def jobs_in_order(self) -> tuple[Job, ...]:
        """Pending jobs in the order of the queue, then running and ended jobs, the last to start first."""
        others = [job for job in self.snapshot.jobs if not job.state.pending]
        others.sort(key=lambda job: (job.state.ended, -job.start_time.whole, job.job_id))
        return (*self.snapshot.pending, *others)

    @cached_property
    def hosts_in_order(self) -> tuple[Host, ...]:
        """Slurm nodes by name, `n2` before `n10`."""
        return tuple(sorted(self.snapshot.hosts, key=lambda host: natural_sort_key(host.name)))

    def find_job(self, label: str) -> Job | None:
        """A job by its id, or a task by its array and number."""
        array, _, task = label.partition("_")
        if not is_job_id(array):
            return None
        if not task:
            return self.snapshot.jobs_by_id.get(int(array))
        return next((job for job in self.snapshot.jobs if job_label(job) == label), None)

    def with_snapshot(self, snapshot: QueueSnapshot) -> "PageData":
        """The same data with what a viewer may see."""
        return replace(self, snapshot=snapshot)
