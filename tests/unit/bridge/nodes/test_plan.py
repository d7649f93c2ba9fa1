# SPDX-License-Identifier: Apache-2.0
"""Nodes between two systems: who owns what, and what is never touched."""

from typing import Any

import pytest
from tests.unit.bridge.build import GPU_DRIVER, cpu_singles, gpus, node

from slinky.bridge import names
from slinky.bridge.devices.inventory import build_inventory
from slinky.bridge.nodes import plan as hosts
from slinky.bridge.nodes.description import NodeFacts
from slinky.bridge.nodes.plan import (
    ChangeHost,
    DrainHost,
    RegisterHost,
    RemoveHost,
    ReportHostState,
    ReportProblem,
    SetTaint,
    UndrainHost,
)
from slinky.kube import Node
from slinky.slurm import Host, NodeUpdate, Presence

LABEL = {names.EXTERNAL_LABEL: ""}
MARK = "slurm-bridge cluster/bridge"
SIGNED = f"{MARK} uid-n1 4/8192"
OPEN = {"type": names.HOST_CONDITION, "status": "True", "reason": "Open", "message": "Slurm places jobs here."}
TAINT = {"key": names.MANAGED_TAINT, "value": names.SCHEDULER, "effect": "NoExecute"}


def wanted(**more: Any) -> Node:
    """A node that should be external and looks converged."""
    given: dict[str, Any] = {"labels": LABEL, "taints": [TAINT], "conditions": [OPEN]}
    return node(**{**given, **more})


def host(*words: str, **more: Any) -> Host:
    given: dict[str, Any] = {"comment": SIGNED, "cpus": 4, "real_memory": 8192, **more}
    return Host("n1", words=words or ("IDLE", "EXTERNAL", "DYNAMIC_NORM"), **given)


def plan(found: Node | None, there: Host | None, **more: Any) -> list[hosts.Action]:
    presence = more.pop("presence", Presence.ABSENT if there is None else Presence.PRESENT)
    return hosts.plan(NodeFacts("n1", found, there, presence, MARK, partitions=("ext",), **more))


def test_a_labelled_node_is_registered_with_a_literal_address() -> None:
    (created,) = plan(node(labels=LABEL, annotations={names.PARTITIONS_ANNOTATION: "ext"}), None)
    assert isinstance(created, RegisterHost)
    assert "NodeName=n1 NodeAddr=10.0.0.1 CPUs=4 " in created.conf
    assert "State=EXTERNAL Feature=ext" in created.conf
    assert "RealMemory=8192" in created.conf


def test_a_node_without_a_literal_address_is_told_and_never_registered() -> None:
    for addresses in ([], [{"type": "InternalIP", "address": "n1.local"}], [{"type": "Hostname", "address": "n1"}]):
        (found,) = plan(node(labels=LABEL, addresses=addresses), None)
        assert isinstance(found, ReportProblem)


@pytest.mark.parametrize(
    "found", [None, node(), node(labels=LABEL, ready=False)], ids=["no node", "no label", "not ready"]
)
def test_other_nodes_are_not_registered(found: Node | None) -> None:
    assert plan(found, None) == []


def test_an_unknown_partition_or_a_value_that_would_smuggle_is_told() -> None:
    for annotations in (
        {names.PARTITIONS_ANNOTATION: "nope"},
        {names.TOPOLOGY_ANNOTATION: "leaf1 State=DOWN"},
    ):
        (found,) = plan(node(labels=LABEL, annotations=annotations), None)
        assert isinstance(found, ReportProblem)


def test_a_converged_node_needs_nothing() -> None:
    assert plan(wanted(), host()) == []


def test_unknown_is_not_gone() -> None:
    for found in (None, wanted(), wanted(unschedulable=True)):
        assert plan(found, host(), presence=Presence.UNKNOWN) == []
        assert plan(found, None, presence=Presence.UNKNOWN) == []


def test_what_would_have_to_be_done_is_known_from_what_was_last_seen() -> None:
    def pressing(found: Node | None, there: Host | None) -> bool:
        return hosts.pressing(NodeFacts("n1", found, there, Presence.UNKNOWN, MARK, partitions=("ext",)))

    assert pressing(wanted(unschedulable=True), host())
    assert pressing(wanted(), None)
    assert not pressing(wanted(), host())
    assert not pressing(wanted(unschedulable=True), host("IDLE", "DRAIN", "EXTERNAL", reason=f"{names.DRAIN_PREFIX} x"))


def test_a_cordon_drains_and_its_end_undrains() -> None:
    drain = plan(wanted(unschedulable=True), host())[0]
    assert isinstance(drain, DrainHost)
    assert drain.reason.startswith(names.DRAIN_PREFIX)
    drained = host("IDLE", "DRAIN", "EXTERNAL", reason=drain.reason)
    assert UndrainHost() not in plan(wanted(unschedulable=True), drained)
    assert plan(wanted(), drained)[0] == UndrainHost()


@pytest.mark.parametrize("reason", ["disk broken", "", "Not slurm-bridge: really"])
def test_somebody_elses_drain_is_never_undone(reason: str) -> None:
    found = plan(wanted(), host("IDLE", "DRAIN", "EXTERNAL", reason=reason))
    assert UndrainHost() not in found
    (report,) = found
    assert isinstance(report, ReportHostState)
    assert not report.available


def test_a_silent_kubelet_drains_its_node() -> None:
    assert isinstance(plan(wanted(ready=False), host(), silent=True)[0], DrainHost)
    assert plan(wanted(ready=False), host()) == []


def test_a_host_whose_node_left_is_drained_and_then_deleted() -> None:
    assert plan(None, host()) == [DrainHost(f"{names.DRAIN_PREFIX} the node left Kubernetes")]
    assert plan(None, host("MIXED", "DRAIN", "EXTERNAL", reason=f"{names.DRAIN_PREFIX} x")) == []
    assert plan(None, host("IDLE", "DRAIN", "EXTERNAL", reason=f"{names.DRAIN_PREFIX} x")) == [RemoveHost()]


@pytest.mark.parametrize(
    "there",
    [host(comment=""), host(comment="slurm-bridge other/bridge uid"), host("IDLE"), host("IDLE", "DYNAMIC_NORM")],
    ids=["unsigned", "another's", "static", "slurmd"],
)
def test_hosts_that_we_did_not_make_are_never_drained_or_deleted(there: Host) -> None:
    assert plan(None, there) == []


def test_hosts_of_another_bridge_are_left_to_it() -> None:
    theirs = host(comment="slurm-bridge cluster/bridge-2 uid", cpus=1)
    for found in (wanted(), wanted(unschedulable=True), wanted(taints=[]), None):
        assert plan(found, theirs) == []


def test_a_host_of_another_cluster_that_keeps_a_node_out_is_told() -> None:
    (told,) = plan(wanted(), host(comment="slurm-bridge elsewhere/bridge uid"))
    assert isinstance(told, ReportProblem)
    assert names.HOST_LABEL in told.message
    assert plan(wanted(labels={}), host(comment="slurm-bridge elsewhere/bridge uid")) == []


def test_an_existing_external_host_of_a_labelled_node_is_signed() -> None:
    (found,) = plan(wanted(), host(comment=""))
    assert isinstance(found, ChangeHost)
    assert found.change.comment == SIGNED


def test_a_slurm_that_takes_a_node_otherwise_is_told_and_not_asked_again_and_again() -> None:
    (told, *_) = plan(wanted(), host(cpus=2))
    assert isinstance(told, ReportProblem)
    assert "Slurm has 2 CPUs, 8192 MB and no devices where the node offers 4 CPUs" in told.message
    assert isinstance(plan(wanted(unschedulable=True), host(cpus=2))[0], DrainHost)


def test_a_node_that_changed_its_size_is_replaced_once_empty_and_not_undrained_meanwhile() -> None:
    bigger = wanted(amounts={"cpu": "8"})
    assert isinstance(plan(bigger, host())[0], DrainHost)
    reason = f"{names.DRAIN_PREFIX} the node changed its size"
    busy = plan(bigger, host("MIXED", "DRAIN", "EXTERNAL", reason=reason))
    assert not [action for action in busy if isinstance(action, UndrainHost | RemoveHost)]
    assert plan(bigger, host("IDLE", "DRAIN", "EXTERNAL", reason=reason))[0] == RemoveHost()


def test_a_poisoned_host_is_registered_anew() -> None:
    assert isinstance(plan(wanted(), host("IDLE", "EXTERNAL", "NOT_RESPONDING"))[0], DrainHost)


GPUS = build_inventory([gpus(4)], [GPU_DRIVER])
CPUS_16 = build_inventory([cpu_singles(sockets=2, cores=4, threads=2)], ["dra.cpu"])


def test_devices_are_registered_and_compared_by_meaning() -> None:
    (created,) = plan(node(labels=LABEL), None, inventory=GPUS)
    assert isinstance(created, RegisterHost)
    assert "Gres=gpu:gpu.example.com:4 GresConf=Name=gpu,Type=gpu.example.com,Count=4," in created.conf
    comment = f"{SIGNED}+gpu:gpu.example.com:4#{GPUS.fingerprint}"
    there = host(gres="gpu:gpu.example.com:4(S:0)", comment=comment)
    assert plan(wanted(), there, inventory=GPUS) == []


def test_a_host_that_stands_for_other_devices_is_replaced() -> None:
    there = host(gres="gpu:gpu.example.com:4", comment=f"{SIGNED}+gpu:gpu.example.com:4#{GPUS.fingerprint}")
    other = build_inventory([gpus(4, pool="elsewhere")], [GPU_DRIVER])
    assert other.gres == GPUS.gres
    assert isinstance(plan(wanted(), there, inventory=other)[0], DrainHost)


def test_a_slurmd_with_other_devices_than_the_drivers_is_told_of() -> None:
    there = Host("n1", words=("IDLE",), cpus=4, real_memory=8192, gres="gpu:8")
    told = [action for action in plan(wanted(labels={}), there, inventory=GPUS) if isinstance(action, ReportProblem)]
    assert [(one.reason, "Slurm has gpu:8 where" in one.message) for one in told] == [("DevicesDiffer", True)]
    same = Host("n1", words=("IDLE",), cpus=4, real_memory=8192, gres="gpu:gpu.example.com:4(S:0)")
    assert not [action for action in plan(wanted(labels={}), same, inventory=GPUS) if isinstance(action, ReportProblem)]


@pytest.mark.parametrize("parts", [[gpus(4, count=2)], [gpus(4, generation=2, count=2), gpus(4)]])
def test_a_node_whose_slices_are_not_all_there_keeps_its_size(parts: list[Any]) -> None:
    unclear = build_inventory(parts, [GPU_DRIVER])
    there = host(gres="gpu:gpu.example.com:4", comment=f"{SIGNED}+gpu:gpu.example.com:4#{GPUS.fingerprint}")
    assert not [a for a in plan(wanted(), there, inventory=unclear) if isinstance(a, DrainHost | RemoveHost)]
    (told,) = plan(node(labels=LABEL), None, inventory=unclear)
    assert isinstance(told, ReportProblem)
    assert "gpu.example.com/n1" in told.message


@pytest.mark.parametrize(
    ("cpus", "shape"),
    [
        ("16", "CPUs=16 Boards=1 SocketsPerBoard=2 CoresPerSocket=4 ThreadsPerCore=2"),
        ("99", "CPUs=16 Boards=1 SocketsPerBoard=2 CoresPerSocket=4 ThreadsPerCore=2"),
        ("13500m", "CPUs=12 Boards=1 SocketsPerBoard=1 CoresPerSocket=6 ThreadsPerCore=2"),
    ],
)
def test_cpus_of_a_driver_are_registered_as_the_cores_they_are(cpus: str, shape: str) -> None:
    (created,) = plan(node(labels=LABEL, amounts={"cpu": cpus}), None, inventory=CPUS_16)
    assert isinstance(created, RegisterHost)
    assert shape in created.conf
    assert "Gres" not in created.conf


@pytest.mark.parametrize("place", ["default:leaf2", ""])
def test_features_and_topology_follow_their_annotations(place: str) -> None:
    given = {names.PARTITIONS_ANNOTATION: "ext", **({names.TOPOLOGY_ANNOTATION: place} if place else {})}
    found = plan(wanted(annotations=given), host(features=("old",), topology="default:leaf1"))
    same = NodeUpdate(features=("ext",), features_act=("ext",))
    assert found == [ChangeHost(same), ChangeHost(NodeUpdate(topology_str=place))]


def test_the_taint_is_a_knob() -> None:
    assert SetTaint(on=True) in plan(wanted(taints=[]), host())
    assert SetTaint(on=True) in plan(wanted(), host(), effect="NoSchedule")
    assert plan(wanted(taints=[]), host(), effect="None") == []
    assert plan(wanted(), host(), effect="None") == [SetTaint(on=False)]
    other = {**TAINT, "value": "another-scheduler"}
    assert plan(node(taints=[other]), None) == []
    assert plan(node(taints=[TAINT]), None) == [SetTaint(on=False)]


def test_a_hybrid_node_is_tainted_and_drained_but_never_registered_or_replaced() -> None:
    slurmd = host("IDLE", comment="", cpus=99)
    assert plan(node(conditions=[OPEN]), slurmd) == [SetTaint(on=True)]
    assert isinstance(plan(node(unschedulable=True, conditions=[OPEN]), slurmd)[0], DrainHost)
