# SPDX-License-Identifier: Apache-2.0
"""Who stays and who leaves when Slurm has lost the jobs of running pods."""

from collections.abc import Mapping
from typing import Any, cast

import pytest
from tests.unit.bridge.build import needing, node, pod

from slinky.bridge import names
from slinky.bridge.config import BridgeSettings
from slinky.bridge.devices.inventory import GresKind
from slinky.bridge.lifecycle import lost_jobs
from slinky.bridge.lifecycle.lost_jobs import LostJobs
from slinky.bridge.state.views import WorkloadPod
from slinky.bridge.status.conditions import ConditionText
from slinky.bridge.workload.grouping import Workload, WorkloadRoot
from slinky.bridge.workload.job_spec import JobContext, JobSpec, build_job_spec
from slinky.kube import Key, Later
from slinky.observe import SystemClock
from slinky.slurm import Job, Problem, Rejected

UNIT = Workload("ns", "PodGroup", "g")
LOST = ConditionText(False, "SlurmJobLost", "Slurm job 7 is lost.")
SHARED = {names.OPTION + "exclusive": "false"}


class Site:
    """Nodes, and a Slurm that refuses some of them; notes what becomes of whom."""

    def __init__(self, *refused: str) -> None:
        self.refused = refused
        self.nodes = {Key("", name): node(name) for name in ("n1", "n2", "n3")}
        self.asked: list[tuple[str, ...]] = []
        self.kept: dict[str, str] = {}
        self.gone: list[str] = []
        self.told: dict[str, str] = {}

    async def reclaim(self, _unit: Workload, _wish: JobSpec, hosts: list[str]) -> str:
        self.asked.append(tuple(hosts))
        if set(hosts) & set(self.refused):
            raise Rejected(Problem(number=2045, text="no account"))
        return str(100 + len(self.asked))

    async def job(self, job: str) -> Job:
        return Job(int(job))

    async def relabel(self, pod: WorkloadPod, job: str, _sluid: str) -> None:
        self.kept[pod.metadata.name] = job

    async def evict(self, pod: WorkloadPod, _said: ConditionText) -> None:
        self.gone.append(pod.metadata.name)

    async def tell(self, pods: tuple[WorkloadPod, ...], said: ConditionText, *, warning: bool) -> None:
        assert warning
        self.told |= {pod.metadata.name: said.reason for pod in pods}


def gang(
    options: Mapping[str, str] | None = None, claims: Mapping[str, int] | None = None
) -> tuple[JobSpec, tuple[WorkloadPod, ...]]:
    """A leader on n1 and workers on n2 and n3; some of them hold devices by claims."""
    pods = tuple(
        needing({"cpu": cpu}, name, spec={"nodeName": f"n{number}"}, job="7")
        for number, (name, cpu) in enumerate((("leader", "4"), ("w-1", "1"), ("w-2", "1")), 1)
    )
    held = {f"uid-{name}": {GresKind("gpu", "x"): count} for name, count in (claims or {}).items()}
    return build_job_spec(
        UNIT, WorkloadRoot(options or {}), pods, JobContext(BridgeSettings(), devices_by_pod=held)
    ), pods


async def rescued(site: Site, wish: JobSpec | None, pods: tuple[WorkloadPod, ...]) -> None:
    parts = cast("Any", site)
    rescuer = LostJobs(parts, parts, parts, parts, parts, 10, SystemClock())
    await rescuer.reclaim(UNIT, wish, pods, LOST)


async def test_every_role_of_a_mixed_gang_gets_a_job_on_its_nodes() -> None:
    site = Site()
    await rescued(site, *gang())
    assert site.asked == [("n1",), ("n2", "n3")]
    assert site.kept == {"leader": "101", "w-1": "102", "w-2": "102"}
    assert site.gone == []


async def test_a_role_that_is_refused_does_not_keep_the_others_from_their_job() -> None:
    site = Site("n1")
    with pytest.raises(Later):
        await rescued(site, *gang())
    assert (site.kept, site.told, site.gone) == (
        {"w-1": "102", "w-2": "102"},
        {"leader": "LostJobNotReplaced"},
        [],
    )


@pytest.mark.parametrize(("options", "leaves"), [(SHARED, ["leader"]), ({}, [])])
async def test_only_those_leave_to_whom_slurm_could_give_other_devices(
    options: dict[str, str], leaves: list[str]
) -> None:
    site = Site()
    await rescued(site, *gang(options, {"leader": 1}))
    assert site.gone == leaves
    assert site.kept.keys() == {"leader", "w-1", "w-2"} - set(leaves)


async def test_pods_whose_wishes_are_not_known_any_more_stay() -> None:
    site = Site()
    with pytest.raises(Later):
        await rescued(site, None, gang()[1])
    assert (site.asked, site.gone, set(site.told.values())) == ([], [], {"LostJobNotReplaced"})


@pytest.mark.parametrize(
    ("said", "new"),
    [
        (["Allocated"], True),
        ([""], True),
        (["LostJobNotReplaced"], False),
        (["EvictionBraked"], False),
        (["EvictionBraked", "Allocated"], True),
    ],
)
def test_submissions_pause_for_a_new_loss_and_not_for_one_that_lasts(said: list[str], new: bool) -> None:
    told = [[{"type": names.SCHEDULED, "status": "Unknown", "reason": reason}] if reason else [] for reason in said]
    assert lost_jobs.news([pod(status={"conditions": conditions}) for conditions in told]) is new


async def test_pods_of_nodes_that_are_gone_leave() -> None:
    site = Site()
    del site.nodes[Key("", "n2")]
    await rescued(site, *gang())
    assert site.gone == ["leader", "w-1", "w-2"]
