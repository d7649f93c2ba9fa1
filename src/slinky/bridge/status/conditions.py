# SPDX-License-Identifier: Apache-2.0
"""The texts of the pod condition `SlurmScheduled`, as pure functions of the job and the time.

A condition is written only if it changed in a way that matters to a user. An expected start that moves by less than
two minutes, or by less than a tenth of the remaining time, does not: otherwise a long queue would cause writes to the
API server all the time.
"""

import re
from datetime import UTC, datetime

from slinky.bridge import names
from slinky.bridge.status import reasons
from slinky.bridge.status.reasons import ConditionText, JobEnd, Reason
from slinky.bridge.views import WorkloadPod
from slinky.insight import pending_reasons
from slinky.kube.conditions import condition_status, find_condition
from slinky.slurm import Job, JobRecord

_REASON = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
#: An expected start counts as moved from this many seconds on, and from this part of the remaining time on.
MIN_SHIFT, MIN_SHIFT_RATIO = 120.0, 0.1
_START = re.compile(r"Expected to start at (\S+?)\.?(?:\s|$)")


def pending_text(record: JobRecord, queue_position: str = "", now: datetime | None = None) -> ConditionText:
    """Why a job is pending, what blocks it, its position in the queue, and its expected start.

    A start before `now` is left out: Slurm keeps an old forecast until its backfill scheduler evaluates the job again.
    """
    job = record.detail
    token = job.state_reason if job else ""
    state = f"Slurm job {record.job_id} is {record.state.base or 'PENDING'}."
    parts = [state, _explain(token, job), queue_position]
    if job is not None and token.startswith("BeginTime") and job.eligible_time.whole:
        parts.append(f"It can start at {_minute(job.eligible_time.whole)} at the earliest.")
    elif job is not None and seconds_until_start(record, now) is not None:
        parts.append(f"Expected to start at {_minute(job.start_time.whole)}.")
    return ConditionText(False, _condition_reason(token) or Reason.PENDING.token, " ".join(filter(None, parts)))


def seconds_until_start(record: JobRecord, now: datetime | None) -> float | None:
    """Seconds until the start that Slurm expects; None if it expects none or if that time has passed."""
    start = record.detail.start_time.whole if record.detail is not None else 0
    left = start - now.timestamp() if now is not None else float(start)
    return left if start and left > 0 else None


def _explain(token: str, job: Job | None) -> str:
    explanation = pending_reasons.explain(token, job.state_description if job else "")
    blocker = reasons.blocking_object(explanation, job) if job is not None else ""
    sentence = f"{explanation.sentence.rstrip('.')}: {blocker}." if blocker else explanation.sentence
    return f"{sentence} {explanation.step}".strip()


def running_text(record: JobRecord, node: str) -> ConditionText:
    """The pod has its node."""
    return Reason.ALLOCATED.text(job=record.job_id, node=node)


def end_text(job_id: str, end: JobEnd, job: Job | None, *, waiting: bool) -> ConditionText:
    """How a job ended, and for a pod that still waits the next step."""
    detail = f" ({job.state_description})" if job and job.state_description else ""
    step = " Delete the pod, or remove its job label to submit it again." if end.deliberate and waiting else ""
    return ConditionText(False, end.reason, f"Slurm job {job_id} {end.sentence}{detail}.{step}", warning=True)


def differs(pod: WorkloadPod, text: ConditionText, now: datetime) -> bool:
    """Whether the condition on the pod has to be written to show this text."""
    old = find_condition(pod.status.conditions, names.SCHEDULED)
    if old is None or old.status != condition_status(text.status) or old.reason != text.reason:
        return True
    return not is_similar(old.message, text.message, now)


def is_similar(old: str, new: str, now: datetime) -> bool:
    """Whether two messages are equal but for an expected start that moved only a little."""
    if old == new:
        return True
    before, after = _START.search(old), _START.search(new)
    if before is None or after is None or _START.sub("", old) != _START.sub("", new):
        return False
    try:
        earlier, later = (datetime.fromisoformat(match[1]) for match in (before, after))
    except ValueError:
        return False
    shift, left = abs((later - earlier).total_seconds()), (min(earlier, later) - now).total_seconds()
    return shift < max(MIN_SHIFT, MIN_SHIFT_RATIO * left)


def _minute(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:00Z")


def _condition_reason(token: str) -> str:
    """Slurm's pending reason, if Kubernetes accepts it as the reason of a condition."""
    first = token.split(",", 1)[0].strip()
    return first if first != "None" and _REASON.match(first) else ""
