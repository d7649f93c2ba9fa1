# SPDX-License-Identifier: Apache-2.0
"""The line of waiting jobs: how many of this bridge's jobs are before each, by partition and priority.

Slurm tells no position, and counting the jobs of others would mean reading them all, so the line has our jobs only.
The first few are told their exact place and hear of every move; whoever is far behind is told so roughly, or ten
thousand waiting pods would all be written to whenever one starts.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping

from slinky.observe import Clock
from slinky.slurm import Change, Job, JobRecord, ObjectKind

#: Places that are told exactly.
NEAR = 10
#: Seconds between two looks at a line that moves.
PAUSE = 1.0

Turn = tuple[int, int]
"""By what jobs are ordered: priority downwards, then age."""


def sentence(ahead: int) -> str:
    """How far back a job stands, for a person."""
    if ahead < NEAR:
        return f"Place {ahead + 1} among the waiting jobs of this bridge in its partition."
    return f"More than {10 ** (len(str(ahead)) - 1) - 1} jobs of this bridge wait before it."


def order(records: Iterable[JobRecord]) -> dict[str, list[Turn]]:
    """The lines of all partitions."""
    lines: dict[str, list[Turn]] = {}
    for record in records:
        if record.state.pending and (job := record.detail) is not None and job.het_job_id.whole in {0, job.job_id}:
            lines.setdefault(job.partition, []).append(_turn(job))
    for line in lines.values():
        line.sort()
    return lines


class QueuePositions:
    """The places of all waiting jobs, and whom to tell when they move."""

    def __init__(self, jobs: Mapping[str, JobRecord], tell: Callable[[str], None], clock: Clock) -> None:
        self._jobs, self._tell, self._clock = jobs, tell, clock
        self._lines: dict[str, list[Turn]] = {}
        self._told: dict[int, int] = {}  # job to what it was told
        self._moved = asyncio.Event()

    def changed(self, change: Change) -> None:
        """Hear of a change in Slurm."""
        if change.kind is ObjectKind.JOB and _rank(change.before) != _rank(change.after):
            self._moved.set()

    def place(self, record: JobRecord) -> str:
        """Where a waiting job stands, in a sentence; one that was not counted yet stands where it will."""
        if record.detail is None:
            return ""
        return sentence(bisect_left(self._lines.get(record.detail.partition, []), _turn(record.detail)))

    async def run(self) -> None:
        """Look at the line whenever it has moved, and tell those whose place changed; until cancelled."""
        while True:
            await self._moved.wait()
            self._moved.clear()
            self._lines = order(self._jobs.values())
            before, self._told = (
                self._told,
                {job: _words(ahead) for line in self._lines.values() for ahead, (_, job) in enumerate(line)},
            )
            for job, words in self._told.items():
                if before.get(job) != words:
                    self._tell(str(job))
            await self._clock.sleep(PAUSE)


def _turn(job: Job) -> Turn:
    return -job.priority.whole, job.job_id


def _words(ahead: int) -> int:
    """The same number for places that are told in the same words."""
    return ahead if ahead < NEAR else NEAR + len(str(ahead))


def _rank(record: JobRecord | None) -> tuple[object, ...] | None:
    """What decides a job's place; None for one that does not wait."""
    if record is None or not record.state.pending or record.detail is None:
        return None
    return record.detail.partition, record.detail.priority.whole
