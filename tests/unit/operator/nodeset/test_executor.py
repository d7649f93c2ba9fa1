# SPDX-License-Identifier: Apache-2.0
"""Laws of carrying out: what is asked of Slurm and of Kubernetes, and what is not."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.operator.made import host, node_set, one, pod

from slinky.kube.cache import Cache
from slinky.kube.errors import ApiStatus, Forbidden, NotFound
from slinky.kube.types import Key
from slinky.kube.views import PODS
from slinky.observe import ManualClock
from slinky.operator.framework.context import Context
from slinky.operator.nodeset.actions import Action, AnnotateWorker, CreateWorker, DeleteWorker, ForgetHost, UpdateHost
from slinky.operator.nodeset.executor import ExecutionReport, Executor
from slinky.operator.nodeset.objects import Slot
from slinky.operator.settings import OperatorSettings
from slinky.operator.slurm.clusters import Clusters
from slinky.slurm import Host, NodeUpdate, TransportError

DRAIN = NodeUpdate(state=["DRAIN"], reason="slurm-operator: x")


@dataclass
class Slurm:
    """A slurmctld of one host."""

    there: Host
    asked: list[str] = field(default_factory=list)
    down: bool = False

    async def node(self, name: str) -> Host:
        return self.there

    async def update_node(self, name: str, change: NodeUpdate) -> None:
        if self.down:
            raise TransportError("no answer")
        self.asked.append(f"update {name}")

    async def delete_nodes(self, *names: str) -> None:
        self.asked.append(f"delete {names[0]}")


@dataclass
class Kubernetes:
    """An API server that remembers what was deleted."""

    deleted: list[str] = field(default_factory=list)
    gone: tuple[str, ...] = ()
    stubborn: bool = False

    async def delete(self, resource: object, key: Key, *, uid: str) -> None:
        if key.name in self.gone:
            raise NotFound(ApiStatus(code=404, reason="NotFound"))
        if self.stubborn:
            raise Forbidden(ApiStatus(code=403, reason="Forbidden", message="not you"))
        self.deleted.append(key.name)

    async def patch(self, resource: object, key: Key, patch: object) -> None:
        raise NotFound(ApiStatus(code=404, reason="NotFound"))


class Desk:
    """Hands with a scripted Slurm and a scripted Kubernetes."""

    def __init__(self, there: Host | None = None, workers: int = 0) -> None:
        self.slurm = Slurm(there or host("gpu-0"))
        self.kube = Kubernetes()
        self.clock = ManualClock()
        pods: Cache[Any] = Cache(PODS, indexes={"owner": lambda found: ("uid-gpu",)})
        for n in range(workers):
            pods.put(pod(f"gpu-{n}"))
        settings = OperatorSettings(deletion_limit_minimum=2, deletion_limit_share=0.5, deletion_limit_window=60)
        world = SimpleNamespace(client=self.kube, pods=pods, clock=self.clock, settings=settings)
        self.announced: list[str] = []
        clusters = SimpleNamespace(
            client=lambda key: self.slurm,
            stir=lambda key: None,
            expect_removal=lambda key, hosts: self.announced.extend(hosts),
        )
        self.acts = Executor(cast("Context", world), cast("Clusters", clusters))
        self.told: list[str] = []

    async def do(self, *actions: Action, mode: str = "StatefulSet") -> ExecutionReport:
        return await self.acts.carry_out(
            node_set(scalingMode=mode), actions, None, lambda reason, text, **_: self.told.append(reason)
        )


async def test_a_host_is_changed_only_while_its_reason_is_the_one_that_was_seen() -> None:
    desk = Desk(host("gpu-0", "IDLE+DRAIN", "disk"))
    await desk.do(UpdateHost("gpu-0", DRAIN, "drain", seen=""))
    assert desk.slurm.asked == []
    await desk.do(UpdateHost("gpu-0", DRAIN, "drain", seen="disk"))
    assert desk.slurm.asked == ["update gpu-0"]


async def test_a_refusal_of_slurm_ends_its_own_step_only() -> None:
    desk = Desk(workers=1)
    desk.slurm.down = True
    doomed = one(pod("gpu-0"))
    report = await desk.do(UpdateHost("gpu-0", NodeUpdate(comment="x"), "comment"), DeleteWorker(doomed, "drained"))
    assert report.slurm == ["no answer"]
    assert desk.kube.deleted == ["gpu-0"]


async def test_the_brake_holds_what_nobody_planned_and_lets_go_after_a_while() -> None:
    desk = Desk(workers=4)
    unplanned = [DeleteWorker(one(pod(f"gpu-{n}")), "ended", braked=True) for n in range(4)]
    report = await desk.do(*unplanned)
    assert (len(desk.kube.deleted), report.braked) == (2, 2)
    planned = await desk.do(DeleteWorker(one(pod("gpu-3")), "drained"))
    assert planned.braked == 0
    await desk.clock.advance(61)
    assert (await desk.do(unplanned[2])).braked == 0


async def test_a_pod_that_is_gone_already_stops_nothing() -> None:
    desk = Desk(workers=2)
    desk.kube.gone = ("gpu-0",)
    first, second = one(pod("gpu-0")), one(pod("gpu-1"))
    report = await desk.do(
        AnnotateWorker(first, {"a": "b"}, {}), DeleteWorker(first, "drained"), DeleteWorker(second, "drained")
    )
    assert report.errors == []
    assert report.done == 3, "somebody was faster, and that is progress"
    assert desk.kube.deleted == ["gpu-1"]


async def test_a_host_that_is_removed_on_purpose_is_announced() -> None:
    desk = Desk()
    await desk.do(ForgetHost("gpu-0", "its node is gone"))
    assert desk.slurm.asked == ["delete gpu-0"]
    assert desk.announced == ["gpu-0"], "or its absence would be taken for a loss"


@pytest.mark.parametrize(
    ("phase", "mode", "told"),
    [
        ("Failed", "DaemonSet", ["FailedDaemonPod", "SuccessfulDelete"]),
        ("Succeeded", "DaemonSet", ["SucceededDaemonPod", "SuccessfulDelete"]),
        ("Failed", "StatefulSet", ["SuccessfulDelete"]),
        ("Running", "DaemonSet", ["SuccessfulDelete"]),
    ],
)
async def test_a_daemon_that_ended_is_told_as_one(phase: str, mode: str, told: list[str]) -> None:
    desk = Desk(workers=1)
    await desk.do(DeleteWorker(one(pod("gpu-0", phase=phase)), "ended"), mode=mode)
    assert desk.told == told


async def test_what_fails_is_told() -> None:
    desk = Desk(workers=1)
    desk.kube.stubborn = True
    report = await desk.do(DeleteWorker(one(pod("gpu-0")), "drained"))
    assert desk.told == ["FailedDelete"]
    assert len(report.errors) == 1


async def test_growth_is_told_once() -> None:
    desk = Desk()
    await desk.do(CreateWorker(Slot(0)), CreateWorker(Slot(1)))
    assert desk.told.count("ScalingUp") == 1
