# SPDX-License-Identifier: Apache-2.0
"""When an immediate allocation is worth a try."""

from typing import Any, cast

import pytest
from tests.unit.bridge.build import record

from slinky.bridge.lifecycle.start_forecast import StartForecast
from slinky.slurm import Change, Host, JobRecord, JobRequest, Mirror, ObjectKind, number


class FakeMirror:
    """Hosts and jobs, with notifications of changes."""

    def __init__(self, *hosts: str, partition: str = "ext") -> None:
        self.nodes: dict[str, Host] = {}
        self.jobs: dict[str, JobRecord] = {}
        self.forecast = StartForecast(cast("Mirror", self))
        for name in hosts:
            self.host(name, "IDLE", partition=partition)

    def listen(self, listener: Any) -> None:
        self.notify = listener

    def host(self, name: str, *flags: str, partition: str = "ext", **size: Any) -> None:
        before, after = self.nodes.get(name), Host(name, words=flags, partitions=(partition,), **size)
        self.nodes[name] = after
        self.notify(Change(ObjectKind.NODE, name, before, after))

    def job(self, after: JobRecord) -> None:
        before = self.jobs.get(after.job_id)
        self.jobs[after.job_id] = after
        self.notify(Change(ObjectKind.JOB, after.job_id, before, after))


def request(nodes: int = 1, **more: Any) -> JobRequest:
    return JobRequest(**{"nodes": str(nodes), "partition": "ext", **more})


def test_a_job_fits_where_enough_hosts_are_idle() -> None:
    mirror = FakeMirror("n1", "n2")
    assert mirror.forecast.would_start(request(2))
    assert not mirror.forecast.would_start(request(3))
    assert not mirror.forecast.would_start(request(2, excluded_nodes=("n2",)))
    assert not mirror.forecast.would_start(request(partition="other"))


@pytest.mark.parametrize("flags", [("ALLOCATED",), ("IDLE", "DRAIN"), ("DOWN",), ("MIXED",)])
def test_only_idle_and_schedulable_hosts_count(flags: tuple[str, ...]) -> None:
    mirror = FakeMirror("n1")
    mirror.host("n1", *flags)
    assert not mirror.forecast.would_start(request())


def test_allocated_hosts_do_not_count_until_their_job_ends() -> None:
    mirror = FakeMirror("n1")
    mirror.job(record("7", "RUNNING", hosts=("n1",)))
    assert not mirror.forecast.would_start(request())
    mirror.job(record("7", "CANCELLED", hosts=("n1",)))
    assert mirror.forecast.would_start(request())


def test_a_drained_host_does_not_count_when_its_job_ends() -> None:
    mirror = FakeMirror("n1")
    mirror.job(record("7", "RUNNING", hosts=("n1",)))
    mirror.host("n1", "ALLOCATED", "DRAIN")
    mirror.job(record("7", "CANCELLED", hosts=("n1",)))
    assert not mirror.forecast.would_start(request())


def test_hosts_of_an_allocation_in_flight_do_not_count() -> None:
    mirror = FakeMirror("n1", "n2")
    with mirror.forecast.reserve(request(2)):
        assert not mirror.forecast.would_start(request())
    assert mirror.forecast.would_start(request())


def test_nobody_jumps_the_queue_of_his_partition() -> None:
    mirror = FakeMirror("n1")
    waiting = record("7", "PENDING")
    assert waiting.detail is not None
    mirror.job(waiting)
    mirror.host("s1", "IDLE", partition="spare")
    assert not mirror.forecast.would_start(request(partition=None))
    assert mirror.forecast.would_start(request(partition="spare"))
    mirror.job(record("7", "CANCELLED"))
    assert mirror.forecast.would_start(request(partition=None))


def test_a_waiting_job_that_was_forgotten_holds_nobody_up() -> None:
    mirror = FakeMirror("n1")
    mirror.job(record("7", "PENDING"))
    del mirror.jobs["7"]
    assert mirror.forecast.would_start(request(partition=None))


@pytest.mark.parametrize(
    "option", [{"hold": True}, {"priority": number(0)}, {"dependency": "afterok:1"}, {"reservation": "r"}]
)
def test_jobs_that_are_meant_to_wait_are_not_tried(option: dict[str, Any]) -> None:
    assert not FakeMirror("n1").forecast.would_start(request(**option))


@pytest.mark.parametrize(
    "wish",
    [
        {"cpus_per_task": 5},
        {"cpus_per_task": 3, "tasks_per_node": 2},
        {"memory_per_node": number(9000)},
        {"tres_per_node": "gres/gpu:1"},
        {"constraints": "a100"},
    ],
)
def test_a_job_that_an_idle_host_might_not_suit_is_queued(wish: dict[str, Any]) -> None:
    mirror = FakeMirror()
    mirror.host("n1", "IDLE", cpus=4, real_memory=8192, gres="shard:4")
    assert mirror.forecast.would_start(request(cpus_per_task=4, memory_per_node=number(8192)))
    assert mirror.forecast.would_start(request(tres_per_node="gres/shard:2"))
    assert not mirror.forecast.would_start(request(**wish))
