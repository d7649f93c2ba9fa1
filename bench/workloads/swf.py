# SPDX-License-Identifier: Apache-2.0
"""Reads workloads in the Standard Workload Format (SWF) of the Parallel Workloads Archive. Pure.

A line has 18 numbers; -1 means unknown, and lines that begin with `;` are comments. Lines that are no job, and jobs
without a run time or a size, are left out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

FIELDS = 18
#: Jobs of one workload at most, and the largest number that a field may have.
JOBS_MAX, NUMBER_MAX = 1_000_000, 2**40


@dataclass(frozen=True, slots=True)
class WorkloadJob:
    """A job of a workload; times are in seconds. `run` is how long it runs, `limit` what its user asked for."""

    job_id: int
    submit: int
    run: int
    limit: int
    nodes: int
    user: str
    priority: int = 0


def read_swf(lines: Iterable[str], processors_per_node: int = 1) -> Iterator[WorkloadJob]:
    """The jobs of an SWF file, in the order of the file."""
    count = 0
    for line in lines:
        job = _job(line, processors_per_node)
        if job is None:
            continue
        if count == JOBS_MAX:
            raise ValueError(f"the workload has more than {JOBS_MAX} jobs")
        count += 1
        yield job


def _job(line: str, processors_per_node: int) -> WorkloadJob | None:
    words = line.partition(";")[0].split()
    if len(words) != FIELDS:
        return None
    try:
        values = [int(float(word)) for word in words]
    except (ValueError, OverflowError):
        return None
    if any(abs(value) > NUMBER_MAX for value in values):
        return None
    number, submit, _, run, allocated, _, _, requested, wanted = values[:9]
    processors = requested if requested > 0 else allocated
    if submit < 0 or run <= 0 or processors <= 0:
        return None
    nodes = -(-processors // processors_per_node)
    return WorkloadJob(number, submit, run, max(wanted, run), nodes, f"user{values[11]}")
