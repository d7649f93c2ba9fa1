# SPDX-License-Identifier: Apache-2.0
"""Which request gives the states of all jobs, and that both give the same."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.slurm import Job, TransportError, number
from slinky.slurm.job_states import MANY_TASKS, JobStateReader, count_records, expand_records
from slinky.slurm.model.array_tasks import count_tasks, task_ranges
from slinky.slurm.model.statistics import Diag
from slinky.slurm.model.views import JobStatus

ARRAY = Job(job_id=7, array_job_id=number(7), array_task_string=f"0-{MANY_TASKS - 1}%4", job_state=("PENDING",))
SHORTENED = Job(job_id=7, array_job_id=number(7), array_task_string="1,3,5,7,...", job_state=("PENDING",))
TASK = Job(job_id=9, array_job_id=number(7), array_task_id=number(30_000), job_state=("RUNNING",))
PLAIN = Job(job_id=3, job_state=("RUNNING",))
COMPONENT = Job(job_id=5, het_job_id=number(4), het_job_offset=number(1), job_state=("PENDING",))


class Cluster:
    """Counts the requests; `jobs/state/` fails as if it took too long while `is_slow`."""

    def __init__(self, *jobs: Job, running: int = 0) -> None:
        self.jobs, self.is_slow, self.requests = jobs, False, list[str]()
        self.running = running
        self.reader = JobStateReader(self._states, self._records, self._statistics)

    async def _states(self) -> tuple[JobStatus, ...]:
        self.requests.append("states")
        if self.is_slow:
            raise TransportError("no response within 30 s")
        return tuple(expand_records(self.jobs))

    async def _records(self) -> tuple[Job, ...]:
        self.requests.append("records")
        return self.jobs

    async def _statistics(self) -> Diag:
        return Diag(
            jobs_pending=sum(count_tasks(job.array_task_string) for job in self.jobs), jobs_running=self.running
        )

    async def read(self, times: int = 1) -> tuple[JobStatus, ...]:
        for _ in range(times):
            statuses = await self.reader.read()
        return statuses


async def test_records_are_read_while_arrays_are_large() -> None:
    cluster = Cluster(ARRAY, TASK, PLAIN)
    first, second = await cluster.read(), await cluster.read()
    assert first == second
    assert len(first) == MANY_TASKS + 2
    cluster.jobs = (TASK, PLAIN)
    assert {status.job_id for status in await cluster.read(2)} == {"9_30000", "3"}
    assert cluster.requests == ["states", "records", "records", "states"]


@pytest.mark.parametrize("jobs", [(PLAIN,) * (MANY_TASKS + 1), (TASK,) * (MANY_TASKS + 1), (PLAIN, COMPONENT)])
async def test_states_are_read_of_single_jobs_and_of_running_tasks(jobs: Sequence[Job]) -> None:
    cluster = Cluster(*jobs)
    await cluster.read(3)
    assert cluster.requests == ["states"] * 3


async def test_a_list_that_takes_too_long_is_replaced_by_records() -> None:
    cluster = Cluster(ARRAY, PLAIN)
    cluster.is_slow = True
    assert len(await cluster.read(2)) == MANY_TASKS + 1
    assert cluster.requests == ["states", "records", "records"]


@pytest.mark.parametrize(
    "cluster", [Cluster(PLAIN), Cluster(ARRAY, running=5000), Cluster(SHORTENED), Cluster(ARRAY, SHORTENED)]
)
async def test_a_list_that_fails_for_another_reason_remains_a_failure(cluster: Cluster) -> None:
    cluster.is_slow = True
    for _ in range(2):
        with pytest.raises(TransportError):
            await cluster.read()


async def test_tasks_that_slurm_does_not_name_are_read_as_states() -> None:
    cluster = Cluster(ARRAY)
    await cluster.read(2)
    cluster.jobs = (ARRAY, SHORTENED)
    await cluster.read(2)
    assert cluster.requests == ["states", "records", "records", "states", "states"]


async def test_a_list_is_never_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slinky.slurm.job_states.MAX_ENTRIES", MANY_TASKS)
    cluster = Cluster(ARRAY, PLAIN)
    await cluster.read()
    assert len(await cluster.read()) == MANY_TASKS + 1
    assert cluster.requests == ["states", "records", "states"]


def test_entries_have_the_names_that_slurm_gives_them() -> None:
    array = Job(job_id=7, array_job_id=number(7), array_task_string="0-2,8-12:2%1", job_state=("PENDING",))
    expected = ["7_0", "7_1", "7_2", "7_8", "7_10", "7_12", "9_30000", "3", "5+1"]
    entries = list(expand_records((array, TASK, PLAIN, COMPONENT)))
    assert [entry.job_id for entry in entries] == expected
    assert count_records(entries) == 4


@given(st.text("0123456789-:,%.[] x", max_size=40))
def test_any_text_of_tasks_is_counted_as_it_is_expanded(text: str) -> None:
    total = sum(map(len, task_ranges(text)))
    assert count_tasks(text) == min(total, 4_000_001)
