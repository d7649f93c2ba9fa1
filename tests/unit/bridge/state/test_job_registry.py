# SPDX-License-Identifier: Apache-2.0
"""Whose job is whose, when pods do not say it."""

from typing import Any, cast

import msgspec
import pytest
from tests.unit.bridge.build import Sight, pod, record

from slinky.bridge.state.job_registry import JobEntry, JobRegistry
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import identity
from slinky.bridge.workload.grouping import Workload
from slinky.bridge.workload.identity import BridgeIdentity, JobSignature
from slinky.slurm import JobRequest, Mirror, SlurmClient, number

GANG = Workload("ns", "PodGroup", "g")


def ledger(*made_for: WorkloadPod, state: str = "RUNNING") -> JobRegistry:
    mirror: Any = Sight(record("7", state, hosts=("n1",)))
    found = JobRegistry(cast("SlurmClient", None), cast("Mirror", mirror), BridgeIdentity("c", "b"))
    named = frozenset(str(member.key) for member in made_for)
    found.track(
        JobEntry("7", GANG, JobSignature(identity.SIGNATURE_VERSION, members=identity.members_digest(made_for)), named)
    )
    return found


A, B = pod("a"), pod("b")


def test_a_job_is_of_the_pods_that_it_was_made_for() -> None:
    assert ledger(A, B).adoptable_jobs(GANG, [A, B, pod("newcomer")]) == {"uid-a": "7", "uid-b": "7"}


def test_pods_that_say_it_themselves_count_but_are_not_told_again() -> None:
    labelled = pod("a", job="7", node="n1")
    assert ledger(A, B).adoptable_jobs(GANG, [labelled, B]) == {"uid-b": "7"}


@pytest.mark.parametrize("now", [[A], [A, pod("b", uid="another")]])
def test_a_job_that_lost_one_of_its_pods_is_nobodys(now: list[WorkloadPod]) -> None:
    assert ledger(A, B).adoptable_jobs(GANG, now) == {}


@pytest.mark.parametrize(
    ("now", "found"), [([A, B, pod("c")], [A, B]), ([A], []), ([A, pod("b", uid="another")], []), ([], [])]
)
def test_a_job_stands_for_exactly_its_pods_among_others(now: list[WorkloadPod], found: list[WorkloadPod]) -> None:
    known = ledger(A, B)
    (entry,) = known.entries_of(GANG)
    assert known.pods_submitted_with(entry, now) == found


def test_an_id_that_a_component_had_says_nothing_of_the_job_that_has_it_now() -> None:
    leader = record("7", "RUNNING", hosts=("n1",))
    assert leader.detail is not None
    detail = msgspec.structs.replace(leader.detail, het_job_id=number(7), het_job_id_set="7-8")
    mirror: Any = Sight(msgspec.structs.replace(leader, detail=detail))
    mirror.jobs["8"] = record("8", "RUNNING", hosts=("n2",))
    found = JobRegistry(cast("SlurmClient", None), cast("Mirror", mirror), BridgeIdentity("c", "b"))
    found.track(JobEntry("7", GANG, JobSignature(members="members")))
    assert len(found.track_components("7") or ()) == 2
    found.forget("8")  # as is done when Slurm gives the id away again
    assert "8" not in mirror.jobs
    mirror.jobs["8"] = record("8", "RUNNING", hosts=("n2",))
    other = Workload("ns", "Pod", "other")
    found.track(JobEntry("8", other, JobSignature(members="members")))
    assert found.resolve_workload("8") == other
    found.forget("7")
    assert "8" in mirror.jobs


def restarted(unit: Workload, *, bridge: str = "b") -> JobRegistry:
    """The ledger of a bridge that only a label led to a job, which was signed for a gang of two."""
    (signed,) = identity.sign([JobRequest()], [[A, B]], BridgeIdentity("c", bridge), str(GANG))
    known = record("7", "RUNNING", hosts=("n1",))
    assert known.detail is not None
    detail = msgspec.structs.replace(known.detail, admin_comment=signed.admin_comment)
    mirror: Any = Sight(msgspec.structs.replace(known, detail=detail))
    found = JobRegistry(cast("SlurmClient", None), cast("Mirror", mirror), BridgeIdentity("c", "b"))
    found.track_labelled("7", unit)
    return found


def test_after_a_restart_a_job_is_filed_by_what_it_says_of_itself() -> None:
    alone = Workload("ns", "Pod", "a")
    found = restarted(alone)
    assert found.resolve_workload("7") == GANG
    assert [entry.job for entry in found.entries_of(GANG)] == ["7"]
    assert found.entries_of(alone) == []
    assert found.entries_of(GANG)[0].members_digest == identity.members_digest([A, B])
    assert restarted(alone, bridge="another").resolve_workload("7") == alone


def test_after_a_restart_the_signature_tells_for_whom_a_job_was_made() -> None:
    found = restarted(GANG)
    assert found.adoptable_jobs(GANG, [pod("a", job="7", node="n1"), B]) == {"uid-b": "7"}


def test_a_job_that_is_over_is_nobodys() -> None:
    assert ledger(A, state="CANCELLED").adoptable_jobs(GANG, [A]) == {}
