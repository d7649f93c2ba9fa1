# SPDX-License-Identifier: Apache-2.0
"""A what-if names what starts earlier and later after a change."""

import pytest
from tests.unit.insight.queues import cluster, job, running

from slinky.insight.forecast.what_if import QueueChange, WhatIfError, what_if
from slinky.insight.queue_snapshot import QueueSnapshot
from slinky.slurm import number
from slinky.slurm.model.qos import Qos


def queue() -> QueueSnapshot:
    """One node: a running job, then two that need the whole node."""
    return cluster(
        running(9, "n1", cpus=16),
        job(1, cpus=16),
        job(2, cpus=16),
        hosts=1,
        qos=(Qos(name="normal", priority=number(0)), Qos(name="high", priority=number(100))),
        conf={"PriorityWeightQOS": 5000},
    )


def test_more_nodes_start_jobs_earlier() -> None:
    result = what_if(queue(), QueueChange(added=(("work", 1),)))
    assert {shift.job_id: shift.seconds for shift in result.earlier} == {1: -3000, 2: -3600}
    assert result.later == ()
    assert result.notes == ("Added 1 node like n1.",)


def test_a_drained_node_starts_nothing() -> None:
    result = what_if(queue(), QueueChange(drained=("n1",)))
    assert [(shift.job_id, shift.after) for shift in result.later] == [(1, None), (2, None)]


def test_a_higher_qos_overtakes() -> None:
    result = what_if(queue(), QueueChange(job_id=2, qos="high"))
    assert [shift.job_id for shift in result.earlier] == [2]
    assert [shift.job_id for shift in result.later] == [1]


def test_a_shorter_limit_fits_before_others() -> None:
    waiting = cluster(running(9, "n1", cpus=16), job(1, nodes=2, cpus=16), job(2, minutes=600), hosts=2)
    result = what_if(waiting, QueueChange(job_id=2, seconds=1800))
    assert [(shift.job_id, shift.seconds) for shift in result.earlier] == [(2, -6600)]
    assert result.unchanged == 1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (QueueChange(drained=("n9",)), "there is no node n9"),
        (QueueChange(added=(("gpu", 1),)), "gpu is no node, feature or partition with nodes; partitions: work"),
        (QueueChange(added=(("work", 0),)), "0 is not a number of nodes"),
        (QueueChange(job_id=9, seconds=60), "job 9 is not pending"),
        (QueueChange(job_id=1, qos="hihg"), "there is no QOS hihg; known: high and normal"),
        (QueueChange(job_id=1, partition="x\x1b"), "there is no partition x\\x1b"),
    ],
)
def test_a_change_that_cannot_be_applied_says_why(change: QueueChange, text: str) -> None:
    with pytest.raises(WhatIfError) as error:
        what_if(queue(), change)
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("QOSGrpGRES", QueueChange(job_id=1, qos="high")),
        ("InvalidQOS", QueueChange(job_id=1, qos="high")),
        ("QOSMaxWallDurationPerJobLimit", QueueChange(job_id=1, seconds=600)),
        ("AssocGrpCPURunMinutesLimit", QueueChange(job_id=1, seconds=600)),
        ("PartitionTimeLimit", QueueChange(job_id=1, seconds=600)),
        ("PartitionDown", QueueChange(job_id=1, partition="work")),
    ],
)
def test_a_change_removes_the_reason_that_it_concerns(reason: str, change: QueueChange) -> None:
    snapshot = cluster(job(1, state_reason=reason), qos=(Qos(name="normal"), Qos(name="high", priority=number(10))))
    result = what_if(snapshot, change)
    assert [shift.job_id for shift in result.earlier] == [1]
    assert "limits that hold then are not simulated" in result.notes[-1]


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("AssocGrpCpuLimit", QueueChange(job_id=1, qos="high")),
        ("QOSGrpGRES", QueueChange(job_id=1, seconds=600)),
        ("PartitionTimeLimit", QueueChange(job_id=1, seconds=7200)),
        ("JobHeldUser", QueueChange(job_id=1, partition="work")),
    ],
)
def test_a_change_leaves_other_reasons(reason: str, change: QueueChange) -> None:
    held = {"hold": True} if reason == "JobHeldUser" else {}
    snapshot = cluster(job(1, state_reason=reason, **held), qos=(Qos(name="normal"), Qos(name="high")))
    assert what_if(snapshot, change).unchanged == 1
