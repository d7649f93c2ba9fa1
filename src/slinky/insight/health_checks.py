# SPDX-License-Identifier: Apache-2.0
"""Checks of a Slurm cluster that find what breaks jobs, metrics or the bridge, each with its fix. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from slinky.insight.plain_text import counted, duration, listed, plain
from slinky.insight.queue_snapshot import QueueSnapshot

#: Seconds by which clocks may differ.
CLOCK_SKEW = 30
#: Seconds after which a backfill cycle is late while jobs wait.
BACKFILL_LATE = 600
#: Seconds after which a drained node counts as forgotten.
FORGOTTEN = 14 * 86400
#: Records for slurmdbd that wait in slurmctld.
DBD_QUEUE = 1000
#: The share of MaxNodeCount that counts as nearly all.
NEARLY_FULL = 0.95


class FindingSeverity(Enum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """Something that should be different, and how to change it."""

    severity: FindingSeverity
    check: str
    sentence: str
    fix: str


def check_health(snapshot: QueueSnapshot) -> tuple[HealthFinding, ...]:
    """Everything that is found, errors first."""
    findings = [finding for check in CHECKS for finding in check(snapshot)]
    order = list(FindingSeverity)
    return tuple(sorted(findings, key=lambda finding: order.index(finding.severity)))


def _conf(snapshot: QueueSnapshot, name: str) -> str:
    """A setting as text; a list as slurm.conf writes it."""
    value = next((value for key, value in snapshot.conf.items() if key.lower() == name.lower()), "")
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value or "")


def _error(check: str, sentence: str, fix: str) -> HealthFinding:
    return HealthFinding(FindingSeverity.ERROR, check, sentence, fix)


def _warning(check: str, sentence: str, fix: str) -> HealthFinding:
    return HealthFinding(FindingSeverity.WARNING, check, sentence, fix)


def _clock(snapshot: QueueSnapshot) -> Iterator[HealthFinding]:
    seen = snapshot.diag.req_time.whole if snapshot.diag else 0
    if seen and abs(snapshot.now - seen) > CLOCK_SKEW:
        yield _error(
            "clock",
            f"The clock of slurmctld differs by {duration(abs(snapshot.now - seen))} from the clock of this machine.",
            "Synchronize both clocks; tokens and keys are refused otherwise.",
        )


def _unreadable(snapshot: QueueSnapshot) -> Iterator[HealthFinding]:
    for text in snapshot.unknown:
        yield _warning(
            "readable", f"Not readable: {text}.", "Check slurmdbd, the version of Slurm, and the token's user."
        )


def _accounting(snapshot: QueueSnapshot) -> Iterator[HealthFinding]:
    waiting = snapshot.diag.dbd_agent_queue_size if snapshot.diag else 0
    if waiting > DBD_QUEUE:
        yield _error(
            "accounting",
            f"{waiting} records for slurmdbd wait in slurmctld.",
            "Check that slurmdbd and its database run; slurmctld drops records when the queue is full.",
        )


def _backfill(snapshot: QueueSnapshot) -> Iterator[HealthFinding]:
    diag = snapshot.diag
    waiting = [job for job in snapshot.pending if snapshot.is_eligible(job)]
    if diag is None or not waiting or _conf(snapshot, "SchedulerType") not in ("", "sched/backfill"):
        return
    last = diag.bf_when_last_cycle.whole
    oldest = min(job.submit_time.whole for job in waiting)
    if snapshot.now - max(last, oldest) > BACKFILL_LATE:
        ago = f"{duration(snapshot.now - last)} ago" if last else "never"
        yield _warning(
            "backfill",
            f"The last backfill cycle was {ago}, and {counted(len(waiting), 'job')} wait.",
            "See the log of slurmctld; a cycle that is too slow can be limited with bf_max_job_test and bf_continue.",
        )


def _scheduler(snapshot: QueueSnapshot) -> Iterator[HealthFinding]:
    options = _conf(snapshot, "SchedulerParameters").split(",")
    if "defer" in options:
        yield _warning(
            "scheduler",
            "SchedulerParameters has `defer`: no job starts when it is submitted, so pods of the bridge start later.",
            "Remove `defer` unless the submission rate needs it.",
        )


def _private_data(snapshot: QueueSnapshot) -> Iterator[HealthFinding]:
    hidden = _conf(snapshot, "PrivateData")
    if hidden:
        yield _warning(
            "private data",
            f"PrivateData hides {plain(hidden, 80)}: users, metrics and forecasts with a user's token see only a part.",
            "Use tokens of the user slurm for the exporter and the bridge.",
        )


def _partitions(snapshot: QueueSnapshot) -> Iterator[HealthFinding]:
    enforced = _conf(snapshot, "EnforcePartLimits").upper() not in ("", "NO", "FALSE")
    empty = sorted(name for name, hosts in snapshot.hosts_by_partition.items() if not hosts)
    if empty and enforced:
        yield _warning(
            "partitions",
            f"{_partitions_with_verb(empty, 'has', 'have')} no nodes, and EnforcePartLimits refuses jobs.",
            "Set EnforcePartLimits=NO if nodes are added on demand, so that jobs wait for them.",
        )
    down = sorted(partition.name for partition in snapshot.partitions if not partition.up)
    if down:
        yield _warning(
            "partitions",
            f"{_partitions_with_verb(down, 'is', 'are')} not up.",
            f"Run `scontrol update PartitionName={plain(down[0], 80)} State=UP` when it may be used.",
        )


def _partitions_with_verb(names: list[str], one: str, several: str) -> str:
    return f"The partition {listed(names)} {one}" if len(names) == 1 else f"The partitions {listed(names)} {several}"


def _node_count(snapshot: QueueSnapshot) -> Iterator[HealthFinding]:
    text = _conf(snapshot, "MaxNodeCount")
    limit = int(text) if text.isdecimal() and len(text) < 10 else 0
    if limit and len(snapshot.hosts) >= NEARLY_FULL * limit:
        yield _warning(
            "nodes",
            f"Slurm knows {counted(len(snapshot.hosts), 'node')}, and MaxNodeCount is {limit}: more are refused.",
            "Raise MaxNodeCount in slurm.conf and restart slurmctld.",
        )


def _grace_time(snapshot: QueueSnapshot) -> Iterator[HealthFinding]:
    """A host of the bridge is not responding to slurmctld while a job on it has a grace time."""
    if not any("EXTERNAL" in host.state.flags for host in snapshot.hosts):
        return
    slow = [f"QOS {entry.name}" for entry in snapshot.qos if entry.limits.grace_time and entry.preempt.list]
    slow += [f"partition {entry.name}" for entry in snapshot.partitions if entry.grace_time]
    if slow:
        yield _warning(
            "preemption",
            f"GraceTime is set for {listed(sorted(slow))}, which makes nodes of the bridge unresponsive.",
            "Set GraceTime=0; the grace period of the pods applies.",
        )


def _nodes(snapshot: QueueSnapshot) -> Iterator[HealthFinding]:
    invalid = sorted(host.name for host in snapshot.hosts if "INVALID_REG" in host.state.flags)
    if invalid:
        yield _error(
            "nodes",
            f"{listed(invalid)} registered with other resources than slurm.conf says, often GPUs.",
            "Compare `slurmd -C` and gres.conf (File, Type) on the node with its definition.",
        )
    down = sorted(host.name for host in snapshot.hosts if host.state.down)
    if down:
        yield _error(
            "nodes",
            f"{counted(len(down), 'node')} down: {listed(down)}.",
            f"See `slinky explain {plain(down[0], 80)}`.",
        )
    forgotten = [
        host
        for host in snapshot.hosts
        if host.state.draining and 0 < host.reason_changed_at.whole < snapshot.now - FORGOTTEN
    ]
    if forgotten:
        owners = listed(sorted({host.reason_set_by_user or "unknown" for host in forgotten}))
        yield _warning(
            "nodes",
            f"{counted(len(forgotten), 'node')} drained for more than {duration(FORGOTTEN)} by {owners}: "
            f"{listed(sorted(host.name for host in forgotten))}.",
            "Ask the owners, then run `slinky undrain`.",
        )


def _rate_limit(snapshot: QueueSnapshot) -> Iterator[HealthFinding]:
    if "rl_enable" in _conf(snapshot, "SlurmctldParameters").split(","):
        yield _warning(
            "rate limit",
            "SlurmctldParameters has `rl_enable`: a controller whose token is not that of SlurmUser is throttled.",
            "Use tokens of the SlurmUser for operator and bridge, or raise the limit (`rl_refill_rate`).",
        )


CHECKS: tuple[Callable[[QueueSnapshot], Iterator[HealthFinding]], ...] = (
    _clock,
    _unreadable,
    _accounting,
    _backfill,
    _scheduler,
    _private_data,
    _partitions,
    _nodes,
    _node_count,
    _grace_time,
    _rate_limit,
)
