# SPDX-License-Identifier: Apache-2.0
"""The comments on jobs that wait for workers which do not come: the job itself says why it waits. Pure.

The comment is Slurm's `AdminComment`, which `scontrol show job` and `squeue -O admin_comment` print. A comment
that does not come from the autoscaler is never replaced. A comment that slurmctld did not take is written again later.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from slinky.slurm import Job

#: Begins each comment of the autoscaler.
PREFIX = "Waits for workers: "
#: Jobs of a cluster that get a comment; the others wait for the same workers.
MAX_JOBS = 20
#: Characters of a comment.
MAX_LENGTH = 400
#: Seconds after which a comment that slurmctld did not take is written again.
RETRY_SECONDS = 60.0


@dataclass(slots=True)
class JobComments:
    """The comments on the jobs of a cluster: those that slurmctld has taken, and when to try the others again."""

    written: dict[int, str] = field(default_factory=dict)
    retry_at: dict[int, float] = field(default_factory=dict)

    def changes(self, jobs: Iterable[Job], causes: Mapping[int, str], now: float) -> dict[int, str]:
        """The comments to write now, by job, from why jobs wait; an empty text clears one."""
        due = (job for job in jobs if now >= self.retry_at.get(job.job_id, 0.0))
        return comment_changes(due, causes, self.written)

    def confirm(self, job: int, text: str) -> None:
        """Record that slurmctld has taken a comment."""
        self.written[job] = text
        self.retry_at.pop(job, None)

    def refuse(self, job: int, now: float) -> None:
        """Record that it is not known whether the job has the comment; what Slurm shows counts until the next try."""
        self.written.pop(job, None)
        self.retry_at[job] = now + RETRY_SECONDS

    def keep_only(self, jobs: Collection[int]) -> None:
        """Forget all other jobs."""
        for record in (self.written, self.retry_at):
            for job in [job for job in record if job not in jobs]:
                del record[job]


def comment_changes(jobs: Iterable[Job], causes: Mapping[int, str], written: Mapping[int, str]) -> dict[int, str]:
    """The comments to write, by job, from why jobs wait and from what was written earlier; empty text clears one."""
    changes: dict[int, str] = {}
    for job in jobs:
        if job.admin_comment and not job.admin_comment.startswith(PREFIX):
            continue
        current = written.get(job.job_id, job.admin_comment)
        cause = causes.get(job.job_id, "")
        wanted = f"{PREFIX}{cause}"[:MAX_LENGTH] if cause else ""
        if current != wanted:
            changes[job.job_id] = wanted
    return dict(list(changes.items())[:MAX_JOBS])
