# SPDX-License-Identifier: Apache-2.0
"""The rows of `slinky top`: jobs with their pods, and nodes. Pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from slinky.insight.forecast import forecast
from slinky.insight.job_requirements import capacity, free
from slinky.insight.plain_text import duration, megabytes, plain
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.slurm import Host, Job
from slinky.slurm.hostlist import natural_sort_key

JOB_COLUMNS = ("JOBID", "USER", "PARTITION", "NAME", "STATE", "TIME", "NODELIST(REASON)", "EXPECTED START", "PODS")
NODE_COLUMNS = ("NODE", "STATE", "CPUS", "MEMORY", "GRES", "REASON")
#: Rows of a table at most: each costs time to draw.
ROWS_MAX = 500
CELL_LIMIT = 40


@dataclass(frozen=True)
class PodPhase:
    """A pod that stands for a part of a job."""

    job_id: int
    name: str
    phase: str


@dataclass(frozen=True)
class TopData:
    """What one look at a cluster shows."""

    where: str
    snapshot: QueueSnapshot
    pods: tuple[PodPhase, ...] = ()
    #: Why pods are not shown, if they could be.
    pods_unknown: str = ""


def job_rows(data: TopData) -> list[tuple[str, tuple[str, ...]]]:
    """Key and cells of the jobs that have not ended: running ones first, then in the order of the queue."""
    snapshot, pods = data.snapshot, _pods_by_job(data.pods)
    ranges = forecast(snapshot)
    order = {job.job_id: index for index, job in enumerate(snapshot.pending)}
    jobs = [job for job in snapshot.jobs if not job.state.ended]
    jobs.sort(key=lambda job: (job.job_id in order, order.get(job.job_id, 0), job.job_id))
    rows = []
    for job in jobs[:ROWS_MAX]:
        start = ranges.get(job.job_id)
        running = (
            duration(snapshot.now - job.start_time.whole) if job.state.holds_nodes and job.start_time.whole else ""
        )
        cells = (
            str(job.job_id),
            job.user_name,
            job.partition,
            job.name,
            str(job.state),
            running,
            f"({job.state_reason})" if job.state.pending else job.nodes,
            start.text(snapshot.now) if start is not None and not start.why else "",
            pods.get(job.job_id, ""),
        )
        rows.append((f"job/{job.job_id}", tuple(plain(cell, CELL_LIMIT) for cell in cells)))
    return rows


def node_rows(data: TopData) -> list[tuple[str, tuple[str, ...]]]:
    """Key and cells of the nodes: those that need attention first."""
    hosts = sorted(data.snapshot.hosts, key=lambda host: (not _needs_attention(host), natural_sort_key(host.name)))
    return [(f"node/{host.name}", _node_cells(host)) for host in hosts[:ROWS_MAX]]


def summary(data: TopData) -> str:
    """The cluster in one line."""
    snapshot = data.snapshot
    jobs = Counter(job.state.base.lower() for job in snapshot.jobs if not job.state.ended)
    hosts = Counter("drained" if host.state.draining else host.state.base.lower() for host in snapshot.hosts)
    parts = [plain(data.where, 80), _counts("jobs", jobs), _counts("nodes", hosts)]
    if data.pods:
        parts.append(_counts("pods", Counter(pod.phase.lower() for pod in data.pods)))
    if data.pods_unknown:
        parts.append(f"pods unknown: {plain(data.pods_unknown, 80)}")
    if snapshot.unknown:
        parts.append(f"not known: {plain('; '.join(snapshot.unknown), 120)}")
    return "   ".join(parts)


def _node_cells(host: Host) -> tuple[str, ...]:
    whole, rest = capacity(host), free(host)
    gres = ",".join(f"{':'.join(filter(None, kind))} {rest.gres.get(kind, 0)}/{n}" for kind, n in whole.gres.items())
    cells = (
        host.name,
        str(host.state).lower(),
        f"{rest.cpus}/{whole.cpus}",
        f"{megabytes(rest.memory)}/{megabytes(whole.memory)}",
        gres,
        f"{host.reason} [{host.reason_set_by_user}]" if host.reason else "",
    )
    return tuple(plain(cell, CELL_LIMIT) for cell in cells)


def _needs_attention(host: Host) -> bool:
    return host.state.draining or host.state.down


def _pods_by_job(pods: Iterable[PodPhase]) -> dict[int, str]:
    """The pods of each job: the name of a single one, or how many are in each phase."""
    found: dict[int, list[PodPhase]] = {}
    for pod in pods:
        found.setdefault(pod.job_id, []).append(pod)
    return {
        job: f"{members[0].name} {members[0].phase}"
        if len(members) == 1
        else ", ".join(f"{count} {phase}" for phase, count in Counter(pod.phase for pod in members).most_common())
        for job, members in found.items()
    }


def _counts(noun: str, counts: "Counter[str]") -> str:
    return f"{noun}: {', '.join(f'{count} {word}' for word, count in counts.most_common(5)) or 'none'}"


def find_row_job(data: TopData, key: str) -> Job | None:
    """The job of a row; None if it has ended in the meantime."""
    name = key.removeprefix("job/")
    return data.snapshot.jobs_by_id.get(int(name)) if key.startswith("job/") and name.isdecimal() else None


def find_row_host(data: TopData, key: str) -> Host | None:
    """The node of a row; None if it is gone."""
    return data.snapshot.hosts_by_name.get(key.removeprefix("node/")) if key.startswith("node/") else None
