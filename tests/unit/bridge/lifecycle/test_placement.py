# SPDX-License-Identifier: Apache-2.0
"""The check of nodes before the first pod of a job is bound."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.bridge.build import needing, record
from tests.unit.bridge.feasibility.test_node_room import Cluster

from slinky.bridge.lifecycle.placement import Placement
from slinky.bridge.status.reasons import ConditionText
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import pod_state
from slinky.bridge.workload.grouping import Workload
from slinky.bridge.workload.job_spec import JobSpec
from slinky.kube import Later
from slinky.slurm import JobRequest

WORKLOAD = Workload("ns", "PodGroup", "g")


class Stage:
    """A job that has the nodes n1 and n2, with the real room of nodes; records what is written."""

    def __init__(self, *, live_jobs: tuple[str, ...] = ()) -> None:
        self.cluster = Cluster("n1", "n2")
        self.bound: dict[str, str] = {}
        self.reasons: dict[str, ConditionText] = {}
        self.ended: list[str] = []
        self.hosts: tuple[str, ...] = ("n1", "n2")
        cluster: Any = SimpleNamespace(nodes=self.cluster.nodes, pods=self.cluster.pods, other_pods_on=self._others)
        registry: Any = SimpleNamespace(
            observe=lambda *_: SimpleNamespace(record=record("7", "RUNNING", hosts=self.hosts)),
            track_components=lambda _: None,
            is_live=lambda job: job in live_jobs,
        )
        exclusions: Any = SimpleNamespace(
            node_of_host=lambda host: next(node for node in self.cluster.nodes if node.metadata.name == host),
            check_and_reserve=self._nothing,
            is_drained=lambda _: False,
        )
        writer: Any = SimpleNamespace(
            bind=self._bind,
            write_conditions=self._write_conditions,
            write_condition=lambda pod, text: self._write_conditions([pod], text),
            label=self._nothing,
            remove_label=self._nothing,
        )
        claims: Any = SimpleNamespace(release=self._nothing, needs_claims=lambda _: False)
        releaser: Any = SimpleNamespace(end_job=self._end_job)
        unused: Any = None
        self.placement = Placement(cluster, registry, exclusions, self.cluster.room, releaser, writer, claims, unused)

    def _others(self, node: str, job: str) -> list[WorkloadPod]:
        pods = self.cluster.pods.by("node", node)
        return [pod for pod in pods if not pod_state.is_gone(pod) and pod_state.job_id(pod) != job]

    async def _nothing(self, *_: Any) -> str:
        return ""

    async def _bind(self, pod: WorkloadPod, node: str, *_: Any) -> None:
        self.bound[pod.metadata.name] = node

    async def _write_conditions(self, pods: Any, text: ConditionText) -> None:
        self.reasons |= {pod.metadata.name: text for pod in pods}

    async def _end_job(self, job: str) -> None:
        self.ended.append(job)

    async def place(self, *pods: WorkloadPod, exclusive: bool = False) -> None:
        request = JobRequest(shared=("none",) if exclusive else None)
        await self.placement.place(WORKLOAD, "7", pods, JobSpec((request,), (pods,)))


def gang(cpu: str = "4") -> list[WorkloadPod]:
    return [needing({"cpu": cpu}, name, job="7") for name in ("a", "b")]


@pytest.mark.parametrize("exclusive", [True, False])
async def test_a_gang_is_bound_if_every_node_has_room(exclusive: bool) -> None:
    stage = Stage()
    stage.cluster.add_foreign("daemon", "n2", cpu="100m")
    await stage.place(*gang("3900m"), exclusive=exclusive)
    assert stage.bound == {"a": "n1", "b": "n2"}


@pytest.mark.parametrize("exclusive", [True, False])
async def test_the_job_of_a_gang_is_given_back_if_a_foreign_pod_occupies_one_node(exclusive: bool) -> None:
    stage, pods = Stage(), gang()
    for pod in pods:
        stage.cluster.put(pod)
    stage.cluster.add_foreign("daemon", "n2", cpu="100m")
    with pytest.raises(Later):
        await stage.place(*pods, exclusive=exclusive)
    assert (stage.bound, stage.ended) == ({}, ["7"])
    assert {text.reason for text in stage.reasons.values()} == {"InsufficientNodeResources"}
    assert "node n2: cpu: 4 requested, 3900m of 4 free; pod kube-system/daemon holds 100m" in stage.reasons["a"].message
    stage.cluster.remove_foreign("daemon")
    assert stage.cluster.full(*pods) == {"n2"}  # not tried again at once
    await stage.cluster.clock.advance(10)
    assert stage.cluster.full(*pods) == set()


@pytest.mark.parametrize("live", [True, False])
async def test_pods_that_leave_are_waited_for_and_pods_that_stay_beside_foreign_ones_are_not(live: bool) -> None:
    stage = Stage(live_jobs=("1",) if live else ())
    stage.cluster.put(needing({"cpu": "2"}, "other", node="n1", job="1", phase="Running"))
    stage.cluster.add_foreign("daemon", "n1", cpu="100m")
    with pytest.raises(Later):
        await stage.place(*gang("2"))
    assert stage.bound == {}
    assert stage.ended == (["7"] if live else [])
    assert stage.reasons["a"].reason == ("InsufficientNodeResources" if live else "NodeClearing")


async def test_without_foreign_pods_a_full_node_is_waited_for() -> None:
    stage = Stage(live_jobs=("1",))
    stage.cluster.put(needing({"cpu": "3"}, "other", node="n1", job="1", phase="Running"))
    with pytest.raises(Later):
        await stage.place(*gang("2"))
    assert (stage.bound, stage.ended, stage.reasons["a"].reason) == ({}, [], "NodeClearing")


async def test_two_jobs_that_are_placed_at_the_same_time_do_not_take_the_same_room() -> None:
    stage = Stage()
    stage.hosts = ("n1",)
    stage.cluster.add_foreign("daemon", "n1", cpu="1")
    await stage.place(needing({"cpu": "2"}, "first", job="7"))
    with pytest.raises(Later):
        await stage.place(needing({"cpu": "2"}, "second", job="7"))
    assert stage.bound == {"first": "n1"}


async def test_a_rejected_pod_names_its_job_and_its_node_is_not_used_at_once() -> None:
    stage = Stage()
    message = "Node didn't have enough resource: cpu, requested: 4000, used: 100, capacity: 4000"
    status = {"reason": "OutOfcpu", "message": message}
    rejected = needing({"cpu": "4"}, "a", job="7", node="n1", phase="Failed", status=status)
    await stage.placement.report_rejection("7", rejected)
    text = stage.reasons["a"]
    assert text.reason == "KubeletRejected"
    assert all(part in text.message for part in ("node n1", "Slurm job 7", "OutOfcpu", "used: 100"))
    assert stage.cluster.full(needing({"cpu": "4"}, "b")) == {"n1"}
