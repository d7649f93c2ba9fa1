# SPDX-License-Identifier: Apache-2.0
"""Whether a job is where its pods are: slurmctld may forget that a job has started, and start it on other hosts."""

import pytest
from tests.unit.bridge.build import record

from slinky.bridge.state.observed_job import JobKnowledge, ObservedJob

LIVE, MOVED, OVER = JobKnowledge.LIVE, JobKnowledge.MOVED, JobKnowledge.OVER


@pytest.mark.parametrize(
    ("law", "knowledge", "state", "hosts", "pods", "expected"),
    [
        ("on the hosts of its pods", LIVE, "RUNNING", {"h1", "h2"}, {"h1"}, LIVE),
        ("on another host", LIVE, "RUNNING", {"h2"}, {"h1"}, MOVED),
        ("on one host of its pods only", LIVE, "RUNNING", {"h1"}, {"h1", "h2"}, MOVED),
        ("on hosts that are not known yet", LIVE, "RUNNING", set(), {"h1"}, LIVE),
        ("pending, and so are its pods", LIVE, "PENDING", set(), set(), LIVE),
        ("pending again, while its pods run", LIVE, "PENDING", set(), {"h1"}, MOVED),
        ("over", OVER, "CANCELLED", set(), {"h1"}, OVER),
    ],
)
def test_a_live_job_is_where_its_pods_run(
    law: str, knowledge: JobKnowledge, state: str, hosts: set[str], pods: set[str], expected: JobKnowledge
) -> None:
    job = ObservedJob(knowledge, record("7", state), hosts=frozenset(hosts)).beside(pods)
    assert job.knowledge is expected, law
    assert job.record is not None
    assert not job.record.lost, law


@pytest.mark.parametrize(
    ("ended_here", "pods", "lost"), [(True, {"h1"}, True), (True, set(), False), (False, {"h1"}, False)]
)
def test_a_job_that_this_bridge_has_ended_under_running_pods_counts_as_lost(
    ended_here: bool, pods: set[str], lost: bool
) -> None:
    job = ObservedJob(OVER, record("7", "CANCELLED"), ended_here=ended_here).beside(pods)
    assert job.record is not None
    assert job.record.lost is lost
