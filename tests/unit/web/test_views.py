# SPDX-License-Identifier: Apache-2.0
"""Filters, timelines and jobs of a mirror."""

import pytest
from tests.unit.insight import queues
from tests.unit.web.sample_pages import page_data

from slinky.insight.forecast import StartRange, StartSource
from slinky.insight.listed_jobs import job_label, listed_jobs
from slinky.slurm import Job, JobRecord, number
from slinky.slurm.model.states import JobState
from slinky.web.views.nodes import HostCondition, condition, nodes_view
from slinky.web.views.queue import queue_view
from slinky.web.views.timeline import Phase, job_timeline

QUEUE = page_data(
    queues.cluster(
        queues.running(1, "n1", user_name="bob"),
        queues.job(2, state_reason="Priority", priority=number(5)),
        queues.job(3, name="Train", qos="high"),
        queues.job(4, job_state=("COMPLETED",), account="ops"),
    )
)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["3", "2", "1"]),
        ({"state": "all"}, ["3", "2", "1", "4"]),
        ({"state": "running"}, ["1"]),
        ({"state": "ended"}, ["4"]),
        ({"state": "completed"}, ["4"]),
        ({"state": "pending", "reason": "Priority"}, ["2"]),
        ({"user": "bob"}, ["1"]),
        ({"name": "tra"}, ["3"]),
        ({"qos": "high", "partition": "work"}, ["3"]),
        ({"partition": "none"}, []),
        ({"account": "ops"}, []),
    ],
)
def test_the_address_chooses_jobs(query: dict[str, str], expected: list[str]) -> None:
    assert [row.label for row in queue_view(QUEUE, query).jobs.items] == expected


def test_the_address_of_a_filter_leads_back_to_it() -> None:
    view = queue_view(QUEUE, {"user": "a&b=<", "state": "pending"})
    assert view.chosen.address(2) == "/queue?user=a%26b%3D%3C&state=pending&page=2"


def test_a_pending_job_waits_until_its_expected_start() -> None:
    now = int(queues.NOW)
    start = StartRange(2, now + 60, now + 600, StartSource.SIMULATION)
    timeline = job_timeline(queues.job(2), start, queues.NOW)
    assert [segment.phase for segment in timeline.segments] == [Phase.WAITING, Phase.WAITING, Phase.EXPECTED]
    assert timeline.events[0].name == "Submitted"
    assert all(0 <= segment.left <= 1000 and segment.left + segment.width <= 1001 for segment in timeline.segments)


def test_a_running_job_has_time_left() -> None:
    job = queues.running(1, "n1", since=600)
    timeline = job_timeline(job, None, queues.NOW)
    assert [segment.phase for segment in timeline.segments] == [Phase.RUNNING, Phase.REMAINING]
    assert timeline.events[-1].name == "Ends by its time limit"


def test_a_job_without_times_has_no_line() -> None:
    assert job_timeline(Job(job_id=1, job_state=("PENDING",)), None, queues.NOW).segments == ()


def record(key: str, state: str, detail: Job | None = None) -> JobRecord:
    return JobRecord(key, JobState.of((state,)), detail=detail)


def test_tasks_that_wait_are_one_job_and_tasks_that_run_are_their_own() -> None:
    array = queues.job(12, array_job_id=number(12), array_task_string="2-3")
    task = queues.running(13, "n1", array_job_id=number(12), array_task_id=number(1))
    records = {
        "12": record("12", "RUNNING", array),
        "12_1": record("12_1", "RUNNING", task),
        "12_2": record("12_2", "PENDING"),
        "12_3": record("12_3", "PENDING"),
    }
    jobs = listed_jobs(records)
    assert [(job_label(job), job.state.base) for job in jobs] == [("12", "PENDING"), ("12_1", "RUNNING")]


def test_the_newest_state_counts_and_a_job_without_details_is_listed() -> None:
    records = {"5": record("5", "RUNNING", queues.job(5)), "6": record("6", "PENDING"), "7": record("7", "COMPLETED")}
    assert [(job.job_id, job.state.base) for job in listed_jobs(records)] == [(5, "RUNNING"), (6, "PENDING")]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("IDLE",), HostCondition.IDLE),
        (("MIXED",), HostCondition.MIXED),
        (("ALLOCATED", "DRAIN"), HostCondition.DRAINING),
        (("IDLE", "DRAIN"), HostCondition.DRAINED),
        (("DOWN",), HostCondition.DOWN),
        (("IDLE", "NOT_RESPONDING"), HostCondition.DOWN),
        (("IDLE", "POWERED_DOWN"), HostCondition.OTHER),
        (("NEW_WORD",), HostCondition.OTHER),
    ],
)
def test_conditions(words: tuple[str, ...], expected: HostCondition) -> None:
    assert condition(queues.host("n1", words=words)) is expected


def test_nodes_are_grouped_by_topology_and_filtered() -> None:
    hosts = tuple(queues.host(f"n{index}", topology=f"tree:s{index % 2}:n{index}") for index in (10, 2, 1))
    down = queues.host("n3", words=("DOWN",), topology="tree:s1:n3")
    data = page_data(queues.cluster(hosts=(*hosts, down)))
    groups = nodes_view(data, {}).groups
    assert {group.name: [host.name for host in group.hosts] for group in groups} == {
        "tree:s0": ["n2", "n10"],
        "tree:s1": ["n1", "n3"],
    }
    assert [host.name for group in nodes_view(data, {"state": "down"}).groups for host in group.hosts] == ["n3"]
    assert [group.name for group in nodes_view(data, {"group": "partition"}).groups] == ["work"]
