# SPDX-License-Identifier: Apache-2.0
"""The comments on jobs that wait for workers which do not come: the job itself says why it waits. Pure.

The comment is Slurm's `AdminComment`, which `scontrol show job` and `squeue -O admin_comment` print. A comment
that does not come from the autoscaler is never replaced.
"""

from collections.abc import Iterable, Mapping

from slinky.slurm import Job

#: Begins each comment of the autoscaler.
PREFIX = "Waits for workers: "
#: Jobs of a cluster that get a comment; the others wait for the same workers.
MAX_JOBS = 20
#: Characters of a comment.
MAX_LENGTH = 400


def comment_changes(jobs: Iterable[Job], causes: Mapping[int, str], written: Mapping[int, str]) -> dict[int, str]:
    """The comments to write, by job, from why jobs wait and from what was written earlier; empty text clears one."""
    changes: dict[int, str] = {}
    for job in jobs:
        current = written.get(job.job_id, job.admin_comment)
        cause = causes.get(job.job_id, "")
        wanted = f"{PREFIX}{cause}"[:MAX_LENGTH] if cause else ""
        if current != wanted and (not current or current.startswith(PREFIX)):
            changes[job.job_id] = wanted
    return dict(list(changes.items())[:MAX_JOBS])
