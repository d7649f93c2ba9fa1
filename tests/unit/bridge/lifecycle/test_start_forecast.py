# SPDX-License-Identifier: Apache-2.0
"""When a job is worth an attempt to start it at once."""

from typing import Any, cast

import pytest
from tests.unit.bridge.build import record

from slinky.bridge.lifecycle.start_forecast import StartForecast
from slinky.slurm import Change, Host, JobRecord, JobRequest, Mirror, ObjectKind, number


class Sight:
    """What a mirror shows and tells."""

    def __init__(self, *hosts: str, partition: str = "ext") -> None:
        self.nodes: dict[str, Host] = {}
        self.jobs: dict[str, JobRecord] = {}
        self.outlook = StartForecast(cast("Mirror", self))
        for name in hosts:
            self.host(name, "IDLE", partition=partition)

    def listen(self, listener: Any) -> None:
        self.tell = listener

    def host(self, name: str, *words: str, partition: str = "ext") -> None:
        before, after = self.nodes.get(name), Host(name, words=words, partitions=(partition,))
        self.nodes[name] = after
        self.tell(Change(ObjectKind.NODE, name, before, after))

    def job(self, after: JobRecord) -> None:
        before = self.jobs.get(after.job_id)
        self.jobs[after.job_id] = after
        self.tell(Change(ObjectKind.JOB, after.job_id, before, after))


def wish(nodes: int = 1, **more: Any) -> JobRequest:
    return JobRequest(**{"nodes": str(nodes), "partition": "ext", **more})


def test_a_job_fits_where_enough_hosts_are_idle() -> None:
    sight = Sight("n1", "n2")
    assert sight.outlook.fits(wish(2))
    assert not sight.outlook.fits(wish(3))
    assert not sight.outlook.fits(wish(2, excluded_nodes=("n2",)))
    assert not sight.outlook.fits(wish(partition="other"))


@pytest.mark.parametrize("words", [("ALLOCATED",), ("IDLE", "DRAIN"), ("DOWN",), ("MIXED",)])
def test_hosts_that_are_taken_or_closed_do_not_count(words: tuple[str, ...]) -> None:
    sight = Sight("n1")
    sight.host("n1", *words)
    assert not sight.outlook.fits(wish())


def test_what_was_just_given_is_not_promised_again_and_what_comes_back_is() -> None:
    sight = Sight("n1")
    sight.job(record("7", "RUNNING", hosts=("n1",)))
    assert not sight.outlook.fits(wish())
    sight.job(record("7", "CANCELLED", hosts=("n1",)))
    assert sight.outlook.fits(wish())


def test_a_drained_host_that_comes_back_is_not_room() -> None:
    sight = Sight("n1")
    sight.job(record("7", "RUNNING", hosts=("n1",)))
    sight.host("n1", "ALLOCATED", "DRAIN")
    sight.job(record("7", "CANCELLED", hosts=("n1",)))
    assert not sight.outlook.fits(wish())


def test_hosts_that_are_being_asked_for_are_not_promised_to_others() -> None:
    sight = Sight("n1", "n2")
    with sight.outlook.asking(wish(2)):
        assert not sight.outlook.fits(wish())
    assert sight.outlook.fits(wish())


def test_nobody_jumps_the_queue_of_his_partition() -> None:
    sight = Sight("n1")
    waiting = record("7", "PENDING")
    assert waiting.detail is not None
    sight.job(waiting)
    sight.host("s1", "IDLE", partition="spare")
    assert not sight.outlook.fits(wish(partition=None))
    assert sight.outlook.fits(wish(partition="spare"))
    sight.job(record("7", "CANCELLED"))
    assert sight.outlook.fits(wish(partition=None))


def test_a_waiting_job_that_was_forgotten_holds_nobody_up() -> None:
    sight = Sight("n1")
    sight.job(record("7", "PENDING"))
    del sight.jobs["7"]
    assert sight.outlook.fits(wish(partition=None))


@pytest.mark.parametrize(
    "option", [{"hold": True}, {"priority": number(0)}, {"dependency": "afterok:1"}, {"reservation": "r"}]
)
def test_jobs_that_are_meant_to_wait_are_not_tried(option: dict[str, Any]) -> None:
    assert not Sight("n1").outlook.fits(wish(**option))
