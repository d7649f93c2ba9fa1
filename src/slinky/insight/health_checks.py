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


class FindingSeverity(Enum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"


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
    return tuple(sorted(findings, key=lambda finding: finding.severity is not FindingSeverity.ERROR))


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
    empty = [name for name, hosts in snapshot.hosts_by_partition.items() if not hosts]
    if empty and enforced:
        yield _warning(
            "partitions",
            f"The partition {listed(sorted(empty))} has no nodes, and EnforcePartLimits refuses jobs for it.",
            "Set EnforcePartLimits=NO if nodes are added on demand, so that jobs wait for them.",
        )
    down = sorted(partition.name for partition in snapshot.partitions if not partition.up)
    if down:
        yield _warning(
            "partitions",
            f"The partition {listed(down)} is not up.",
            f"Run `scontrol update PartitionName={plain(down[0], 80)} State=UP` when it may be used.",
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
    _rate_limit,
)
