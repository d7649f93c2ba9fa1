# SPDX-License-Identifier: Apache-2.0
"""Which hosts are excluded, and when pending jobs are notified of a usable host."""

from collections.abc import Mapping
from typing import Any, cast

import pytest
from tests.unit.bridge.build import needing, node, pod

from slinky.bridge.config import BridgeSettings
from slinky.bridge.devices.classes import Catalog
from slinky.bridge.feasibility import constraints, exclusions
from slinky.bridge.feasibility.exclusions import Exclusions
from slinky.bridge.feasibility.node_room import NodeRoom
from slinky.bridge.feasibility.node_usage import FOREIGN_PODS
from slinky.bridge.feasibility.volume_state import VolumeState
from slinky.bridge.state.cluster import ClusterState
from slinky.bridge.state.port_reservations import HostPortReservations
from slinky.bridge.views import OUR_PODS, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES, WorkloadPod
from slinky.bridge.workload.job_spec import JobSpec
from slinky.kube import Cache, KubeClient, Node
from slinky.observe import ManualClock
from slinky.slurm import Change, Host, JobRequest, Mirror, ObjectKind

GREEN: Mapping[str, Any] = {"labels": {"colour": "green"}}


class Hosts(dict[str, Host]):
    """What a mirror knows of hosts."""

    unconfirmed_loss = None


class FakeRoom:
    """Nodes of which some are full."""

    def __init__(self) -> None:
        self.full: frozenset[str] = frozenset()
        self.changed: list[str] = []

    def mark_changed(self, node: str) -> None:
        self.changed.append(node)

    def hosts_without_room(self, pods: Any, _: int) -> dict[str, frozenset[str]]:
        return {member.metadata.uid: self.full for member, _ in pods}

    def explain(self, node: str, pod: WorkloadPod) -> str:
        return f"node {node}: full for {pod.metadata.name}"


class FakeCluster:
    """Nodes and hosts, for a stock and a mirror at once."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        self.client, self.settings = None, BridgeSettings()
        self.pods: list[WorkloadPod] = []
        self.nodes, self.mirror = FakeSource(), FakeSource()
        self.mirror.nodes = Hosts()
        self.notifications = 0
        self.room = FakeRoom()
        self.exclusions = Exclusions(
            cast("ClusterState", self),
            cast("Mirror", self.mirror),
            VolumeState(cast("KubeClient", None), Cache(VOLUME_CLAIMS), Cache(VOLUMES), Cache(STORAGE_CLASSES)),
            HostPortReservations(Cache(OUR_PODS), Cache(FOREIGN_PODS), ManualClock()),
            cast("NodeRoom", self.room),
            "",
            self._notify,
        )

    def _notify(self) -> None:
        self.notifications += 1

    def node_of_host(self, name: str) -> Node | None:
        return self.nodes.known.get(name)

    def is_slurm_node(self, name: str) -> bool:
        return name in self.mirror.nodes

    def node(self, name: str, **more: Any) -> None:
        before, after = self.nodes.known.get(name), node(name, **more)
        self.nodes.known[name] = after
        self.nodes.notify(before, after)

    def host(self, name: str, *partitions: str) -> None:
        before, after = self.mirror.nodes.get(name), Host(name, partitions=partitions, cpus=4, real_memory=8192)
        self.mirror.nodes[name] = after
        self.mirror.notify(Change(ObjectKind.NODE, name, before, after))

    async def excluded(self, candidate: WorkloadPod, partition: str = "ext") -> set[str]:
        return set(self.exclusions.excluded_hosts([candidate], partition)[candidate.metadata.uid])


class FakeSource:
    """Something to listen to."""

    nodes: Hosts

    def __init__(self) -> None:
        self.known: dict[str, Node] = {}

    def listen(self, listener: Any) -> None:
        self.notify = listener


def fake_cluster(**colours: str) -> FakeCluster:
    found = FakeCluster()
    for name, colour in colours.items():
        found.host(name, "ext")
        found.node(name, labels={"colour": colour})
    return found


SELECTIVE = pod(spec={"nodeSelector": {"colour": "green"}})


async def test_hosts_that_do_not_match_or_have_no_node_are_excluded() -> None:
    found = fake_cluster(a="green", b="blue")
    found.host("stranger", "ext")
    found.host("elsewhere", "other")
    assert await found.excluded(SELECTIVE) == {"b", "stranger"}
    assert await found.excluded(pod()) == {"stranger"}


async def test_every_partition_of_a_list_counts() -> None:
    found = fake_cluster(a="blue")
    found.host("b", "other")
    found.node("b", labels={"colour": "blue"})
    found.host("c", "third")
    assert await found.excluded(SELECTIVE, "ext,other") == {"a", "b"}
    assert await found.excluded(SELECTIVE, "") == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("before", "after", "opens"),
    [
        ({"labels": {"colour": "blue"}}, GREEN, True),
        (GREEN, {"labels": {"colour": "blue"}}, False),
        ({**GREEN, "taints": [{"key": "x", "effect": "NoSchedule"}]}, GREEN, True),
        ({**GREEN, "amounts": {"cpu": "1"}}, GREEN, True),
        (GREEN, {**GREEN, "annotations": {"any": "thing"}}, False),
    ],
)
async def test_pending_jobs_are_notified_when_a_node_becomes_usable(before: Any, after: Any, opens: bool) -> None:
    wants = needing({"cpu": "2"}, spec={"nodeSelector": {"colour": "green"}})
    found = fake_cluster(a="green")
    found.host("b", "ext")
    found.node("b", **before)
    assert ("b" in await found.excluded(wants)) is (before != GREEN)
    found.node("b", **after)
    assert found.notifications == int(opens)
    assert ("b" in await found.excluded(wants)) is (after["labels"] != GREEN["labels"])


async def test_a_host_that_gets_a_node_becomes_usable_and_a_new_host_causes_no_notification() -> None:
    found = fake_cluster(a="green")
    found.host("b", "ext")
    assert await found.excluded(SELECTIVE) == {"b"}
    found.node("b", **GREEN)
    assert (await found.excluded(SELECTIVE), found.notifications) == (set(), 1)
    found.node("c", labels={"colour": "blue"})
    found.host("c", "ext")
    assert (await found.excluded(SELECTIVE), found.notifications) == ({"c"}, 1)


async def test_the_number_of_cached_results_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusions, "CACHED_ANSWERS_MAX", 2)
    found = fake_cluster(a="blue")
    for candidate in (SELECTIVE, pod(), SELECTIVE, needing({"cpu": "9"})):
        await found.excluded(candidate)
    kept = [requirements.amounts for requirements, _ in found.exclusions._answers]
    assert len(kept) == 2
    assert kept[1] != kept[0], "the result that was used longest ago is dropped"


async def test_a_change_of_hosts_is_notified_if_results_were_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusions, "CACHED_ANSWERS_MAX", 1)
    found = fake_cluster(a="blue")
    for candidate in (SELECTIVE, pod()):
        await found.excluded(candidate)
    found.node("a", **GREEN)
    assert (await found.excluded(SELECTIVE), found.notifications) == (set(), 1)
    found.node("a", **GREEN, unschedulable=True)
    assert found.notifications == 1


async def test_new_device_classes_clear_the_cache() -> None:
    found, wants = fake_cluster(a="green"), needing({"example.com/gpu": "1"})
    assert await found.excluded(wants) == {"a"}
    found.catalog = Catalog({"example.com/gpu": "gpu.example.com"})
    assert await found.excluded(wants) == set()


# --- room beside pods of other schedulers


def job_spec(*pods: WorkloadPod, excluded: set[str], nodes: int = 1) -> JobSpec:
    request = JobRequest(partition="ext", nodes=str(nodes), excluded_nodes=tuple(sorted(excluded)) or None)
    return JobSpec((request,), (pods,))


async def test_full_hosts_of_the_partition_are_excluded() -> None:
    found = fake_cluster(a="green", b="green")
    found.host("c", "other")
    found.node("c")
    found.room.full = frozenset({"a", "c", "unknown to Slurm"})
    assert await found.excluded(SELECTIVE) == {"a"}


async def test_a_host_that_appears_is_checked_for_room() -> None:
    found = fake_cluster(a="green")
    found.room.changed.clear()
    found.host("a", "ext", "other")
    assert found.room.changed == ["a"]


@pytest.mark.parametrize(
    ("full", "nodes", "message"),
    [
        (set(), 1, ""),
        ({"a"}, 1, ""),  # b is left
        ({"a", "b"}, 1, "0 of the 1 nodes"),
        ({"a"}, 2, "1 of the 2 nodes"),
        ({"a"}, 3, ""),  # too few nodes anyway: Slurm's response names what is too much
    ],
)
async def test_a_job_is_held_back_only_if_full_hosts_are_the_reason(full: set[str], nodes: int, message: str) -> None:
    found = fake_cluster(a="green", b="green", c="blue")
    found.room.full = frozenset(full)
    spec = job_spec(SELECTIVE, excluded=await found.excluded(SELECTIVE), nodes=nodes)
    text = found.exclusions.room_shortage(spec)
    assert (text is not None) == bool(message)
    if text is not None:
        assert message in text.message
        assert "node a: full for p" in text.message


async def test_a_job_that_can_never_run_is_known_from_the_hosts_of_its_partition() -> None:
    found = fake_cluster(a="green", b="blue")
    large = JobSpec((JobRequest(partition="ext", cpus_per_task=10_000),), ((pod(),),))
    shortage = found.exclusions.find_host_shortage(large)
    assert shortage is not None
    assert shortage.problem.startswith("10000 CPUs per node are requested; the largest node of partition ext has")
    assert found.exclusions.find_host_shortage(job_spec(pod(), excluded=set())) is None
    selective = job_spec(SELECTIVE, excluded=await found.excluded(SELECTIVE), nodes=2)
    shortage = found.exclusions.find_host_shortage(selective)
    assert shortage is not None
    assert (shortage.free, shortage.needed) == (1, 2)
    assert "1 of the 2 hosts" in shortage.problem


@pytest.mark.parametrize("request_", [JobRequest(partition="nowhere"), JobRequest(partition="ext", nodes="3")])
async def test_a_partition_with_too_few_hosts_is_left_to_slurm(request_: JobRequest) -> None:
    job = JobSpec((request_,), ((pod(),),))
    assert fake_cluster(a="green", b="blue").exclusions.find_host_shortage(job) is None


def test_the_requirements_of_neighbours_of_one_template_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compute, computed = constraints.node_requirements_of, []

    def count(candidate: WorkloadPod, volumes: Any) -> Any:
        computed.append(candidate.metadata.name)
        return compute(candidate, volumes)

    monkeypatch.setattr(constraints, "node_requirements_of", count)
    small = [needing({"cpu": "1"}, name=f"small-{number}") for number in range(50)]
    large = [needing({"cpu": "2"}, name=f"large-{number}") for number in range(50)]
    found = fake_cluster().exclusions.requirements_of([*small, *large])
    assert computed == ["small-0", "large-0"]
    assert [(member.metadata.name, required) for member, required in found] == [
        (member.metadata.name, compute(member)) for member in (*small, *large)
    ]
