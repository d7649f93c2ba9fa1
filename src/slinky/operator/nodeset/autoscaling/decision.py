# SPDX-License-Identifier: Apache-2.0
"""Decides how many workers a NodeSet should have, and says why. Pure.

The first rule that applies decides:

1. Another autoscaler writes replicas: stop.
2. Slurm is unknown: keep the number (only the minimum is still provided).
3. Workers did not come in time: give them back, and wait before the next attempt.
4. Pending jobs or a reservation need workers, the warm pool lacks idle ones, the minimum is not reached: grow.
5. Workers beyond the maximum, or idle for long enough and not needed by pending jobs: shrink by idle workers only.
6. Otherwise keep the number.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple

from msgspec import structs

from slinky.api.fields.autoscaling import (
    Autoscaling,
    AutoscalingStatus,
    LearnedWorker,
    PendingPartition,
    ScalingDecisionRecord,
)
from slinky.insight.plain_text import counted
from slinky.kube.timestamps import age_seconds, format_timestamp, seconds_since, unix_seconds
from slinky.operator.nodeset.autoscaling.policy import (
    ScalingLimits,
    budget_used_up,
    current_limits,
    duration,
    next_day_seconds,
    time_zone,
    used_seconds,
)

#: Changes that the status keeps.
MAX_RECORDS = 20
#: Seconds until the next attempt after workers have not come; doubled with every failure up to the maximum.
RETRY_SECONDS, MAX_RETRY_SECONDS = 60.0, 3600.0
#: Seconds after which an autoscaler that does not follow the number, in mode External, is reported.
UNMET_SECONDS = 120.0
#: Impossible jobs that the status names.
MAX_IMPOSSIBLE = 5


class ScalingReason(Enum):
    """Why a decision is as it is."""

    PENDING_JOBS = "PendingJobs"
    RESERVATION = "Reservation"
    WARM_POOL = "WarmPool"
    MINIMUM = "Minimum"
    MAXIMUM = "Maximum"
    IDLE = "IdleWorkers"
    STEADY = "Steady"
    COOLING_DOWN = "CoolingDown"
    BUDGET_USED_UP = "BudgetUsedUp"
    CAPACITY_MISSING = "CapacityMissing"
    RETRY_LATER = "RetryLater"
    SLURM_UNKNOWN = "SlurmUnknown"
    NOT_FOLLOWED = "NotFollowed"
    TWO_WRITERS = "TwoWriters"


@dataclass(frozen=True, slots=True)
class WorkerCounts:
    """The workers of a NodeSet that is to have `replicas` of them.

    `starting` have not registered in Slurm yet, `overdue` of them for too long. `idle_seconds` has an entry for each
    worker that no job uses and for which no job is planned. `refusal` says in the words of Kubernetes why workers do
    not come. `reserved` more are needed for reservations that begin soon. `nodes` is how many Kubernetes nodes there
    are for workers, or None if that is no limit.
    """

    replicas: int
    starting: int = 0
    overdue: int = 0
    idle_seconds: tuple[float, ...] = ()
    refusal: str = ""
    reserved: int = 0
    nodes: int | None = None

    def limits(self, policy: Autoscaling, now: datetime) -> ScalingLimits:
        """The limits that count now; not more workers than there are nodes for them, if that is a limit."""
        limits = current_limits(policy, now)
        if self.nodes is None or self.nodes >= limits.max_replicas:
            return limits
        return limits._replace(max_replicas=self.nodes, min_replicas=min(limits.min_replicas, self.nodes))


@dataclass(frozen=True, slots=True)
class PoolDemand:
    """What pending jobs need of a NodeSet: new workers, and workers that are idle or starting; `job` is the first.

    `partitions` are the pending jobs of the partitions that its workers join.
    """

    new_workers: int = 0
    claimed: int = 0
    job: int = 0
    impossible: tuple[str, ...] = ()
    partitions: tuple[PendingPartition, ...] = ()


class ScalingDecision(NamedTuple):
    """How many workers there should be, why, and after how many seconds to decide again without an event."""

    replicas: int
    reason: ScalingReason
    message: str
    recheck_seconds: float | None = None


def decide(
    policy: Autoscaling,
    workers: WorkerCounts,
    demand: PoolDemand | None,
    status: AutoscalingStatus,
    now: datetime,
    *,
    other_writer: str = "",
) -> ScalingDecision:
    """Decide how many workers there should be; `demand` is None while Slurm is unknown."""
    replicas, limits = workers.replicas, workers.limits(policy, now)
    if other_writer:
        text = f"{other_writer} also sets replicas of this NodeSet; remove one of the two autoscalers"
        return ScalingDecision(replicas, ScalingReason.TWO_WRITERS, text)
    if demand is None:
        text = "the demand is not known, because Slurm does not respond; the number of workers stays as it is"
        return ScalingDecision(max(replicas, limits.min_replicas), ScalingReason.SLURM_UNKNOWN, text)
    situation = _Situation(policy, workers, demand, status, limits, now)
    if workers.overdue:
        return _give_back(situation)
    return _growth(situation) or _shrinkage(situation)


def verified_reduction(replicas: int, earlier: ScalingDecision, later: ScalingDecision) -> ScalingDecision:
    """The decision on fewer workers after Slurm was read again: that of the later jobs, if the earlier jobs agree.

    Earlier jobs may still have a job that has started on the workers meanwhile; then the number stays.
    """
    if later.replicas >= replicas:
        return later
    if earlier.replicas >= replicas:
        text = "a job starts on workers that were idle; the number of workers stays as it is"
        return ScalingDecision(replicas, ScalingReason.STEADY, text, 1.0)
    return max(earlier, later, key=lambda decision: decision.replicas)


def workers_not_granted(workers: WorkerCounts, demand: PoolDemand, decision: ScalingDecision) -> int:
    """How many workers pending jobs need beyond those that a decision adds: maximum, budget or back-off refuse them."""
    return max(0, demand.new_workers - max(0, decision.replicas - workers.replicas))


class _Situation(NamedTuple):
    """What a decision about growing or shrinking depends on."""

    policy: Autoscaling
    workers: WorkerCounts
    demand: PoolDemand
    status: AutoscalingStatus
    limits: ScalingLimits
    now: datetime

    def keep(self, reason: ScalingReason, text: str, recheck: float | None = None) -> ScalingDecision:
        return ScalingDecision(self.workers.replicas, reason, text, recheck)

    def left(self, cooldown: str, changed: str) -> float:
        """Seconds that are left of a cool-down; a change in the future does not count, because the clock was set."""
        age = seconds_since(changed, self.now) if changed else None
        return duration(cooldown) - age if age is not None and age >= 0 else 0.0


# --- growing


def _give_back(situation: _Situation) -> ScalingDecision:
    """Give back workers that did not register in time; the minimum stays requested."""
    workers = situation.workers
    replicas = max(workers.replicas - workers.overdue, min(situation.limits.min_replicas, workers.replicas))
    cause = workers.refusal or "the cause is not known; see the events of the pods"
    text = (
        f"{counted(workers.overdue, 'worker')} did not come within {situation.policy.scale_out.ready_within}: {cause}"
    )
    return ScalingDecision(replicas, ScalingReason.CAPACITY_MISSING, text)


def _growth(situation: _Situation) -> ScalingDecision | None:
    policy, workers, demand, limits = situation.policy, situation.workers, situation.demand, situation.limits
    replicas = workers.replicas
    spare = max(0, len(workers.idle_seconds) + workers.starting - demand.claimed)
    warm = max(0, limits.warm_pool - spare)
    wanted = max(replicas + demand.new_workers + workers.reserved + warm, limits.min_replicas)
    target = min(_rounded(wanted, policy.block_size), limits.max_replicas)
    target -= target % policy.block_size if target > limits.min_replicas else 0
    if target <= replicas:
        return None
    if replicas < limits.min_replicas:
        return ScalingDecision(
            target, ScalingReason.MINIMUM, f"the minimum is {counted(limits.min_replicas, 'worker')}"
        )
    reason, text = _growth_reason(workers, demand, warm)
    if delay := _delay(situation, text):
        return delay
    step = policy.scale_out.max_step
    if step and target - replicas > step:
        return ScalingDecision(replicas + step, reason, f"{text}, at most {step} at once", 1.0)
    return ScalingDecision(target, reason, text)


def _growth_reason(workers: WorkerCounts, demand: PoolDemand, warm: int) -> tuple[ScalingReason, str]:
    if demand.new_workers:
        job = f", first of all job {demand.job}" if demand.job else ""
        return ScalingReason.PENDING_JOBS, f"pending jobs need {counted(demand.new_workers, 'more worker')}{job}"
    if workers.reserved:
        needed = counted(workers.reserved, "more worker")
        return ScalingReason.RESERVATION, f"a reservation that begins soon needs {needed}"
    return ScalingReason.WARM_POOL, f"the warm pool lacks {counted(warm, 'idle worker')}"


def _delay(situation: _Situation, text: str) -> ScalingDecision | None:
    """Why the NodeSet must not grow yet; None if it may."""
    policy, status, now = situation.policy, situation.status, situation.now
    if later := _retry_later(situation):
        return later
    if budget_used_up(policy, status, situation.workers.replicas, now):
        text = f"the budget of {counted(policy.worker_hours_per_day or 0, 'worker hour')} per day is used up"
        return situation.keep(ScalingReason.BUDGET_USED_UP, text, next_day_seconds(time_zone(policy.time_zone), now))
    if (wait := situation.left(policy.scale_out.cooldown, status.last_scale_out_time)) > 0:
        text = f"{text}; the NodeSet grows again {policy.scale_out.cooldown} after its last increase"
        return situation.keep(ScalingReason.COOLING_DOWN, text, wait)
    return None


def _retry_later(situation: _Situation) -> ScalingDecision | None:
    """Keep the number while the NodeSet waits after a failure; None if it does not wait."""
    status = situation.status
    wait = unix_seconds(status.retry_time) - situation.now.timestamp()
    if not 0 < wait <= MAX_RETRY_SECONDS:
        return None
    failures = counted(status.failures, "time")
    text = f"new workers have not come {failures} in a row; the next attempt is at {status.retry_time}"
    return situation.keep(ScalingReason.RETRY_LATER, text, wait)


# --- shrinking


def _shrinkage(situation: _Situation) -> ScalingDecision:
    policy, workers, demand, limits = situation.policy, situation.workers, situation.demand, situation.limits
    replicas, scale_in = workers.replicas, policy.scale_in
    excess = max(0, replicas - limits.max_replicas)
    spare = max(0, len(workers.idle_seconds) - demand.claimed - (0 if excess else limits.warm_pool))
    long_idle = sum(age >= duration(scale_in.idle_for) for age in workers.idle_seconds)
    removable = min(spare, excess or long_idle, max(0, replicas - limits.min_replicas))
    if scale_in.max_step:
        removable = min(removable, scale_in.max_step)
    target = _rounded(replicas - removable, policy.block_size)
    if target >= replicas or (demand.new_workers and not excess):
        return _steady(situation, spare)
    changes = (situation.status.last_scale_in_time, situation.status.last_scale_out_time)
    if (wait := max(situation.left(scale_in.cooldown, changed) for changed in changes)) > 0:
        text = f"workers are idle; the NodeSet shrinks {scale_in.cooldown} after its last change at the earliest"
        return situation.keep(ScalingReason.COOLING_DOWN, text, wait)
    if excess:
        text = f"the maximum is {counted(limits.max_replicas, 'worker')}"
        return ScalingDecision(target, ScalingReason.MAXIMUM, text, 1.0)
    removed = replicas - target
    idle = f"{counted(removed, 'worker')} {'has' if removed == 1 else 'have'} been idle for {scale_in.idle_for}"
    text = f"{idle}, and no pending job needs {'it' if removed == 1 else 'them'}"
    return ScalingDecision(target, ScalingReason.IDLE, text, 1.0)


def _steady(situation: _Situation, spare: int) -> ScalingDecision:
    """Keep the number; decide again when the next worker has been idle for long enough."""
    idle_for = duration(situation.policy.scale_in.idle_for)
    ages = [age for age in situation.workers.idle_seconds if age < idle_for]
    recheck = idle_for - max(ages) if ages and spare else None
    if situation.demand.new_workers:
        text = "pending jobs need more workers than the maximum or a whole block allows"
        return situation.keep(ScalingReason.MAXIMUM, text, recheck)
    # The demand model requests no worker of a NodeSet that waits, so jobs that need one do not show here.
    if later := _retry_later(situation):
        return later
    claimed = situation.demand.claimed
    text = "pending jobs fit on the workers that there are" if claimed else "no pending job needs another worker"
    return situation.keep(ScalingReason.STEADY, text, recheck)


def _rounded(workers: int, block: int) -> int:
    return -(-workers // block) * block


# --- the status


def next_status(
    policy: Autoscaling,
    status: AutoscalingStatus,
    workers: WorkerCounts,
    decision: ScalingDecision,
    now: datetime,
    *,
    impossible: Sequence[str] = (),
    partitions: Sequence[PendingPartition] = (),
    learned: LearnedWorker | None = None,
) -> AutoscalingStatus:
    """The status after a decision; a change is recorded only if the policy lets the operator write it."""
    before, after, timestamp = workers.replicas, decision.replicas, format_timestamp(now)
    changed = policy.mode == "Active" and before != after
    fields: dict[str, object] = {
        "next_replicas": after,
        "reason": decision.reason.value,
        "message": decision.message,
        "impossible_jobs": tuple(impossible[:MAX_IMPOSSIBLE]),
        # Other autoscalers read them; otherwise each change of the queue would be a write.
        "partitions": tuple(partitions) if policy.mode == "External" else (),
        "unmet_since": (status.unmet_since or timestamp) if policy.mode == "External" and after > before else "",
        "worker": learned or status.worker,
    }
    if policy.mode != "Active":
        fields["replicas"] = None
    elif decision.reason is not ScalingReason.TWO_WRITERS:
        fields["replicas"] = after
    if changed:
        zone = time_zone(policy.time_zone)
        record = ScalingDecisionRecord(timestamp, before, after, decision.reason.value, decision.message)
        fields |= {
            "decisions": (record, *status.decisions)[:MAX_RECORDS],
            "last_scale_out_time" if after > before else "last_scale_in_time": timestamp,
            "used_day": now.astimezone(zone).date().isoformat(),
            "used_seconds": int(used_seconds(status, before, zone, now)),
            "used_since": timestamp,
        }
    if decision.reason is ScalingReason.CAPACITY_MISSING and changed:
        wait = min(MAX_RETRY_SECONDS, RETRY_SECONDS * 2.0 ** min(status.failures, 16))
        fields |= {"failures": status.failures + 1, "retry_time": format_timestamp(now + timedelta(seconds=wait))}
    elif status.failures and not workers.starting and status.last_scale_out_time > status.last_scale_in_time:
        fields |= {"failures": 0, "retry_time": ""}  # what was requested last has come
    return _replace(status, fields)


def unmet_seconds(status: AutoscalingStatus, now: datetime) -> float | None:
    """For how long no autoscaler has set the workers that jobs need, in mode External; None if none are lacking."""
    return age_seconds(status.unmet_since, now) if status.unmet_since else None


def with_retry(status: AutoscalingStatus, request: str) -> AutoscalingStatus:
    """The status with earlier failures forgotten, if a user has asked for that by a new value of the annotation."""
    if request == status.retry_request:
        return status
    return _replace(status, {"failures": 0, "retry_time": "", "retry_request": request})


def _replace(status: AutoscalingStatus, fields: dict[str, object]) -> AutoscalingStatus:
    return structs.replace(status, **fields)
