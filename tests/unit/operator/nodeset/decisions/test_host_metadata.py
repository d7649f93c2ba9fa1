# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.operator.samples import (
    NOW,
    UNTRUSTED,
    host,
    node,
    node_set,
    node_set_snapshot,
    pod,
    trusted_snapshot,
    worker_of,
)

from slinky.api.names import metadata
from slinky.api.nodeset import NodeSet
from slinky.kube.types import Condition
from slinky.kube.views import Pod
from slinky.operator.nodeset.actions import AnnotateWorker, ExecutionReport
from slinky.operator.nodeset.decisions.host_metadata import HostComment, host_updates, pod_updates
from slinky.operator.nodeset.status import counts, health, pins, pod_conditions
from slinky.operator.nodeset.workers import Worker
from slinky.slurm import NodeUpdate


def pod_update(gpu_set: NodeSet, worker: Worker) -> AnnotateWorker | None:
    return next(iter(pod_updates(gpu_set, worker)), None)


OURS = HostComment("ns", "gpu-0", "node1", "gpu", "uid-gpu").text()


def changes(state: str = "IDLE", annotations: dict[str, str] | None = None, **more: Any) -> list[NodeUpdate]:
    known: dict[str, Any] = {"comment": OURS, **more}
    slurm = trusted_snapshot(host("gpu-0", state, **known))
    return [
        update.change
        for update in host_updates(node_set(), worker_of(pod(), slurm, on=node(annotations=annotations or {})))
    ]


def test_the_comment_names_the_node_set_of_the_host() -> None:
    assert changes() == []
    assert [change.comment for change in changes(comment="")] == [OURS]
    assert HostComment.parse(OURS) == HostComment("ns", "gpu-0", "node1", "gpu", "uid-gpu")
    assert HostComment.parse("written by a person") is None


def test_topology_follows_the_node_and_an_empty_one_changes_nothing() -> None:
    place = {metadata.TOPOLOGY: "default:leaf2,nvl:b1"}
    assert [change.topology_str for change in changes(annotations=place, topology="default:leaf1")] == [
        "default:leaf2,nvl:b1"
    ]
    assert changes(annotations=place, topology="nvl:b1,default:leaf2") == []
    assert changes(topology="default:leaf1") == [], "the position of topology.yaml"


def test_a_topology_ends_with_its_annotation() -> None:
    def topologies(worker: Pod, topology: str) -> list[str | None]:
        slurm = trusted_snapshot(host(comment=OURS, topology=topology))
        updates = host_updates(node_set(), worker_of(worker, slurm, on=node()))
        return [update.change.topology_str for update in updates]

    assert topologies(pod(topology="default:leaf1"), "default:leaf1") == [""]
    assert topologies(pod(topology="default:leaf1"), "") == [], "it is cleared"
    assert topologies(pod(), "default:leaf1") == []
    held = worker_of(pod(topology="default:leaf1"), trusted_snapshot(host(topology="default:leaf1")), on=node())
    assert pod_update(node_set(), held) is None, "the annotation stays until Slurm has cleared the position"


def test_our_features_follow_the_node_and_others_stay() -> None:
    change = changes(
        annotations={metadata.FEATURES: "nvlink, ib"}, features=("gpu", "k8s/old"), active_features=("gpu",)
    )[0]
    assert change.features == ["gpu", "k8s/ib", "k8s/nvlink"]
    assert change.features_act == ["gpu", "k8s/ib", "k8s/nvlink"]
    assert (
        changes(annotations={metadata.FEATURES: "ib"}, features=("k8s/ib", "gpu"), active_features=("gpu", "k8s/ib"))
        == []
    )


def test_the_host_of_a_worker_that_is_not_ready_or_not_known_is_not_changed() -> None:
    assert list(host_updates(node_set(), worker_of(pod(ready=None), trusted_snapshot(host("gpu-0"))))) == []
    assert list(host_updates(node_set(), worker_of(pod(), UNTRUSTED))) == []


def test_busy_workers_are_protected_and_an_unknown_one_stays_as_it_is() -> None:
    busy = pod_update(node_set(), worker_of(pod(), trusted_snapshot(host("gpu-0", "MIXED"))))
    assert busy is not None
    assert busy.labels == {metadata.POD_PROTECT: "true"}
    protected = pod(labels={metadata.POD_PROTECT: "true"})
    idle = pod_update(node_set(), worker_of(protected, trusted_snapshot(host("gpu-0", "IDLE"))))
    assert idle is not None
    assert idle.labels == {metadata.POD_PROTECT: None}
    assert pod_update(node_set(), worker_of(protected, UNTRUSTED)) is None
    off = pod_update(node_set(workloadDisruptionProtection=False), worker_of(protected, UNTRUSTED))
    assert off is not None
    assert off.labels == {metadata.POD_PROTECT: None}


@pytest.mark.parametrize(
    ("law", "state", "guarded"),
    [
        ("idle: a job may begin at any moment", "IDLE", True),
        ("busy", "MIXED", True),
        ("draining with a job", "MIXED+DRAIN", True),
        ("drained: none will begin", "IDLE+DRAIN", False),
        ("the drain is being lifted", "IDLE+DRAIN+UNDRAIN", True),
        ("down: its jobs are lost, but the host may come back", "DOWN", True),
    ],
)
def test_an_idle_worker_is_protected_on_request_until_it_is_drained(law: str, state: str, guarded: bool) -> None:
    gpu_set, slurm = node_set(drain={"protectIdle": True}), trusted_snapshot(host("gpu-0", state))
    update = pod_update(gpu_set, worker_of(pod(), slurm))
    assert (update is not None and update.labels == {metadata.POD_PROTECT: "true"}) is guarded
    protected = pod_update(gpu_set, worker_of(pod(labels={metadata.POD_PROTECT: "true"}), slurm))
    assert (protected is not None and protected.labels == {metadata.POD_PROTECT: None}) is not guarded
    off = node_set(drain={"protectIdle": True}, workloadDisruptionProtection=False)
    assert pod_update(off, worker_of(pod(), slurm)) is None


def test_the_state_of_the_host_is_shown_on_the_pod() -> None:
    worker = worker_of(pod(), trusted_snapshot(host("gpu-0", "MIXED+DRAIN+NOT_RESPONDING", "fan")))
    conditions = pod_conditions(worker, NOW)
    assert conditions is not None
    assert [(item["type"], item["message"]) for item in conditions] == [
        ("SlurmNodeStateDrain", "fan"),
        ("SlurmNodeStateMixed", "fan"),
        ("SlurmNodeStateNotResponding", "fan"),
    ]
    assert pod_conditions(worker_of(pod(), UNTRUSTED), NOW) is None


EVERY = {
    "ALLOCATED": "Allocated",
    "DOWN": "Down",
    "ERROR": "Error",
    "FUTURE": "Future",
    "IDLE": "Idle",
    "MIXED": "Mixed",
    "UNKNOWN": "Unknown",
    "INVALID": "Invalid",
    "IDLE+COMPLETING": "Completing",
    "IDLE+DRAIN": "Drain",
    "IDLE+FAIL": "Fail",
    "DOWN+INVALID_REG": "InvalidReg",
    "IDLE+MAINTENANCE": "Maintenance",
    "DOWN+NOT_RESPONDING": "NotResponding",
    "IDLE+UNDRAIN": "Undrain",
}


@pytest.mark.parametrize(("words", "shown"), EVERY.items(), ids=list(EVERY))
def test_every_state_comes_and_goes_and_is_written_once(words: str, shown: str) -> None:
    def written(state: str, **messages: str) -> set[str] | None:
        worker_pod = pod()
        live = tuple(Condition(f"SlurmNodeState{kind}", "True", message=text) for kind, text in messages.items())
        worker_pod = replace(
            worker_pod, status=replace(worker_pod.status, conditions=(*worker_pod.status.conditions, *live))
        )
        conditions = pod_conditions(worker_of(worker_pod, trusted_snapshot(host("gpu-0", state, "why"))), NOW)
        return None if conditions is None else {item["type"].removeprefix("SlurmNodeState") for item in conditions}

    base = words.partition("+")[0].capitalize()
    assert written(words) == {base, shown}
    assert written(words, **{base: "why", shown: "why"}) is None
    assert written(words, **{base: "why", shown: "another reason"}) == {base, shown}
    after = written("ALLOCATED", **{base: "why", shown: "why"})
    assert after == (None if shown == "Allocated" else {"Allocated"})


def test_the_numbers_of_the_status() -> None:
    slurm = trusted_snapshot(host("gpu-0", "MIXED"), host("gpu-1", "IDLE+DRAIN"), host("other", "IDLE"))
    pods = [pod("gpu-0"), pod("gpu-1", revision="rev1", ready=None)]
    numbers = counts(node_set_snapshot(node_set(replicas=3), pods, slurm))
    assert (numbers["desired"], numbers["replicas"], numbers["updated_replicas"], numbers["ready_replicas"]) == (
        3,
        2,
        1,
        1,
    )
    assert (numbers["slurm_idle"], numbers["slurm_allocated"], numbers["slurm_down"], numbers["slurm_drain"]) == (
        1,
        1,
        0,
        1,
    )
    assert numbers["selector"] == "app.kubernetes.io/instance=gpu,app.kubernetes.io/name=slurmd"


def test_ready_means_that_all_are_available() -> None:
    assert health(node_set_snapshot(node_set(replicas=1), [pod()], trusted_snapshot(host("gpu-0")))).ready.value is True
    assert (
        health(node_set_snapshot(node_set(replicas=2), [pod()], trusted_snapshot(host("gpu-0")))).ready.value is False
    )
    waiting = health(node_set_snapshot(node_set(replicas=0), [pod(pod_condemned="scale-in x")], UNTRUSTED))
    assert (waiting.progressing.value, waiting.progressing.reason) == (True, "WaitingForSlurm")
    assert (
        health(node_set_snapshot(node_set(), [], UNTRUSTED), ExecutionReport(limited=3)).degraded.reason
        == "DeletionsLimited"
    )
    again = [pod("gpu-0", pod_condemned="scale-in x"), pod("gpu-1", ready=None)]
    assert health(node_set_snapshot(node_set(replicas=1), again, trusted_snapshot())).ready.value is False, (
        "a worker that is scaled in accepts no new jobs"
    )


def test_an_ordinal_is_pinned_where_it_first_ran() -> None:
    pods = [pod("gpu-0", node="second"), pod("gpu-1", node="third")]

    def pinned(*nodes: str, **spec: Any) -> dict[str, str]:
        gpu_set = node_set(replicas=2, status={"ordinalToNode": {"0": "first", "5": "old"}}, **spec)
        return pins(node_set_snapshot(gpu_set, pods, nodes=[node(name) for name in nodes]))

    assert pinned("first", "second", "third", "old", pinToNode=True) == {"0": "first", "1": "third"}
    assert pinned("second", "third", pinToNode=True) == {"0": "second", "1": "third"}, "the first has left Kubernetes"
    assert pinned("first") == {}


def test_a_worker_on_its_nodes_network_gets_its_name_when_the_node_is_known() -> None:
    gpu_set = node_set(template={"spec": {"hostNetwork": True}})

    def named(where: str) -> str | None:
        worker_pod = pod_update(gpu_set, worker_of(pod(node=where), UNTRUSTED, gpu_set))
        return worker_pod.labels.get(metadata.POD_HOSTNAME) if worker_pod else None

    assert named("") is None
    assert named("node7") == "node7"
