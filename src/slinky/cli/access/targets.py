# SPDX-License-Identifier: Apache-2.0
"""Finds the job or node that an argument names: `123`, `123_4`, `job/123`, `node/k001`, `pod/NAME`, `k001`."""

import re

from slinky.cli.cluster.command import CommandError, ExitStatus, not_found
from slinky.insight.plain_text import plain
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.slurm import Host, Job

#: An id of a job, a task of an array, or a component of a heterogeneous job.
_JOB = re.compile(r"[0-9]{1,10}(?:[_+][0-9]{1,10})?")


def find_target(text: str, snapshot: QueueSnapshot) -> Job | Host:
    """The job or node. Raises `CommandError` with near names if there is none."""
    kind, _, name = text.rpartition("/")
    if not name:
        raise CommandError("a name is empty: name a job, a node or a pod", ExitStatus.USAGE)
    if kind in ("", "job") and _JOB.fullmatch(name):
        return find_job(name, snapshot)
    if kind == "job":
        raise CommandError(f"{plain(name, 80)!r} is not the id of a job", ExitStatus.USAGE)
    if kind in ("", "node"):
        if name in snapshot.hosts_by_name:
            return snapshot.hosts_by_name[name]
        raise not_found("node", name, list(snapshot.hosts_by_name))
    raise CommandError(f"{plain(kind, 40)!r} is not job, node or pod", ExitStatus.USAGE)


def find_job(name: str, snapshot: QueueSnapshot) -> Job:
    """A job by its id, by array and task, or by its heterogeneous job and offset. Raises `CommandError`."""
    if not _JOB.fullmatch(name):
        raise CommandError(f"{plain(name, 80)!r} is not the id of a job", ExitStatus.USAGE)
    array, _, task = name.partition("_")
    if task and task.isdecimal():
        records = [job for job in snapshot.jobs if job.array_job_id.whole == int(array)]
        exact = [job for job in records if job.array_task_id.set and job.array_task_id.whole == int(task)]
        # Tasks that wait share one record, which has no task id.
        waiting = [job for job in records if not job.array_task_id.set]
        if exact or waiting:
            return (exact or waiting)[0]
    leader, _, offset = name.partition("+")
    if offset.isdecimal():
        for job in snapshot.jobs:
            if job.het_job_id.whole == int(leader) and job.het_job_offset.whole == int(offset):
                return job
    if name.isdecimal() and int(name) in snapshot.jobs_by_id:
        return snapshot.jobs_by_id[int(name)]
    raise not_found("job", name, [str(number) for number in snapshot.jobs_by_id], "that slurmctld still knows")
