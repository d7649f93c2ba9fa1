# SPDX-License-Identifier: Apache-2.0
"""Shapes of pending jobs, from records as slurmrestd of Slurm 26.05 reports them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slinky.insight.job_shape import (
    MEGABYTE,
    NodeRequest,
    array_tasks,
    find_obstacle,
    is_shortened,
    job_shape,
    limited_groups,
    parse_gres_request,
)
from slinky.slurm import Job, number
from slinky.slurm.model.array_tasks import count_tasks


def job(**fields: object) -> Job:
    """A pending job; numbers are given plainly."""
    numbers = {
        key: number(value) if isinstance(value, int) and key != "job_id" else value for key, value in fields.items()
    }
    return Job(**{"job_id": 7, "partition": "burst", "job_state": ("PENDING",), "state_reason": "Resources", **numbers})  # type: ignore[arg-type]


#: Options of sbatch, the record, the number of nodes, and what each of them must have.
SHAPES = {
    "-N1": (job(node_count=1, cpus=1, tres_req_str="cpu=1,node=1"), 1, NodeRequest(1)),
    "-N2 -n4 -c2 --mem=100": (
        job(
            cpus=8,
            tasks=4,
            cpus_per_task=2,
            max_nodes=2,
            memory_per_node=100,
            minimum_cpus_per_node=2,
            tres_req_str="cpu=8,mem=200M,node=2",
        ),
        2,
        NodeRequest(4, 100 * MEGABYTE),
    ),
    "-n5 --mem-per-cpu=50": (
        job(cpus=5, tasks=5, max_nodes=5, memory_per_cpu=50, tres_req_str="cpu=5,mem=250M,node=1"),
        1,
        NodeRequest(5, 250 * MEGABYTE),
    ),
    "-n4 --ntasks-per-node=2 -c3": (
        job(cpus=12, tasks=4, cpus_per_task=3, tasks_per_node=2, minimum_cpus_per_node=6, tres_req_str="cpu=12,node=2"),
        2,
        NodeRequest(6),
    ),
    "--gres=gpu:h100:2": (
        job(cpus=1, tres_per_node="gres/gpu:h100:2", tres_req_str="cpu=1,node=1,gres/gpu=2"),
        1,
        NodeRequest(1, 0, ((("gpu", "h100"), 2),)),
    ),
    "--gpus=4": (
        job(cpus=1, tres_per_job="gres/gpu:4", tres_req_str="cpu=1,node=1,gres/gpu=4"),
        1,
        NodeRequest(1, 0, ((("gpu", ""), 4),)),
    ),
    "-n2 --gpus-per-task=1": (
        job(cpus=2, tasks=2, tres_per_task="gres/gpu=1", tres_req_str="cpu=2,node=1,gres/gpu=2"),
        1,
        NodeRequest(2, 0, ((("gpu", ""), 2),)),
    ),
    # slurmctld estimates node_count from other nodes of the cluster; the request itself is in the TRES.
    "-N1 -n1000": (
        job(node_count=63, cpus=1000, tasks=1000, max_nodes=63, tres_req_str="cpu=1000,node=1"),
        1,
        NodeRequest(1000),
    ),
}


@pytest.mark.parametrize("options", SHAPES)
def test_the_shape_follows_the_options(options: str) -> None:
    record, nodes, request = SHAPES[options]
    shape = job_shape(record)
    assert (shape.least_nodes, shape.per_node(nodes)) == (nodes, request)


def test_a_job_in_several_partitions_has_all_of_them() -> None:
    assert job_shape(job(partition="a,b")).partitions == ("a", "b")


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), ("0-9", 10), ("1,3,5-7", 5), ("0-10:2", 6), ("0-99%4", 100), ("9-0", 0), ("x", 0), ("0-99999", 100_000)],
)
def test_tasks_are_counted(text: str, count: int) -> None:
    assert count_tasks(text) == count


def test_a_throttle_limits_the_tasks() -> None:
    assert array_tasks(job(array_task_string="0-99%4", array_max_tasks=4)) == 4
    assert array_tasks(job()) == 1
    assert is_shortened(job(array_task_string="0,2,4,..."))


@given(st.text(max_size=40))
def test_any_text_of_tasks_or_devices_is_read(text: str) -> None:
    assert count_tasks(text) >= 0
    assert all(count >= 0 for count in parse_gres_request(text).values())


@pytest.mark.parametrize(
    ("record", "cured"),
    [
        (job(), True),
        (job(state_reason="Priority"), True),
        (job(state_reason="PartitionConfig"), True),
        (job(state_reason="PartitionNodeLimit"), True),
        (job(state_reason="ReqNodeNotAvail, May be reserved for other job"), True),
        (job(state_reason="None"), True),
        (job(state_reason="None", eligible_time=900, submit_time=800), True),
        (job(state_reason="None", eligible_time=5000, submit_time=800), False),
        (job(state_reason="None", hold=True), False),
        (job(state_reason="JobHeldUser", hold=True), False),
        (job(state_reason="Dependency"), False),
        # As slurmctld reports jobs between their submission and the first scheduling cycle.
        (job(state_reason="ReqNodeNotAvail", dependency="afterany:5(unfulfilled)"), False),
        (job(state_reason="ReqNodeNotAvail", eligible_time=5000, submit_time=999), False),
        (job(state_reason="ReqNodeNotAvail", eligible_time=1100, submit_time=999), True),
        # The clock of slurmctld is ahead.
        (job(state_reason="ReqNodeNotAvail", eligible_time=5000, submit_time=5000), True),
        (job(state_reason="QOSGrpNodeLimit"), False),
        (job(state_reason="AssocGrpCpuLimit"), False),
        (job(state_reason="Licenses"), False),
        (job(state_reason="Resources", resv_name="maintenance"), False),
        (job(state_reason="ReqNodeNotAvail", required_nodes="burst-3"), False),
        (job(state_reason="BeginTime", eligible_time=5000), False),
        (job(state_reason="BeginTime", eligible_time=1100), True),
        (job(state_reason="SomethingNew"), False),
    ],
)
def test_only_reasons_that_workers_cure_are_demand(record: Job, cured: bool) -> None:
    assert (not find_obstacle(record, now=1000, lead_seconds=120)) is cured


#: The reason of a job of alice, and of whom jobs without a reason count nevertheless: (user, account, QOS).
ALICE = {"user_name": "alice", "account": "physics", "qos": "normal"}
BOB, OTHER_ACCOUNT, OTHER_QOS = ALICE | {"user_name": "bob"}, ALICE | {"account": "biology"}, ALICE | {"qos": "high"}
LIMITS = {
    "QOSMaxJobsPerUserLimit": [BOB, OTHER_QOS],
    "QOSGrpNodeLimit": [OTHER_QOS],
    "AssocGrpCpuLimit": [OTHER_ACCOUNT],
    "AssocMaxJobsLimit": [BOB, OTHER_ACCOUNT],
    "MaxCpuPerAccount": [OTHER_ACCOUNT, OTHER_QOS],
    # Only this job requests too much.
    "QOSMaxCpuPerJobLimit": [ALICE, BOB, OTHER_ACCOUNT, OTHER_QOS],
    "Resources": [ALICE, BOB, OTHER_ACCOUNT, OTHER_QOS],
}


@pytest.mark.parametrize("reason", LIMITS)
def test_a_job_without_a_reason_counts_unless_others_wait_at_a_limit_that_it_shares(reason: str) -> None:
    limited = limited_groups([job(state_reason=reason, **ALICE)])
    counting = [
        owner
        for owner in (ALICE, BOB, OTHER_ACCOUNT, OTHER_QOS)
        if not find_obstacle(job(state_reason="None", **owner), now=1000, limited=limited)
    ]
    assert counting == LIMITS[reason]
    assert not find_obstacle(job(**ALICE), now=1000, limited=limited), "Slurm itself has found no limit"


#: The fields of a pending job that describe its shape, exactly as slurmrestd of Slurm 26.05 sends them.
RECORD = b"""{"job_id": 20, "partition": "dyn", "job_state": ["PENDING"], "state_reason": "PartitionConfig",
 "node_count": {"set": true, "infinite": false, "number": 4},
 "max_nodes": {"set": true, "infinite": false, "number": 4},
 "minimum_cpus_per_node": {"set": true, "infinite": false, "number": 1},
 "cpus": {"set": true, "infinite": false, "number": 4}, "tasks": {"set": true, "infinite": false, "number": 4},
 "cpus_per_task": {"set": true, "infinite": false, "number": 1},
 "memory_per_node": {"set": true, "infinite": false, "number": 0},
 "memory_per_cpu": {"set": false, "infinite": false, "number": 0}, "segment_size": 2,
 "tasks_per_node": {"set": true, "infinite": false, "number": 0}, "tres_req_str": "cpu=4,node=4,billing=4",
 "tres_per_node": "", "tres_per_job": "", "tres_per_task": "", "features": "", "array_task_string": "",
 "array_max_tasks": {"set": true, "infinite": false, "number": 0}}"""


def test_a_record_of_slurmrestd_is_decoded() -> None:
    shape = job_shape(msgspec.json.decode(RECORD, type=Job))
    assert (shape.least_nodes, shape.segment, shape.cpus) == (4, 2, 4)
