# SPDX-License-Identifier: Apache-2.0
"""The start that slurmctld plans for a pending job, and whether a forecast may rely on it. Pure.

slurmctld also plans starts on nodes that are drained or down: it assumes that they come back when the jobs on them end.
It is not known when they do, so such a plan is doubted.
"""

from dataclasses import dataclass

from slinky.insight.explain.resource_checks import hostlist, unavailable_word
from slinky.insight.plain_text import counted
from slinky.insight.queue_snapshot import QueueSnapshot, host_names
from slinky.slurm.model.views import Job

#: Seconds for which a plan counts as fresh if slurmctld's last backfill cycle is not known.
FRESH_SECONDS = 120


@dataclass(frozen=True, slots=True)
class SlurmctldPlan:
    """A planned start in seconds since the epoch; `doubt` says why it cannot be relied on."""

    start: int
    doubt: str = ""


def slurmctld_plan(job: Job, snapshot: QueueSnapshot) -> SlurmctldPlan | None:
    """What slurmctld plans for a pending job; None if its last backfill cycle has not looked at the job."""
    start, evaluated = job.start_time.whole, job.last_sched_evaluation.whole
    if not job.state.pending or start <= snapshot.now or not evaluated:
        return None
    if not _is_fresh(evaluated, snapshot):
        return None
    return SlurmctldPlan(start, required_outage(job, snapshot) or _planned_outage(job, snapshot))


def _is_fresh(evaluated: int, snapshot: QueueSnapshot) -> bool:
    diag = snapshot.diag
    if diag is None or not diag.bf_when_last_cycle.whole:
        return snapshot.now - evaluated <= FRESH_SECONDS
    # The cycle is recorded when it ends; its length is in microseconds.
    return evaluated >= diag.bf_when_last_cycle.whole - diag.bf_cycle_last / 1e6 - 1


def required_outage(job: Job, snapshot: QueueSnapshot) -> str:
    """The nodes that a job requires and that start no jobs, in words; empty if there are none."""
    return _outage(job.required_nodes, snapshot, "which it requires") if job.required_nodes else ""


def _planned_outage(job: Job, snapshot: QueueSnapshot) -> str:
    return _outage(job.scheduled_nodes, snapshot, "of the plan") if job.scheduled_nodes else ""


def _outage(names: str, snapshot: QueueSnapshot, which: str) -> str:
    stopped = snapshot.stopped_hosts
    hosts = [stopped[name] for name in host_names(names) if name in stopped] if stopped else []
    if not hosts:
        return ""
    noun = "the node" if len(hosts) == 1 else counted(len(hosts), "node")
    words = sorted({unavailable_word(host) for host in hosts})
    return f"{noun} {hostlist(hosts)}, {which}, {'is' if len(hosts) == 1 else 'are'} {' or '.join(words)}"
