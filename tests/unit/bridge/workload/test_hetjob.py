# SPDX-License-Identifier: Apache-2.0
"""Gangs of different pods: roles, components, and the merged record of a heterogeneous job."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.bridge.build import needing, pod

from slinky.bridge import names
from slinky.bridge.config import BridgeSettings
from slinky.bridge.lifecycle.decide import assignment
from slinky.bridge.lifecycle.decide.assignment import UnsuitableNodes
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import hetjob, identity
from slinky.bridge.workload.annotations import OptionError
from slinky.bridge.workload.grouping import Workload, WorkloadRoot
from slinky.bridge.workload.identity import BridgeIdentity
from slinky.bridge.workload.job_spec import ROLES_MAX, JobContext, JobSpec, build_job_spec
from slinky.slurm import Job, JobRecord, JobState, NodeResources, number

GROUP = Workload("ns", "PodGroup", "g")
BRIDGE = BridgeIdentity("cluster", "bridge")


def wish(
    *pods: WorkloadPod, options: dict[str, str] | None = None, excluded: dict[str, frozenset[str]] | None = None
) -> JobSpec:
    root = WorkloadRoot({names.OPTION + name: value for name, value in (options or {}).items()})
    return build_job_spec(GROUP, root, pods, JobContext(BridgeSettings()), excluded=excluded)


def workers(count: int, **more: Any) -> list[WorkloadPod]:
    return [needing({"cpu": "1"}, f"w-{i}", **more) for i in range(1, count + 1)]


def names_of(result: JobSpec) -> list[list[str]]:
    return [[pod.metadata.name for pod in role] for role in result.roles]


def test_pods_with_equal_requirements_are_one_component() -> None:
    result = wish(*workers(3))
    assert len(result.requests) == 1
    assert (result.request.nodes, result.request.cpus_per_task) == ("3", 1)


def test_roles_of_different_size_are_components_in_the_order_of_their_ranks() -> None:
    leader = needing({"cpu": "4", "memory": "2Gi"}, "w-0")
    result = wish(*reversed(workers(3)), leader)
    assert [(request.nodes, request.cpus_per_task) for request in result.requests] == [("1", 4), ("3", 1)]
    assert result.request.memory_per_node == number(2048)
    assert names_of(result) == [["w-0"], ["w-1", "w-2", "w-3"]]


def test_each_role_can_be_requested_on_its_own() -> None:
    result = wish(needing({"cpu": "4"}, "w-0"), *workers(2))
    alone = result.split_by_role()
    assert [names_of(part) for part in alone] == [[["w-0"]], [["w-1", "w-2"]]]
    assert tuple(part.request for part in alone) == result.requests


def test_pods_that_can_use_different_nodes_are_components_with_their_own_exclusions() -> None:
    one, two = workers(2)
    result = wish(one, two, excluded={one.metadata.uid: frozenset({"a"}), two.metadata.uid: frozenset({"b"})})
    assert [request.excluded_nodes for request in result.requests] == [("a",), ("b",)]


def test_an_option_that_applies_to_all_pods_makes_no_roles() -> None:
    result = wish(needing({"cpu": "4"}, "w-0"), *workers(2), options={"cpu-per-task": "2"})
    assert [(request.nodes, request.cpus_per_task) for request in result.requests] == [("3", 2)]


def test_a_licence_is_taken_once_and_other_options_hold_for_every_component() -> None:
    options = {"licenses": "lic:1", "qos": "high", "timelimit": "5", "hold": "true"}
    result = wish(needing({"cpu": "4"}, "w-0"), *workers(2), options=options)
    assert [request.licenses for request in result.requests] == ["lic:1", None]
    assert {(request.qos, request.time_limit, request.hold) for request in result.requests} == {
        ("high", number(5), True)
    }


def test_bounds_on_nodes_count_all_components() -> None:
    wish(needing({"cpu": "4"}, "w-0"), *workers(2), options={"min-nodes": "3", "max-nodes": "3"})
    with pytest.raises(OptionError, match="3 nodes"):
        wish(needing({"cpu": "4"}, "w-0"), *workers(2), options={"max-nodes": "2"})


def test_pods_of_one_role_share_nodes_and_roles_do_not() -> None:
    result = wish(needing({"cpu": "4"}, "w-0"), *workers(4), options={"pods-per-node": "2"})
    assert [(request.nodes, request.tasks) for request in result.requests] == [("1", 1), ("2", 4)]


def test_more_roles_than_slurm_supports_are_rejected() -> None:
    pods = [needing({"cpu": str(i)}, f"w-{i}") for i in range(1, ROLES_MAX + 2)]
    with pytest.raises(OptionError, match="different requirements"):
        wish(*pods)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=30))
def test_every_pod_is_in_one_role_and_every_role_has_nodes_for_its_pods(sizes: list[int]) -> None:
    pods = [needing({"cpu": str(size)}, f"w-{i}") for i, size in enumerate(sizes)]
    result = wish(*pods)
    assert sorted(name for role in names_of(result) for name in role) == sorted(pod.metadata.name for pod in pods)
    assert len(result.requests) == len(set(sizes))
    for request, role in zip(result.requests, result.roles, strict=True):
        assert int(request.nodes or 0) == len(role)


# --- what the job says of itself


def test_the_signature_lists_the_pods_of_each_component() -> None:
    result = wish(needing({"cpu": "4"}, "w-0"), *workers(2))
    signed = identity.sign(result.requests, result.roles, BRIDGE, str(GROUP))
    comments = [identity.parse_comment(request.admin_comment or "") for request in signed]
    assert comments[0] is not None and comments[1] is not None
    assert identity.pods_by_component(comments[0]) == [["ns/w-0"], ["ns/w-1", "ns/w-2"]]
    assert comments[1].pods == ["ns/w-1", "ns/w-2"]
    assert identity.is_ours(comments[1], BRIDGE)


def test_pods_go_to_the_component_that_names_them() -> None:
    leader, *rest = pods = [needing({"cpu": "4"}, "w-0"), *workers(2)]
    signed = identity.sign(wish(*pods).requests, wish(*pods).roles, BRIDGE, str(GROUP))
    record = JobRecord("7", JobState.of(["RUNNING"]), detail=Job(7, admin_comment=signed[0].admin_comment or ""))
    assert assignment.pods_by_component(pods, record, 2) == [[leader], rest]
    assert assignment.pods_by_component(pods, record, 1) == [pods]
    with pytest.raises(UnsuitableNodes, match="does not list"):
        assignment.pods_by_component([pod("stranger")], record, 2)


# --- components as one


def part(number_: int, *message: str, hosts: tuple[str, ...] = (), reason: str = "None", **more: Any) -> JobRecord:
    detail = Job(number_, job_state=message, state_reason=reason, het_job_id=number(7), het_job_id_set="7-8")
    granted = tuple(NodeResources(host) for host in hosts) if hosts else None
    return JobRecord(str(number_), JobState.of(message), f"s{number_}", detail, granted, **more)


def test_only_the_first_component_lists_the_others() -> None:
    assert hetjob.component_ids(part(7, "PENDING").detail) == ["8"]
    assert hetjob.component_ids(part(8, "PENDING").detail) == []
    assert hetjob.component_ids(Job(3)) == []
    assert hetjob.component_ids(Job(5, het_job_id=number(5), het_job_id_set="5,8-10")) == ["8", "9", "10"]


def test_a_job_has_its_nodes_when_every_component_has() -> None:
    both = hetjob.merge_components([part(7, "RUNNING", hosts=("a",)), part(8, "RUNNING", hosts=("b", "c"))])
    assert [granted.node for granted in both.resources or ()] == ["a", "b", "c"]
    assert both.job_id == "7"
    assert hetjob.merge_components([part(7, "RUNNING", hosts=("a",)), part(8, "RUNNING")]).resources is None
    assert hetjob.merge_components([part(7, "RUNNING", hosts=("a",)), part(8, "PENDING")]).state.pending


@pytest.mark.parametrize("over", [7, 8])
def test_a_job_is_over_as_soon_as_one_component_is(over: int) -> None:
    parts = [part(i, "CANCELLED" if i == over else "RUNNING", hosts=("a",)) for i in (7, 8)]
    assert hetjob.merge_components(parts).over
    assert hetjob.merge_components(parts).state.base == "CANCELLED"


def test_a_pending_job_has_the_reason_of_the_first_component_with_one() -> None:
    joined = hetjob.merge_components([part(7, "PENDING"), part(8, "PENDING", reason="PartitionConfig")])
    assert joined.detail is not None
    assert joined.detail.state_reason == "PartitionConfig"
