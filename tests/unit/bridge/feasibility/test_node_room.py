# SPDX-License-Identifier: Apache-2.0
"""Which hosts have room beside pods of other schedulers, and which workloads hear when that changes."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.bridge.build import needing, node
from tests.unit.bridge.feasibility.test_node_usage import build_usage, foreign_pod

from slinky.bridge.feasibility import kubelet_capacity, node_room
from slinky.bridge.feasibility.node_room import NodeRoom, demands_of
from slinky.bridge.views import OUR_PODS, WorkloadPod
from slinky.bridge.workload import pod_state
from slinky.kube import NODES, Cache, Key, Node
from slinky.kube.quantity import NANO
from slinky.observe import ManualClock


class Cluster:
    """Nodes of 4 CPUs, pods of this bridge, and pods of other schedulers."""

    def __init__(self, *nodes: str) -> None:
        self.clock, self.woken = ManualClock(), list[str]()
        self.nodes: Cache[Node] = Cache(NODES)
        self.pods: Cache[WorkloadPod] = Cache(OUR_PODS, indexes={"node": lambda pod: (pod.spec.node_name,)})
        self.hosts = set(nodes)
        self.version = 0
        self.foreign, self.usage, _ = build_usage()
        for name in nodes:
            self.nodes.put(node(name, amounts={"pods": "10"}))
        cluster: Any = SimpleNamespace(
            nodes=self.nodes,
            pods=self.pods,
            is_slurm_node=lambda name: pod_state.host_of(self.nodes.get(Key("", name)) or node()) in self.hosts,
            claimants=lambda host: [item for item in self.nodes if pod_state.host_of(item) == host],
            workload_of=lambda pod: pod.metadata.name,
        )
        enqueue: Any = self.woken.append
        self.room = NodeRoom(cluster, self.usage, self.clock, enqueue)

    def add_foreign(self, name: str, on: str, **requests: str) -> None:
        self.version += 1
        self.foreign.put(foreign_pod(name, on, self.version, **requests))

    def remove_foreign(self, name: str) -> None:
        self.version += 1
        self.foreign.remove(foreign_pod(name, "", self.version).metadata)

    def put(self, pod: WorkloadPod) -> WorkloadPod:
        self.version += 1
        metadata = msgspec.structs.replace(pod.metadata, resource_version=str(self.version))
        self.pods.put(msgspec.structs.replace(pod, metadata=metadata))
        return pod

    def full(self, *pods: WorkloadPod, per_node: int = 1) -> set[str]:
        """The hosts without room for the first of these waiting pods."""
        pairs = [(pod, kubelet_capacity.requests_of(pod)) for pod in pods]
        return set(self.room.hosts_without_room(pairs, per_node)[pods[0].metadata.uid])

    async def settle(self) -> list[str]:
        """The workloads that were reconciled because of the changes so far."""
        await self.clock.advance(node_room.COLLECT_SECONDS)
        woken = sorted(self.woken)
        self.woken.clear()
        return woken


WHOLE = needing({"cpu": "4"}, "whole")
HALF = needing({"cpu": "2"}, "half")


def test_a_host_is_full_if_the_pod_does_not_fit_beside_foreign_pods() -> None:
    cluster = Cluster("n1", "n2")
    assert cluster.full(WHOLE) == set()
    cluster.add_foreign("daemon", "n1", cpu="100m")
    assert cluster.full(WHOLE) == {"n1"}
    assert cluster.full(HALF) == set()
    cluster.remove_foreign("daemon")
    assert cluster.full(WHOLE) == set()


def test_pods_of_this_bridge_do_not_count_because_slurm_accounts_for_them() -> None:
    cluster = Cluster("n1")
    cluster.put(needing({"cpu": "4"}, "running", node="n1", job="1", phase="Running"))
    assert cluster.full(WHOLE) == set()


def test_as_many_pods_as_share_a_node_must_fit() -> None:
    cluster = Cluster("n1", "n2")
    cluster.add_foreign("daemon", "n1", cpu="1")
    twins = [needing({"cpu": "2"}, name) for name in ("a", "b")]
    assert cluster.full(*twins) == set()
    assert cluster.full(*twins, per_node=2) == {"n1"}
    assert cluster.full(twins[0], per_node=2) == set()  # there is only one


def test_pods_that_slurm_cannot_tell_apart_get_the_same_hosts() -> None:
    cluster = Cluster("n1")
    cluster.add_foreign("daemon", "n1", cpu="50m")
    a, b = needing({"cpu": "3900m"}, "a"), needing({"cpu": "4"}, "b")
    assert cluster.full(a) == set()
    assert cluster.full(a, b) == cluster.full(b, a) == {"n1"}
    assert len(demands_of([(pod, kubelet_capacity.requests_of(pod)) for pod in (a, b)], 1)) == 1


def test_only_nodes_that_are_hosts_of_slurm_are_excluded() -> None:
    cluster = Cluster("n1", "n2")
    cluster.hosts = {"n2"}
    for name in ("n1", "n2"):
        cluster.add_foreign(f"daemon-{name}", name, cpu="1")
    assert cluster.full(WHOLE) == {"n2"}
    cluster.hosts = {"n1"}
    for name in ("n1", "n2"):
        cluster.room.mark_changed(name)
    assert cluster.full(WHOLE) == {"n1"}


def test_a_node_that_grows_or_goes_is_no_longer_full() -> None:
    cluster = Cluster("n1", "n2")
    for name in ("n1", "n2"):
        cluster.add_foreign(f"daemon-{name}", name, cpu="1")
    assert cluster.full(WHOLE) == {"n1", "n2"}
    larger = node("n1", amounts={"cpu": "8"})
    metadata = msgspec.structs.replace(larger.metadata, resource_version="1")
    cluster.nodes.put(msgspec.structs.replace(larger, metadata=metadata))
    cluster.nodes.remove(node("n2").metadata)
    assert cluster.full(WHOLE) == set()


async def test_only_workloads_whose_hosts_change_are_reconciled() -> None:
    cluster = Cluster("n1", "n2")
    for pod in (cluster.put(WHOLE), cluster.put(HALF)):
        cluster.full(pod)
    cluster.add_foreign("daemon", "n1", cpu="100m")
    assert await cluster.settle() == ["whole"]
    cluster.add_foreign("second", "n1", cpu="100m")
    assert await cluster.settle() == []
    cluster.remove_foreign("daemon")
    assert await cluster.settle() == []
    cluster.remove_foreign("second")
    assert await cluster.settle() == ["whole"]


async def test_changes_that_cancel_out_wake_no_workload() -> None:
    cluster = Cluster("n1")
    cluster.full(cluster.put(WHOLE))
    cluster.add_foreign("daemon", "n1", cpu="1")
    cluster.remove_foreign("daemon")
    assert await cluster.settle() == []


async def test_many_workloads_are_reconciled_at_a_limited_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_room, "WAKE_FIRST", 2)
    monkeypatch.setattr(node_room, "WAKE_RATE", 1)
    cluster = Cluster("n1")
    for name in "abcde":
        cluster.full(cluster.put(needing({"cpu": "4"}, name)))
    cluster.add_foreign("daemon", "n1", cpu="1")
    assert await cluster.settle() == ["a", "b"]
    await cluster.clock.advance(1)
    assert cluster.woken == ["c"]
    await cluster.clock.advance(2)
    assert cluster.woken == ["c", "d", "e"]


async def test_a_pod_that_no_longer_waits_is_not_reconciled() -> None:
    cluster = Cluster("n1", "n2")
    for pod in (WHOLE, needing({"cpu": "4"}, "other")):
        cluster.full(cluster.put(pod))
    cluster.put(needing({"cpu": "4"}, "whole", node="n2", job="1"))
    cluster.add_foreign("daemon", "n1", cpu="1")
    assert await cluster.settle() == ["other"]


def test_results_without_waiting_pods_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_room, "CACHED_DEMANDS_MAX", 1)
    cluster = Cluster("n1")
    for cpus in range(1, 5):
        cluster.full(cluster.put(needing({"cpu": str(cpus)}, "p")))
    assert len(cluster.room._answers) <= 3


# --- the check before pods are bound


def test_all_pods_on_a_node_count_before_a_pod_is_bound() -> None:
    cluster = Cluster("n1")
    cluster.add_foreign("daemon", "n1", cpu="500m")
    present = [needing({"cpu": "2"}, "running", node="n1", job="1", phase="Running")]
    assert cluster.room.find_shortage("n1", [HALF], []) is None
    lack = cluster.room.find_shortage("n1", [HALF], present)
    assert str(lack) == "cpu: 2 requested, 1500m of 4 free"
    assert cluster.room.find_shortage("n1", [HALF], present, foreign=False) is None
    assert cluster.room.describe("n1", lack).endswith("free; pod kube-system/daemon holds 500m")


async def test_pods_that_are_about_to_be_bound_count_until_they_are_observed() -> None:
    cluster = Cluster("n1")
    cluster.room.reserve("n1", [WHOLE])
    assert cluster.room.find_shortage("n1", [HALF], []) is not None
    assert cluster.room.find_shortage("n1", [WHOLE], []) is None  # its own reservation
    cluster.put(needing({"cpu": "4"}, "whole", node="n1", job="1"))
    assert cluster.room.find_shortage("n1", [HALF], []) is None
    cluster.room.reserve("n1", [WHOLE])
    await cluster.clock.advance(node_room.RESERVATION_SECONDS)
    assert cluster.room.find_shortage("n1", [HALF], []) is None


async def test_a_blocked_node_is_excluded_until_the_pod_fits_beside_all_pods() -> None:
    cluster = Cluster("n1", "n2")
    running = needing({"cpu": "2"}, "running", node="n1", job="1", phase="Running")
    cluster.put(running)
    cluster.add_foreign("daemon", "n1", cpu="500m")
    cluster.put(HALF)
    assert cluster.full(HALF) == set()
    cluster.room.block("n1", [HALF])
    assert cluster.full(HALF) == {"n1"}
    await cluster.clock.advance(node_room.BLOCK_SECONDS)
    assert cluster.full(HALF) == {"n1"}
    cluster.woken.clear()
    cluster.put(needing({"cpu": "2"}, "running", node="n1", job="1", phase="Succeeded"))
    assert await cluster.settle() == ["half"]
    assert cluster.full(HALF) == set()


async def test_blocks_of_a_node_get_longer_and_expire() -> None:
    cluster = Cluster("n1")
    cluster.put(WHOLE)
    for seconds in (30.0, 60.0, 120.0, 120.0):
        cluster.room.block("n1", [WHOLE], seconds=30.0)
        assert cluster.full(WHOLE) == {"n1"}
        await cluster.clock.advance(seconds - 1)
        assert cluster.full(WHOLE) == {"n1"}
        await cluster.clock.advance(2)
        assert cluster.full(WHOLE) == set()
    await cluster.clock.advance(node_room.BLOCK_EXPIRY)
    cluster.room.block("n1", [WHOLE], seconds=30.0)
    await cluster.clock.advance(31)
    assert cluster.full(WHOLE) == set()


def test_a_pod_is_told_why_a_node_is_full() -> None:
    cluster = Cluster("n1")
    cluster.add_foreign("daemon", "n1", cpu="100m")
    cluster.full(cluster.put(WHOLE))
    assert cluster.room.explain("n1", WHOLE) == (
        "node n1: cpu: 4 requested, 3900m of 4 free; pod kube-system/daemon holds 100m"
    )
    cluster.room.block("n1", [HALF])
    assert "did not admit" in cluster.room.explain("n1", HALF)


steps = st.tuples(st.sampled_from("abcd"), st.sampled_from(["n1", "n2", ""]), st.integers(0, 4))


@given(history=st.lists(steps, max_size=15))
def test_the_cached_result_equals_a_new_one_after_any_history(history: list[tuple[str, str, int]]) -> None:
    cluster = Cluster("n1", "n2")
    for name, on, cpus in history:
        cluster.remove_foreign(name)
        if on:
            cluster.add_foreign(name, on, cpu=str(cpus))
        for pod, needed in ((WHOLE, 4), (HALF, 2)):
            used = {host: cluster.usage.on(host).get("cpu", 0) // NANO for host in ("n1", "n2")}
            assert cluster.full(pod) == {host for host in used if needed > 4 - used[host]}
