# SPDX-License-Identifier: Apache-2.0
"""When the work on a host ends: what is asked of Slurm for it, and what is not."""

import math
from dataclasses import dataclass, field
from typing import cast

import pytest
from tests.unit.operator.samples import NOW, host, node_set, pod, trusted_snapshot, worker_of

from slinky.api.names import metadata
from slinky.operator.nodeset.decisions.host_metadata import pod_updates
from slinky.operator.nodeset.decisions.ordering import removal_order
from slinky.operator.nodeset.workers import NO_DEADLINE
from slinky.operator.slurm.job_deadlines import REREAD_PER_ROUND, ExpectedJobEnd, JobDeadlines, job_end, latest_ends
from slinky.slurm import Host, Job, JobStatus, Problem, SlurmClient, SlurmNotFound, TransportError, number


def job(key: int, nodes: str = "gpu-0", state: str = "RUNNING", limit: float | None = 60) -> Job:
    return Job(key, job_state=(state,), nodes=nodes, start_time=number(1000), time_limit=number(limit))


@pytest.mark.parametrize(
    ("result", "wanted"),
    [
        (job(1, "gpu-[0-1]"), ExpectedJobEnd(("gpu-0", "gpu-1"), 4600)),
        (job(1, limit=math.inf), ExpectedJobEnd(("gpu-0",), math.inf)),
        (job(1, limit=None), ExpectedJobEnd(("gpu-0",), math.inf)),
        (job(1, state="COMPLETED"), None),
        (job(1, ""), None),
        (job(1, "gpu-[0"), None),
    ],
    ids=["limited", "unlimited", "no limit known", "over", "nowhere", "a list that cannot be read"],
)
def test_the_end_of_one_job(result: Job, wanted: ExpectedJobEnd | None) -> None:
    assert job_end(result) == wanted


def test_the_latest_end_on_a_host_counts() -> None:
    assert latest_ends([ExpectedJobEnd(("a", "b"), 5), ExpectedJobEnd(("b",), 3), ExpectedJobEnd(("a",), 9)]) == {
        "a": 9,
        "b": 5,
    }


@dataclass
class Slurm:
    """A slurmctld with jobs, that counts what it is asked."""

    jobs: dict[str, Job] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    failing: bool = False

    async def job_states(self) -> tuple[JobStatus, ...]:
        self.asked.append("states")
        return tuple(JobStatus(key, result.job_state) for key, result in self.jobs.items())

    async def job(self, key: str) -> Job:
        self.asked.append(key)
        if self.failing:
            raise TransportError("no answer")
        if key not in self.jobs:
            raise SlurmNotFound(Problem(2017, "no such job"))
        return self.jobs[key]


class Desk:
    def __init__(self, **jobs: Job) -> None:
        self.slurm = Slurm({key.removeprefix("j"): result for key, result in jobs.items()})
        self.nodes: dict[str, Host] = {"gpu-0": host("gpu-0", "MIXED")}
        self.told = 0
        self.deadlines = JobDeadlines(cast("SlurmClient", self.slurm), self.nodes, self.tell)

    def tell(self) -> None:
        self.told += 1

    async def look(self) -> list[str]:
        self.slurm.asked.clear()
        await self.deadlines.read()
        return self.slurm.asked


async def test_an_idle_cluster_is_asked_nothing() -> None:
    desk = Desk(j1=job(1))
    desk.nodes["gpu-0"] = host("gpu-0", "IDLE")
    assert await desk.look() == []
    assert (desk.deadlines.by_host, desk.told) == ({}, 0)


async def test_each_job_is_read_when_it_begins_and_waiting_ones_never() -> None:
    desk = Desk(j1=job(1), j2=job(2, state="PENDING"))
    assert await desk.look() == ["states", "1"]
    assert desk.deadlines.by_host == {"gpu-0": 4600}
    await desk.look()
    assert desk.told == 1, "nothing new is no news"
    desk.slurm.jobs = {"2": job(2, limit=120)}
    await desk.look()
    assert (desk.deadlines.by_host, desk.told) == ({"gpu-0": 8200}, 2)


async def test_a_limit_that_is_changed_is_noticed_a_few_jobs_at_a_time() -> None:
    jobs = {f"j{n}": job(n) for n in range(100)}
    desk = Desk(**jobs)
    await desk.look()
    desk.slurm.jobs["0"] = job(0, limit=90)
    assert len(await desk.look()) == 1 + REREAD_PER_ROUND
    for _ in range(4):
        await desk.look()
    assert desk.deadlines.by_host == {"gpu-0": 6400}


async def test_a_job_that_cannot_be_read_changes_nothing() -> None:
    desk = Desk(j1=job(1))
    await desk.look()
    desk.slurm.failing = True
    await desk.look()
    assert desk.deadlines.by_host == {"gpu-0": 4600}


async def test_the_parts_of_a_heterogeneous_job_have_ids_of_their_own() -> None:
    desk = Desk(**{"j7+0": job(7)})
    assert await desk.look() == ["states", "7"]


AT = NOW.timestamp() + 60


def test_the_pod_says_when_its_work_ends_and_is_written_only_when_that_changes() -> None:
    busy = trusted_snapshot(host("gpu-0", "MIXED"))._replace(deadlines={"gpu-0": AT})

    def message(sight: object, **annotations: str) -> dict[str, str | None]:
        worker = worker_of(pod(labels={metadata.POD_PROTECT: "true"}, **annotations), sight)  # type: ignore[arg-type]
        written = {key: value for item in pod_updates(node_set(), worker) for key, value in item.annotations.items()}
        return {key: value for key, value in written.items() if key == metadata.POD_DEADLINE}

    text = "2026-11-16T12:01:00Z"
    assert message(busy) == {metadata.POD_DEADLINE: text}
    assert message(busy, pod_deadline=text) == {}
    assert message(busy._replace(deadlines={"gpu-0": math.inf})) == {metadata.POD_DEADLINE: NO_DEADLINE}
    assert message(busy._replace(deadlines={}), pod_deadline=text) == {}, "not known: what stands there stays"
    assert message(trusted_snapshot(host("gpu-0")), pod_deadline=text) == {metadata.POD_DEADLINE: None}


def test_jobs_with_an_unknown_end_are_not_assumed_to_end_soon() -> None:
    busy = trusted_snapshot(host("gpu-0", "MIXED"), host("gpu-1", "MIXED"))._replace(deadlines={"gpu-0": AT})
    assert removal_order([worker_of(pod(name), busy) for name in ("gpu-1", "gpu-0")])[0].meta.name == "gpu-0"
