# SPDX-License-Identifier: Apache-2.0
"""The position of a job in the whole queue, and the parts of its priority. Pure.

slurmrestd does not serve the parts of a priority, so they are computed from the weights of slurm.conf, the fair shares,
the QOS and the partition; what the weights do not explain is reported as the rest.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from slinky.insight.limit_reasons import parse_limit
from slinky.insight.plain_text import counted, listed
from slinky.insight.queue_snapshot import QueueSnapshot, names
from slinky.slurm.model.views import Job

#: PriorityMaxAge if slurmctld does not report it: seven days.
DEFAULT_MAX_AGE = 7 * 86400


@dataclass(frozen=True, slots=True)
class QueueRank:
    """Position 1 is next. `parts` are the computed parts of the priority, by factor."""

    position: int
    eligible: int
    priority: int
    ahead: tuple[int, ...] = ()
    owners: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, int] = field(default_factory=dict)

    def sentence(self) -> str:
        """The rank as a sentence."""
        text = f"It has position {self.position} of {counted(self.eligible, 'eligible job')} in the queue"
        text += f" with priority {self.priority}"
        if self.parts:
            text += f" (computed: {', '.join(f'{name} {value}' for name, value in self.parts.items())})"
        return text + "."

    def owners_text(self) -> str:
        """Who owns the jobs ahead: `alice 3, bob 1`."""
        return listed(f"{owner or 'hidden'} {count}" for owner, count in self.owners.items())


def queue_rank(job: Job, snapshot: QueueSnapshot) -> QueueRank:
    """The rank of a pending job among all eligible jobs of the cluster."""
    eligible = sum(1 for other in snapshot.pending if snapshot.is_eligible(other) or other.job_id == job.job_id)
    ahead = [other for other in snapshot.pending_ahead(job) if snapshot.is_eligible(other)]
    owners = Counter(other.user_name for other in ahead)
    return QueueRank(
        position=len(ahead) + 1,
        eligible=eligible,
        priority=job.priority.whole,
        ahead=tuple(other.job_id for other in ahead),
        owners=dict(owners.most_common()),
        parts=priority_parts(job, snapshot),
    )


def competitors(job: Job, snapshot: QueueSnapshot) -> tuple[Job, ...]:
    """The eligible jobs ahead that want nodes of the same partitions."""
    hosts = {host.name for host in snapshot.candidate_hosts(job)}
    shared = {name: not hosts.isdisjoint(host.name for host in members) or name in names(job.partition)
              for name, members in snapshot.hosts_by_partition.items()}  # fmt: skip
    ahead = snapshot.pending_ahead(job)
    lists = {other.partition for other in ahead}
    wanted = {text for text in lists if any(shared.get(name, False) for name in names(text))}
    return tuple(other for other in ahead if other.partition in wanted and _takes_nodes(other, snapshot))


#: Reasons with which slurmctld passes over a job, beside the limits.
_PASSED_OVER = frozenset({"Reservation", "PartitionConfig", "PartitionNodeLimit", "MaxMemPerLimit"})


def _takes_nodes(job: Job, snapshot: QueueSnapshot) -> bool:
    """Whether a pending job can take nodes before the jobs behind it; slurmctld passes over jobs at a limit."""
    is_refused = parse_limit(job.state_reason) is not None or job.state_reason in _PASSED_OVER
    return snapshot.is_eligible(job) and not is_refused


def priority_parts(job: Job, snapshot: QueueSnapshot) -> dict[str, int]:
    """The parts of the priority by factor, largest first; empty if the weights are not known."""
    weights = {factor: conf_number(snapshot, name) for factor, name in _WEIGHTS.items()}
    if job.priority.whole == 0 or not any(weights.values()):
        return {}
    factors = {
        "age": _age_factor(job, snapshot),
        "fair share": _fairshare_factor(job, snapshot),
        "QOS": _qos_factor(job, snapshot),
        "partition": _partition_factor(job, snapshot),
    }
    parts = {name: round(weights[name] * factor) for name, factor in factors.items() if weights[name]}
    rest = job.priority.whole - sum(parts.values())
    if any(weights[name] for name in ("job size", "TRES", "association")) or abs(rest) > job.priority.whole * 0.05:
        parts["rest"] = rest
    return dict(sorted(parts.items(), key=lambda part: -part[1]))


_WEIGHTS = {
    "age": "priorityweightage",
    "fair share": "priorityweightfairshare",
    "QOS": "priorityweightqos",
    "partition": "priorityweightpartition",
    "job size": "priorityweightjobsize",
    "association": "priorityweightassoc",
    "TRES": "priorityweighttres",
}


def conf_number(snapshot: QueueSnapshot, name: str) -> int:
    """A number or a duration of slurmctld's configuration, by its name in lower case; 0 if it is not known."""
    value = next((value for key, value in snapshot.conf.items() if key.lower() == name), 0)
    if isinstance(value, str):
        return _duration_seconds(value)
    return int(value) if isinstance(value, int | float) else 0


def _duration_seconds(text: str) -> int:
    """Seconds of Slurm's `7-00:00:00`; a text that is no duration, such as weights of resources, counts as 1."""
    match = re.fullmatch(r"(?:(\d{1,6})-)?(\d{1,6}):(\d\d):(\d\d)", text)
    if match is None:
        return int(bool(text))
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _age_factor(job: Job, snapshot: QueueSnapshot) -> float:
    since = job.eligible_time.whole or job.submit_time.whole
    longest = conf_number(snapshot, "prioritymaxage") or DEFAULT_MAX_AGE
    return min(max(snapshot.now - since, 0) / longest, 1.0) if since else 0.0


def _fairshare_factor(job: Job, snapshot: QueueSnapshot) -> float:
    for share in snapshot.shares:
        if share.name == job.user_name and share.parent == job.account:
            return float(share.fairshare.factor.value or 0)
    return 0.0


def _qos_factor(job: Job, snapshot: QueueSnapshot) -> float:
    priorities = {qos.name.lower(): qos.priority.whole for qos in snapshot.qos}
    return priorities.get(job.qos.lower(), 0) / (max(priorities.values(), default=0) or 1)


def _partition_factor(job: Job, snapshot: QueueSnapshot) -> float:
    factors = {partition.name: partition.priority.job_factor for partition in snapshot.partitions}
    own = max((factors.get(name, 0) for name in names(job.partition)), default=0)
    return own / (max(factors.values(), default=0) or 1)
