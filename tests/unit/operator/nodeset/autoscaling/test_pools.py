# SPDX-License-Identifier: Apache-2.0
"""NodeSets as pools: what workers offer, in which partitions, and which of them count."""

from typing import Any

import pytest
from tests.unit.operator.samples import NOW, ago, host, node, node_set, pod, trusted_snapshot, worker_of

from slinky.api.fields.autoscaling import LearnedWorker
from slinky.insight.demand import compute_demand
from slinky.insight.job_shape import JobShape, PendingDemand
from slinky.insight.worker_pool import WorkerShape
from slinky.operator.nodeset.autoscaling import pools
from slinky.slurm import Host, Partition
from slinky.slurm.model.partitions import PartitionNodes

MB = 2**20
POLICY = {"maxReplicas": 8}


def burst(**spec: Any) -> Any:
    return node_set("burst", **{"autoscaling": POLICY, "replicas": 0, **spec})


@pytest.mark.parametrize(
    ("spec", "learned", "expected"),
    [
        ({}, LearnedWorker(), None),
        ({"extraConf": "CPUs=4 RealMemory=2000"}, LearnedWorker(), WorkerShape(4, 2000 * MB, (), frozenset({"burst"}))),
        (
            {"extraConf": "Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=1 Gres=gpu:h100:8 Features=a,b"},
            LearnedWorker(),
            WorkerShape(16, MB, ((("gpu", "h100"), 8),), frozenset({"burst", "a", "b"})),
        ),
        (
            {"slurmd": {"resources": {"limits": {"cpu": "3", "memory": "1Gi"}}}},
            LearnedWorker(),
            WorkerShape(3, 1024 * MB, (), frozenset({"burst"})),
        ),
        ({}, LearnedWorker(8, 100, "gpu:2", ("x",)), WorkerShape(8, 100 * MB, ((("gpu", ""), 2),), frozenset({"x"}))),
        ({"extraConf": "CPUs=4"}, LearnedWorker(8, 100), WorkerShape(4, 100 * MB, (), frozenset({"burst"}))),
        ({"extraConf": "CPUs=99999999999999999999"}, LearnedWorker(), None),
        ({"extraConf": "not a setting"}, LearnedWorker(), None),
        ({"slurmd": {"resources": {"limits": {"cpu": "many"}}}}, LearnedWorker(), None),
    ],
)
def test_a_set_without_workers_has_the_shape_of_its_spec_or_of_earlier_workers(
    spec: dict[str, Any], learned: LearnedWorker, expected: WorkerShape | None
) -> None:
    assert pools.worker_shape(burst(**spec), [], learned) == expected


def test_partitions_are_those_that_name_the_set_or_have_its_workers() -> None:
    partitions = {
        "own": Partition("own", node_sets="burst"),
        "everything": Partition("everything", nodes=PartitionNodes(configured="ALL")),
        "gpus": Partition("gpus", node_sets="fast,other"),
        "others": Partition("others", node_sets="cpu"),
    }
    shape = WorkerShape(1, features=frozenset({"burst", "fast"}))
    assert pools.partitions_of(burst(), [], partitions, LearnedWorker(), shape) == {"own", "everything", "gpus"}
    assert pools.partitions_of(burst(), [Host("h", partitions=("p",))], {}, LearnedWorker(partitions=("q",))) == {"p"}
    assert pools.partitions_of(burst(), [], {}, LearnedWorker(partitions=("q",))) == {"q"}
    assert pools.partitions_of(burst(partition={"enabled": True}), [], {}, LearnedWorker()) == {"burst"}


def test_workers_are_counted_by_what_slurm_knows_of_them() -> None:
    slurm = trusted_snapshot(
        host("gpu-0", "IDLE"), host("gpu-1", "MIXED"), host("gpu-2", "IDLE+PLANNED"), host("gpu-3", "IDLE+DRAIN")
    )
    workers = [worker_of(pod(f"gpu-{number}", ready=500), slurm) for number in range(4)]
    workers.append(worker_of(pod("gpu-4", ready=None, phase="Pending", node="", age=30), slurm))
    workers.append(worker_of(pod("gpu-5", ready=None, phase="Pending", node="", age=3000), slurm))
    workers.append(worker_of(pod("gpu-6", pod_condemned=f"scale-in {ago(5)}"), slurm))
    counts = pools.worker_counts(node_set(replicas=7, autoscaling=POLICY), workers, NOW)
    assert (counts.starting, counts.overdue) == (3, 1)
    assert [round(age) for age in counts.idle_seconds] == [500]


def test_workers_that_kubernetes_does_not_create_are_overdue_after_a_while() -> None:
    late = node_set(replicas=2, autoscaling=POLICY, status={"autoscaling": {"lastScaleOutTime": ago(601)}})
    soon = node_set(replicas=2, autoscaling=POLICY, status={"autoscaling": {"lastScaleOutTime": ago(599)}})
    assert [pools.worker_counts(item, [], NOW).overdue for item in (late, soon)] == [2, 0]


def test_a_set_that_waits_after_a_failure_lets_another_set_grow() -> None:
    spec: dict[str, Any] = {"extraConf": "CPUs=4 RealMemory=100", "partition": {"enabled": True}, "replicas": 0}
    failed = node_set("a", autoscaling={**POLICY, "weight": 0}, status={"autoscaling": {"retryTime": ago(-60)}}, **spec)
    other = node_set("b", autoscaling=POLICY, **spec)
    built = [pools.build_pool(item, [], {"p": Partition("p", node_sets="a,b")}, NOW) for item in (failed, other)]
    demand = compute_demand([PendingDemand(1, (JobShape(("p",)),))], built)
    assert dict(demand.new_workers) == {"b": 1}


def test_jobs_are_told_why_a_set_does_not_grow() -> None:
    record = {"reason": "CapacityMissing", "message": "2 workers did not come within 10m: quota"}
    status = {"autoscaling": {"retryTime": ago(-60), "failures": 1, "decisions": [record]}}
    spec: dict[str, Any] = {"extraConf": "CPUs=4 RealMemory=100", "partition": {"enabled": True}, "replicas": 0}
    failed = pools.build_pool(node_set("a", autoscaling=POLICY, status=status, **spec), [], {}, NOW)
    assert failed.pause == f"NodeSet a: 2 workers did not come within 10m: quota; next attempt at {ago(-60)}"
    # A gang is not impossible only because the set waits.
    demand = compute_demand([PendingDemand(1, (JobShape(("a",), min_nodes=2, max_nodes=2, cpus=8),))], [failed])
    assert demand.paused == {1: failed.pause}
    assert pools.build_pool(node_set("a", autoscaling=POLICY, **spec), [], {}, NOW).pause == ""


def test_starting_workers_are_supply_and_fixed_sets_do_not_grow() -> None:
    spec: dict[str, Any] = {"extraConf": "CPUs=4 RealMemory=100", "partition": {"enabled": True}}
    growing = pools.build_pool(node_set("a", autoscaling=POLICY, replicas=2, **spec), [], {}, NOW)
    assert (sum(growing.free.values()), growing.size, growing.growth) == (2, 2, 6)
    assert pools.build_pool(node_set("a", replicas=2, **spec), [], {}, NOW).growth == 0


def test_hosts_of_no_set_are_pools_that_never_grow() -> None:
    hosts = [Host(f"h{number}", words=("IDLE",), cpus=2, partitions=("p",)) for number in range(3)]
    removed = Host("gpu-0", words=("DOWN",), cpus=2, partitions=("p",), comment='{"podName":"gpu-0"}')
    (pool,) = pools.other_pools([*hosts, removed])
    assert (pool.size, pool.growth, sum(pool.free.values())) == (3, 0, 3)


def test_an_impossible_job_is_told_on_the_sets_of_its_partition() -> None:
    spec: dict[str, Any] = {"extraConf": "CPUs=4 RealMemory=100", "partition": {"enabled": True}, "replicas": 0}
    built = [pools.build_pool(node_set(name, autoscaling=POLICY, **spec), [], {}, NOW) for name in ("a", "b")]
    pending = [PendingDemand(7, (JobShape(("a",), cpus=9, max_nodes=1),))]
    found = pools.impossible_jobs(pending, compute_demand(pending, built), built)
    assert found == {"a": ("Job 7: it needs 9 CPUs on one node, more than the 4 of a worker of a",), "b": ()}


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param({}, {"physics": 3}, id="nothing runs"),
        pytest.param({"physics": {"gpu-0", "other-7"}, "art": {"gpu-1"}}, {"physics": 2}, id="its own workers count"),
        pytest.param({"physics": {"gpu-0", "gpu-1"}}, {"physics": 1}, id="two"),
        pytest.param(None, {"physics": 0}, id="not known: no growth"),
    ],
)
def test_an_account_has_what_its_running_jobs_leave(held: dict[str, set[str]] | None, expected: dict[str, int]) -> None:
    live = node_set(autoscaling={**POLICY, "accountLimits": [{"account": "physics", "maxWorkers": 3}]}, replicas=2)
    slurm = trusted_snapshot(host("gpu-0", "ALLOCATED"), host("gpu-1", "ALLOCATED"))
    workers = [worker_of(pod(f"gpu-{number}"), slurm) for number in range(2)]
    hosts = None if held is None else {account: frozenset(names) for account, names in held.items()}
    assert pools.build_pool(live, workers, {}, NOW, held=hosts).account_growth == expected


def test_only_nodes_that_could_get_a_worker_count() -> None:
    live = node_set(template={"spec": {"nodeSelector": {"pool": "gpu"}}})
    gpu: Any = {"labels": {"pool": "gpu"}}
    nodes = [
        node("free", **gpu),
        node("own", cordoned=True, **gpu),
        node("cordoned", cordoned=True, **gpu),
        node("taken", **gpu),
        node("other"),
    ]
    assert pools.nodes_for_workers(live, nodes, {"own"}, {"taken"}) == {"free", "own"}
