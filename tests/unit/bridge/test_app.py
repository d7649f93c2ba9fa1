# SPDX-License-Identifier: Apache-2.0
"""Which workloads a change in Kubernetes reconciles: those that it can help, and no others."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs
from tests.unit.bridge.build import device_class, gpus, node, pod, record
from tests.unit.kube.scripted import Scripted

from slinky.bridge import names, triggers
from slinky.bridge.app import DEVICES_DELAY_SECONDS, INTERVALS, Bridge
from slinky.bridge.config import BridgeSettings
from slinky.bridge.status.reasons import Reason
from slinky.bridge.views import JOB_SETS, JobSet, ResourceClaim, WorkloadBatchJob
from slinky.bridge.workload.grouping import GANG, Workload
from slinky.bridge.workload.identity import BridgeIdentity
from slinky.kube import Discovery, KubeClient, Runtime, ServedKind
from slinky.observe import ManualClock
from slinky.slurm import Change, FileToken, Host, ObjectKind, SlurmClient, TokenSource, number
from slinky.slurm.mirror.pending_refresh import RATE
from slinky.slurm.mirror.polling import PollState, Source, next_read_at

GPU = {"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]}


class BridgeUnderTest:
    """A bridge without servers; tests put objects into its caches."""

    def __init__(self, tokens: TokenSource | str = "token") -> None:
        self.clock = ManualClock()
        self.runtime = Runtime(KubeClient(Scripted(), clock=self.clock))
        slurm = SlurmClient("http://127.0.0.1:1", tokens)
        served = Discovery([ServedKind(JOB_SETS.group, JOB_SETS.version, JOB_SETS.kind, JOB_SETS.plural, True)])
        self.bridge = Bridge(BridgeSettings(), self.runtime, slurm, served, BridgeIdentity("uid", "bridge"))
        self.bridge.wire()
        self.cluster = self.bridge.cluster
        self.queue = self.bridge.workload_loop.queue
        self._versions = iter(range(1, 10**9))

    def put(self, cache: Any, item: Any) -> None:
        """Put a new version of an object into a cache."""
        meta = msgspec.structs.replace(item.metadata, resource_version=str(next(self._versions)))
        cache.put(msgspec.structs.replace(item, metadata=meta))

    def remove(self, cache: Any, item: Any) -> None:
        """Remove an object from a cache."""
        cache.remove(msgspec.structs.replace(item.metadata, resource_version=str(next(self._versions))))

    async def reconciled(self) -> list[str]:
        """The names of the workloads that were queued since the last call."""
        keys = []
        for _ in range(len(self.queue)):
            keys.append(await self.queue.get())
            self.queue.done(keys[-1])
        return sorted(key.name for key in keys)


@pytest.fixture
async def stage() -> AsyncIterator[BridgeUnderTest]:
    stage = BridgeUnderTest()
    stage.queue.open()
    yield stage


def batch_job(name: str = "b", *, succeeded: int = 0, parallelism: int = 2, **more: Any) -> WorkloadBatchJob:
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", **more}
    spec = {"parallelism": parallelism, "completions": 9}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"succeeded": succeeded}}, WorkloadBatchJob)


def member(name: str, owner: str = "b", **more: Any) -> Any:
    return pod(name, labels={names.JOB_NAME: owner, **more.pop("labels", {})}, **more)


async def test_the_status_of_a_batch_job_reconciles_no_pod_with_a_job_of_its_own(stage: BridgeUnderTest) -> None:
    jobs = stage.cluster.groups["Job"]
    stage.put(jobs, batch_job())
    for name in ("one", "two"):
        stage.put(stage.cluster.pods, member(name))
    await stage.reconciled()
    stage.put(jobs, batch_job(succeeded=3))
    stage.put(jobs, batch_job(succeeded=3, parallelism=5))
    assert await stage.reconciled() == []


async def test_options_of_a_batch_job_reconcile_its_pods_but_not_those_that_ended(stage: BridgeUnderTest) -> None:
    jobs = stage.cluster.groups["Job"]
    stage.put(jobs, batch_job())
    stage.put(stage.cluster.pods, member("waiting"))
    stage.put(stage.cluster.pods, member("ended", phase="Succeeded"))
    stage.put(stage.cluster.pods, member("to be released", phase="Succeeded", job="7"))
    await stage.reconciled()
    stage.put(jobs, batch_job(annotations={names.OPTION + "account": "physics"}))
    assert await stage.reconciled() == ["to be released", "waiting"]
    stage.remove(jobs, batch_job())
    assert await stage.reconciled() == ["to be released", "waiting"]


@pytest.mark.parametrize("change", [{"succeeded": 1}, {"parallelism": 3}])
async def test_the_size_of_a_gang_reconciles_the_gang(stage: BridgeUnderTest, change: Any) -> None:
    jobs, gang = stage.cluster.groups["Job"], {GANG: "true"}
    stage.put(jobs, batch_job(annotations=gang))
    for name in ("one", "two"):
        stage.put(stage.cluster.pods, member(name))
    await stage.reconciled()
    stage.put(jobs, batch_job(annotations=gang, **change))
    assert await stage.reconciled() == ["b"]
    stage.put(jobs, batch_job(annotations=gang, labels={"x": "y"}, **change))
    assert await stage.reconciled() == []


async def test_the_progress_of_a_batch_job_reconciles_the_gang_of_its_job_set(stage: BridgeUnderTest) -> None:
    meta = {"name": "set", "namespace": "ns", "uid": "uid-set", "annotations": {GANG: "true"}}
    stage.put(stage.cluster.groups["JobSet"], msgspec.convert({"metadata": meta}, JobSet))
    stage.put(stage.cluster.groups["Job"], batch_job())
    stage.put(stage.cluster.pods, member("one", labels={names.JOBSET_NAME: "set"}))
    await stage.reconciled()
    stage.put(stage.cluster.groups["Job"], batch_job(succeeded=1))
    assert await stage.reconciled() == ["set"]


def claim(name: str, *, allocated: bool = False) -> ResourceClaim:
    status: dict[str, Any] = {"allocation": {"devices": {"results": []}}} if allocated else {}
    meta = {"name": name, "namespace": "ns", "uid": name}
    return msgspec.convert({"metadata": meta, "status": status}, ResourceClaim)


async def test_a_claim_reconciles_its_own_pods_and_those_that_wait_for_its_devices(stage: BridgeUnderTest) -> None:
    pods, claims = stage.cluster.pods, stage.cluster.devices.claims
    held = [{"type": names.SCHEDULED, "status": "False", "reason": Reason.DEVICES_HELD.token}]
    uses = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]}
    stage.put(pods, pod("user", spec=uses))
    stage.put(pods, pod("unsubmitted", spec=GPU))
    stage.put(pods, pod("pending", job="7", spec=GPU))
    stage.put(pods, pod("allocated", job="8", spec=GPU, status={"conditions": held}))
    await stage.reconciled()
    for name, created in (("mine", ["user"]), ("of a stranger", [])):
        stage.put(claims, claim(name))
        assert await stage.reconciled() == created
        stage.put(claims, claim(name, allocated=True))
        assert await stage.reconciled() == []
        stage.put(claims, claim(name))
        assert await stage.reconciled() == sorted({"allocated", *created})
    stage.put(claims, claim("mine", allocated=True))
    stage.remove(claims, claim("mine", allocated=True))
    assert await stage.reconciled() == ["allocated", "user"]


async def test_new_devices_reconcile_unsubmitted_pods_once_for_all_nodes(stage: BridgeUnderTest) -> None:
    stage.put(stage.cluster.pods, pod("unsubmitted", spec=GPU))
    stage.put(stage.cluster.pods, pod("pending", job="7", spec=GPU))
    await stage.reconciled()
    stage.put(stage.cluster.devices.classes, device_class())
    for _ in range(3):
        stage.put(stage.cluster.devices.slices, gpus(2))
    assert await stage.reconciled() == []
    await stage.clock.advance(DEVICES_DELAY_SECONDS)
    assert await stage.reconciled() == ["unsubmitted"]


async def test_released_host_ports_reconcile_pods_that_wait_for_ports(stage: BridgeUnderTest) -> None:
    ports = {"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]}
    stage.put(stage.cluster.pods, pod("waiting", spec=ports))
    stage.put(stage.cluster.pods, pod("without ports"))
    stage.put(stage.cluster.pods, pod("running", node="n1", phase="Running", spec=ports))
    await stage.reconciled()
    stage.put(stage.cluster.pods, pod("running", node="n1", phase="Succeeded", spec=ports))
    assert await stage.reconciled() == ["running", "waiting"]


async def test_a_host_that_did_not_suit_reconciles_its_workload_when_it_changes(stage: BridgeUnderTest) -> None:
    ports = {"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]}
    cluster = stage.cluster
    stage.put(cluster.nodes, node("n1"))
    stage.put(cluster.pods, pod("holder", node="n1", phase="Running", spec=ports))
    waiting = Workload("ns", "Pod", "waiting")
    old, new = (Host("n1", gres=f"gpu:{count}") for count in (1, 2))
    tainted = node("n1", taints=[{"key": "broken", "effect": "NoSchedule"}])
    changes: dict[str, Callable[[], None]] = {
        "node": lambda: stage.put(cluster.nodes, tainted),
        "devices": lambda: stage.put(cluster.devices.slices, gpus(2)),
        "ports": lambda: stage.put(cluster.pods, pod("holder", node="n1", phase="Succeeded", spec=ports)),
        "GRES": lambda: stage.bridge._handle_slurm_change(Change(ObjectKind.NODE, "n1", old, new)),
    }
    for what, change in changes.items():
        stage.bridge.attempts.avoid(waiting, "n1", "it does not suit")
        stage.put(cluster.nodes, node("n2"))
        await stage.reconciled()
        change()
        assert "waiting" in await stage.reconciled(), what
        assert stage.bridge.attempts.avoided_hosts(waiting) == (), what


async def test_a_replica_that_waits_for_the_lease_collects_nothing() -> None:
    stage = BridgeUnderTest()
    for count in range(100):
        here = pod(f"p{count}", spec=GPU)
        stage.put(stage.cluster.pods, here)
        stage.put(stage.cluster.devices.claims, claim(f"c{count}"))
        stage.put(stage.cluster.nodes, node(f"n{count}"))
        stage.remove(stage.cluster.pods, here)
    assert (len(stage.queue), len(stage.bridge.node_loop.queue), len(stage.cluster.pods)) == (0, 0, 0)


async def test_a_replica_that_waits_for_the_lease_sends_nothing_to_slurm() -> None:
    bridge, runtime = (stage := BridgeUnderTest()).bridge, stage.runtime
    senders = {bridge.mirror.run, bridge.releaser.run}
    assert senders <= {*runtime._leader_services}
    assert senders.isdisjoint(runtime._services)


async def test_a_replica_that_waits_for_the_lease_is_ready_with_a_token_and_without_slurm(tmp_path: Path) -> None:
    token = tmp_path / "token"
    stage = BridgeUnderTest(FileToken(token))
    for cache in stage.runtime._caches.values():
        cache.finish_list("1")
    assert "has no token" in stage.runtime.health.readiness()["slurm"]
    token.write_text("some token")
    assert stage.runtime.health.readiness() == {}


async def test_a_namespace_with_many_pods_does_not_delay_the_others(stage: BridgeUnderTest) -> None:
    for index in range(1000):
        stage.put(stage.cluster.pods, pod(f"p-{index}", namespace="large"))
    stage.put(stage.cluster.pods, pod("p", namespace="small"))
    keys = [await stage.queue.get() for _ in range(2)]
    assert {key.namespace for key in keys} == {"large", "small"}


def test_the_bridge_locks_slurmctld_less_than_thirty_times_a_minute_at_rest() -> None:
    """`diag` takes no lock. The number depends neither on hosts nor on pending jobs."""
    rest = dict.fromkeys(set(Source) - {Source.STATISTICS}, 0.0)
    for source in rest:
        for list_seconds in (0.01, 0.5):
            state = PollState(at=0.0, full_cost=list_seconds)
            pause = next_read_at(source, state, jobs_change=False, intervals=INTERVALS)
            rest[source] = max(rest[source], 60 / pause)
    assert sum(rest.values()) + 60 * RATE < 30


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"state_reason": "JobHeldUser"}, True),
        ({"start_time": number(1_000_800)}, True),
        ({"dependency": "afterok:7"}, True),
        ({"start_time": number(1_000_030), "end_time": number(5)}, False),
        ({"priority": number(77)}, False),
        ({"submit_time": number(100), "start_time": number(1_000_000 - 200)}, False),
        ({"submit_time": number(100), "start_time": number(1_000_000 + 86_400)}, True),
    ],
)
def test_a_pending_job_is_reconciled_only_if_its_pods_would_show_the_change(fields: Any, expected: bool) -> None:
    before = record("7", "PENDING", reason="Priority")
    assert before.detail is not None
    times = {"submit_time": fields.get("submit_time", number(999_000)), "start_time": number(1_000_000)}
    before = structs.replace(before, detail=structs.replace(before.detail, **times))
    assert before.detail is not None
    after = structs.replace(before, detail=structs.replace(before.detail, **fields))
    assert triggers.is_job_changed(before, after) is expected
    assert triggers.is_job_changed(None, after)
