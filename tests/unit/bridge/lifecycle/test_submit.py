# SPDX-License-Identifier: Apache-2.0
"""By which door a job goes to Slurm, and how a waiting one is changed."""

import asyncio
from typing import Any, cast

import pytest
from tests.unit.bridge.build import pod, record

from slinky.bridge.lifecycle.submit import Outgrown, Reshaped, Submitter
from slinky.bridge.state.job_registry import JobEntry, JobRegistry
from slinky.bridge.workload.grouping import Workload
from slinky.bridge.workload.identity import BridgeIdentity, JobSignature
from slinky.bridge.workload.job_spec import JobSpec
from slinky.observe import ManualClock
from slinky.slurm import JobRecord, JobRequest, Mirror, Rejected, SlurmClient
from slinky.slurm.errors import Problem, error_for
from slinky.slurm.model.results import SubmittedJob

ALONE = Workload("ns", "Pod", "p")


class Desk:
    """A Slurm that notes what it is asked, with a ledger of one waiting job."""

    def __init__(self, refusal: int = 0, mine: JobSignature | None = None) -> None:
        self.refusal, self.mine, self.asked = refusal, mine or JobSignature(), list[str]()
        self.changes: list[JobRequest] = []
        self.bridge, self.searched = BridgeIdentity("c", "b"), asyncio.Event()
        self.searched.set()
        self.submitter = Submitter(
            cast("SlurmClient", self),
            cast("Mirror", self),
            cast("JobRegistry", self),
            ManualClock(),
            allocate_first=True,
        )

    async def allocate(self, request: JobRequest) -> SubmittedJob:
        self.asked.append("allocate")
        if self.refusal:
            raise error_for([Problem(self.refusal, "no")])
        return SubmittedJob(7)

    async def submit(self, *requests: JobRequest) -> SubmittedJob:
        self.asked.append("submit")
        return SubmittedJob(8)

    async def update_job(self, job: int, change: JobRequest) -> None:
        self.changes.append(change)

    def track_components(self, job: str) -> list[JobRecord]:
        return [record(job, "PENDING")]

    def signature_of(self, job: str) -> JobSignature:
        return self.mine

    def entries_of(self, unit: Workload) -> list[JobEntry]:
        return []

    async def record_submitted(self, entry: JobEntry, *, exact: bool) -> None:
        self.mine = entry.signature

    def track(self, entry: JobEntry) -> None:
        self.mine = entry.signature

    def forget(self, job: str) -> None:
        """Nothing was known."""

    def listen(self, listener: Any) -> None:
        """Nothing happens."""


def wish(**fields: Any) -> JobSpec:
    return JobSpec((JobRequest(nodes="1", **fields),), ((pod(),),))


@pytest.mark.parametrize(
    ("refusal", "doors"),
    [
        (0, ["allocate"]),
        (2016, ["allocate", "submit"]),  # nodes are busy
        (2050, ["allocate", "submit"]),  # a limit is reached, for now
    ],
)
async def test_what_cannot_start_at_once_is_queued(refusal: int, doors: list[str]) -> None:
    desk = Desk(refusal)
    await desk.submitter.submit(ALONE, wish(), at_once=True)
    assert desk.asked == doors


async def test_what_waiting_does_not_mend_is_not_asked_twice() -> None:
    desk = Desk(2014)
    with pytest.raises(Rejected):
        await desk.submitter.submit(ALONE, wish(), at_once=True)
    assert desk.asked == ["allocate"]


async def test_an_update_says_that_no_host_is_left_out_any_more() -> None:
    desk = Desk()
    for hosts in (("n1",), None):
        assert await desk.submitter.revise(ALONE, "7", wish(excluded_nodes=hosts), [pod()])
    assert [change.excluded_nodes for change in desk.changes] == [("n1",), ("",)]


async def test_a_job_that_an_update_cannot_mend_is_left_alone_and_told() -> None:
    desk = Desk()
    await desk.submitter.submit(ALONE, wish(constraints="a100"), at_once=False)
    with pytest.raises(Outgrown, match="constraints"):
        await desk.submitter.revise(ALONE, "8", wish(), [pod()])
    two = JobSpec((JobRequest(), JobRequest()), ((pod("a"),), (pod("b"),)))
    with pytest.raises(Reshaped):
        await desk.submitter.revise(ALONE, "8", two, [pod("a"), pod("b")])
    assert desk.changes == []
