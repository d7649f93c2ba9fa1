# SPDX-License-Identifier: Apache-2.0
"""The expected start of each pending job as a range with its source. Pure.

The late end of the range assumes what slurmctld's backfill assumes: every job runs as long as its time limit allows,
and jobs planned for later take whole nodes. The early end assumes that jobs share nodes and use as little of their
limits as the shortest tenth of the earlier jobs of the same user did. slurmctld's own plan, where it has a fresh one
that can be relied on, is the late end.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from slinky.insight.forecast.simulation import WHOLE_LIMIT, PlannedStart, QueuedJob, UseRatios, prepare_queue, simulate
from slinky.insight.forecast.slurmctld_plan import SlurmctldPlan, required_outage, slurmctld_plan
from slinky.insight.plain_text import duration
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.slurm.model.accounting_jobs import AccountingJob
from slinky.slurm.model.views import Job

#: Ended jobs that are needed before their use of time limits counts.
MIN_SAMPLES = 5
#: The share of jobs that end no later than the early end of a range assumes.
EARLY_QUANTILE = 0.1
#: Where in a range a start is expected. Jobs end long before their limits, so it lies near the early end; see
#: `bench.forecast_days` for the error and the bias of this choice.
EXPECTED_SHARE = 0.25
#: An expected start counts as moved from this many seconds on, and from this part of the remaining time on.
MIN_SHIFT, MIN_SHIFT_RATIO = 120.0, 0.1


class StartSource(Enum):
    """Where a forecast comes from."""

    SLURMCTLD = "slurmctld's plan"
    SIMULATION = "simulation"
    NONE = "no forecast"


@dataclass(frozen=True, slots=True)
class StartRange:
    """Between `earliest` and `latest`, in seconds since the epoch; both are None if there is no forecast."""

    job_id: int
    earliest: int | None
    latest: int | None
    source: StartSource
    why: str = ""
    hosts: tuple[str, ...] = ()
    #: The start of the last task of an array.
    last_task: int | None = None
    #: Whether a plan of slurmctld, if it has one, cannot be relied on; `why` says so.
    doubted: bool = False

    @property
    def expected(self) -> int | None:
        """The start that is most likely: the best single time of the range."""
        if self.earliest is None or self.latest is None:
            return None
        return self.earliest + int((self.latest - self.earliest) * EXPECTED_SHARE)

    def text(self, now: float) -> str:
        """The range for people: `in 5 min to 2 h (simulation)`."""
        if self.earliest is None or self.latest is None:
            return f"no forecast: {self.why}" if self.why else "no forecast"
        first, last = max(self.earliest - now, 0), max(self.latest - now, 0)
        when = "now" if last < 1 else f"in {duration(last)}" if duration(first) == duration(last) else ""
        if not when:
            when = f"in {duration(first)} to {duration(last)}" if first >= 1 else f"now to in {duration(last)}"
        return f"{when} ({self.source.value})"


def forecast(snapshot: QueueSnapshot, until: Collection[int] | None = None) -> dict[int, StartRange]:
    """The expected start of every pending job, by job id, in the order of the queue.

    With `until`, only of the jobs up to the last of these; the figures are the same, and are computed faster.
    """
    queue = prepare_queue(snapshot)
    late = simulate(snapshot, WHOLE_LIMIT, queue=queue, until=until)
    ratios = use_ratios(snapshot.history)
    early = simulate(snapshot, ratios, queue=queue, whole_nodes=False, name_hosts=False, until=until)
    return {
        entry.job.job_id: _start_range(entry, early[entry.job.job_id], late[entry.job.job_id], snapshot)
        for entry in queue.pending
        if entry.job.job_id in late
    }


def _start_range(entry: QueuedJob, early: PlannedStart, late: PlannedStart, snapshot: QueueSnapshot) -> StartRange:
    job = entry.job
    begins = [start.begin for start in (early, late) if start.begin is not None]
    plan = slurmctld_plan(job, snapshot) if not entry.obstacle else None
    if plan is not None and not plan.doubt:
        earliest = min([plan.start, *begins])
        return StartRange(
            job.job_id, earliest, plan.start, StartSource.SLURMCTLD, hosts=_hosts(job, late), last_task=late.last
        )
    if not begins:
        why = _why(late, plan, snapshot.now)
        doubted = bool(required_outage(job, snapshot))
        return StartRange(job.job_id, None, None, StartSource.NONE, why=why, doubted=doubted)
    return StartRange(
        job.job_id, min(begins), max(begins), StartSource.SIMULATION, hosts=late.hosts, last_task=late.last
    )


def _why(late: PlannedStart, plan: SlurmctldPlan | None, now: float) -> str:
    """Why there is no forecast, although slurmctld may have planned a start."""
    if plan is None:
        return late.why
    return f"{late.why}; slurmctld's plan (in {duration(plan.start - now)}) does not consider this"


def _hosts(job: Job, late: PlannedStart) -> tuple[str, ...]:
    return (job.scheduled_nodes,) if job.scheduled_nodes else late.hosts


def has_moved(before: StartRange | None, after: StartRange | None, now: float) -> bool:
    """Whether two forecasts differ by more than a user cares about."""
    if before is None or after is None:
        return before is not after
    if (before.source, before.why) != (after.source, after.why):
        return True
    ends = ((before.earliest or 0, after.earliest or 0), (before.latest or 0, after.latest or 0))
    return any(is_shifted(old, new, now) for old, new in ends)


def is_shifted(before: float, after: float, now: float) -> bool:
    """Whether an expected start moved by more than a user cares about."""
    return abs(after - before) >= max(MIN_SHIFT, MIN_SHIFT_RATIO * (min(before, after) - now))


def use_ratios(history: Iterable[AccountingJob]) -> UseRatios:
    """The shares of their time limits that ended jobs used, by user; jobs without a limit do not count."""
    shares: dict[str, list[float]] = {}
    for record in history:
        limit = record.time.limit.value
        if record.state.ended and record.time.elapsed > 0 and limit is not None and 0 < limit < 10**7:
            shares.setdefault(record.user, []).append(min(record.time.elapsed / (limit * 60), 1.0))
    everyone = sorted(share for values in shares.values() for share in values)
    if len(everyone) < MIN_SAMPLES:
        return WHOLE_LIMIT
    by_user: Mapping[str, tuple[float, ...]] = {
        user: tuple(sorted(values)) for user, values in shares.items() if len(values) >= MIN_SAMPLES
    }
    return UseRatios(by_user, tuple(everyone), EARLY_QUANTILE)
