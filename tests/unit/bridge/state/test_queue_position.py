# SPDX-License-Identifier: Apache-2.0
"""Positions in the queue, and the text of a pending pod."""

import asyncio
from typing import Any

import pytest

from slinky.bridge.state import queue_position
from slinky.bridge.state.queue_position import QueuePositions
from slinky.bridge.status import conditions
from slinky.observe import ManualClock
from slinky.observe.clock import settle
from slinky.slurm import Change, Job, JobRecord, JobState, ObjectKind, number


def pending(job: int, priority: int = 1, partition: str = "ext", **more: Any) -> JobRecord:
    words = more.pop("words", ("PENDING",))
    detail = Job(job, partition=partition, priority=number(priority), job_state=words, **more)
    return JobRecord(str(job), JobState.of(words), detail=detail)


def test_positions_follow_priority_then_age_in_each_partition() -> None:
    records = [pending(1), pending(2, 9), pending(3), pending(4, partition="other"), pending(5, words=("RUNNING",))]
    assert queue_position.sort_queues(records) == {"ext": [(-9, 2), (-1, 1), (-1, 3)], "other": [(-1, 4)]}


@pytest.mark.parametrize(
    ("ahead", "expected"),
    [(0, "Position 1 "), (9, "Position 10 "), (10, "More than 9 "), (99, "More than 9 "), (100, "More than 99 ")],
)
def test_the_first_ten_positions_are_exact_and_others_are_rounded(ahead: int, expected: str) -> None:
    assert queue_position.position_text(ahead).startswith(expected)


async def test_only_jobs_whose_position_text_changed_are_notified() -> None:
    jobs = {str(job): pending(job) for job in range(1, 31)}
    notified: list[str] = []
    clock = ManualClock()
    queue = QueuePositions(jobs, notified.append, clock)
    task = asyncio.create_task(queue.run())
    queue.handle_change(Change(ObjectKind.JOB, "1", None, jobs["1"]))
    await settle()
    assert len(notified) == 30
    assert queue.describe(jobs["3"]).startswith("Position 3 ")
    assert queue.describe(pending(99)).startswith("More than 9 ")  # not in the queue yet: its later position
    notified.clear()
    started = jobs.pop("1")
    queue.handle_change(Change(ObjectKind.JOB, "1", started, pending(1, words=("RUNNING",))))
    queue.handle_change(
        Change(ObjectKind.JOB, "2", jobs["2"], pending(2, state_reason="Priority"))
    )  # changes no position
    await clock.advance(queue_position.MIN_INTERVAL)
    assert sorted(map(int, notified)) == list(range(2, 12))  # the first ten moved up; rounded positions did not change
    task.cancel()


# --- condition text


@pytest.mark.parametrize(
    ("reason", "fields", "expected"),
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
def test_the_text_of_a_pending_pod_names_what_blocks_it(reason: str, fields: dict[str, Any], expected: str) -> None:
    text = conditions.pending_text(pending(5, state_reason=reason, **fields), "Position 2.")
    assert expected in text.message
    assert "Slurm job 5 is PENDING." in text.message
    assert "Position 2." in text.message
    assert text.reason == reason
