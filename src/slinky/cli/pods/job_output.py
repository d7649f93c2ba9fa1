# SPDX-License-Identifier: Apache-2.0
"""Where a job of Slurm writes its standard output: the file, and the node that writes it. Pure."""

import re
from dataclasses import dataclass
from posixpath import join

from slinky.cli.cluster.command import CommandError
from slinky.insight.plain_text import plain
from slinky.insight.queue_snapshot import host_names
from slinky.slurm import Job

_PATTERN = re.compile(r"%(\d*)([a-zA-Z%])")
#: Names that slurmd uses if the job names none.
DEFAULT_NAME, DEFAULT_ARRAY_NAME = "slurm-%j.out", "slurm-%A_%a.out"


@dataclass(frozen=True)
class OutputFile:
    """The file of a job's standard output, the node that writes it, and the user who may read it."""

    job_id: int
    path: str
    host: str
    user_id: int


def locate_output(job: Job) -> OutputFile:
    """The standard output of a batch job. Raises `CommandError` for a job that has none, with the reason."""
    name = f"job {job.job_id}"
    if job.state.pending:
        raise CommandError(f"{name} is pending and has written nothing yet; `slinky explain {job.job_id}` says why")
    if "EXTERNAL_JOB" in job.flags:
        raise CommandError(f"{name} stands for pods, and none of them is left; see the logs of its batch job or owner")
    hosts = host_names(job.nodes)
    host = job.batch_host or (hosts[0] if hosts else "")
    if not host:
        raise CommandError(f"{name} ({str(job.state).lower()}) has never run on a node")
    path = expand_pattern(job.standard_output or _default_name(job), job, host)
    if path is None:
        raise CommandError(f"{name} writes to {plain(job.standard_output)}, a name that only slurmd can resolve")
    return OutputFile(job.job_id, join(job.current_working_directory or "/", path), host, job.user_id)


def expand_pattern(pattern: str, job: Job, host: str) -> str | None:
    """A name with the patterns of `sbatch --output` replaced; None for one that depends on a task."""
    array = job.array_job_id.whole or job.job_id
    values = {
        "j": str(job.job_id),
        "J": str(job.job_id),
        "A": str(array),
        "a": str(job.array_task_id.whole) if job.array_task_id.set else "4294967294",
        "x": job.name,
        "u": job.user_name,
        "N": host.partition(".")[0],
        "n": "0",
        "t": "0",
        "s": "batch",
        "b": str(job.array_task_id.whole % 10),
        "%": "%",
    }
    unknown: list[str] = []

    def replace(match: re.Match[str]) -> str:
        width, letter = match[1], match[2]
        if letter not in values:
            unknown.append(letter)
            return ""
        value = values[letter]
        return value.zfill(min(int(width), 10)) if width and value.isdecimal() else value

    text = _PATTERN.sub(replace, pattern)
    return None if unknown else text


def _default_name(job: Job) -> str:
    return DEFAULT_ARRAY_NAME if job.array_task_id.set else DEFAULT_NAME
