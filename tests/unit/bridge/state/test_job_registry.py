# SPDX-License-Identifier: Apache-2.0
"""Which jobs belong to which pods, when pods have no job label."""

from typing import Any, cast

import msgspec
import pytest
from tests.unit.bridge.build import FakeMirror, pod, record

from slinky.bridge.state.job_registry import JobEntry, JobRegistry
from slinky.bridge.state.observed_job import JobKnowledge
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import identity
from slinky.bridge.workload.grouping import Workload
from slinky.bridge.workload.identity import BridgeIdentity, JobSignature
from slinky.slurm import JobLookup, JobRequest, Mirror, Presence, number

GANG = Workload("ns", "PodGroup", "g")


def make_registry(*made_for: WorkloadPod, state: str = "RUNNING") -> JobRegistry:
    mirror: Any = FakeMirror(record("7", state, hosts=("n1",)))
    registry = JobRegistry(cast("Mirror", mirror), BridgeIdentity("c", "b"))
    named = frozenset(str(member.key) for member in made_for)
    registry.track(
        JobEntry("7", GANG, JobSignature(identity.SIGNATURE_VERSION, members=identity.members_digest(made_for)), named)
    )
    return registry


A, B = pod("a"), pod("b")


def test_unlabelled_pods_adopt_the_job_that_was_submitted_for_them() -> None:
    assert make_registry(A, B).adoptable_jobs(GANG, [A, B, pod("newcomer")]) == {"uid-a": "7", "uid-b": "7"}


def test_labelled_pods_count_as_members_but_need_no_adoption() -> None:
    labelled = pod("a", job="7", node="n1")
    assert make_registry(A, B).adoptable_jobs(GANG, [labelled, B]) == {"uid-b": "7"}


@pytest.mark.parametrize("now", [[A], [A, pod("b", uid="another")]])
def test_a_job_that_lost_one_of_its_pods_is_not_adopted(now: list[WorkloadPod]) -> None:
    assert make_registry(A, B).adoptable_jobs(GANG, now) == {}


@pytest.mark.parametrize(
    ("now", "members"), [([A, B, pod("c")], [A, B]), ([A], []), ([A, pod("b", uid="another")], []), ([], [])]
)
def test_a_job_belongs_to_exactly_the_pods_it_was_submitted_for(
    now: list[WorkloadPod], members: list[WorkloadPod]
) -> None:
    registry = make_registry(A, B)
    (entry,) = registry.entries_of(GANG)
    assert registry.pods_submitted_with(entry, now) == members


def test_a_reused_job_id_is_not_taken_for_an_old_component() -> None:
    leader = record("7", "RUNNING", hosts=("n1",))
    assert leader.detail is not None
    detail = msgspec.structs.replace(leader.detail, het_job_id=number(7), het_job_id_set="7-8")
    mirror: Any = FakeMirror(msgspec.structs.replace(leader, detail=detail))
    mirror.jobs["8"] = record("8", "RUNNING", hosts=("n2",))
    registry = JobRegistry(cast("Mirror", mirror), BridgeIdentity("c", "b"))
    registry.track(JobEntry("7", GANG, JobSignature(members="members")))
    assert len(registry.track_components("7") or ()) == 2
    registry.forget("8")  # as is done when Slurm gives the id away again
    assert "8" not in mirror.jobs
    mirror.jobs["8"] = record("8", "RUNNING", hosts=("n2",))
    other = Workload("ns", "Pod", "other")
    registry.track(JobEntry("8", other, JobSignature(members="members")))
    assert registry.resolve_workload("8") == other
    registry.forget("7")
    assert "8" in mirror.jobs


def restarted(unit: Workload, *, bridge: str = "b", state: str = "RUNNING") -> JobRegistry:
    """The registry of a bridge that only a label led to a job, which was signed for a gang of two."""
    (signed,) = identity.sign([JobRequest()], [[A, B]], BridgeIdentity("c", bridge), str(GANG))
    known = record("7", state, hosts=("n1",))
    assert known.detail is not None
    detail = msgspec.structs.replace(known.detail, admin_comment=signed.admin_comment)
    mirror: Any = FakeMirror(msgspec.structs.replace(known, detail=detail))
    registry = JobRegistry(cast("Mirror", mirror), BridgeIdentity("c", "b"))
    registry.track_labelled("7", unit)
    return registry


def test_after_a_restart_a_job_gets_the_workload_of_its_signature() -> None:
    alone = Workload("ns", "Pod", "a")
    registry = restarted(alone)
    assert registry.resolve_workload("7") == GANG
    assert [entry.job for entry in registry.entries_of(GANG)] == ["7"]
    assert registry.entries_of(alone) == []
    assert registry.entries_of(GANG)[0].members_digest == identity.members_digest([A, B])
    assert restarted(alone, bridge="another").resolve_workload("7") == alone


def test_after_a_restart_the_signature_names_the_pods_of_a_job() -> None:
    registry = restarted(GANG)
    assert registry.adoptable_jobs(GANG, [pod("a", job="7", node="n1"), B]) == {"uid-b": "7"}


def test_a_job_that_is_over_is_not_adopted() -> None:
    assert make_registry(A, state="CANCELLED").adoptable_jobs(GANG, [A]) == {}


@pytest.mark.parametrize(("bridge", "stale"), [("b", False), ("renamed", True)])
def test_a_pending_job_with_a_former_name_of_the_bridge_is_signed_again(bridge: str, stale: bool) -> None:
    registry = restarted(GANG, bridge=bridge, state="PENDING")
    observed = registry.observe("7", [pod("a", job="7"), pod("b", job="7")], identity.spec_digest([JobRequest()]))
    assert (observed.knowledge, observed.stale) == (JobKnowledge.LIVE, stale)


def test_a_job_that_slurmctld_no_longer_knows_is_ended_by_sluid() -> None:
    """By its id, another job could be ended that has the id by now."""
    registry = make_registry(A)
    mirror: Any = registry._mirror
    departed = mirror.jobs.pop("7")
    mirror.lookup_job = lambda _: JobLookup(Presence.ABSENT, departed)
    assert registry.ids_to_end("7") == ["sluid"]


@pytest.mark.parametrize(
    ("name", "knowledge"), [("a", JobKnowledge.OVER), ("another", JobKnowledge.FOREIGN)], ids=["own", "forged"]
)
def test_a_job_that_is_purged_is_over_only_for_the_pods_that_it_named(name: str, knowledge: JobKnowledge) -> None:
    """The outcome of a pod with a forged label must not be written to the accounting record of the job."""
    registry = restarted(GANG, state="CANCELLED")
    mirror: Any = registry._mirror
    departed = mirror.jobs.pop("7")
    mirror.lookup_job = lambda _: JobLookup(Presence.ABSENT, departed)
    observed = registry.observe("7", [pod(name, job="7", node="n1")], "")
    assert (observed.knowledge, observed.outcome_settled) == (knowledge, False)


def test_pods_wait_until_the_outcome_of_their_job_is_settled() -> None:
    registry = restarted(GANG, state="CANCELLED")
    pods = [pod("a", job="7", node="n1")]
    assert not registry.observe("7", pods, "").outcome_settled
    registry.settle_outcome("7")
    assert registry.observe("7", pods, "").outcome_settled
    registry.forget("7")
    assert not registry.is_outcome_settled("7")
