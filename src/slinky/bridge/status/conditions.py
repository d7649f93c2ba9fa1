# SPDX-License-Identifier: Apache-2.0
"""What a pod's condition says about its job, as a pure function of the job and the clock.

The message changes only when a person would care: an expected start that moves by a minute is not news, nor by ten if
it is hours away, so that a long queue does not write to the API server for ever.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from slinky.bridge import names
from slinky.bridge.state.views import WorkloadPod
from slinky.bridge.status import reasons
from slinky.kube.conditions import condition_status, find_condition
from slinky.slurm import Job, JobRecord

_REASON = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
#: An expected start that moved by less than so many seconds, or so small a part of the time until then, is the same.
LEAST, PART = 120.0, 0.1
_START = re.compile(r"Expected to start at (\S+?)\.?(?:\s|$)")


@dataclass(frozen=True)
class ConditionText:
    """The state of the condition: None is unknown."""

    scheduled: bool | None
    reason: str
    message: str


def of_pending(record: JobRecord, place: str = "") -> ConditionText:
    """Why a job waits, what is in its way, how many are before it, and until when."""
    job = record.detail
    token = job.state_reason if job else ""
    parts = [f"Slurm job {record.job_id} is {record.state.base or 'PENDING'}.", _why(token, job), place]
    if job is not None and token.startswith("BeginTime") and job.eligible_time.whole:
        parts.append(f"It may start from {_moment(job.eligible_time.whole)} on.")
    elif job is not None and job.start_time.whole:
        parts.append(f"Expected to start at {_moment(job.start_time.whole)}.")
    return ConditionText(False, _camel(token) or "Pending", " ".join(filter(None, parts)))


def _why(token: str, job: Job | None) -> str:
    told = reasons.waiting(token)
    named = reasons.blocker(token, job) if job is not None else ""
    sentence = f"{told.sentence.rstrip('.')}: {named}." if named else told.sentence
    return f"{sentence} {told.step}".strip()


def of_running(record: JobRecord, node: str) -> ConditionText:
    """Where a job runs."""
    return ConditionText(True, "Allocated", f"Slurm job {record.job_id} has node {node}.")


def of_suspended(job: str) -> ConditionText:
    """A job that somebody suspended. Nothing can pause containers, so those that run go on."""
    text = f"Slurm job {job} is suspended; containers that run go on, others wait. Resume it with `scontrol resume`."
    return ConditionText(None, "Suspended", text)


def of_end(job_id: str, end: reasons.End, job: Job | None, *, waiting: bool) -> ConditionText:
    """How a job ended, and for a pod that still waits what can be done about it."""
    remark = f" ({job.state_description})" if job and job.state_description else ""
    again = " Delete the pod, or remove its job label to submit it again." if end.decision and waiting else ""
    return ConditionText(False, end.reason, f"Slurm job {job_id} {end.sentence}{remark}.{again}")


def news(pod: WorkloadPod, said: ConditionText, now: datetime) -> bool:
    """Whether the condition on the pod does not say this already, or nearly."""
    old = find_condition(pod.status.conditions, names.SCHEDULED)
    if old is None or old.status != condition_status(said.scheduled) or old.reason != said.reason:
        return True
    return not alike(old.message, said.message, now)


def alike(old: str, new: str, now: datetime) -> bool:
    """Whether two messages differ at most by a start that has hardly moved."""
    if old == new:
        return True
    before, after = _START.search(old), _START.search(new)
    if before is None or after is None or _START.sub("", old) != _START.sub("", new):
        return False
    try:
        earlier, later = (datetime.fromisoformat(found[1]) for found in (before, after))
    except ValueError:
        return False
    moved, left = abs((later - earlier).total_seconds()), (min(earlier, later) - now).total_seconds()
    return moved < max(LEAST, PART * left)


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:00Z")


def _camel(token: str) -> str:
    first = token.split(",", 1)[0].strip()
    return first if first != "None" and _REASON.match(first) else ""
