# SPDX-License-Identifier: Apache-2.0
import msgspec
import pytest

from slinky.slurm.accounting.accounting_jobs import PastJob, PastState, PastTime
from slinky.slurm.mirror.job_record import (
    JobRecord,
    Question,
    departed,
    questions,
    same_job,
    same_past,
    sort_states,
    too_many,
    with_detail,
)
from slinky.slurm.model.states import JobState
from slinky.slurm.model.values import number
from slinky.slurm.model.views import Job, JobStatus, StepId

PENDING, RUNNING, DONE = (JobState.of([word]) for word in ("PENDING", "RUNNING", "COMPLETED"))


def job(sluid: str = "s1", state: str = "RUNNING", submitted: int = 100) -> Job:
    return Job(7, StepId(sluid), job_state=(state,), submit_time=number(submitted))


def record(state: JobState = PENDING, sluid: str = "s1", *, detailed: bool = True) -> JobRecord:
    return JobRecord("7", state, sluid, detail=job(sluid, state.base) if detailed else None)


@pytest.mark.parametrize(
    ("known", "seen", "verify", "asked"),
    [
        (None, PENDING, False, Question.DETAIL),
        (None, RUNNING, False, Question.DETAIL | Question.RESOURCES),
        (record(PENDING), PENDING, False, Question.NOTHING),
        (record(PENDING), RUNNING, False, Question.RESOURCES),
        (record(RUNNING), DONE, False, Question.DETAIL),
        (record(DONE), DONE, False, Question.NOTHING),
        (msgspec.structs.replace(record(RUNNING), state=DONE), DONE, False, Question.DETAIL),
        (record(DONE), PENDING, False, Question.DETAIL),
        (record(RUNNING), PENDING, False, Question.DETAIL),
        (record(PENDING), PENDING, True, Question.DETAIL),
        (record(PENDING, detailed=False), PENDING, False, Question.DETAIL),
    ],
)
def test_what_a_state_cannot_tell_is_asked(
    known: JobRecord | None, seen: JobState, verify: bool, asked: Question
) -> None:
    assert questions(known, seen, verify=verify) == asked


def test_the_same_id_is_not_the_same_job() -> None:
    assert same_job(record(sluid="s1"), job("s1"))
    assert not same_job(record(sluid="s1"), job("s2"))


def test_without_a_sluid_the_submit_time_tells_jobs_apart() -> None:
    old = JobRecord("7", PENDING, detail=job("", submitted=100))
    assert same_job(old, job("", submitted=100))
    assert not same_job(old, job("", submitted=200))


def test_accounting_is_believed_only_about_the_same_job() -> None:
    past = PastJob(7, sluid="s2", time=PastTime(submission=100))
    assert not same_past(record(sluid="s1"), past)
    assert same_past(record(sluid="s2"), past)
    assert not same_past(JobRecord("7", PENDING), PastJob(7))


def test_a_job_that_slurmctld_denies_is_lost_unless_accounting_saw_its_end() -> None:
    ended = PastJob(7, sluid="s1", past=PastState(("CANCELLED",)))
    running = PastJob(7, sluid="s1", past=PastState(("RUNNING",)))
    assert departed(record(RUNNING), None).lost
    assert departed(record(RUNNING), running).lost
    found = departed(record(RUNNING), ended)
    assert not found.lost
    assert found.state.base == "CANCELLED"
    assert found.over


def test_detail_brings_state_and_identity() -> None:
    found = with_detail(JobRecord("7", PENDING), job("s9", "RUNNING"))
    assert (found.sluid, found.state) == ("s9", RUNNING)


def test_many_losses_at_once_put_the_list_in_doubt() -> None:
    assert not too_many(1, 1)
    assert not too_many(5, 5)
    assert too_many(6, 10)
    assert not too_many(250, 1000)
    assert too_many(251, 1000)


def test_components_are_known_by_their_own_id_and_tasks_by_their_full_name() -> None:
    statuses = [
        JobStatus("10+0", ("PENDING",)),
        JobStatus("11+1", ("PENDING",)),
        JobStatus("13_1", ("RUNNING",)),
        JobStatus("12_3", ("PENDING",)),
        JobStatus("14", ("COMPLETED",)),
    ]
    assert list(sort_states(statuses, ())) == ["10", "11", "13_1", "12_3", "14"]


def test_an_array_is_over_only_when_no_task_of_it_is_seen_alive() -> None:
    tasks = [
        JobStatus("12_1", ("COMPLETED",)),
        JobStatus("12_2", ("PENDING",)),
        JobStatus("12_3", ("FAILED",)),
    ]
    assert sort_states(tasks, {"12"})["12"] == PENDING
    assert sort_states(tasks[:1], {"12"})["12"] == DONE
