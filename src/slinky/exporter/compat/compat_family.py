# SPDX-License-Identifier: Apache-2.0
"""A family of metrics under the name that another exporter has for it, and what such families share.

Names, labels and units are those of the other exporter: megabytes stay megabytes and microseconds stay microseconds,
even if the name says otherwise. All are gauges, as there.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from slinky.exporter.families import Compute, Values
from slinky.exporter.snapshot import ClusterSnapshot
from slinky.insight.tres import parse_tres
from slinky.slurm import Diag, Host, Job, JobRecord

#: Label values of a job or node; a node may be in several partitions.
Labels = tuple[str, ...]


class CompatFamily(NamedTuple):
    """One family of a page of compatible names."""

    name: str
    labels: tuple[str, ...]
    compute: Compute
    #: The metric of this exporter that replaces it.
    replacement: str
    #: One series per node, user or account: left out unless the settings ask for it.
    detail: str = ""


class JobScope(NamedTuple):
    """How jobs are grouped."""

    labels: tuple[str, ...]
    of: Callable[[Job | None], Labels]


ALL_JOBS = JobScope((), lambda _: ())
ACCOUNTS = JobScope(("account",), lambda job: (job.account if job else "",))
PARTITIONS = JobScope(("partition",), lambda job: (job.partition.partition(",")[0] if job else "",))


def count_jobs(scope: JobScope, applies: Callable[[JobRecord], bool]) -> Compute:
    """The jobs of each group for which `applies` holds, with 0 for groups without one; nothing if jobs are unknown."""

    def compute(snapshot: ClusterSnapshot) -> Values:
        counts: Counter[Labels] = Counter()
        if snapshot.jobs_known and not scope.labels:
            counts[()] = 0
        for record in snapshot.jobs:
            counts[scope.of(record.detail)] += applies(record)
        return counts

    return compute


def sum_jobs(scope: JobScope, amount: Callable[[Job], float], *, running: bool = True) -> Compute:
    """A sum over the running jobs (or the pending jobs) of each group."""

    def compute(snapshot: ClusterSnapshot) -> Values:
        sums: dict[Labels, float] = defaultdict(float) if scope.labels or not snapshot.jobs_known else {(): 0.0}
        for record in snapshot.jobs:
            job = record.detail
            if job is not None and (record.state.holds_nodes if running else record.state.pending):
                labels = scope.of(job)
                sums[labels] = sums.get(labels, 0.0) + amount(job)
        return sums

    return compute


def allocated_cpus(job: Job) -> float:
    """The CPUs that a running job holds."""
    return parse_tres(job.tres_alloc_str).cpus or job.cpus.whole


class HostScope(NamedTuple):
    """How nodes are grouped."""

    labels: tuple[str, ...]
    of: Callable[[Host], Iterable[Labels]]


ALL_HOSTS = HostScope((), lambda _: ((),))
HOST_PARTITIONS = HostScope(("partition",), lambda host: ((name,) for name in host.partitions))
EACH_HOST = HostScope(("node",), lambda host: ((host.name,),))


def sum_hosts(scope: HostScope, amount: Callable[[Host], float]) -> Compute:
    """A sum over the nodes of each group; nothing if nodes are unknown."""

    def compute(snapshot: ClusterSnapshot) -> Values:
        sums: dict[Labels, float] = {} if scope.labels or not snapshot.nodes_known else {(): 0.0}
        for host in snapshot.hosts:
            for labels in scope.of(host):
                sums[labels] = sums.get(labels, 0.0) + amount(host)
        return sums

    return compute


def statistic(read: Callable[[Diag], float]) -> Compute:
    """A figure of slurmctld's statistics."""
    return lambda snapshot: {(): float(read(snapshot.diag))} if snapshot.diag else {}


def fields(table: dict[str, tuple[str, str]], prefix: str) -> Iterator[CompatFamily]:
    """Families of slurmctld's statistics: the rest of the name, the field (`a.b` for a field of a field), our name."""
    for name, (field, replacement) in table.items():
        yield CompatFamily(prefix + name, (), statistic(_reader(field)), replacement)


def _reader(field: str) -> Callable[[Diag], float]:
    def read(diag: Diag) -> float:
        value: object = diag
        for part in field.split("."):
            value = getattr(value, part)
        return float(getattr(value, "whole", value))  # type: ignore[arg-type]

    return read
