# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.operator.made import BLIND, NOW, host, node, node_set, one, pod, seeing, snapshot

from slinky.api.names import metadata
from slinky.api.nodeset import NodeSet
from slinky.kube.types import Condition
from slinky.operator.nodeset.actions import AnnotateWorker, ExecutionReport
from slinky.operator.nodeset.decisions.host_metadata import HostComment, host_updates, pod_updates
from slinky.operator.nodeset.status import counts, health, pins, pod_conditions
from slinky.operator.nodeset.workers import Worker
from slinky.slurm import NodeUpdate


def mark(of: NodeSet, worker: Worker) -> AnnotateWorker | None:
    return next(iter(pod_updates(of, worker)), None)


OURS = HostComment("ns", "gpu-0", "node1", "gpu", "uid-gpu").text()


def changes(state: str = "IDLE", annotations: dict[str, str] | None = None, **more: Any) -> list[NodeUpdate]:
    known: dict[str, Any] = {"comment": OURS, **more}
    seen = seeing(host("gpu-0", state, **known))
    return [
        update.change for update in host_updates(node_set(), one(pod(), seen, on=node(annotations=annotations or {})))
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
    assert changes(topology="default:leaf1") == []


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
    assert list(host_updates(node_set(), one(pod(ready=None), seeing(host("gpu-0"))))) == []
    assert list(host_updates(node_set(), one(pod(), BLIND))) == []


def test_busy_workers_are_protected_and_an_unknown_one_stays_as_it_is() -> None:
    busy = mark(node_set(), one(pod(), seeing(host("gpu-0", "MIXED"))))
    assert busy is not None
    assert busy.labels == {metadata.POD_PROTECT: "true"}
    held = pod(labels={metadata.POD_PROTECT: "true"})
    idle = mark(node_set(), one(held, seeing(host("gpu-0", "IDLE"))))
    assert idle is not None
    assert idle.labels == {metadata.POD_PROTECT: None}
    assert mark(node_set(), one(held, BLIND)) is None
    off = mark(node_set(workloadDisruptionProtection=False), one(held, BLIND))
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
        ("down: whoever runs there has been given up, but it may come back", "DOWN", True),
    ],
)
def test_an_idle_worker_is_protected_on_request_until_it_is_drained(law: str, state: str, guarded: bool) -> None:
    of, seen = node_set(drain={"protectIdle": True}), seeing(host("gpu-0", state))
    marked = mark(of, one(pod(), seen))
    assert (marked is not None and marked.labels == {metadata.POD_PROTECT: "true"}) is guarded
    held = mark(of, one(pod(labels={metadata.POD_PROTECT: "true"}), seen))
    assert (held is not None and held.labels == {metadata.POD_PROTECT: None}) is not guarded
    off = node_set(drain={"protectIdle": True}, workloadDisruptionProtection=False)
    assert mark(off, one(pod(), seen)) is None


def test_the_state_of_the_host_is_shown_on_the_pod() -> None:
    worker = one(pod(), seeing(host("gpu-0", "MIXED+DRAIN+NOT_RESPONDING", "fan")))
    said = pod_conditions(worker, NOW)
    assert said is not None
    assert [(one["type"], one["message"]) for one in said] == [
        ("SlurmNodeStateDrain", "fan"),
        ("SlurmNodeStateMixed", "fan"),
        ("SlurmNodeStateNotResponding", "fan"),
    ]
    assert pod_conditions(one(pod(), BLIND), NOW) is None


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
    def told(state: str, **held: str) -> set[str] | None:
        made = pod()
        kept = tuple(Condition(f"SlurmNodeState{kind}", "True", message=text) for kind, text in held.items())
        made = replace(made, status=replace(made.status, conditions=(*made.status.conditions, *kept)))
        said = pod_conditions(one(made, seeing(host("gpu-0", state, "why"))), NOW)
        return None if said is None else {found["type"].removeprefix("SlurmNodeState") for found in said}

    base = words.partition("+")[0].capitalize()
    assert told(words) == {base, shown}
    assert told(words, **{base: "why", shown: "why"}) is None
    assert told(words, **{base: "why", shown: "another reason"}) == {base, shown}
    gone = told("ALLOCATED", **{base: "why", shown: "why"})
    assert gone == (None if shown == "Allocated" else {"Allocated"})


def test_the_numbers_of_the_status() -> None:
    seen = seeing(host("gpu-0", "MIXED"), host("gpu-1", "IDLE+DRAIN"), host("other", "IDLE"))
    pods = [pod("gpu-0"), pod("gpu-1", revision="rev1", ready=None)]
    found = counts(snapshot(node_set(replicas=3), pods, seen))
    assert (found["desired"], found["replicas"], found["updated_replicas"], found["ready_replicas"]) == (3, 2, 1, 1)
    assert (found["slurm_idle"], found["slurm_allocated"], found["slurm_down"], found["slurm_drain"]) == (1, 1, 0, 1)
    assert found["selector"] == "app.kubernetes.io/instance=gpu,app.kubernetes.io/name=slurmd"


def test_ready_means_that_all_are_available() -> None:
    assert health(snapshot(node_set(replicas=1), [pod()], seeing(host("gpu-0")))).ready.value is True
    assert health(snapshot(node_set(replicas=2), [pod()], seeing(host("gpu-0")))).ready.value is False
    waiting = health(snapshot(node_set(replicas=0), [pod(pod_condemned="scale-in x")], BLIND))
    assert (waiting.progressing.value, waiting.progressing.reason) == (True, "WaitingForSlurm")
    assert health(snapshot(node_set(), [], BLIND), ExecutionReport(limited=3)).degraded.reason == "DeletionsLimited"
    again = [pod("gpu-0", pod_condemned="scale-in x"), pod("gpu-1", ready=None)]
    assert health(snapshot(node_set(replicas=1), again, seeing())).ready.value is False, "one that goes serves nobody"


def test_an_ordinal_is_pinned_where_it_first_ran() -> None:
    pods = [pod("gpu-0", node="second"), pod("gpu-1", node="third")]

    def pinned(*nodes: str, **spec: Any) -> dict[str, str]:
        of = node_set(replicas=2, status={"ordinalToNode": {"0": "first", "5": "old"}}, **spec)
        return pins(snapshot(of, pods, nodes=[node(name) for name in nodes]))

    assert pinned("first", "second", "third", "old", pinToNode=True) == {"0": "first", "1": "third"}
    assert pinned("second", "third", pinToNode=True) == {"0": "second", "1": "third"}, "the first has left Kubernetes"
    assert pinned("first") == {}


def test_a_worker_on_its_nodes_network_gets_its_name_when_the_node_is_known() -> None:
    of = node_set(template={"spec": {"hostNetwork": True}})

    def named(where: str) -> str | None:
        made = mark(of, one(pod(node=where), BLIND, of))
        return made.labels.get(metadata.POD_HOSTNAME) if made else None

    assert named("") is None
    assert named("node7") == "node7"
