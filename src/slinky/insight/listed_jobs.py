# SPDX-License-Identifier: Apache-2.0
"""The jobs of a mirror as Slurm's own lists show them. Pure."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import structs

from slinky.slurm import Job, JobRecord


def job_label(job: Job) -> str:
    """The id of a job as squeue writes it: `12`, or `12_3` for a task of an array."""
    array, task = job.array_job_id.whole, job.array_task_id
    return f"{array}_{task.whole}" if array and task.set else str(job.job_id)


def listed_jobs(records: Mapping[str, JobRecord]) -> tuple[Job, ...]:
    """The jobs of a mirror. Tasks of an array that wait are one job, as in Slurm's own lists."""
    return tuple(_jobs(records))


def _jobs(records: Mapping[str, JobRecord]) -> Iterator[Job]:
    waiting = _arrays(key for key, record in records.items() if record.state.pending)
    arrays = _arrays(records)
    for key, record in records.items():
        array, _, task = key.partition("_")
        if task and record.state.pending:
            continue
        if key in arrays:
            if key in waiting and record.detail is not None:
                yield structs.replace(record.detail, job_state=("PENDING",))
        elif record.detail is not None and (not task or job_label(record.detail) == key):
            same = record.detail.state == record.state
            yield record.detail if same else structs.replace(record.detail, job_state=record.state.words)
        elif not task and array.isdecimal() and not record.over:
            yield Job(job_id=int(array), job_state=record.state.words)


def _arrays(keys: Iterable[str]) -> set[str]:
    return {key.partition("_")[0] for key in keys if "_" in key}
