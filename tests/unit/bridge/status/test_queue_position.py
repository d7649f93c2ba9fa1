# SPDX-License-Identifier: Apache-2.0
"""The line of waiting jobs, and what a pod says while it is in it."""

import asyncio
from typing import Any

import pytest

from slinky.bridge.status import conditions, queue_position
from slinky.bridge.status.queue_position import QueuePositions
from slinky.observe import ManualClock
from slinky.observe.clock import settle
from slinky.slurm import Change, Job, JobRecord, JobState, ObjectKind, number


def waiting(job: int, priority: int = 1, partition: str = "ext", **more: Any) -> JobRecord:
    words = more.pop("words", ("PENDING",))
    detail = Job(job, partition=partition, priority=number(priority), job_state=words, **more)
    return JobRecord(str(job), JobState.of(words), detail=detail)


def test_places_follow_priority_then_age_in_each_partition() -> None:
    records = [waiting(1), waiting(2, 9), waiting(3), waiting(4, partition="other"), waiting(5, words=("RUNNING",))]
    assert queue_position.order(records) == {"ext": [(-9, 2), (-1, 1), (-1, 3)], "other": [(-1, 4)]}


@pytest.mark.parametrize(
    ("ahead", "words"),
    [(0, "Place 1 "), (9, "Place 10 "), (10, "More than 9 "), (99, "More than 9 "), (100, "More than 99 ")],
)
def test_near_places_are_told_exactly_and_far_ones_roughly(ahead: int, words: str) -> None:
    assert queue_position.sentence(ahead).startswith(words)


async def test_those_whose_place_changed_are_told_and_nobody_else() -> None:
    jobs = {str(number_): waiting(number_) for number_ in range(1, 31)}
    told: list[str] = []
    clock = ManualClock()
    queue = QueuePositions(jobs, told.append, clock)
    task = asyncio.create_task(queue.run())
    queue.changed(Change(ObjectKind.JOB, "1", None, jobs["1"]))
    await settle()
    assert len(told) == 30
    assert queue.place(jobs["3"]).startswith("Place 3 ")
    assert queue.place(waiting(99)).startswith("More than 9 ")  # not counted yet, but it knows where it will stand
    told.clear()
    gone = jobs.pop("1")
    queue.changed(Change(ObjectKind.JOB, "1", gone, waiting(1, words=("RUNNING",))))
    queue.changed(Change(ObjectKind.JOB, "2", jobs["2"], waiting(2, state_reason="Priority")))  # moves nobody
    await clock.advance(queue_position.PAUSE)
    assert sorted(map(int, told)) == list(range(2, 12))  # the first ten moved up; who is far behind hears nothing
    task.cancel()


# --- what is said


@pytest.mark.parametrize(
    ("reason", "fields", "words"),
    [
        ("Dependency", {"dependency": "afterany:7(unfulfilled)"}, "afterany:7"),
        ("Licenses", {"licenses": "matlab:2"}, "matlab:2"),
        ("QOSMaxCpuPerUserLimit", {"qos": "small"}, "small"),
        ("AssocGrpCpuLimit", {"account": "physics"}, "physics"),
        ("PartitionDown", {"partition": "gpu"}, "gpu"),
        ("ReqNodeNotAvail", {"state_description": "UnavailableNodes:n1"}, "UnavailableNodes:n1"),
        ("BeginTime", {"eligible_time": number(1_800_000_000)}, "2027-01-15T08:00:00Z"),
        ("Resources", {"start_time": number(1_800_000_000)}, "Expected to start at 2027-01-15T08:00:00Z"),
    ],
)
def test_a_waiting_pod_says_what_blocks_it_by_name(reason: str, fields: dict[str, Any], words: str) -> None:
    said = conditions.of_pending(waiting(5, state_reason=reason, **fields), "Place 2.")
    assert words in said.message
    assert "Slurm job 5 is PENDING." in said.message
    assert "Place 2." in said.message
    assert said.reason == reason
