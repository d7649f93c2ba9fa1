# SPDX-License-Identifier: Apache-2.0
"""Decisions of Slurm's scheduler reach pods: topology, backfill, fair share, preemption in every mode, MCS labels.

All tests of the file share one configuration of slurmctld, which has what the usual one of the lab lacks.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.integration.bridge.bridge_stage import SHARED, BridgeStage, bridge_stage
from tests.support.job_requests import sleep_on
from tests.support.slurm_settings import restart_slurmctld, slurm_settings
from tests.support.waiting import eventually

from slinky.bridge import names
from slinky.kube import KubeClient
from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import SlurmClient as Slurm
from slinky.slurm import SlurmError

OPTION = names.OPTION
SETTINGS = {
    "SchedulerParameters": "batch_sched_delay=0,bf_interval=1,bf_continue,sched_interval=2,default_queue_depth=1000",
    "PreemptMode": "SUSPEND,GANG",
    "MCSPlugin": "mcs/label",
    "MCSParameters": "ondemand,select",
    "PriorityWeightFairshare": "100000",
}
#: A partition with blocks of two hosts, beside the others, which have a tree.
BLOCKS = """\
NodeSet=blocks Feature=blocks
PartitionName=blocks Nodes=blocks MaxTime=INFINITE State=UP Topology=blocks
"""
TOPOLOGY = """\
- topology: default
  cluster_default: true
  tree:
    switches:
      - switch: root
        children: leaf[1-2]
      - switch: leaf1
        nodes: c[1-2]
      - switch: leaf2
- topology: blocks
  cluster_default: false
  block:
    block_sizes: [2]
    blocks:
      - block: block1
      - block: block2
"""
#: What a QOS says about its jobs when the QOS `over` preempts them.
PREEMPTED = {
    "cancelled": "PreemptMode=cancel",
    "requeued": "PreemptMode=requeue",
    "suspended": "PreemptMode=suspend",
    "warned": "PreemptMode=cancel GraceTime=2",
}
QOS = (*PREEMPTED, "over")
AS_ALICE = {OPTION + "user-id": "alice", OPTION + "account": "lab"}


@pytest.fixture(scope="module")
def scheduler(slurm: LabSlurm) -> Iterator[LabSlurm]:
    """Slurm with topologies, preemption in every mode, MCS labels, and accounts with a fair share."""
    script = [f"add qos {name} {mode}" for name, mode in PREEMPTED.items()]
    script += [
        f"add qos over Priority=1000 Preempt={','.join(PREEMPTED)}",
        f"modify user alice set qos+={','.join(QOS)}",
        "add account busy,idle Fairshare=50",
        "add user alice account=busy,idle",
    ]
    manage_accounts(slurm, *script)  # slurmctld reads them when it starts
    with slurm_settings(slurm, SETTINGS, lines=BLOCKS, files={"topology.yaml": TOPOLOGY}):
        yield slurm
    undo = ["delete user alice account=busy,idle", "delete account busy,idle", f"delete qos {','.join(QOS)}"]
    manage_accounts(slurm, *undo)


def manage_accounts(slurm: LabSlurm, *commands: str) -> None:
    slurm.exec("sh", "-ec", "\n".join(["exec >/dev/null", *(f"sacctmgr -i {command}" for command in commands)]))


@pytest.fixture
async def stage(kube: KubeClient, ctld: Slurm, scheduler: LabSlurm) -> AsyncIterator[BridgeStage]:
    """A running bridge without nodes."""
    async with bridge_stage(kube, ctld) as stage:
        await stage.start()
        yield stage


async def run_on(stage: BridgeStage, pod: str, node: str) -> None:
    await stage.run_pod(pod, nodeSelector={"kubernetes.io/hostname": node})


async def place_gang_of_two(stage: BridgeStage, name: str) -> set[str]:
    """Create a gang of two pods; returns its nodes."""
    label = await stage.create_batch_job(2, name)
    pods = [f"{name}-{number}" for number in range(2)]
    for pod in pods:
        await stage.create_pod(pod, labels=label)
    return {(await stage.wait_bound(pod)).spec.node_name for pod in pods}


async def end_pods(stage: BridgeStage, *pods: str) -> None:
    for pod in pods:
        await stage.report_phase(pod, "Succeeded", 0)
        await stage.wait_released(pod)


# --- topology


@pytest.mark.parametrize(
    ("partition", "first", "second"),
    [
        ("ext", "default:leaf1", "default:leaf2"),
        ("blocks", "default:leaf1,blocks:block1", "default:leaf1,blocks:block2"),
    ],
    ids=["tree", "block"],
)
async def test_the_topology_of_nodes_decides_where_a_gang_runs(
    kube: KubeClient, ctld: Slurm, scheduler: LabSlurm, partition: str, first: str, second: str
) -> None:
    """The first of four nodes is in use. The gang gets the two free nodes that are close to each other."""
    async with bridge_stage(kube, ctld, partition=partition) as stage:
        await stage.start()
        places = {"near": (first, first, second, second), "apart": (first, second, first, second)}
        for number, topology in enumerate(places["near"], start=1):
            await stage.add_node(number, topology=topology, partitions=f"ext,{partition}")
        one, two, three, four = stage.nodes
        await run_on(stage, "occupant", one)
        assert await place_gang_of_two(stage, "near") == {three, four}
        await end_pods(stage, "near-0", "near-1")
        for node, topology in zip(stage.nodes, places["apart"], strict=True):
            await stage.move_node(node, topology)
        assert await place_gang_of_two(stage, "apart") == {two, four}


# --- the queue


async def test_a_short_pod_passes_a_gang_that_waits_and_a_long_one_does_not(stage: BridgeStage) -> None:
    for number in (1, 2):
        await stage.add_node(number)
    await stage.run_pod("running", annotations={OPTION + "timelimit": "60"})
    label = await stage.create_batch_job(2, options={OPTION + "timelimit": "60"})
    for name in ("a", "b"):
        await stage.create_pod(name, labels=label)
    await stage.wait_reason("a", "Resources")
    await stage.create_pod("long", annotations={OPTION + "timelimit": "120"})
    await stage.wait_job("long")
    await stage.create_pod("short", annotations={OPTION + "timelimit": "10"})
    await stage.wait_bound("short")
    await stage.report_phase("short", "Running")
    await stage.wait_scheduling_cycles()
    for name in ("a", "b", "long"):
        assert not (await stage.get_pod(name)).spec.node_name
    await end_pods(stage, "short", "running")
    for name in ("a", "b"):
        await stage.wait_bound(name)
    assert not (await stage.get_pod("long")).spec.node_name


async def test_the_account_that_has_used_less_is_first(stage: BridgeStage, scheduler: LabSlurm) -> None:
    await stage.add_node()
    accounts = {name: {**AS_ALICE, OPTION + "account": name} for name in ("busy", "idle")}
    await stage.run_pod("past", annotations=accounts["busy"])

    async def used() -> bool:
        """A restart makes slurmctld add up what jobs have used; otherwise it does so every five minutes."""
        await asyncio.to_thread(restart_slurmctld, scheduler)
        shares = await stage.slurm.shares(accounts=["busy"])
        return any(share.name == "busy" and share.usage > 0 for share in shares)

    await eventually(used, "usage of the account")
    await stage.create_pod("first", annotations=accounts["busy"])
    first = await stage.wait_job("first")
    await stage.create_pod("second", annotations=accounts["idle"])
    second = await stage.wait_job("second")
    assert first.job_id < second.job_id
    assert first.priority.whole < second.priority.whole
    await end_pods(stage, "past")
    await stage.wait_bound("second")
    assert not (await stage.get_pod("first")).spec.node_name


# --- preemption


async def start_low_and_high(stage: BridgeStage, qos: str) -> None:
    """Run a pod in this QOS, then create one that may preempt it."""
    await stage.add_node()
    await stage.run_pod("low", annotations={**AS_ALICE, OPTION + "qos": qos})
    await stage.create_pod("high", annotations={**AS_ALICE, OPTION + "qos": "over"})


@pytest.mark.parametrize("qos", ["cancelled", "requeued"])
async def test_a_preempted_pod_is_evicted_and_the_other_waits_for_the_empty_node(stage: BridgeStage, qos: str) -> None:
    await start_low_and_high(stage, qos)
    job = await stage.wait_job("low")
    await stage.wait_evicted("low", "SlurmJobPreempted")
    await stage.wait_state(job, "PREEMPTED")
    await stage.wait_reason("high", "NodeClearing")
    assert not (await stage.get_pod("high")).spec.node_name
    await stage.report_stopped("low")
    await stage.wait_bound("high")
    assert (await stage.slurm.job(job.sluid)).state.base == "PREEMPTED"


async def test_preemption_by_suspension_leaves_the_pod_running(stage: BridgeStage) -> None:
    await start_low_and_high(stage, "suspended")
    job = await stage.wait_job("low")
    await stage.wait_reason("high", "Resources")
    await stage.wait_scheduling_cycles()
    assert (await stage.slurm.job(job.sluid)).state.base == "RUNNING"
    assert not (await stage.get_pod("low")).metadata.deleting
    assert not (await stage.get_pod("high")).spec.node_name
    await end_pods(stage, "low")
    await stage.wait_bound("high")


async def test_a_pod_that_is_preempted_with_a_grace_time_ends_and_its_host_serves_the_other(stage: BridgeStage) -> None:
    await start_low_and_high(stage, "warned")
    job = await stage.wait_job("low")

    async def warned() -> bool:
        current = await stage.slurm.job(job.sluid)
        pod = await stage.get_pod("low")
        assert not pod.metadata.deleting or not current.state.live
        return current.preempt_time.whole > 0

    await eventually(warned, "the warning of slurmctld")
    await stage.wait_evicted("low", "SlurmJobPreempted")
    await stage.wait_state(job, "PREEMPTED")
    await stage.report_stopped("low")
    await stage.wait_bound("high")


# --- MCS labels


async def test_a_labelled_pod_and_a_native_job_never_share_a_node(
    kube: KubeClient, ctld: Slurm, scheduler: LabSlurm
) -> None:
    """With an MCS label a node has either pods or native jobs, although both would fit on it."""
    async with bridge_stage(kube, ctld, partition="work", mcs_label="kubernetes") as stage:
        await stage.start()
        await stage.add_hybrid_node(1, "c1")
        small = {"annotations": SHARED, "requests": {"cpu": "1", "memory": "64Mi"}}
        natives = [sleep_on(scheduler, "c1")]
        try:
            await stage.wait_state(await ctld.job(natives[0]), "RUNNING")
            await stage.create_pod("first", **small)
            await stage.wait_job("first")
            await stage.wait_scheduling_cycles()
            assert not (await stage.get_pod("first")).spec.node_name
            await ctld.cancel(natives[0])
            await stage.wait_bound("first")
            natives.append(sleep_on(scheduler, "c1"))
            await stage.wait_scheduling_cycles()
            assert (await ctld.job(natives[1])).state.pending
            await stage.create_pod("second", **small)  # it has the same label
            await stage.wait_bound("second")
            await end_pods(stage, "first", "second")
            await stage.wait_state(await ctld.job(natives[1]), "RUNNING")
        finally:
            for native in natives:
                with contextlib.suppress(SlurmError):  # the test has cancelled it already
                    await ctld.cancel(native)
