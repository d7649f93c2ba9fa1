# SPDX-License-Identifier: Apache-2.0
"""The life of workloads from snapshot to execution, with the servers in memory."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.unit.bridge.build import needing, node, pod
from tests.unit.bridge.lifecycle.memory_stage import MemoryStage

from slinky.bridge import names
from slinky.bridge.devices.allocation import DevicesInUse
from slinky.bridge.feasibility.exclusions import HostShortage
from slinky.bridge.feasibility.volume_state import VolumePending
from slinky.bridge.lifecycle.attempts import PAUSE_AFTER_LOSS
from slinky.bridge.lifecycle.decide import retries
from slinky.bridge.lifecycle.decide.assignment import UnsuitableNodes
from slinky.bridge.lifecycle.release.outcome import PodOutcome
from slinky.bridge.lifecycle.snapshot_builder import LARGE_GANG
from slinky.bridge.status.reasons import ConditionText
from slinky.bridge.workload import pod_state
from slinky.bridge.workload.grouping import Workload, WorkloadRoot
from slinky.kube import Later
from slinky.slurm import TransportError

GANG = Workload("ns", "Job", "j")
NATIVE = Workload("ns", "NativeGroup", "g")


def member(name: str, cpu: str = "1", **more: Any) -> Any:
    return needing({"cpu": cpu}, name, labels={names.JOB_NAME: "j"}, **more)


async def running_pod(stage: MemoryStage, name: str = "p") -> str:
    """A pod that runs on n1; its job."""
    stage.slurm.hosts = ("n1",)
    stage.put(needing({"cpu": "1"}, name))
    await stage.reconcile(Workload("ns", "Pod", name))
    bound = stage.get(name)
    stage.put(msgspec.structs.replace(bound, status=msgspec.structs.replace(bound.status, phase="Running")))
    return pod_state.job_id(bound)


# --- submission and placement


async def test_a_pod_is_bound_in_the_reconcile_in_which_its_job_starts() -> None:
    stage = MemoryStage()
    stage.slurm.hosts = ("n2",)
    stage.put(needing({"cpu": "1"}, "p"))
    assert await stage.reconcile() is None
    assert stage.writer.bound == {"p": "n2"}
    assert [how for how, _ in stage.slurm.requests] == ["allocate"]


@pytest.mark.parametrize(("node", "sluid"), [("n1", "s7"), ("", "")], ids=["bound", "waiting"])
async def test_the_job_of_a_bound_pod_is_tracked_with_its_sluid_after_a_restart(node: str, sluid: str) -> None:
    """Otherwise the end of a purged job cannot be read from accounting. A pod that waits may have a forged SLUID."""
    stage = MemoryStage()
    stage.put(pod(job="7", node=node, annotations={names.SLUID_ANNOTATION: "s7"}))
    await stage.reconcile()
    assert stage.slurm.tracked["7"] == sluid


async def test_a_pod_whose_job_is_pending_is_labelled_and_explained() -> None:
    stage = MemoryStage()
    stage.would_start = False
    stage.put(pod())
    await stage.reconcile()
    assert pod_state.job_id(stage.get("p")) == "7"
    assert [how for how, _ in stage.slurm.requests] == ["submit"]
    await stage.reconcile()
    assert stage.reason() == "Resources"
    assert "Position 1." in stage.writer.conditions["p"].message


async def test_the_pods_of_a_gang_are_bound_together() -> None:
    stage = MemoryStage(gang=NATIVE, root=WorkloadRoot(min_members=2))
    stage.slurm.hosts = ("n1", "n2")
    stage.put(member("a"))
    await stage.reconcile()
    assert (stage.slurm.requests, stage.reason("a")) == ([], "GangIncomplete")
    stage.put(member("b", spec={"schedulingGroup": {"podGroupName": "g"}}))
    await stage.reconcile()
    assert stage.writer.bound == {"a": "n1", "b": "n2"}
    assert stage.scheduled_groups == ["a", "b"]


@pytest.mark.parametrize(
    ("error", "reason", "again"),
    [
        (DevicesInUse("gpu-0 is in use"), "DevicesHeld", retries.DEVICES_HELD),
        (VolumePending("no volume", after=5.0), "VolumePending", 5.0),
        (Later("no claim", after=0.5), "", 0.5),
    ],
)
async def test_a_pod_whose_devices_are_not_ready_keeps_its_job_and_waits(
    error: Exception, reason: str, again: float
) -> None:
    stage = MemoryStage()
    stage.slurm.hosts = ("n1",)
    stage.claims.needed, stage.claims.error = True, error
    stage.put(pod())
    assert await stage.reconcile() == again
    assert (stage.writer.bound, stage.slurm.cancelled) == ({}, [])
    assert pod_state.job_id(stage.get("p")) == "7"
    if reason:
        assert stage.reason() == reason
    stage.claims.error = None
    assert await stage.reconcile() is None
    assert stage.writer.bound == {"p": "n1"}


async def test_a_host_that_does_not_suit_is_given_back_once_and_excluded_from_the_next_job() -> None:
    stage = MemoryStage()
    stage.slurm.hosts = ("n1",)
    stage.claims.needed, stage.claims.error = True, UnsuitableNodes("gres.conf and the driver of n1 differ", "n1")
    stage.put(pod())
    await stage.reconcile()
    assert (stage.slurm.cancelled, stage.reason(), stage.writer.bound) == (["7"], "NodeUnsuitable", {})
    message = stage.writer.conditions["p"].message
    stage.claims.error, stage.slurm.hosts = None, ("n2",)
    await stage.reconcile()
    assert stage.slurm.requests[-1][1].excluded_nodes == ("n1",)
    assert stage.writer.bound == {"p": "n2"}
    assert "job 7" not in message


async def test_a_host_is_not_avoided_because_another_pod_has_taken_the_claim() -> None:
    stage = MemoryStage("n1")
    stage.slurm.hosts = ("n1",)
    stage.claims.needed, stage.claims.error = True, UnsuitableNodes("claim c is in use by another pod")
    stage.put(pod())
    await stage.reconcile()
    assert (stage.slurm.cancelled, stage.reason()) == (["7"], "NodeUnsuitable")
    stage.claims.error = None
    await stage.reconcile()
    assert stage.slurm.requests[-1][1].excluded_nodes is None
    assert stage.writer.bound == {"p": "n1"}


async def test_a_pod_that_can_use_no_other_host_waits_until_the_host_is_tried_again() -> None:
    stage = MemoryStage("n1")
    stage.slurm.hosts = ("n1",)
    stage.claims.needed, stage.claims.error = True, UnsuitableNodes("gres.conf and the driver of n1 differ", "n1")
    stage.put(pod())
    await stage.reconcile()
    stage.exclusions.shortage = HostShortage(0, 1, "no host suits")
    again = await stage.reconcile()
    assert (len(stage.slurm.requests), stage.reason()) == (1, "NodeUnsuitable")
    assert again is not None
    assert again <= 30
    stage.exclusions.shortage = None
    await stage.clock.advance(again)
    await stage.reconcile()
    assert (len(stage.slurm.requests), stage.slurm.requests[-1][1].excluded_nodes) == (2, None)


async def test_a_job_that_is_given_back_again_and_again_slows_down() -> None:
    stage = MemoryStage()
    stage.slurm.hosts, stage.exclusions.mismatch = ("n1",), "it has a taint"
    stage.put(pod())
    for _ in range(20):
        await stage.reconcile()
    assert len(stage.slurm.requests) <= 4


async def test_a_node_with_used_ports_is_given_back() -> None:
    stage = MemoryStage()
    stage.slurm.hosts, stage.exclusions.ports_in_use = ("n1",), "host port 80 is in use"
    stage.put(pod(spec={"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]}))
    await stage.reconcile()
    assert (stage.slurm.cancelled, stage.reason()) == (["7"], "NodeUnsuitable")


async def test_a_host_that_is_no_node_is_given_back() -> None:
    stage = MemoryStage()
    stage.slurm.hosts = ("elsewhere",)
    stage.put(pod())
    await stage.reconcile()
    assert (stage.slurm.cancelled, stage.reason()) == (["7"], "NodeUnsuitable")


@pytest.mark.parametrize("drained", [True, False])
async def test_a_node_that_is_not_ready_is_waited_for_until_it_is_drained(drained: bool) -> None:
    stage = MemoryStage()
    stage.put_node(node("n1", ready=False))
    stage.slurm.hosts, stage.exclusions.drained = ("n1",), drained
    stage.put(pod())
    again = await stage.reconcile()
    assert stage.writer.bound == {}
    assert stage.slurm.cancelled == (["7"] if drained else [])
    assert stage.reason() == ("NodeUnsuitable" if drained else "NodeNotReady")
    assert drained or again == retries.NODE_NOT_READY


SHARED = WorkloadRoot({names.OPTION + "exclusive": "false"})


@pytest.mark.parametrize("root", [WorkloadRoot(), SHARED])
async def test_the_job_of_a_gang_is_given_back_if_a_foreign_pod_occupies_one_node(root: WorkloadRoot) -> None:
    stage = MemoryStage(gang=GANG, root=root)
    stage.slurm.hosts = ("n1", "n2")
    stage.nodes.add_foreign("daemon", "n2", cpu="100m")
    pods = [stage.put(member(name, "4")) for name in "ab"]
    await stage.reconcile()
    assert (stage.writer.bound, stage.slurm.cancelled) == ({}, ["7"])
    assert {text.reason for text in stage.writer.conditions.values()} == {"InsufficientNodeResources"}
    expected = "node n2: cpu: 4 requested, 3900m of 4 free; pod kube-system/daemon holds 100m"
    assert expected in stage.writer.conditions["a"].message
    stage.nodes.remove_foreign("daemon")
    assert stage.nodes.full(*pods) == {"n2"}  # not tried again at once
    await stage.clock.advance(10)
    assert stage.nodes.full(*pods) == set()


@pytest.mark.parametrize("live", [True, False])
async def test_pods_that_leave_are_waited_for_and_pods_that_stay_beside_foreign_ones_are_not(live: bool) -> None:
    stage = MemoryStage(root=SHARED)
    stage.slurm.show("1", "RUNNING" if live else "CANCELLED", hosts=("n1",))
    stage.put(needing({"cpu": "3"}, "other", node="n1", job="1", phase="Running"))
    stage.nodes.add_foreign("daemon", "n1", cpu="100m")
    stage.slurm.hosts = ("n1",)
    stage.put(needing({"cpu": "1"}, "p"))
    await stage.reconcile(Workload("ns", "Pod", "p"))
    assert stage.writer.bound == {}
    assert stage.slurm.cancelled == (["7"] if live else [])
    assert stage.reason() == ("InsufficientNodeResources" if live else "NodeClearing")


async def test_two_jobs_that_are_placed_at_the_same_time_do_not_take_the_same_room() -> None:
    stage = MemoryStage(root=SHARED)
    stage.nodes.add_foreign("daemon", "n1", cpu="1")
    stage.slurm.hosts = ("n1",)
    for name in ("first", "second"):
        stage.put(needing({"cpu": "2"}, name))
        await stage.reconcile(Workload("ns", "Pod", name))
    assert stage.writer.bound == {"first": "n1"}


async def test_a_rejected_pod_names_its_job_and_its_node_is_not_used_at_once() -> None:
    stage = MemoryStage()
    stage.slurm.show("7", "RUNNING", hosts=("n1",))
    message = "Node didn't have enough resource: cpu, requested: 4000, used: 100, capacity: 4000"
    status = {"reason": "OutOfcpu", "message": message}
    stage.put(needing({"cpu": "4"}, "p", job="7", node="n1", phase="Failed", status=status))
    await stage.reconcile()
    text = stage.writer.conditions["p"]
    assert text.reason == "KubeletRejected"
    assert all(part in text.message for part in ("node n1", "Slurm job 7", "OutOfcpu", "used: 100"))
    assert stage.nodes.full(needing({"cpu": "4"}, "b")) == {"n1"}


# --- rejections


@pytest.mark.parametrize("number", [2045, 2014, 2018])
async def test_a_rejected_job_is_explained_and_not_repeated_at_once(number: int) -> None:
    stage = MemoryStage()
    stage.slurm.errors = [number]
    stage.put(pod())
    again = await stage.reconcile()
    assert (stage.reason(), len(stage.slurm.requests)) == ("SlurmRefused", 1)
    assert again is not None
    await stage.reconcile()
    assert len(stage.slurm.requests) == 1
    await stage.clock.advance(again)
    await stage.reconcile()
    assert len(stage.slurm.requests) == 2
    assert stage.exclusions.invalidated == (number == 2018)


async def test_pods_that_request_the_same_learn_from_one_rejection() -> None:
    stage = MemoryStage()
    stage.slurm.errors = [2045] * 5
    for name in "abc":
        stage.put(needing({"cpu": "1000"}, name))
        await stage.reconcile(Workload("ns", "Pod", name))
    assert [stage.reason(name) for name in "abc"] == ["SlurmRefused"] * 3
    assert len(stage.slurm.requests) == 1
    stage.put(needing({"cpu": "1"}, "smaller"))
    await stage.reconcile(Workload("ns", "Pod", "smaller"))
    assert len(stage.slurm.requests) == 2  # a changed request is tried at once


async def test_a_job_that_can_never_fit_leaves_no_record_in_slurm() -> None:
    stage = MemoryStage()
    stage.exclusions.shortage = HostShortage(0, 1, "9 CPUs per node are requested; the largest node has 4.")
    stage.put(pod())
    assert await stage.reconcile() == retries.TOO_FEW_NODES
    assert (stage.slurm.requests, stage.reason()) == ([], "SlurmRefused")
    assert "9 CPUs" in stage.writer.conditions["p"].message


async def test_a_job_without_room_beside_other_pods_is_not_submitted() -> None:
    stage = MemoryStage()
    stage.exclusions.room = ConditionText(False, "InsufficientNodeResources", "full")
    stage.put(pod())
    await stage.reconcile()
    assert (stage.slurm.requests, stage.reason()) == ([], "InsufficientNodeResources")


async def test_an_unreachable_slurm_is_reported_and_tried_again_with_a_growing_delay() -> None:
    stage = MemoryStage()
    stage.slurm.errors = [TransportError("no answer", maybe_applied=True)]
    stage.put(pod())
    with pytest.raises(Later, match="no answer"):
        await stage.reconcile()
    assert stage.reason() == "SlurmUnreachable"


async def test_nothing_is_submitted_before_slurm_has_been_searched() -> None:
    stage = MemoryStage()
    stage.registry.searched.clear()
    stage.put(pod())
    assert await stage.reconcile() == retries.SEARCH
    assert stage.slurm.requests == []


@pytest.mark.parametrize(
    ("problem", "reason"), [("topology", "NotSupported"), ("missing", "GroupMissing"), ("", "InvalidOption")]
)
async def test_a_pod_that_cannot_be_translated_is_told_why(problem: str, reason: str) -> None:
    options = {} if problem else {names.OPTION + "timelimit": "soon"}
    stage = MemoryStage(root=WorkloadRoot(options, unsupported=problem))
    stage.put(pod())
    await stage.reconcile()
    assert (stage.reason(), stage.slurm.requests) == (reason, [])


# --- revision


async def pending_gang(stage: MemoryStage) -> None:
    stage.would_start = False
    stage.put(member("a"))
    await stage.reconcile()


async def test_a_pod_that_joins_a_pending_job_is_labelled_in_the_same_reconcile() -> None:
    stage = MemoryStage(gang=GANG)
    await pending_gang(stage)
    stage.put(member("b"))
    await stage.reconcile()
    assert [how for how, _ in stage.slurm.requests] == ["submit", "update"]
    assert pod_state.job_id(stage.get("b")) == "7"


@pytest.mark.parametrize(("number", "reason", "labelled"), [(2000, "SlurmRefused", True), (2021, "", True)])
async def test_an_update_that_slurm_rejects_leaves_the_job(number: int, reason: str, labelled: bool) -> None:
    stage = MemoryStage(gang=GANG)
    await pending_gang(stage)
    stage.slurm.errors = [number]
    stage.put(member("b"))
    assert await stage.reconcile() is not None
    assert (stage.slurm.cancelled, bool(pod_state.job_id(stage.get("a")))) == ([], labelled)
    if reason:
        assert stage.reason("b") == reason


async def test_a_gang_that_needs_another_kind_of_job_is_submitted_again() -> None:
    stage = MemoryStage(gang=GANG)
    await pending_gang(stage)
    stage.put(member("b", "4"))  # other requests: a heterogeneous job
    await stage.reconcile()
    assert (stage.slurm.cancelled, stage.reason("a")) == (["7"], "GangReshaped")
    stage.root = WorkloadRoot({names.OPTION + "constraints": "a100"})
    await stage.reconcile()
    assert stage.slurm.requests[-1][0] == "submit"


async def test_a_removed_option_replaces_the_job() -> None:
    stage = MemoryStage(root=WorkloadRoot({names.OPTION + "constraints": "a100"}))
    stage.would_start = False
    stage.put(pod())
    await stage.reconcile()
    stage.root = WorkloadRoot()
    await stage.reconcile()
    assert (stage.slurm.cancelled, stage.reason()) == (["7"], "JobOutgrown")


@pytest.mark.parametrize("accepted", [True, False])
async def test_a_pod_that_comes_while_others_are_being_placed_gets_its_own_job(accepted: bool) -> None:
    stage = MemoryStage(gang=GANG)
    stage.slurm.hosts = ("n1",)
    stage.claims.needed, stage.claims.error = True, DevicesInUse("gpu-0 is in use")
    stage.put(member("a"))
    await stage.reconcile()
    stage.put(member("b"))
    stage.slurm.errors = [] if accepted else [2045]
    await stage.reconcile()
    assert len(stage.slurm.requests) == 2
    assert pod_state.job_id(stage.get("b")) == ("8" if accepted else "")


# --- the end


async def test_the_end_of_a_pod_ends_its_job_and_removes_its_finalizer() -> None:
    stage = MemoryStage()
    job = await running_pod(stage)
    stage.finish("p")
    assert await stage.reconcile() == retries.IDLE_UNKNOWN
    assert (stage.slurm.cancelled, stage.writer.released) == ([job], [])
    assert stage.slurm.outcomes == {job: PodOutcome("Succeeded")}
    stage.registry.settle_outcome(job)
    assert await stage.reconcile() is None
    assert (stage.slurm.cancelled, stage.writer.released) == ([job], ["p"])
    stage.remove("p")
    await stage.reconcile(Workload("ns", "Pod", "p"))
    assert len(stage.registry) == 0
    assert stage.slurm.cancelled == [job]


async def test_the_end_of_a_pod_is_handled_when_its_job_is_known_again() -> None:
    stage = MemoryStage()
    job = await running_pod(stage)
    stage.finish("p")
    stage.slurm.unknown = True
    assert await stage.reconcile() == retries.UNKNOWN
    assert stage.slurm.cancelled == []
    stage.slurm.unknown = False
    await stage.reconcile()
    assert stage.slurm.cancelled == [job]


async def test_a_running_pod_reports_its_node() -> None:
    stage = MemoryStage()
    await running_pod(stage)
    await stage.clock.advance(1)
    await stage.reconcile()
    assert stage.reason() == "Allocated"


async def test_many_failed_jobs_are_evicted_slowly_and_cancelled_ones_at_once() -> None:
    stage = MemoryStage(root=SHARED)
    pods = [f"p-{index}" for index in range(4)]
    for name in pods:
        job = await running_pod(stage, name)
        stage.slurm.show(job, "NODE_FAIL" if name != "p-3" else "CANCELLED")
    for name in pods:
        await stage.reconcile(Workload("ns", "Pod", name))
    assert stage.writer.evicted == ["p-0", "p-1", "p-3"]
    assert stage.reason("p-2") == "EvictionLimited"
    await stage.clock.advance(600)
    await stage.reconcile(Workload("ns", "Pod", "p-2"))
    assert stage.writer.evicted[-1] == "p-2"


async def test_the_end_of_a_job_is_explained_on_a_pod_that_is_being_deleted() -> None:
    stage = MemoryStage()
    job = await running_pod(stage)
    stage.slurm.show(job, "TIMEOUT")
    bound = stage.get("p")
    metadata = msgspec.structs.replace(bound.metadata, deletion_timestamp="2026-06-01T12:00:30Z")
    stage.put(msgspec.structs.replace(bound, metadata=metadata))
    await stage.reconcile()
    assert (stage.reason(), stage.writer.evicted) == ("SlurmJobTimeout", [])


async def test_a_pod_whose_waiting_job_was_cancelled_stays_and_releases_its_devices() -> None:
    stage = MemoryStage()
    stage.would_start = False
    stage.put(pod())
    await stage.reconcile()
    stage.slurm.show("7", "CANCELLED")
    await stage.reconcile()
    assert (stage.reason(), stage.claims.released) == ("SlurmJobCancelled", ["p"])
    assert len(stage.slurm.requests) == 1


async def test_a_pod_on_a_node_that_is_gone_is_given_up() -> None:
    stage = MemoryStage()
    job = await running_pod(stage)
    bound = stage.get("p")
    metadata = msgspec.structs.replace(bound.metadata, deletion_timestamp="2026-06-01T11:00:00Z")
    stage.put(msgspec.structs.replace(bound, metadata=metadata))
    stage.remove_node("n1")
    await stage.reconcile()
    assert (stage.writer.released, stage.writer.events, stage.slurm.cancelled) == (["p"], ["PodGivenUp"], [job])


# --- lost jobs


async def lost_pod(stage: MemoryStage) -> str:
    job = await running_pod(stage)
    stage.slurm.show(job, "RUNNING", lost=True)
    stage.slurm.hosts = ()
    return job


async def test_a_running_pod_whose_job_was_lost_gets_a_new_job_on_its_node() -> None:
    stage = MemoryStage()
    job = await lost_pod(stage)
    await stage.reconcile()
    assert stage.slurm.requests[-1][1].required_nodes == ("n1",)
    assert pod_state.job_id(stage.get("p")) not in {"", job}
    assert stage.writer.evicted == []
    stage.put(pod("new"))
    assert await stage.reconcile(Workload("ns", "Pod", "new")) == PAUSE_AFTER_LOSS


@pytest.mark.parametrize(("error", "again"), [(2045, retries.NOT_REPLACED), (2018, 3.0), (2016, retries.NOT_STARTED)])
async def test_a_pod_whose_lost_job_is_rejected_keeps_running(error: int, again: float) -> None:
    stage = MemoryStage()
    await lost_pod(stage)
    stage.slurm.errors = [error]
    assert await stage.reconcile() == again
    assert (stage.reason(), stage.writer.evicted) == ("LostJobNotReplaced", [])


async def test_a_replacement_that_is_not_answered_is_tried_again() -> None:
    stage = MemoryStage()
    await lost_pod(stage)
    stage.slurm.errors = [TransportError("no answer", maybe_applied=True)]
    with pytest.raises(Later):
        await stage.reconcile()
    stage.registry.searched.clear()
    assert await stage.reconcile() == 1
    assert stage.writer.evicted == []


# --- pods that move between workloads


async def test_pods_that_belong_to_another_workload_are_reconciled_there() -> None:
    stage = MemoryStage()
    stage.put(member("a"))
    stage.put(member("b"))
    other = Workload("ns", "Pod", "a")

    stage.on_read = lambda: setattr(stage, "gang", GANG)
    await stage.reconcile(other)
    assert (stage.enqueued, stage.slurm.requests) == ([GANG], [])


@pytest.mark.parametrize(
    ("existing", "cancelled"),
    [("ab", []), ("a", ["7"]), ("", ["7"])],
    ids=["both pods exist", "one pod is gone", "both pods are gone"],
)
async def test_a_job_is_kept_for_its_pods_until_they_are_observed_with_its_label(
    existing: str, cancelled: list[str]
) -> None:
    """The batch job is deleted, so its pods form no gang, and the binding with the job label is not observed yet."""
    stage = MemoryStage(gang=GANG)
    stage.slurm.hosts = ("n1", "n2")
    original = {name: stage.put(member(name)) for name in "ab"}
    await stage.reconcile()
    stage.gang = None
    for name in "ab":
        if name in existing:
            stage.put(original[name])
        else:
            stage.remove(name)
    assert await stage.reconcile(GANG) == (None if cancelled else retries.UNLABELLED)
    assert stage.slurm.cancelled == cancelled


async def test_a_job_is_not_ended_by_a_workload_that_its_pod_has_left() -> None:
    stage = MemoryStage()
    job = await running_pod(stage)
    stage.gang = GANG  # the pod joins a gang
    assert await stage.reconcile(Workload("ns", "Pod", "p")) == retries.IDLE_UNKNOWN
    assert stage.slurm.cancelled == []
    stage.finish("p")
    await stage.reconcile(GANG)
    assert stage.slurm.cancelled == [job]


async def test_a_change_of_hosts_brings_rejected_jobs_back_soon() -> None:
    stage = MemoryStage()
    stage.slurm.errors = [2014]
    stage.put(pod())
    await stage.reconcile()
    stage.reconciler.hosts_changed()
    again = await stage.reconcile()
    assert again is None or again <= 60


async def test_other_tasks_run_between_the_steps_for_a_large_gang() -> None:
    stage = MemoryStage(gang=GANG, root=WorkloadRoot(min_members=2 * LARGE_GANG))
    for number in range(LARGE_GANG + 1):
        stage.put(pod(f"p{number}", made="2026-01-01T00:00:00Z"))
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(take_turns())
    await stage.reconcile()
    others.cancel()
    assert turns >= 4, "after the list of pods, their options, their jobs, and their nodes"
