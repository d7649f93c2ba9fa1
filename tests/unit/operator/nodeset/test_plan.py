# SPDX-License-Identifier: Apache-2.0
"""Laws of every plan: which actions on workers are possible, in any state of Kubernetes and Slurm."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.operator.samples import UNTRUSTED, ago, host, node, node_set, node_set_snapshot, pod, trusted_snapshot

from slinky.api.names import metadata
from slinky.kube.types import ObjectMeta, Owner
from slinky.kube.views import Taint
from slinky.operator.framework.children import Child
from slinky.operator.nodeset.actions import (
    Action,
    AdoptClaim,
    CancelJobs,
    CondemnWorker,
    CreateWorker,
    DeleteClaim,
    DeleteWorker,
    ForgetHost,
    UpdateHost,
)
from slinky.operator.nodeset.decisions.drains import deletion_permission
from slinky.operator.nodeset.plan import MAX_CREATIONS, plan
from slinky.operator.nodeset.status import health
from slinky.operator.nodeset.workers import KeptDrain
from slinky.operator.slurm.snapshot import SlurmSnapshot


def kinds(actions: list[Action], *types: type) -> list[Any]:
    return [action for action in actions if isinstance(action, types)]


def settled(name: str, node_name: str) -> Any:
    comment = f'{{"namespace":"ns","podName":"{name}","node":"{node_name}","nodeSetName":"gpu","nodeSetUID":"uid-gpu"}}'
    return host(name, comment=comment)


def test_a_settled_set_needs_nothing() -> None:
    slurm = trusted_snapshot(settled("gpu-0", "node1"), settled("gpu-1", "node2"))
    assert plan(node_set_snapshot(node_set(replicas=2), [pod("gpu-0"), pod("gpu-1", node="node2")], slurm)) == []


@pytest.mark.parametrize(
    "slurm", [SlurmSnapshot(), UNTRUSTED, trusted_snapshot()], ids=["not connected", "not trusted", "empty"]
)
def test_creation_never_waits_for_slurm(slurm: SlurmSnapshot) -> None:
    actions = plan(node_set_snapshot(node_set(replicas=3), [], slurm))
    assert [action.slot.ordinal for action in kinds(actions, CreateWorker)] == [0, 1, 2]


def test_one_plan_creates_a_bounded_number_of_workers() -> None:
    actions = plan(node_set_snapshot(node_set(replicas=65_533), [pod("gpu-1")], UNTRUSTED))
    assert [action.slot.ordinal for action in kinds(actions, CreateWorker)] == [0, *range(2, MAX_CREATIONS + 1)]


def test_a_record_of_an_earlier_worker_is_forgotten_before_the_new_one_comes() -> None:
    stale, busy = host("gpu-0", "DOWN+DRAIN"), host("gpu-1", "MIXED")
    actions = plan(node_set_snapshot(node_set(replicas=2), [], trusted_snapshot(stale, busy)))
    assert [action.stale_host for action in kinds(actions, CreateWorker)] == ["gpu-0", ""]


def test_a_worker_that_is_created_again_gets_the_drain_of_its_administrator() -> None:
    drained = host("gpu-0", "IDLE+DRAIN", "bad GPU", reason_set_by_user="alice")
    (creation,) = kinds(plan(node_set_snapshot(node_set(replicas=1), [], trusted_snapshot(drained))), CreateWorker)
    assert (creation.stale_host, creation.drain) == ("gpu-0", KeptDrain("bad GPU", "alice"))


def test_scaling_in_condemns_and_drains_and_does_not_delete() -> None:
    pods = [pod("gpu-0"), pod("gpu-1", node="node2")]
    actions = plan(
        node_set_snapshot(node_set(replicas=1), pods, trusted_snapshot(host("gpu-0", "MIXED"), host("gpu-1")))
    )
    assert [(a.worker.meta.name, a.cause) for a in kinds(actions, CondemnWorker)] == [("gpu-1", "scale-in")]
    assert kinds(actions, DeleteWorker) == []


@pytest.mark.parametrize(
    ("state", "trusted", "steps"),
    [
        ("MIXED", True, ["drain"]),
        ("MIXED+DRAIN", True, ["drain"]),
        ("IDLE+DRAIN", True, ["delete"]),
        ("IDLE+DRAIN", False, []),
        ("MIXED", False, []),
    ],
    ids=["busy: drain", "our reason replaces an old one", "drained: delete", "stale snapshot: wait", "unknown: wait"],
)
def test_a_condemned_worker_is_drained_then_deleted(state: str, trusted: bool, steps: list[str]) -> None:
    condemned = pod("gpu-0", pod_condemned=f"scale-in {ago(10)}")
    reason = "" if state == "MIXED" else f"{metadata.REASON_PREFIX}something else"
    slurm = trusted_snapshot(host("gpu-0", state, reason), trusted=trusted)
    actions = plan(node_set_snapshot(node_set(replicas=0), [condemned], slurm))
    results = [
        "delete" if isinstance(a, DeleteWorker) else a.what
        for a in actions
        if isinstance(a, DeleteWorker) or (isinstance(a, UpdateHost) and a.what not in {"comment", "features"})
    ]
    assert results == steps


def test_an_empty_list_from_slurm_deletes_no_worker() -> None:
    pods = [pod(f"gpu-{n}") for n in range(5)]
    assert (
        kinds(plan(node_set_snapshot(node_set(replicas=5), pods, trusted_snapshot())), CondemnWorker, DeleteWorker)
        == []
    )


def test_a_worker_that_slurm_does_not_know_is_replaced_when_slurm_knows_others() -> None:
    actions = plan(
        node_set_snapshot(node_set(replicas=2), [pod("gpu-0"), pod("gpu-1")], trusted_snapshot(host("gpu-0")))
    )
    assert [(a.worker.meta.name, a.cause) for a in kinds(actions, CondemnWorker)] == [("gpu-1", "unregistered")]


def test_a_worker_whose_jobs_slurm_has_forgotten_is_left_to_a_person() -> None:
    """Those jobs are invisible, so the operator cannot know that they have ended, and does not end them."""
    pods = [pod("gpu-0"), pod("gpu-1", shown="Mixed"), pod("gpu-2", shown="Idle")]
    state = node_set_snapshot(node_set(replicas=3), pods, trusted_snapshot(host("gpu-0")))
    assert [(a.worker.meta.name, a.cause) for a in kinds(plan(state), CondemnWorker)] == [("gpu-2", "unregistered")]
    condition = health(state).degraded
    assert (condition.value, condition.reason) == (True, "JobsForgotten")
    assert "gpu-1" in condition.message
    assert health(node_set_snapshot(node_set(replicas=3), pods, UNTRUSTED)).degraded.value is False, (
        "not known is not forgotten"
    )


def test_a_persons_cordon_survives_our_own_passes() -> None:
    slurm = trusted_snapshot(host("gpu-0", "IDLE+DRAIN", f"{metadata.REASON_PREFIX}Pod ns/gpu-0 was cordoned"))
    actions = plan(node_set_snapshot(node_set(replicas=1), [pod("gpu-0", pod_cordon="true")], slurm))
    assert [a.what for a in kinds(actions, UpdateHost)] == ["comment"]


def test_a_wait_needs_no_action_on_later_passes() -> None:
    """Requests and events come from actions, so a wait without an action causes neither."""
    busy_annotations: dict[str, Any] = {"do_not_disrupt": "true", "safe_to_evict": "false"}
    labels = {metadata.POD_PROTECT: "true"}
    condemned = pod("gpu-0", pod_condemned=f"scale-in {ago(10)}", labels=labels, **busy_annotations)
    comment = settled("gpu-0", "node1").comment
    busy = host("gpu-0", "MIXED+DRAIN", f"{metadata.REASON_PREFIX}Pod ns/gpu-0 is scaled in", comment=comment)
    assert plan(node_set_snapshot(node_set(replicas=0), [condemned], trusted_snapshot(busy))) == []
    drained = host("gpu-0", "IDLE+DRAIN", f"{metadata.REASON_PREFIX}Node node1 was cordoned", comment=busy.comment)
    assert (
        plan(
            node_set_snapshot(
                node_set(replicas=1), [pod("gpu-0")], trusted_snapshot(drained), [node("node1", cordoned=True)]
            )
        )
        == []
    )


def test_deleting_a_set_drains_its_workers_first() -> None:
    gpu_set = node_set(deleting=5)
    actions = plan(node_set_snapshot(gpu_set, [pod("gpu-0")], trusted_snapshot(host("gpu-0", "MIXED"))))
    assert [a.cause for a in kinds(actions, CondemnWorker)] == ["deletion"]
    condemned = pod("gpu-0", pod_condemned=f"deletion {ago(3)}")
    assert [
        a.what
        for a in kinds(
            plan(node_set_snapshot(gpu_set, [condemned], trusted_snapshot(host("gpu-0", "MIXED")))), UpdateHost
        )
    ] == ["drain"]
    assert kinds(plan(node_set_snapshot(gpu_set, [condemned], UNTRUSTED)), DeleteWorker) == []


def test_the_deadline_of_a_deletion_is_an_override_that_a_person_gave() -> None:
    condemned = [pod("gpu-0", pod_condemned=f"deletion {ago(99)}")]
    late = node_set(deleting=100, drain={"deletionDeadline": "1m"})
    early = node_set(deleting=30, drain={"deletionDeadline": "1m"})
    assert len(kinds(plan(node_set_snapshot(late, condemned, UNTRUSTED)), DeleteWorker)) == 1
    assert kinds(plan(node_set_snapshot(early, condemned, UNTRUSTED)), DeleteWorker) == []


@pytest.mark.parametrize(
    ("policy", "step"),
    [("Wait", []), ("Cancel", [CancelJobs]), ("Requeue", [UpdateHost])],
    ids=["wait", "cancel", "requeue"],
)
def test_jobs_that_outstay_a_drain(policy: str, step: list[type]) -> None:
    gpu_set = node_set(replicas=0, drain={"timeout": "1m", "onTimeout": policy})
    reason = f"{metadata.REASON_PREFIX}Pod ns/gpu-0 is scaled in"
    slurm = trusted_snapshot(host("gpu-0", "MIXED+DRAIN", reason))

    def actions_after(seconds: float) -> list[type]:
        condemned = pod("gpu-0", pod_condemned=f"scale-in {ago(seconds)}", labels={metadata.POD_PROTECT: "true"})
        actions = plan(node_set_snapshot(gpu_set, [condemned], slurm))
        return [
            type(a) for a in actions if isinstance(a, CancelJobs) or (isinstance(a, UpdateHost) and a.what == "down")
        ]

    assert actions_after(61) == step
    assert actions_after(59) == []


def test_the_deletion_limit_applies_to_unplanned_removals_only() -> None:
    drained = host("gpu-0", "IDLE+DRAIN")
    for cause, limited in (("scale-in", False), ("deletion", False), ("update", True), ("unregistered", True)):
        actions = plan(
            node_set_snapshot(
                node_set(replicas=0), [pod("gpu-0", pod_condemned=f"{cause} x")], trusted_snapshot(drained)
            )
        )
        assert [a.limited for a in kinds(actions, DeleteWorker)] == [limited], cause


def test_one_worker_on_every_node_that_fits() -> None:
    gpu_set = node_set(scalingMode="DaemonSet", template={"spec": {"nodeSelector": {"gpu": "yes"}}})
    nodes = [
        node("a.example", labels={"gpu": "yes"}),
        node("b"),
        node("c", labels={"gpu": "yes"}, taints=(Taint("x", "NoSchedule"),)),
    ]
    actions = plan(node_set_snapshot(gpu_set, [], UNTRUSTED, nodes))
    assert [(a.slot.node, a.slot.hostname) for a in kinds(actions, CreateWorker)] == [("a.example", "a")]


def test_the_worker_of_a_node_that_no_longer_fits_is_drained_first() -> None:
    gpu_set = node_set(scalingMode="DaemonSet", template={"spec": {"nodeSelector": {"gpu": "yes"}}})
    running = pod("gpu-x", node="b", mode="DaemonSet", labels={metadata.POD_HOSTNAME: "b"})
    actions = plan(node_set_snapshot(gpu_set, [running], trusted_snapshot(host("b", "MIXED")), [node("b")]))
    assert [a.cause for a in kinds(actions, CondemnWorker)] == ["node"]
    assert kinds(actions, DeleteWorker, CreateWorker) == []


def test_of_two_workers_on_one_node_the_ready_one_stays() -> None:
    gpu_set = node_set(scalingMode="DaemonSet")
    pods = [
        pod(f"gpu-{n}", node="b", mode="DaemonSet", labels={metadata.POD_HOSTNAME: "b"}, ready=r)
        for n, r in ((1, None), (2, 50))
    ]
    actions = plan(node_set_snapshot(gpu_set, pods, trusted_snapshot(host("b")), [node("b")]))
    assert [a.worker.meta.name for a in kinds(actions, CondemnWorker)] == ["gpu-1"]


@pytest.mark.parametrize(
    ("law", "nodes", "moves"),
    [
        ("its node is there", [node("node7", labels={"gpu": "yes"})], False),
        ("its node is in trouble, which passes", [node("node7", labels={"gpu": "yes"}, cordoned=True)], False),
        ("its node is gone", [node("node1", labels={"gpu": "yes"})], True),
        ("its node suits no more", [node("node7")], True),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_pin_is_given_up_when_nothing_could_ever_run_there(law: str, nodes: list[Any], moves: bool) -> None:
    template = {"spec": {"nodeSelector": {"gpu": "yes"}}}
    gpu_set = node_set(
        replicas=2, pinToNode=True, template=template, status={"ordinalToNode": {"0": "node7", "1": "node7"}}
    )
    waiting = pod("gpu-0", node="", ready=None, phase="Pending", pod_node="node7")
    actions = plan(node_set_snapshot(gpu_set, [waiting], UNTRUSTED, nodes))
    assert [action.cause for action in kinds(actions, CondemnWorker)] == ["node"] * moves
    assert [action.slot.node for action in kinds(actions, CreateWorker)] == ["" if moves else "node7"]
    running = pod("gpu-0", node="node7", pod_node="node7")
    assert kinds(plan(node_set_snapshot(gpu_set, [running], UNTRUSTED, nodes)), CondemnWorker) == [], (
        "a running worker is not removed"
    )


def test_a_changed_mode_drains_the_workers_of_the_old_one() -> None:
    actions = plan(
        node_set_snapshot(node_set(scalingMode="DaemonSet"), [pod("gpu-0")], trusted_snapshot(host("gpu-0")), [])
    )
    assert [a.cause for a in kinds(actions, CondemnWorker)] == ["scaling-mode"]


def test_a_record_is_pruned_only_when_its_node_is_gone_and_it_is_ours() -> None:
    def dead(name: str, uid: str, where: str) -> Any:
        comment = f'{{"namespace":"ns","node":"{where}","nodeSetUID":"{uid}"}}'
        return host(name, "DOWN+NOT_RESPONDING", comment=comment)

    gpu_set = node_set(
        scalingMode="DaemonSet", pruneSlurmNodeRecords="NodeNotFound", template={"spec": {"nodeSelector": {"no": "no"}}}
    )
    slurm = trusted_snapshot(
        dead("a", "uid-gpu", "gone"),
        dead("node1", "uid-gpu", "node1"),
        dead("alias", "uid-gpu", "node1"),
        dead("c", "other", "gone"),
        host("d"),
    )
    results = [(a.host, a.why) for a in kinds(plan(node_set_snapshot(gpu_set, [], slurm)), ForgetHost)]
    assert results == [("a", "node gone does not exist"), ("alias", "node node1 now has the host name node1")]
    assert kinds(plan(node_set_snapshot(gpu_set, [], slurm._replace(trusted=False))), ForgetHost) == []


def claim(name: str, *owners: Owner) -> Child:
    return Child(ObjectMeta(name=name, namespace="ns", owner_references=owners))


def test_claims_go_with_scale_in_only_if_asked_and_never_by_a_cordon() -> None:
    claims = tuple(claim(f"data-gpu-{name}") for name in ("0", "1", "2", "07", "x"))
    templates: dict[str, Any] = {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    policy: dict[str, Any] = {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}, **templates}
    cordoned = [pod("gpu-0", pod_cordon="true"), pod("gpu-1", node="node2")]

    def dropped(replicas: int, pods: list[Any], **spec: Any) -> list[str]:
        actions = plan(node_set_snapshot(node_set(replicas=replicas, **spec), pods, UNTRUSTED, claims=claims))
        return [action.claim.metadata.name for action in kinds(actions, DeleteClaim)]

    assert dropped(1, cordoned, **policy) == ["data-gpu-2"]
    assert dropped(1, cordoned, **templates) == []
    assert dropped(1, cordoned[1:], **policy) == ["data-gpu-0", "data-gpu-2"], "the one that stayed is not the first"
    assert dropped(2, cordoned[1:], **policy) == ["data-gpu-2"], "a worker that is being replaced keeps its claim"


def test_claims_go_with_the_set_or_stay_as_the_policy_says_now() -> None:
    templates: dict[str, Any] = {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    ours, theirs = Owner("v", "NodeSet", "gpu", "uid-gpu", True), Owner("v", "Other", "x", "uid-x", True)

    def owners(policy: str, *live: Owner) -> list[list[str]]:
        gpu_set = node_set(persistentVolumeClaimRetentionPolicy={"whenDeleted": policy}, **templates)
        actions = plan(node_set_snapshot(gpu_set, [pod("gpu-0")], UNTRUSTED, claims=(claim("data-gpu-0", *live),)))
        return [[owner["uid"] for owner in action.owners] for action in kinds(actions, AdoptClaim)]

    assert owners("Retain") == owners("Delete", ours) == []
    assert owners("Delete") == [["uid-gpu"]]
    assert owners("Retain", ours) == [[]]
    assert owners("Delete", theirs) == [], "a claim that another controller owns is left to it"
    assert owners("Retain", ours, theirs) == [["uid-x"]]


STATES = st.sampled_from(
    ["IDLE", "MIXED", "ALLOCATED", "DOWN", "IDLE+DRAIN", "MIXED+DRAIN", "DOWN+DRAIN", "WEIRD+DRAIN"]
)
CONDEMNED = st.sampled_from(["", "scale-in x", "update x", "deletion x", "unregistered x"])


@st.composite
def snapshots(draw: st.DrawFn) -> Any:
    count = draw(st.integers(0, 6))
    pods = [
        pod(
            f"gpu-{n}",
            node=draw(st.sampled_from(["node1", "node2", ""])),
            ready=draw(st.sampled_from([None, 1.0, 500.0])),
            revision=draw(st.sampled_from(["rev1", "rev2"])),
            phase=draw(st.sampled_from(["Running", "Pending", "Failed"])),
            deleting=draw(st.booleans()),
            pod_condemned=draw(CONDEMNED),
            shown=draw(st.sampled_from(["", "Idle", "Mixed", "Idle Completing"])),
        )
        for n in range(count)
    ]
    hosts = [
        host(f"gpu-{n}", draw(STATES), draw(st.sampled_from(["", "disk", f"{metadata.REASON_PREFIX}x"])))
        for n in range(count)
        if draw(st.booleans())
    ]
    gpu_set = node_set(
        replicas=draw(st.integers(0, 6)),
        deleting=draw(st.sampled_from([None, None, 10.0])),
        annotations=draw(st.sampled_from([{}, {}, {metadata.FORCE_DELETE: "true"}])),
        updateStrategy={"type": draw(st.sampled_from(["RollingUpdate", "OnDelete", "ScheduledUpdate"]))},
    )
    return node_set_snapshot(gpu_set, pods, trusted_snapshot(*hosts, trusted=draw(st.booleans())))


@settings(max_examples=300, deadline=None)
@given(snapshots())
def test_laws_of_every_plan(state: Any) -> None:
    actions = plan(state)
    forced = state.node_set.metadata.annotations.get(metadata.FORCE_DELETE) == "true"
    for action in kinds(actions, DeleteWorker):
        assert deletion_permission(action.worker, forced=forced), "deleted without permission"
        assert action.worker.condemned or action.worker.pod.finished, "deleted without having been chosen"
        assert not action.worker.terminating
        ended = action.worker.pod.finished or not action.worker.pod.spec.node_name
        shown = {condition.type for condition in action.worker.pod.status.conditions}
        unknown = state.slurm.trusted and action.worker.hostname not in state.slurm.hosts
        idle = unknown and not shown & {"SlurmNodeStateMixed", "SlurmNodeStateCompleting"}
        assert forced or ended or state.slurm.is_drained(action.worker.hostname) or idle, "work may be on it"
    for action in kinds(actions, UpdateHost):
        results = state.slurm.host(action.host)
        assert results is not None, "changes a host that is not known"
        foreign = results.state.draining and not results.reason.startswith(metadata.REASON_PREFIX)
        assert not (foreign and action.what in {"undrain", "resume", "drain"}), "touched a foreign drain"
    slots = [action.slot.ordinal for action in kinds(actions, CreateWorker)]
    assert len(slots) == len(set(slots))
    assert not {f"gpu-{ordinal}" for ordinal in slots} & {worker.meta.name for worker in state.workers}
    assert not (slots and state.deleting), "a NodeSet that is being deleted creates nothing"
    if not state.slurm.trusted:
        assert kinds(actions, UpdateHost, CancelJobs, ForgetHost) == []
