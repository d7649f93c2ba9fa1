# SPDX-License-Identifier: Apache-2.0
"""The cluster at a glance: jobs, reasons, nodes, devices, partitions, drains, reservations. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slinky.insight.job_requirements import pending_tasks
from slinky.insight.plain_text import duration
from slinky.insight.queue_snapshot import names
from slinky.insight.tres import parse_gres
from slinky.slurm import Host, Job
from slinky.web.page_data import PageData
from slinky.web.views.job_row import reason_sentence, shown_name
from slinky.web.views.nodes import HostCondition, condition_counts

#: Rows of the tables of reasons, drains and reservations.
ROWS_MAX = 12


@dataclass(frozen=True)
class ReasonCount:
    """How many pending jobs have a reason, and what it means."""

    reason: str
    jobs: int
    meaning: str


@dataclass(frozen=True)
class PartitionRow:
    """A partition with its nodes and jobs."""

    name: str
    up: bool
    conditions: Mapping[HostCondition, int]
    cpus_used: int
    cpus: int
    gpus_used: int
    gpus: int
    running: int
    pending: int


@dataclass(frozen=True)
class ReservationRow:
    """A reservation that is active or comes."""

    name: str
    when: str
    nodes: int
    owners: str


@dataclass(frozen=True)
class OverviewView:
    """What the first page shows."""

    jobs: Mapping[str, int]
    reasons: tuple[ReasonCount, ...]
    conditions: Mapping[HostCondition, int]
    devices: tuple[tuple[str, int, int], ...]
    partitions: tuple[PartitionRow, ...]
    drains: Mapping[str, int]
    reservations: tuple[ReservationRow, ...]
    backfill: str
    unknown: tuple[str, ...]


def overview(data: PageData) -> OverviewView:
    """What the first page shows."""
    snapshot = data.snapshot
    jobs, reasons = _count_jobs(snapshot.jobs)
    drains = Counter(host.reason_set_by_user or "unknown" for host in snapshot.hosts if host.state.draining)
    return OverviewView(
        jobs=dict(jobs.most_common()),
        reasons=tuple(
            ReasonCount(shown_name(reason), count, reason_sentence(reason))
            for reason, count in reasons.most_common(ROWS_MAX)
        ),
        conditions=condition_counts(snapshot.hosts),
        devices=tuple(_devices(snapshot.hosts)),
        partitions=tuple(_partitions(data)),
        drains={shown_name(owner): count for owner, count in drains.most_common(ROWS_MAX)},
        reservations=tuple(_reservations(data)),
        backfill=_backfill(data),
        unknown=snapshot.unknown,
    )


def _count_jobs(jobs: tuple[Job, ...]) -> tuple[Counter[str], Counter[str]]:
    states, reasons = Counter[str](), Counter[str]()
    for job in jobs:
        state = job.state
        if state.ended:
            continue
        count = pending_tasks(job) if state.pending else 1
        states[state.base.lower() or "unknown"] += count
        if state.pending:
            reasons[job.state_reason or "None"] += count
    return states, reasons


def _devices(hosts: tuple[Host, ...]) -> Iterator[tuple[str, int, int]]:
    """Name, used and total of each kind of device."""
    total, used = Counter[str](), Counter[str]()
    for host in hosts:
        for (kind, _), count in parse_gres(host.gres).items():
            total[kind] += count
        for (kind, _), count in parse_gres(host.gres_used).items():
            used[kind] += count
    for kind, count in sorted(total.items()):
        yield shown_name(kind), min(used[kind], count), count


def _partitions(data: PageData) -> Iterator[PartitionRow]:
    snapshot = data.snapshot
    running, pending = Counter[str](), Counter[str]()
    for job in snapshot.jobs:
        if job.state.pending:
            pending.update(names(job.partition))
        elif job.state.holds_nodes:
            running.update(names(job.partition))
    for name, hosts in sorted(snapshot.hosts_by_partition.items()):
        partition = snapshot.partitions_by_name.get(name)
        gpus = [(used, total) for kind, used, total in _devices(hosts) if kind == "gpu"]
        yield PartitionRow(
            name=shown_name(name),
            up=partition is None or partition.up,
            conditions=condition_counts(hosts),
            cpus_used=sum(host.alloc_cpus for host in hosts),
            cpus=sum(host.effective_cpus or host.cpus for host in hosts),
            gpus_used=gpus[0][0] if gpus else 0,
            gpus=gpus[0][1] if gpus else 0,
            running=running[name],
            pending=pending[name],
        )


def _reservations(data: PageData) -> Iterator[ReservationRow]:
    now = data.now
    coming = [entry for entry in data.snapshot.reservations if entry.end_time.whole > now]
    for entry in sorted(coming, key=lambda entry: entry.start_time.whole)[:ROWS_MAX]:
        begin, end = entry.start_time.whole, entry.end_time.whole
        when = f"in {duration(begin - now)}" if begin > now else f"for another {duration(end - now)}"
        owners = ", ".join(filter(None, (entry.users, entry.accounts, entry.groups)))
        yield ReservationRow(shown_name(entry.name), when, entry.node_count, shown_name(owners))


def _backfill(data: PageData) -> str:
    diag = data.snapshot.diag
    last = diag.bf_when_last_cycle.whole if diag else 0
    return f"{duration(data.now - last)} ago" if last else "not known"
