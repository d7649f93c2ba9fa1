# SPDX-License-Identifier: Apache-2.0
"""Laws of the executor: which requests reach Slurm and Kubernetes, and which do not."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.operator.samples import controller, host, node_set, node_set_snapshot, pod, worker_of

from slinky.api.names import metadata
from slinky.api.names.events import EVENTS
from slinky.kube.cache import Cache
from slinky.kube.errors import ApiStatus, Forbidden, NotFound
from slinky.kube.types import Key
from slinky.kube.views import PODS, Pod
from slinky.observe import ManualClock
from slinky.operator.build.pod_parts import Images
from slinky.operator.framework.context import Context
from slinky.operator.nodeset.actions import (
    Action,
    AnnotateWorker,
    CreateWorker,
    DeleteWorker,
    ExecutionReport,
    ForgetHost,
    UpdateHost,
)
from slinky.operator.nodeset.causes import RemovalCause
from slinky.operator.nodeset.executor import Executor
from slinky.operator.nodeset.objects import Slot, WorkerContext, WorkerHashes
from slinky.operator.nodeset.status import health
from slinky.operator.nodeset.workers import KeptDrain
from slinky.operator.settings import OperatorSettings
from slinky.operator.slurm.clusters import Clusters
from slinky.slurm import Host, NodeUpdate, TransportError

DRAIN = NodeUpdate(state=["DRAIN"], reason="slurm-operator: x")


@dataclass
class Slurm:
    """A slurmctld of one host."""

    host: Host
    requests: list[str] = field(default_factory=list)
    down: bool = False
    journal: list[str] = field(default_factory=list)

    async def node(self, name: str) -> Host:
        return self.host

    async def update_node(self, name: str, change: NodeUpdate) -> None:
        if self.down:
            raise TransportError("no answer")
        self.requests.append(f"update {name}")

    async def delete_nodes(self, *names: str) -> None:
        self.requests.append(f"delete {names[0]}")
        self.journal.append("delete host")


@dataclass
class Kubernetes:
    """An API server that remembers what was created and deleted."""

    deleted: list[str] = field(default_factory=list)
    created: list[str] = field(default_factory=list)
    gone: tuple[str, ...] = ()
    stubborn: bool = False
    journal: list[str] = field(default_factory=list)

    async def create(self, resource: object, manifest: Any) -> Pod:
        if self.stubborn:
            raise Forbidden(ApiStatus(code=403, reason="Forbidden", message="exceeded quota"))
        self.created.append(manifest["metadata"]["name"])
        self.journal.append("create pod")
        return pod(manifest["metadata"]["name"])

    async def delete(self, resource: object, key: Key, *, uid: str) -> None:
        if key.name in self.gone:
            raise NotFound(ApiStatus(code=404, reason="NotFound"))
        if self.stubborn:
            raise Forbidden(ApiStatus(code=403, reason="Forbidden", message="not you"))
        self.deleted.append(key.name)

    async def patch(self, resource: object, key: Key, patch: object) -> None:
        raise NotFound(ApiStatus(code=404, reason="NotFound"))


class Setup:
    """An executor with a scripted Slurm and a scripted Kubernetes."""

    def __init__(self, live: Host | None = None, workers: int = 0) -> None:
        self.journal: list[str] = []
        self.slurm = Slurm(live or host("gpu-0"), journal=self.journal)
        self.kube = Kubernetes(journal=self.journal)
        self.clock = ManualClock()
        pods: Cache[Any] = Cache(PODS, indexes={"owner": lambda _: ("uid-gpu",)})
        for n in range(workers):
            pods.put(pod(f"gpu-{n}"))
        settings = OperatorSettings(deletion_limit_minimum=2, deletion_limit_share=0.5, deletion_limit_window=60)
        context = SimpleNamespace(client=self.kube, pods=pods, clock=self.clock, settings=settings)
        self.announced: list[str] = []
        clusters = SimpleNamespace(
            client=lambda key: self.slurm,
            request_refresh=lambda key: None,
            expect_removal=lambda key, hosts: self.announced.extend(hosts),
        )
        self.executor = Executor(cast("Context", context), cast("Clusters", clusters))
        self.events: list[str] = []

    async def create(self, action: CreateWorker) -> ExecutionReport:
        context = WorkerContext(controller(), WorkerHashes(), Images("{daemon}"))
        return await self.executor.execute(node_set(), [action], context, lambda reason, text, **_: None)

    async def do(self, *actions: Action, mode: str = "StatefulSet") -> ExecutionReport:
        return await self.executor.execute(
            node_set(scalingMode=mode), actions, None, lambda reason, text, **_: self.events.append(reason)
        )


async def test_a_host_is_changed_only_while_its_reason_is_the_one_that_was_seen() -> None:
    setup = Setup(host("gpu-0", "IDLE+DRAIN", "disk"))
    await setup.do(UpdateHost("gpu-0", DRAIN, "drain", expected_reason=""))
    assert setup.slurm.requests == []
    await setup.do(UpdateHost("gpu-0", DRAIN, "drain", expected_reason="disk"))
    assert setup.slurm.requests == ["update gpu-0"]


async def test_a_refusal_of_slurm_ends_its_own_step_only() -> None:
    setup = Setup(workers=1)
    setup.slurm.down = True
    worker = worker_of(pod("gpu-0"))
    report = await setup.do(UpdateHost("gpu-0", NodeUpdate(comment="x"), "comment"), DeleteWorker(worker, "drained"))
    assert report.refusals == ["no answer"]
    assert setup.kube.deleted == ["gpu-0"]


async def test_the_deletion_limit_delays_unplanned_deletions() -> None:
    setup = Setup(workers=4)
    unplanned = [DeleteWorker(worker_of(pod(f"gpu-{n}")), "ended", limited=True) for n in range(4)]
    report = await setup.do(*unplanned)
    assert (len(setup.kube.deleted), report.limited) == (2, 2)
    planned = await setup.do(DeleteWorker(worker_of(pod("gpu-3")), "drained"))
    assert planned.limited == 0
    await setup.clock.advance(61)
    assert (await setup.do(unplanned[2])).limited == 0


async def test_the_condition_names_the_deletion_limit() -> None:
    setup = Setup(workers=4)
    report = await setup.do(*(DeleteWorker(worker_of(pod(f"gpu-{n}")), "ended", limited=True) for n in range(4)))
    degraded = health(node_set_snapshot(node_set(), []), report).degraded
    assert degraded.reason == "DeletionsLimited"
    assert (
        "2 deletions of workers wait: at most 2 unplanned deletions are allowed within 60 seconds" in degraded.message
    )


@pytest.mark.parametrize("cause", RemovalCause)
def test_every_cause_of_a_removal_has_an_event_and_a_description(cause: RemovalCause) -> None:
    assert cause.event in {row.reason for row in EVENTS}
    assert RemovalCause.parse(cause.value) is cause
    assert f"{cause}" == cause.value
    (row,) = (row for row in metadata.ANNOTATIONS if row.key == metadata.POD_CORDON_OWNER)
    assert cause.value in row.meaning


async def test_a_pod_that_is_gone_already_stops_nothing() -> None:
    setup = Setup(workers=2)
    setup.kube.gone = ("gpu-0",)
    first, second = worker_of(pod("gpu-0")), worker_of(pod("gpu-1"))
    report = await setup.do(
        AnnotateWorker(first, {"a": "b"}, {}), DeleteWorker(first, "drained"), DeleteWorker(second, "drained")
    )
    assert report.errors == []
    assert report.done == 3, "another writer was faster, which is progress too"
    assert setup.kube.deleted == ["gpu-1"]


async def test_a_host_that_is_removed_on_purpose_is_announced() -> None:
    setup = Setup()
    await setup.do(ForgetHost("gpu-0", "its node is gone"))
    assert setup.slurm.requests == ["delete gpu-0"]
    assert setup.announced == ["gpu-0"], "or its absence would be taken for a loss"


@pytest.mark.parametrize(
    ("phase", "mode", "events"),
    [
        ("Failed", "DaemonSet", ["FailedDaemonPod", "SuccessfulDelete"]),
        ("Succeeded", "DaemonSet", ["SucceededDaemonPod", "SuccessfulDelete"]),
        ("Failed", "StatefulSet", ["SuccessfulDelete"]),
        ("Running", "DaemonSet", ["SuccessfulDelete"]),
    ],
)
async def test_a_finished_daemon_pod_gets_an_event(phase: str, mode: str, events: list[str]) -> None:
    setup = Setup(workers=1)
    await setup.do(DeleteWorker(worker_of(pod("gpu-0", phase=phase)), "ended"), mode=mode)
    assert setup.events == events


async def test_a_failure_gets_an_event() -> None:
    setup = Setup(workers=1)
    setup.kube.stubborn = True
    report = await setup.do(DeleteWorker(worker_of(pod("gpu-0")), "drained"))
    assert setup.events == ["FailedDelete"]
    assert len(report.errors) == 1


@pytest.mark.parametrize(
    ("law", "planned", "live", "requests", "created"),
    [
        ("no drain", None, host("gpu-0"), ["delete gpu-0"], 1),
        ("the drain of the plan", KeptDrain("disk"), host("gpu-0", "IDLE+DRAIN", "disk"), ["delete gpu-0"], 1),
        ("a drain that the plan did not know", None, host("gpu-0", "IDLE+DRAIN", "disk"), [], 0),
        ("a drain that has just ended", KeptDrain("disk"), host("gpu-0"), [], 0),
    ],
)
async def test_a_stale_host_is_deleted_only_with_the_drain_that_was_seen(
    law: str, planned: KeptDrain | None, live: Host, requests: list[str], created: int
) -> None:
    setup = Setup(live)
    await setup.create(CreateWorker(Slot(0), "gpu-0", None, planned))
    assert (setup.slurm.requests, len(setup.kube.created)) == (requests, created), law


async def test_the_drain_of_a_host_is_not_lost_with_a_pod_that_kubernetes_refuses() -> None:
    setup = Setup(host("gpu-0", "IDLE+DRAIN", "disk"))
    setup.kube.stubborn = True
    await setup.create(CreateWorker(Slot(0), "gpu-0", None, KeptDrain("disk")))
    assert setup.slurm.requests == []


@pytest.mark.parametrize(
    ("drain", "live", "order"),
    [
        # The operator may be killed in between: the drain is then on the host, on the pod, or on both.
        (KeptDrain("disk"), host("gpu-0", "IDLE+DRAIN", "disk"), ["create pod", "delete host"]),
        (None, host("gpu-0"), ["delete host", "create pod"]),
    ],
)
async def test_a_host_is_deleted_only_once_the_pod_has_its_drain(
    drain: KeptDrain | None, live: Host, order: list[str]
) -> None:
    setup = Setup(live)
    await setup.create(CreateWorker(Slot(0), "gpu-0", None, drain))
    assert setup.journal == order


async def test_a_scale_out_gets_one_event() -> None:
    setup = Setup()
    await setup.do(CreateWorker(Slot(0)), CreateWorker(Slot(1)))
    assert setup.events.count("ScalingUp") == 1
