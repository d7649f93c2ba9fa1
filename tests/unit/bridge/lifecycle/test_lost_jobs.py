# SPDX-License-Identifier: Apache-2.0
"""Which pods keep running and which are evicted when Slurm has lost the jobs of running pods."""

from collections.abc import Mapping
from typing import Any, cast

import pytest
from tests.unit.bridge.build import needing, node, pod

from slinky.bridge import names
from slinky.bridge.config import BridgeSettings
from slinky.bridge.devices.inventory import GresKind
from slinky.bridge.lifecycle import lost_jobs
from slinky.bridge.lifecycle.lost_jobs import LostJobs
from slinky.bridge.status.reasons import ConditionText
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload.grouping import Workload, WorkloadRoot
from slinky.bridge.workload.job_spec import JobContext, JobSpec, build_job_spec
from slinky.kube import Key, Later
from slinky.observe import SystemClock
from slinky.slurm import Job, Problem, Rejected

GANG = Workload("ns", "PodGroup", "g")
LOST = ConditionText(False, "SlurmJobLost", "Slurm job 7 is lost.")
SHARED = {names.OPTION + "exclusive": "false"}


class FakeCluster:
    """Nodes, and a Slurm that rejects some of them; records what happens to each pod."""

    def __init__(self, *refused: str) -> None:
        self.refused = refused
        self.nodes = {Key("", name): node(name) for name in ("n1", "n2", "n3")}
        self.requests: list[tuple[str, ...]] = []
        self.kept: dict[str, str] = {}
        self.evicted: list[str] = []
        self.conditions: dict[str, str] = {}

    async def submit_replacement(self, _workload: Workload, _job_spec: JobSpec, hosts: list[str]) -> str:
        self.requests.append(tuple(hosts))
        if set(hosts) & set(self.refused):
            raise Rejected(Problem(number=2045, text="no account"))
        return str(100 + len(self.requests))

    async def job(self, job: str) -> Job:
        return Job(int(job))

    async def replace_label(self, pod: WorkloadPod, job: str, _sluid: str) -> None:
        self.kept[pod.metadata.name] = job

    async def evict(self, pod: WorkloadPod, _end: ConditionText) -> None:
        self.evicted.append(pod.metadata.name)

    async def write_conditions(self, pods: tuple[WorkloadPod, ...], text: ConditionText) -> None:
        assert text.warning
        self.conditions |= {pod.metadata.name: text.reason for pod in pods}


def gang(
    options: Mapping[str, str] | None = None, claims: Mapping[str, int] | None = None
) -> tuple[JobSpec, tuple[WorkloadPod, ...]]:
    """A leader on n1 and workers on n2 and n3; `claims` are devices by pod."""
    pods = tuple(
        needing({"cpu": cpu}, name, spec={"nodeName": f"n{number}"}, job="7")
        for number, (name, cpu) in enumerate((("leader", "4"), ("w-1", "1"), ("w-2", "1")), 1)
    )
    devices = {f"uid-{name}": {GresKind("gpu", "x"): count} for name, count in (claims or {}).items()}
    return build_job_spec(
        GANG, WorkloadRoot(options or {}), pods, JobContext(BridgeSettings(), devices_by_pod=devices)
    ), pods


async def recover(cluster: FakeCluster, job_spec: JobSpec | None, pods: tuple[WorkloadPod, ...]) -> None:
    parts = cast("Any", cluster)
    lost = LostJobs(parts, parts, parts, parts, parts, 10, SystemClock())
    await lost.recover(GANG, job_spec, pods, LOST)


async def test_every_role_of_a_mixed_gang_gets_a_job_on_its_nodes() -> None:
    cluster = FakeCluster()
    await recover(cluster, *gang())
    assert cluster.requests == [("n1",), ("n2", "n3")]
    assert cluster.kept == {"leader": "101", "w-1": "102", "w-2": "102"}
    assert cluster.evicted == []


async def test_a_rejected_role_does_not_prevent_the_jobs_of_other_roles() -> None:
    cluster = FakeCluster("n1")
    with pytest.raises(Later):
        await recover(cluster, *gang())
    assert (cluster.kept, cluster.conditions, cluster.evicted) == (
        {"w-1": "102", "w-2": "102"},
        {"leader": "LostJobNotReplaced"},
        [],
    )


@pytest.mark.parametrize(("options", "leaves"), [(SHARED, ["leader"]), ({}, [])])
async def test_only_pods_whose_devices_could_change_are_evicted(options: dict[str, str], leaves: list[str]) -> None:
    cluster = FakeCluster()
    await recover(cluster, *gang(options, {"leader": 1}))
    assert cluster.evicted == leaves
    assert cluster.kept.keys() == {"leader", "w-1", "w-2"} - set(leaves)


async def test_pods_whose_requests_are_no_longer_known_keep_running() -> None:
    cluster = FakeCluster()
    with pytest.raises(Later):
        await recover(cluster, None, gang()[1])
    assert (cluster.requests, cluster.evicted, set(cluster.conditions.values())) == ([], [], {"LostJobNotReplaced"})


@pytest.mark.parametrize(
    ("reasons", "new"),
    [
        (["Allocated"], True),
        ([""], True),
        (["LostJobNotReplaced"], False),
        (["EvictionLimited"], False),
        (["EvictionLimited", "Allocated"], True),
    ],
)
def test_submissions_pause_for_a_new_loss_and_not_for_one_that_lasts(reasons: list[str], new: bool) -> None:
    statuses = [
        [{"type": names.SCHEDULED, "status": "Unknown", "reason": reason}] if reason else [] for reason in reasons
    ]
    assert lost_jobs.is_new_loss([pod(status={"conditions": conditions}) for conditions in statuses]) is new


async def test_pods_of_removed_nodes_are_evicted() -> None:
    cluster = FakeCluster()
    del cluster.nodes[Key("", "n2")]
    await recover(cluster, *gang())
    assert cluster.evicted == ["leader", "w-1", "w-2"]
