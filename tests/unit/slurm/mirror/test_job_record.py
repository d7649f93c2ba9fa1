# SPDX-License-Identifier: Apache-2.0
import msgspec
import pytest

from slinky.slurm.mirror.job_record import (
    JobRead,
    JobRecord,
    is_same_accounting_job,
    is_same_job,
    is_suspect_loss,
    required_reads,
    states_by_key,
    with_departure,
    with_detail,
)
from slinky.slurm.model.accounting_jobs import AccountingJob, AccountingJobState, AccountingJobTime
from slinky.slurm.model.states import JobState
from slinky.slurm.model.values import number
from slinky.slurm.model.views import Job, JobStatus, StepId

PENDING, RUNNING, DONE = (JobState.of([word]) for word in ("PENDING", "RUNNING", "COMPLETED"))


def job(sluid: str = "s1", state: str = "RUNNING", submitted: int = 100) -> Job:
    return Job(7, StepId(sluid), job_state=(state,), submit_time=number(submitted))


def record(state: JobState = PENDING, sluid: str = "s1", *, detailed: bool = True) -> JobRecord:
    return JobRecord("7", state, sluid, detail=job(sluid, state.base) if detailed else None)


@pytest.mark.parametrize(
    ("known", "state", "verify", "reads"),
    [
        (None, PENDING, False, JobRead.DETAIL),
        (None, RUNNING, False, JobRead.DETAIL | JobRead.RESOURCES),
        (record(PENDING), PENDING, False, JobRead.NOTHING),
        (record(PENDING), RUNNING, False, JobRead.RESOURCES),
        (record(RUNNING), DONE, False, JobRead.DETAIL),
        (record(DONE), DONE, False, JobRead.NOTHING),
        (msgspec.structs.replace(record(RUNNING), state=DONE), DONE, False, JobRead.DETAIL),
        (record(DONE), PENDING, False, JobRead.DETAIL),
        (record(RUNNING), PENDING, False, JobRead.DETAIL),
        (record(PENDING), PENDING, True, JobRead.DETAIL),
        (record(PENDING, detailed=False), PENDING, False, JobRead.DETAIL),
    ],
)
def test_facts_that_a_state_does_not_contain_are_read(
    known: JobRecord | None, state: JobState, verify: bool, reads: JobRead
) -> None:
    assert required_reads(known, state, verify=verify) == reads


def test_the_same_id_is_not_the_same_job() -> None:
    assert is_same_job(record(sluid="s1"), job("s1"))
    assert not is_same_job(record(sluid="s1"), job("s2"))


def test_without_a_sluid_the_submit_time_tells_jobs_apart() -> None:
    old = JobRecord("7", PENDING, detail=job("", submitted=100))
    assert is_same_job(old, job("", submitted=100))
    assert not is_same_job(old, job("", submitted=200))


def test_an_accounting_record_counts_only_for_the_same_job() -> None:
    accounting_job = AccountingJob(7, sluid="s2", time=AccountingJobTime(submission=100))
    assert not is_same_accounting_job(record(sluid="s1"), accounting_job)
    assert is_same_accounting_job(record(sluid="s2"), accounting_job)
    assert not is_same_accounting_job(JobRecord("7", PENDING), AccountingJob(7))


def test_a_job_unknown_to_slurmctld_is_lost_unless_accounting_has_its_end() -> None:
    ended = AccountingJob(7, sluid="s1", state_record=AccountingJobState(("CANCELLED",)))
    running = AccountingJob(7, sluid="s1", state_record=AccountingJobState(("RUNNING",)))
    assert with_departure(record(RUNNING), None).lost
    assert with_departure(record(RUNNING), running).lost
    result = with_departure(record(RUNNING), ended)
    assert not result.lost
    assert result.state.base == "CANCELLED"
    assert result.over


def test_a_state_that_was_listed_for_the_id_of_a_lost_job_is_not_its_end() -> None:
    departed = with_departure(JobRecord("7", JobState.of(("CANCELLED",)), "s1"), None)
    assert (departed.lost, departed.state.base) == (True, "")
    assert not with_departure(record(JobState.of(("CANCELLED",))), None).lost


def test_detail_brings_state_and_identity() -> None:
    result = with_detail(JobRecord("7", PENDING), job("s9", "RUNNING"), 0)
    assert (result.sluid, result.state) == ("s9", RUNNING)


def test_many_losses_at_once_make_the_list_suspect() -> None:
    assert not is_suspect_loss(1, 1)
    assert not is_suspect_loss(5, 5)
    assert is_suspect_loss(6, 10)
    assert not is_suspect_loss(250, 1000)
    assert is_suspect_loss(251, 1000)


def test_components_are_known_by_their_own_id_and_tasks_by_their_full_name() -> None:
    statuses = [
        JobStatus("10+0", ("PENDING",)),
        JobStatus("11+1", ("PENDING",)),
        JobStatus("13_1", ("RUNNING",)),
        JobStatus("12_3", ("PENDING",)),
        JobStatus("14", ("COMPLETED",)),
    ]
    assert list(states_by_key(statuses, ())) == ["10", "11", "13_1", "12_3", "14"]


def test_an_array_is_over_only_when_no_task_of_it_is_seen_alive() -> None:
    tasks = [
        JobStatus("12_1", ("COMPLETED",)),
        JobStatus("12_2", ("PENDING",)),
        JobStatus("12_3", ("FAILED",)),
    ]
    assert states_by_key(tasks, {"12"})["12"] == PENDING
    assert states_by_key(tasks[:1], {"12"})["12"] == DONE
