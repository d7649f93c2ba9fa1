# SPDX-License-Identifier: Apache-2.0
"""From which objects a workload takes its options, and in which order."""

from typing import Any

import msgspec
import pytest
from tests.unit.bridge.build import pod

from slinky.bounds import OWNER_CHAIN_MAX
from slinky.bridge import names
from slinky.bridge.state.owner_chains import OwnerChain, OwnerChains
from slinky.bridge.views import JobSet, LeaderWorkerSet, PodGroup, WorkloadBatchJob, WorkloadPod
from slinky.bridge.views.native import VERSIONS
from slinky.bridge.workload.grouping import Workload
from slinky.kube import Key, Object, Owner

NATIVE = {"schedulingGroup": {"podGroupName": "g"}}


def owner(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "x/v1", "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


def build(view: type[Object], name: str, *owners: dict[str, Any], **spec: Any) -> Object:
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "ownerReferences": list(owners)}
    return msgspec.convert({"metadata": meta, "spec": spec}, view)


class World:
    """Objects by kind and name, and the owners that were looked up."""

    def __init__(self, **objects: Object) -> None:
        self.objects = {(kind, item.metadata.name): item for kind, item in objects.items()}
        self.lookups: list[str] = []

    async def find_owner(self, reference: Owner, namespace: str) -> Object | None:
        self.lookups.append(reference.name)
        return self.objects.get((reference.kind, reference.name))

    async def find_workload(self, key: Key) -> Object | None:
        return self.objects.get(("Workload", key.name))

    async def chains(self, workload: Workload, *pods: WorkloadPod) -> list[OwnerChain]:
        def find(kind: str, key: Key) -> Object | None:
            return self.objects.get((kind, key.name))

        chains = OwnerChains(find, self.find_owner, self.find_workload)
        return await chains.chains_of(pods, workload, find(workload.kind, workload.key))


def sources(chain: OwnerChain) -> list[str]:
    return [layer.source for layer in chain.layers]


JOB = build(WorkloadBatchJob, "j", owner("JobSet", "s"))
JOB_SET = build(JobSet, "s")
GROUP = build(VERSIONS["v1alpha2"], "g", owner("Job", "j"), podGroupTemplateRef={"workload": {"workloadName": "w"}})


@pytest.mark.parametrize(
    ("objects", "workload", "expected"),
    [
        ({}, Workload("ns", "Pod", "p"), ["Pod p"]),
        ({"Job": JOB}, Workload("ns", "Pod", "p"), ["Pod p", "Job j"]),
        ({"Job": JOB, "JobSet": JOB_SET}, Workload("ns", "Pod", "p"), ["Pod p", "Job j", "JobSet s"]),
        ({"Job": JOB, "JobSet": JOB_SET}, Workload("ns", "JobSet", "s"), ["Pod p", "Job j", "JobSet s"]),
        (
            {"Job": JOB, "PodGroup": build(PodGroup, "c")},
            Workload("ns", "PodGroup", "c"),
            ["Pod p", "Job j", "PodGroup c"],
        ),
    ],
)
async def test_the_objects_of_a_pod_from_the_lowest_to_the_highest(
    objects: dict[str, Object], workload: Workload, expected: list[str]
) -> None:
    (chain,) = await World(**objects).chains(workload, pod(owners=[owner("Job", "j")]))
    assert sources(chain) == expected


@pytest.mark.parametrize("kind", ["NativeGroup", "JobSet"])
async def test_a_native_group_is_below_the_owners_of_its_pods(kind: str) -> None:
    world = World(Job=JOB, JobSet=JOB_SET, NativeGroup=GROUP, Workload=build(Object, "w"))
    name = "g" if kind == "NativeGroup" else "s"
    (chain,) = await world.chains(Workload("ns", kind, name), pod(owners=[owner("Job", "j")], spec=NATIVE))
    assert sources(chain) == ["Pod p", "PodGroup g", "Job j", "JobSet s", "Workload w"]
    assert [job.metadata.name for job in chain.batch_jobs] == ["j"]


async def test_pods_of_a_native_group_without_owners_take_those_of_the_group() -> None:
    world = World(Job=JOB, NativeGroup=GROUP)
    (chain,) = await world.chains(Workload("ns", "NativeGroup", "g"), pod(spec=NATIVE))
    assert sources(chain) == ["Pod p", "PodGroup g", "Job j"]


async def test_the_pods_of_a_leader_worker_set_find_it_by_label() -> None:
    world = World(LeaderWorkerSet=build(LeaderWorkerSet, "l"), NativeGroup=GROUP)
    worker = pod(labels={names.LWS_NAME: "l"}, owners=[owner("StatefulSet", "l-0")], spec=NATIVE)
    (chain,) = await world.chains(Workload("ns", "NativeGroup", "g"), worker)
    assert sources(chain) == ["Pod p", "PodGroup g", "LeaderWorkerSet l"]
    assert world.lookups == ["j"]  # the owner of the group; StatefulSets are not read


async def test_the_pods_of_a_gang_share_a_chain_unless_their_options_differ() -> None:
    world = World(Job=JOB, JobSet=JOB_SET)
    members = [pod(f"p-{i}", owners=[owner("Job", "j")]) for i in range(100)]
    mine = {names.OPTION + "qos": "x", names.NODE_ANNOTATION: "n1"}
    members.insert(0, pod("p-100", owners=[owner("Job", "j")], annotations=mine))
    chains = await world.chains(Workload("ns", "JobSet", "s"), *members)
    assert [sources(chain)[0] for chain in chains] == ["Pod p-0", "Pod p-100"]
    assert world.lookups == ["j", "s"]


async def test_a_circle_of_owners_ends() -> None:
    circle = build(WorkloadBatchJob, "j", owner("Job", "j"))
    (chain,) = await World(Job=circle).chains(Workload("ns", "Pod", "p"), pod(owners=[owner("Job", "j")]))
    assert len(chain.layers) <= OWNER_CHAIN_MAX + 1
