# SPDX-License-Identifier: Apache-2.0
"""The hosts of running jobs are known by account, or nothing is."""

from tests.unit.operator.slurm.test_pending_jobs import FakeMirror, change

from slinky.operator.slurm.pending_jobs import PendingJobs


def following() -> tuple[PendingJobs, FakeMirror]:
    mirror = FakeMirror()
    pending = PendingJobs(mirror, lambda: None)  # type: ignore[arg-type]
    pending.follow(True, holders=True)
    return pending, mirror


def held(pending: PendingJobs) -> dict[str, set[str]] | None:
    queue = pending.snapshot(0.0)
    assert queue is not None
    return None if queue.held is None else {account: set(hosts) for account, hosts in queue.held.items()}


def test_the_hosts_of_an_account_are_those_of_its_running_jobs() -> None:
    pending, mirror = following()
    assert held(pending) == {}
    change(pending, mirror, "1", "PENDING", account="physics")
    assert held(pending) == {}
    change(pending, mirror, "1", "RUNNING")
    assert mirror.tracked == {"1"}
    assert held(pending) is None  # not read yet
    change(pending, mirror, "1", "RUNNING", account="physics", nodes="g-[0-1]")
    change(pending, mirror, "2", "RUNNING", account="art", nodes="g-1")
    assert held(pending) == {"physics": {"g-0", "g-1"}, "art": {"g-1"}}
    change(pending, mirror, "1", "COMPLETED")
    assert (held(pending), mirror.tracked) == ({"art": {"g-1"}}, {"2"})


def test_a_job_that_runs_again_later_stays_tracked_as_pending() -> None:
    pending, mirror = following()
    change(pending, mirror, "1", "RUNNING", account="art", nodes="g-1")
    change(pending, mirror, "1", "PENDING", account="art")
    assert (held(pending), mirror.tracked) == ({}, {"1"})


def test_running_jobs_are_read_only_while_that_is_needed() -> None:
    pending, mirror = following()
    change(pending, mirror, "1", "RUNNING", account="art", nodes="g-1")
    pending.follow(True)
    assert (held(pending), mirror.tracked) == (None, set())
    pending.follow(True, holders=True)
    assert (held(pending), mirror.tracked) == ({"art": {"g-1"}}, {"1"})
