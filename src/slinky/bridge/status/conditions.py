# SPDX-License-Identifier: Apache-2.0
"""The texts of the pod condition `SlurmScheduled`, as pure functions of the job and the time.

A condition is written only if it changed in a way that matters to a user. An expected start that moves by less than
two minutes, or by less than a tenth of the remaining time, does not: otherwise a long queue would cause writes to the
API server all the time.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from slinky.bridge import names
from slinky.bridge.status.job_ends import JobEnd
from slinky.bridge.status.reasons import ConditionText, Reason
from slinky.bridge.views import WorkloadPod
from slinky.insight import pending_reasons
from slinky.insight.forecast.start_range import StartRange, is_shifted
from slinky.insight.pending_reasons import PendingReason
from slinky.kube.conditions import condition_status, find_condition
from slinky.slurm import Job, JobRecord

_REASON = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
_START = re.compile(r"Expected to start (?:at|between) (\S+?Z)(?: and (\S+?Z))?(?: \([^)]*\))?\.(?:\s|$)")


def pending_text(
    record: JobRecord, queue_position: str = "", now: datetime | None = None, start: StartRange | None = None
) -> ConditionText:
    """Why a job is pending, what blocks it, its position in the queue, and its expected start.

    `start` is the forecast of the whole queue; without one the start that slurmctld plans is shown. A start before
    `now` is left out: Slurm keeps an old plan until its backfill scheduler evaluates the job again.
    """
    job = record.detail
    token = job.state_reason if job else ""
    state = f"Slurm job {record.job_id} is {record.state.base or 'PENDING'}."
    parts = [state, _explain(token, job), queue_position]
    if job is not None and token.startswith("BeginTime") and job.eligible_time.whole:
        parts.append(f"It can start at {_minute(job.eligible_time.whole)} at the earliest.")
    else:
        parts.append(_start_text(record, now, start))
    return ConditionText(False, _condition_reason(token) or Reason.PENDING.token, " ".join(filter(None, parts)))


def seconds_until_start(record: JobRecord, now: datetime | None, start: StartRange | None = None) -> float | None:
    """Seconds until the latest expected start; None if none is expected or if that time has passed."""
    latest = _expected(record, start)[1]
    left = latest - now.timestamp() if now is not None else float(latest)
    return left if latest and left > 0 else None


def _expected(record: JobRecord, start: StartRange | None) -> tuple[int, int]:
    """The earliest and the latest expected start in seconds since the epoch; zeros if none is expected."""
    if start is not None:
        return start.earliest or 0, start.latest or 0
    planned = record.detail.start_time.whole if record.detail is not None else 0
    return planned, planned


def _start_text(record: JobRecord, now: datetime | None, start: StartRange | None) -> str:
    """The expected start as a sentence; empty if none is expected."""
    if start is not None and start.doubted:
        return f"There is no forecast of the start: {start.why}."
    if seconds_until_start(record, now, start) is None:
        return ""
    source = f" ({start.source.value})" if start is not None else ""
    first, last = (_minute(time) for time in _expected(record, start))
    when = f"at {last}" if first == last else f"between {first} and {last}"
    return f"Expected to start {when}{source}."


def _explain(token: str, job: Job | None) -> str:
    explanation = pending_reasons.explain(token, job.state_description if job else "")
    blocker = _blocking_object(explanation, job) if job is not None else ""
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
        return all(_is_near(first, second, now) for first, second in _ends(before, after))
    except ValueError:
        return False


def _ends(before: re.Match[str], after: re.Match[str]) -> Iterator[tuple[str, str]]:
    """The early and the late ends of two expected starts; a time that is no range is both ends."""
    yield before[1], after[1]
    yield before[2] or before[1], after[2] or after[1]


def _is_near(before: str, after: str, now: datetime) -> bool:
    first, second = (datetime.fromisoformat(text).timestamp() for text in (before, after))
    return not is_shifted(first, second, now.timestamp())


def _minute(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:00Z")


def _condition_reason(token: str) -> str:
    """Slurm's pending reason, if Kubernetes accepts it as the reason of a condition."""
    first = token.split(",", 1)[0].strip()
    return first if first != "None" and _REASON.match(first) else ""


def _blocking_object(reason: PendingReason, job: Job) -> str:
    """The name of what blocks a pending job, as far as the job's record has it."""
    name = str(getattr(job, reason.blocking_field)) if reason.blocking_field else ""
    return "; ".join(filter(None, (name, job.state_description)))
