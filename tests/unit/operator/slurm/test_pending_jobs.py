# SPDX-License-Identifier: Apache-2.0
"""Which jobs the operator reads for the autoscaler, and how tasks of arrays are counted."""

from typing import Any

from slinky.api.fields.autoscaling import PendingPartition
from slinky.operator.slurm.pending_jobs import PendingJobs, PendingQueue
from slinky.slurm import Change, Job, JobRecord, ObjectKind, number
from slinky.slurm.model.states import JobState


class FakeMirror:
    """The part of the mirror that PendingJobs uses."""

    def __init__(self) -> None:
        self.jobs = FakeTable()
        self.partitions: dict[str, Any] = {}
        self.tracked: set[str] = set()
        self.all_jobs = False

    def track(self, job: str) -> None:
        self.tracked.add(job)

    def forget(self, job: str) -> None:
        self.tracked.discard(job)

    def follow_all_jobs(self, follow: bool) -> None:
        self.all_jobs = follow


class FakeTable(dict[str, JobRecord]):
    """The table of jobs, with an age."""

    fresh = True

    def is_fresh(self, within: float) -> bool:
        return self.fresh


def following() -> tuple[PendingJobs, FakeMirror]:
    mirror = FakeMirror()
    pending = PendingJobs(mirror, lambda: None)  # type: ignore[arg-type]
    pending.follow(True)
    return pending, mirror


def change(
    pending: PendingJobs, mirror: FakeMirror, key: str, state: str, running_tasks: int = 0, **detail: Any
) -> None:
    before = mirror.jobs.get(key)
    numbers = {name: number(value) if isinstance(value, int) else value for name, value in detail.items()}
    fields: dict[str, Any] = {"job_state": (state,), "state_reason": "Resources", **numbers}
    job = Job(int(key), **fields) if detail else None
    after = JobRecord(key, JobState.of((state,)), detail=job, running_tasks=running_tasks)
    mirror.jobs[key] = after
    pending.observe(Change(ObjectKind.JOB, key, before, after))


def tasks(pending: PendingJobs) -> dict[int, int]:
    snapshot = pending.snapshot(0.0)
    assert snapshot is not None
    return {job.job_id: count for job, count in snapshot.jobs}


def test_only_pending_jobs_are_read_in_full() -> None:
    pending, mirror = following()
    change(pending, mirror, "1", "PENDING")
    change(pending, mirror, "2", "RUNNING")
    assert mirror.tracked == {"1"}
    change(pending, mirror, "1", "PENDING", partition="p")
    assert tasks(pending) == {1: 1}
    change(pending, mirror, "1", "RUNNING")
    assert mirror.tracked == set()
    assert tasks(pending) == {}


def test_an_array_is_read_once_for_all_of_its_tasks() -> None:
    pending, mirror = following()
    for task in range(5):
        change(pending, mirror, f"7_{task}", "PENDING")
    change(pending, mirror, "7", "PENDING", array_task_string="0-4", array_max_tasks=0)
    assert mirror.tracked == {"7"}
    assert tasks(pending) == {7: 5}
    for task in range(5):
        assert mirror.tracked == {"7"}
        change(pending, mirror, f"7_{task}", "RUNNING")
    assert mirror.tracked == set()


def test_a_throttled_array_counts_what_may_still_start() -> None:
    pending, mirror = following()
    for task in range(1, 6):
        change(pending, mirror, f"7_{task}", "PENDING")
    change(pending, mirror, "8_0", "RUNNING")
    for running, expected in ((1, {7: 2}), (3, {})):
        change(pending, mirror, "7", "PENDING", running, array_task_string="1-5%3", array_max_tasks=3)
        assert tasks(pending) == expected


def test_a_shortened_list_of_tasks_is_counted_by_states() -> None:
    pending, mirror = following()
    for task in range(40):
        change(pending, mirror, f"7_{task}", "PENDING")
    change(pending, mirror, "7", "PENDING", array_task_string="0,2,4,...", array_max_tasks=0)
    assert tasks(pending) == {7: 40}


def test_old_data_are_unknown_and_nothing_is_read_without_autoscaling() -> None:
    pending, mirror = following()
    mirror.jobs.fresh = False
    assert pending.snapshot(0.0) is None
    mirror.jobs.fresh = True
    change(pending, mirror, "1", "PENDING")
    pending.follow(False)
    assert (mirror.tracked, mirror.all_jobs, pending.snapshot(0.0)) == (set(), False, None)


def test_the_components_of_a_heterogeneous_job_are_one_demand() -> None:
    parts = [
        Job(
            number_,
            job_state=("PENDING",),
            state_reason="Resources",
            partition="p",
            het_job_id=number(21),
            het_job_offset=number(number_ - 21),
            cpus=number(number_),
        )
        for number_ in (22, 21)
    ]
    (demand,) = PendingQueue(tuple((job, 1) for job in parts), {}, 0.0).demands()
    assert demand.job_id == 21
    assert [shape.cpus for shape in demand.shapes] == [21, 22]


def test_a_job_without_a_reason_is_no_demand_while_jobs_of_its_user_wait_at_a_limit() -> None:
    pending, mirror = following()
    change(pending, mirror, "1", "PENDING", partition="p", user_name="alice", state_reason="QOSMaxJobsPerUserLimit")
    change(pending, mirror, "2", "PENDING", partition="p", user_name="alice", state_reason="None")
    change(pending, mirror, "3", "PENDING", partition="p", user_name="bob", state_reason="None")
    queue = pending.snapshot(0.0)
    assert queue is not None
    assert {demand.job_id for demand in queue.demands() if not demand.obstacle} == {3}


def test_a_partition_has_the_jobs_that_name_it_and_the_largest_that_is_not_held() -> None:
    pending, mirror = following()
    change(pending, mirror, "1", "PENDING", partition="a,b", node_count=2)
    change(pending, mirror, "2", "PENDING", partition="b", node_count=8, hold=True)
    change(pending, mirror, "3", "PENDING", partition="b", node_count=1, array_task_string="0-9", array_max_tasks=0)
    queue = pending.snapshot(0.0)
    assert queue is not None
    assert queue.by_partition() == {"a": PendingPartition("a", 1, 2), "b": PendingPartition("b", 12, 2)}
