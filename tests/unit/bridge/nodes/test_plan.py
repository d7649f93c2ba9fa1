# SPDX-License-Identifier: Apache-2.0
"""What is done for nodes and hosts, and which hosts are never changed."""

from typing import Any, get_args

import pytest
from tests.unit.bridge.build import GPU_DRIVER, cpu_singles, gpus, node

from slinky.bridge import names
from slinky.bridge.devices.inventory import build_inventory
from slinky.bridge.nodes import actions
from slinky.bridge.nodes import plan as node_plan
from slinky.bridge.nodes.description import NodeFacts
from slinky.kube import Node
from slinky.slurm import Host, NodeUpdate, Presence

LABEL = {names.EXTERNAL_LABEL: ""}
SIGNATURE = "slurm-bridge cluster/bridge"
COMMENT = f"{SIGNATURE} uid-n1 4/8192"
OPEN = {
    "type": names.HOST_CONDITION,
    "status": "True",
    "reason": "Open",
    "message": "Slurm schedules jobs on this host.",
}
TAINT = {"key": names.MANAGED_TAINT, "value": names.SCHEDULER, "effect": "NoExecute"}


def labelled(**more: Any) -> Node:
    """A node that is labelled as external and converged."""
    defaults: dict[str, Any] = {"labels": LABEL, "taints": [TAINT], "conditions": [OPEN]}
    return node(**{**defaults, **more})


def host(*flags: str, **more: Any) -> Host:
    fields: dict[str, Any] = {"comment": COMMENT, "cpus": 4, "real_memory": 8192, **more}
    return Host("n1", words=flags or ("IDLE", "EXTERNAL", "DYNAMIC_NORM"), **fields)


def plan(subject: Node | None, host_: Host | None, **more: Any) -> list[actions.Action]:
    presence = more.pop("presence", Presence.ABSENT if host_ is None else Presence.PRESENT)
    return node_plan.plan(NodeFacts("n1", subject, host_, presence, SIGNATURE, partitions=("ext",), **more))


def test_a_labelled_node_is_registered_with_a_literal_address() -> None:
    (created,) = plan(node(labels=LABEL, annotations={names.PARTITIONS_ANNOTATION: "ext"}), None)
    assert isinstance(created, actions.RegisterHost)
    assert "NodeName=n1 NodeAddr=10.0.0.1 CPUs=4 " in created.conf
    assert "State=EXTERNAL Feature=ext" in created.conf
    assert "RealMemory=8192" in created.conf


def test_a_node_without_a_literal_address_is_reported_and_never_registered() -> None:
    for addresses in ([], [{"type": "InternalIP", "address": "n1.local"}], [{"type": "Hostname", "address": "n1"}]):
        (action,) = plan(node(labels=LABEL, addresses=addresses), None)
        assert isinstance(action, actions.ReportProblem)


@pytest.mark.parametrize(
    "subject", [None, node(), node(labels=LABEL, ready=False)], ids=["no node", "no label", "not ready"]
)
def test_other_nodes_are_not_registered(subject: Node | None) -> None:
    assert plan(subject, None) == []


def test_an_unknown_partition_or_an_injected_setting_is_reported() -> None:
    for annotations in (
        {names.PARTITIONS_ANNOTATION: "nope"},
        {names.TOPOLOGY_ANNOTATION: "leaf1 State=DOWN"},
    ):
        (action,) = plan(node(labels=LABEL, annotations=annotations), None)
        assert isinstance(action, actions.ReportProblem)


def test_a_converged_node_needs_nothing() -> None:
    assert plan(labelled(), host()) == []


def test_nothing_is_done_while_slurm_is_not_known() -> None:
    for subject in (None, labelled(), labelled(unschedulable=True)):
        assert plan(subject, host(), presence=Presence.UNKNOWN) == []
        assert plan(subject, None, presence=Presence.UNKNOWN) == []


def test_a_needed_change_is_recognized_from_the_last_known_state() -> None:
    def needs_change(subject: Node | None, host_: Host | None) -> bool:
        return node_plan.needs_change_in_slurm(
            NodeFacts("n1", subject, host_, Presence.UNKNOWN, SIGNATURE, partitions=("ext",))
        )

    assert needs_change(labelled(unschedulable=True), host())
    assert needs_change(labelled(), None)
    assert not needs_change(labelled(), host())
    assert not needs_change(
        labelled(unschedulable=True),
        host("IDLE", "DRAIN", "EXTERNAL", reason=f"{names.DRAIN_PREFIX} cordoned in Kubernetes"),
    )


def test_a_cordon_drains_and_its_end_undrains() -> None:
    drain = plan(labelled(unschedulable=True), host())[0]
    assert isinstance(drain, actions.DrainHost)
    assert drain.reason.startswith(names.DRAIN_PREFIX)
    drained = host("IDLE", "DRAIN", "EXTERNAL", reason=drain.reason)
    assert actions.UndrainHost() not in plan(labelled(unschedulable=True), drained)
    assert plan(labelled(), drained)[0] == actions.UndrainHost()


@pytest.mark.parametrize("reason", ["disk broken", "", "Not slurm-bridge: really"])
def test_a_drain_by_others_is_never_undone(reason: str) -> None:
    result = plan(labelled(), host("IDLE", "DRAIN", "EXTERNAL", reason=reason))
    assert actions.UndrainHost() not in result
    (report,) = result
    assert isinstance(report, actions.ReportHostState)
    assert not report.text.status


def test_a_node_that_is_not_ready_for_long_is_drained() -> None:
    assert isinstance(plan(labelled(ready=False), host(), unresponsive=True)[0], actions.DrainHost)
    assert plan(labelled(ready=False), host()) == []


def test_a_host_whose_node_left_is_drained_and_then_deleted() -> None:
    assert plan(None, host()) == [actions.DrainHost(f"{names.DRAIN_PREFIX} the node left Kubernetes")]
    assert plan(None, host("MIXED", "DRAIN", "EXTERNAL", reason=f"{names.DRAIN_PREFIX} x")) == []
    assert plan(None, host("IDLE", "DRAIN", "EXTERNAL", reason=f"{names.DRAIN_PREFIX} x")) == [actions.RemoveHost()]


@pytest.mark.parametrize(
    "host_",
    [host(comment=""), host(comment="slurm-bridge other/bridge uid"), host("IDLE"), host("IDLE", "DYNAMIC_NORM")],
    ids=["unsigned", "of another cluster", "static", "slurmd"],
)
def test_hosts_without_the_signature_are_never_drained_or_removed(host_: Host) -> None:
    assert plan(None, host_) == []


def test_hosts_of_another_bridge_are_left_to_it() -> None:
    theirs = host(comment="slurm-bridge cluster/bridge-2 uid", cpus=1)
    for subject in (labelled(), labelled(unschedulable=True), labelled(taints=[]), None):
        assert plan(subject, theirs) == []


def test_a_host_of_another_cluster_that_blocks_a_node_is_reported() -> None:
    (report,) = plan(labelled(), host(comment="slurm-bridge elsewhere/bridge uid"))
    assert isinstance(report, actions.ReportProblem)
    assert names.HOST_LABEL in report.text.message
    assert plan(labelled(labels={}), host(comment="slurm-bridge elsewhere/bridge uid")) == []


def test_an_existing_external_host_of_a_labelled_node_is_signed() -> None:
    (action,) = plan(labelled(), host(comment=""))
    assert isinstance(action, actions.ChangeHost)
    assert action.change.comment == COMMENT


def test_a_size_that_slurm_does_not_accept_is_reported_and_not_sent_again() -> None:
    (report, *_) = plan(labelled(), host(cpus=2))
    assert isinstance(report, actions.ReportProblem)
    assert "Slurm has 2 CPUs, 8192 MB and no devices where the node offers 4 CPUs" in report.text.message
    assert isinstance(plan(labelled(unschedulable=True), host(cpus=2))[0], actions.DrainHost)


def test_a_node_that_changed_its_size_is_replaced_once_empty_and_not_undrained_meanwhile() -> None:
    bigger = labelled(amounts={"cpu": "8"})
    assert isinstance(plan(bigger, host())[0], actions.DrainHost)
    reason = f"{names.DRAIN_PREFIX} the node changed its size"
    busy = plan(bigger, host("MIXED", "DRAIN", "EXTERNAL", reason=reason))
    assert not [action for action in busy if isinstance(action, actions.UndrainHost | actions.RemoveHost)]
    assert plan(bigger, host("IDLE", "DRAIN", "EXTERNAL", reason=reason))[0] == actions.RemoveHost()


def test_a_host_that_does_not_respond_is_registered_again() -> None:
    assert isinstance(plan(labelled(), host("IDLE", "EXTERNAL", "NOT_RESPONDING"))[0], actions.DrainHost)


GPUS = build_inventory([gpus(4)], [GPU_DRIVER])
CPUS_16 = build_inventory([cpu_singles(sockets=2, cores=4, threads=2)], ["dra.cpu"])


def test_devices_are_registered_and_compared_by_meaning() -> None:
    (created,) = plan(node(labels=LABEL), None, inventory=GPUS)
    assert isinstance(created, actions.RegisterHost)
    assert "Gres=gpu:gpu.example.com:4 GresConf=Name=gpu,Type=gpu.example.com,Count=4," in created.conf
    comment = f"{COMMENT}+gpu:gpu.example.com:4#{GPUS.fingerprint}"
    host_ = host(gres="gpu:gpu.example.com:4(S:0)", comment=comment)
    assert plan(labelled(), host_, inventory=GPUS) == []


def test_a_host_with_other_devices_is_replaced() -> None:
    host_ = host(gres="gpu:gpu.example.com:4", comment=f"{COMMENT}+gpu:gpu.example.com:4#{GPUS.fingerprint}")
    other = build_inventory([gpus(4, pool="elsewhere")], [GPU_DRIVER])
    assert other.gres == GPUS.gres
    assert isinstance(plan(labelled(), host_, inventory=other)[0], actions.DrainHost)


def test_a_slurmd_with_other_devices_than_the_drivers_is_reported() -> None:
    host_ = Host("n1", words=("IDLE",), cpus=4, real_memory=8192, gres="gpu:8")
    report = [
        action
        for action in plan(labelled(labels={}), host_, inventory=GPUS)
        if isinstance(action, actions.ReportProblem)
    ]
    assert [(item.text.reason, "Slurm host n1 has 8 gpu, the drivers" in item.text.message) for item in report] == [
        ("DevicesDiffer", True)
    ]
    same = Host("n1", words=("IDLE",), cpus=4, real_memory=8192, gres="gpu:gpu.example.com:4(S:0)")
    assert not [
        action
        for action in plan(labelled(labels={}), same, inventory=GPUS)
        if isinstance(action, actions.ReportProblem)
    ]


@pytest.mark.parametrize("parts", [[gpus(4, count=2)], [gpus(4, generation=2, count=2), gpus(4)]])
def test_a_node_with_incomplete_slices_keeps_its_size(parts: list[Any]) -> None:
    unclear = build_inventory(parts, [GPU_DRIVER])
    host_ = host(gres="gpu:gpu.example.com:4", comment=f"{COMMENT}+gpu:gpu.example.com:4#{GPUS.fingerprint}")
    assert not [
        a for a in plan(labelled(), host_, inventory=unclear) if isinstance(a, actions.DrainHost | actions.RemoveHost)
    ]
    (report,) = plan(node(labels=LABEL), None, inventory=unclear)
    assert isinstance(report, actions.ReportProblem)
    assert "gpu.example.com/n1" in report.text.message


@pytest.mark.parametrize(
    ("cpus", "shape"),
    [
        ("16", "CPUs=16 Boards=1 SocketsPerBoard=2 CoresPerSocket=4 ThreadsPerCore=2"),
        ("99", "CPUs=16 Boards=1 SocketsPerBoard=2 CoresPerSocket=4 ThreadsPerCore=2"),
        ("13500m", "CPUs=12 Boards=1 SocketsPerBoard=1 CoresPerSocket=6 ThreadsPerCore=2"),
    ],
)
def test_cpus_of_a_driver_are_registered_with_their_cores(cpus: str, shape: str) -> None:
    (created,) = plan(node(labels=LABEL, amounts={"cpu": cpus}), None, inventory=CPUS_16)
    assert isinstance(created, actions.RegisterHost)
    assert shape in created.conf
    assert "Gres" not in created.conf


@pytest.mark.parametrize("topology", ["default:leaf2", ""])
def test_features_and_topology_follow_their_annotations(topology: str) -> None:
    annotations = {names.PARTITIONS_ANNOTATION: "ext", **({names.TOPOLOGY_ANNOTATION: topology} if topology else {})}
    result = plan(labelled(annotations=annotations), host(features=("old",), topology="default:leaf1"))
    same = NodeUpdate(features=("ext",), features_act=("ext",))
    assert result == [actions.ChangeHost(same), actions.ChangeHost(NodeUpdate(topology_str=topology))]


def test_the_taint_effect_is_configurable() -> None:
    assert actions.SetTaint(on=True) in plan(labelled(taints=[]), host())
    assert actions.SetTaint(on=True) in plan(labelled(), host(), taint_effect="NoSchedule")
    assert plan(labelled(taints=[]), host(), taint_effect="None") == []
    assert plan(labelled(), host(), taint_effect="None") == [actions.SetTaint(on=False)]
    other = {**TAINT, "value": "another-scheduler"}
    assert plan(node(taints=[other]), None) == []
    assert plan(labelled(taints=[other]), host(), taint_effect="None") == []
    assert plan(node(taints=[TAINT]), None) == [actions.SetTaint(on=False)]


def test_the_taint_of_another_bridge_is_left_in_place() -> None:
    other = {**TAINT, "value": "another-scheduler"}
    slurmd = host("IDLE", comment="")
    assert plan(node(taints=[other], conditions=[OPEN]), slurmd) == []
    assert plan(node(taints=[other], conditions=[OPEN]), slurmd, taint_effect="NoSchedule") == [
        actions.SetTaint(on=True)
    ]


def test_a_node_that_claims_the_host_of_another_node_shows_it_and_loses_the_taint() -> None:
    owner, second = node("n1"), node("n2", labels={names.HOST_LABEL: "n1"}, taints=[TAINT])
    untaint, report, problem = node_plan.plan_duplicate(second, owner, "n1", names.SCHEDULER)
    assert untaint == actions.SetTaint(on=False)
    assert isinstance(report, actions.ReportHostState)
    assert (report.text.status, report.text.reason) == (False, "HostNameClaimed")
    assert "Node n1 already has the Slurm host n1" in report.text.message
    assert problem == actions.ReportProblem(report.text)
    written = {"type": names.HOST_CONDITION, "status": "False", "reason": report.text.reason}
    second = node("n2", conditions=[{**written, "message": report.text.message}])
    assert node_plan.plan_duplicate(second, owner, "n1", names.SCHEDULER) == []


def test_a_node_with_a_worker_is_not_registered_a_second_time() -> None:
    worker = "slurm/worker-0 (host worker-0)"
    report, problem = plan(node(labels=LABEL), None, worker=worker)
    assert isinstance(report, actions.ReportHostState)
    assert (report.text.status, report.text.reason) == (False, "WorkerOnNode")
    assert worker in report.text.message
    assert problem == actions.ReportProblem(report.text)
    drain = plan(labelled(), host(), worker=worker)[0]
    assert drain == actions.DrainHost(f"{names.DRAIN_PREFIX} a Slurm worker runs on the node")
    drained = host("IDLE", "DRAIN", "EXTERNAL", reason=drain.reason)
    assert plan(labelled(), drained, worker=worker)[0] == actions.RemoveHost()
    assert isinstance(plan(labelled(), drained)[0], actions.UndrainHost)  # the worker left in time


def test_a_node_that_control_pods_need_is_not_tainted() -> None:
    report = plan(labelled(taints=[]), host(), home_of="slurm/slurm-controller-0")
    assert isinstance(report[0], actions.ReportHostState)
    assert (report[0].text.status, report[0].text.reason) == (True, "OpenUntainted")
    assert "pod slurm/slurm-controller-0 runs here or has no other node" in report[0].text.message
    assert len(report) == 1


def test_a_node_without_a_host_has_no_condition_about_it() -> None:
    assert plan(node(conditions=[OPEN]), None) == [actions.ClearHostState()]
    assert plan(node(), None) == []


def test_a_hybrid_node_is_tainted_and_drained_but_never_registered_or_replaced() -> None:
    slurmd = host("IDLE", comment="", cpus=99)
    assert plan(node(conditions=[OPEN]), slurmd) == [actions.SetTaint(on=True)]
    assert isinstance(plan(node(unschedulable=True, conditions=[OPEN]), slurmd)[0], actions.DrainHost)


def test_the_labels_of_actions_in_metrics_are_stable() -> None:
    labels = [kind.label for kind in get_args(actions.Action)]
    assert labels == ["create", "amend", "drain", "undrain", "delete", "taint", "report", "clear", "complain"]
