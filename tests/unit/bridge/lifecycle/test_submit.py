# SPDX-License-Identifier: Apache-2.0
"""Which request submits a job, and how a pending job is updated."""

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import pytest
from tests.unit.bridge.build import pod, record

from slinky.bridge.lifecycle.submit import GangReshaped, JobOutgrown, Submitter
from slinky.bridge.state.job_discovery import JobDiscovery
from slinky.bridge.state.job_registry import JobEntry, JobRegistry
from slinky.bridge.workload import identity
from slinky.bridge.workload.grouping import Workload
from slinky.bridge.workload.identity import BridgeIdentity, JobSignature
from slinky.bridge.workload.job_spec import JobSpec
from slinky.observe import ManualClock
from slinky.slurm import Change, Host, Job, JobRecord, JobRequest, Mirror, ObjectKind, Rejected, SlurmClient
from slinky.slurm.errors import Problem, error_for
from slinky.slurm.model.results import SubmittedJob

SINGLE = Workload("ns", "Pod", "p")


class FakeSlurm:
    """Records the requests to Slurm; also stands for the registry with one pending job, and for its discovery."""

    def __init__(self, error: int = 0, signature: JobSignature | None = None) -> None:
        self.error, self.signature, self.requests = error, signature or JobSignature(), list[str]()
        self.changes: list[JobRequest] = []
        self.entries: dict[str, JobEntry] = {}
        self.searches = 0
        self.clock, self.nodes = ManualClock(), {"n1": Host("n1", words=("IDLE",))}
        self.hangs, self.received = False, asyncio.Event()  # requests are received and never answered
        self.bridge, self.searched = BridgeIdentity("c", "b"), asyncio.Event()
        self.searched.set()
        self.submitter = Submitter(
            cast("SlurmClient", self),
            cast("Mirror", self),
            cast("JobRegistry", self),
            cast("JobDiscovery", self),
            self.clock,
            allocate_first=True,
        )

    async def allocate(self, request: JobRequest) -> SubmittedJob:
        self.requests.append("allocate")
        await self._hang()
        if self.error:
            raise error_for([Problem(self.error, "no")])
        return SubmittedJob(7)

    async def submit(self, *requests: JobRequest) -> SubmittedJob:
        self.requests.append("submit at once" if requests[0].immediate else "submit")
        await self._hang()
        return SubmittedJob(8)

    async def job(self, job: str) -> Job:
        return Job(int(job))

    async def update_job(self, job: int, change: JobRequest) -> None:
        self.changes.append(change)
        await self._hang()

    async def _hang(self) -> None:
        if self.hangs:
            self.received.set()
            await asyncio.Event().wait()

    def is_searched_for(self, pods: Any) -> bool:
        return self.searched.is_set()

    async def search(self, since: float) -> None:
        self.searches += 1

    def track_components(self, job: str) -> list[JobRecord]:
        return [record(job, "PENDING")]

    def signature_of(self, job: str) -> JobSignature:
        return self.signature

    def entries_of(self, workload: Workload) -> list[JobEntry]:
        return list(self.entries.values())

    def is_live(self, job: str) -> bool:
        return True

    async def record_submitted(self, entry: JobEntry, *, exact: bool) -> None:
        self.track(entry)

    def track(self, entry: JobEntry) -> None:
        self.signature, self.entries[entry.job] = entry.signature, entry

    def forget(self, job: str) -> None:
        """Nothing is registered."""

    def listen(self, listener: Any) -> None:
        self.notify = listener


def job_spec(**fields: Any) -> JobSpec:
    return JobSpec((JobRequest(nodes="1", **fields),), ((pod(),),))


@pytest.mark.parametrize(
    ("error", "requests"),
    [
        (0, ["allocate"]),
        (2016, ["allocate", "submit"]),  # nodes are busy
        (2050, ["allocate", "submit"]),  # a limit is reached, for now
    ],
)
async def test_a_job_that_cannot_start_at_once_is_queued(error: int, requests: list[str]) -> None:
    slurm = FakeSlurm(error)
    await slurm.submitter.submit(SINGLE, job_spec(), allocate=True)
    assert slurm.requests == requests


@pytest.mark.parametrize("owner", [{"user_id": "alice"}, {"group_id": "staff"}, {}])
async def test_a_job_of_another_user_is_never_allocated(owner: dict[str, str]) -> None:
    """Slurmrestd would start it as the user of the bridge's token. A replacement starts at once or is rejected."""
    slurm = FakeSlurm()
    await slurm.submitter.submit_replacement(SINGLE, job_spec(**owner), ["n1"])
    assert slurm.requests == (["submit at once"] if owner else ["allocate"])
    assert not owner or not slurm.submitter.would_start(job_spec(**owner))


async def test_a_submission_that_can_never_succeed_is_not_repeated() -> None:
    slurm = FakeSlurm(2014)
    with pytest.raises(Rejected):
        await slurm.submitter.submit(SINGLE, job_spec(), allocate=True)
    assert slurm.requests == ["allocate"]


async def test_an_update_clears_the_excluded_hosts() -> None:
    slurm = FakeSlurm()
    for hosts in (("n1",), None):
        assert await slurm.submitter.revise(SINGLE, "7", job_spec(excluded_nodes=hosts), [pod()])
    assert [change.excluded_nodes for change in slurm.changes] == [("n1",), ("",)]


async def test_a_job_that_cannot_be_updated_is_not_changed() -> None:
    slurm = FakeSlurm()
    await slurm.submitter.submit(SINGLE, job_spec(constraints="a100"), allocate=False)
    with pytest.raises(JobOutgrown, match="constraints"):
        await slurm.submitter.revise(SINGLE, "8", job_spec(), [pod()])
    two = JobSpec((JobRequest(), JobRequest()), ((pod("a"),), (pod("b"),)))
    with pytest.raises(GangReshaped):
        await slurm.submitter.revise(SINGLE, "8", two, [pod("a"), pod("b")])
    assert slurm.changes == []


async def cancel_when_sent(slurm: FakeSlurm, work: Coroutine[Any, Any, object]) -> None:
    """Cancel `work` while its request is in flight, as the deadline of a reconcile does."""
    slurm.hangs = True
    task = asyncio.create_task(work)
    await slurm.received.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    slurm.hangs = False


@pytest.mark.parametrize("allocate", [True, False])
async def test_slurm_is_searched_after_a_submission_that_was_cancelled(allocate: bool) -> None:
    slurm = FakeSlurm()
    await cancel_when_sent(slurm, slurm.submitter.submit(SINGLE, job_spec(), allocate=allocate))
    await slurm.submitter.submit(SINGLE, job_spec(), allocate=allocate)
    assert slurm.searches == 1
    slurm.entries.clear()
    await slurm.submitter.submit(SINGLE, job_spec(), allocate=allocate)
    assert slurm.searches == 1  # the last submission was answered


async def test_slurm_is_searched_after_a_replacement_that_was_cancelled() -> None:
    slurm = FakeSlurm()
    await cancel_when_sent(slurm, slurm.submitter.submit_replacement(SINGLE, job_spec(), ["n1"]))
    await slurm.submitter.submit_replacement(SINGLE, job_spec(), ["n1"])
    assert slurm.searches == 1


async def test_a_definite_answer_needs_no_search() -> None:
    slurm = FakeSlurm(2014)
    for _ in range(2):
        with pytest.raises(Rejected):
            await slurm.submitter.submit(SINGLE, job_spec(), allocate=True)
    assert slurm.searches == 0


async def test_a_job_counts_as_outdated_after_an_update_that_was_cancelled() -> None:
    slurm = FakeSlurm()
    await slurm.submitter.submit(SINGLE, job_spec(), allocate=False)
    submitted = slurm.signature
    await cancel_when_sent(slurm, slurm.submitter.revise(SINGLE, "8", job_spec(tasks=2), [pod()]))
    assert slurm.signature.spec not in {submitted.spec, identity.spec_digest(job_spec(tasks=2).requests)}
    assert "tasks" in slurm.signature.set_fields
    assert await slurm.submitter.revise(SINGLE, "8", job_spec(tasks=2), [pod()])
    assert slurm.signature.spec == identity.spec_digest(job_spec(tasks=2).requests)


async def test_no_immediate_allocation_is_tried_for_a_while_after_one_was_rejected() -> None:
    """Each rejected one leaves a FAILED record in Slurm."""
    slurm = FakeSlurm(2016)
    slurm.submitter._forecast.would_start = lambda _: True  # type: ignore[assignment, method-assign]
    delays = []
    for _ in range(3):
        assert slurm.submitter.would_start(job_spec())
        await slurm.submitter.submit(SINGLE, job_spec(), allocate=True)
        slurm.entries.clear()
        before = slurm.clock.monotonic()
        while not slurm.submitter.would_start(job_spec()):
            await slurm.clock.advance(10)
        delays.append(slurm.clock.monotonic() - before)
        assert slurm.submitter.would_start(job_spec(partition="other"))
    assert delays == [10, 20, 40]
    slurm.error = 0
    await slurm.submitter.submit(SINGLE, job_spec(), allocate=True)
    assert slurm.submitter.would_start(job_spec())


async def test_two_jobs_do_not_try_an_immediate_allocation_of_the_same_host() -> None:
    slurm = FakeSlurm()
    slurm.notify(Change(ObjectKind.NODE, "n1", None, slurm.nodes["n1"]))
    with slurm.submitter.reserve_start(job_spec()) as first, slurm.submitter.reserve_start(job_spec()) as second:
        assert (first, second) == (True, False)
    with slurm.submitter.reserve_start(job_spec()) as third:
        assert third


async def test_a_job_is_queued_if_another_allocation_was_rejected_while_it_was_prepared() -> None:
    slurm = FakeSlurm(2016)
    for _ in range(2):
        await slurm.submitter.submit(SINGLE, job_spec(), allocate=True)
        slurm.entries.clear()
    assert slurm.requests == ["allocate", "submit", "submit"]
