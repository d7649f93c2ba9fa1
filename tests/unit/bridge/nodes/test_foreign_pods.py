# SPDX-License-Identifier: Apache-2.0
"""Pods of other schedulers on the nodes of the bridge are counted and reported."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.bridge.build import node

from slinky.bridge import names
from slinky.bridge.feasibility.node_usage import FOREIGN_PODS, INDEXES
from slinky.bridge.nodes.foreign_pods import ForeignPodReporter, describe_pods
from slinky.bridge.views import ForeignPod
from slinky.kube import NODES, Cache, EventRecorder, Node, Reference
from slinky.observe import Clock

DAEMON_SET = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}]
STATIC = [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1", "controller": True}]


def foreign(name: str, host: str = "n1", **metadata: Any) -> ForeignPod:
    meta = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1", **metadata}
    spec = {"nodeName": host, "containers": [{"name": "c"}], "tolerations": [{"operator": "Exists"}]}
    return FOREIGN_PODS.decode(json.dumps({"metadata": meta, "spec": spec}).encode())


class Stage:
    """A reporter with one node of the bridge (n1) and one other node (n2)."""

    def __init__(self, *, tainted: bool = True) -> None:
        self.pods: Cache[ForeignPod] = Cache(FOREIGN_PODS, indexes=INDEXES)
        nodes: Cache[Node] = Cache(NODES)
        nodes.put(node("n1", labels={names.EXTERNAL_LABEL: ""}))
        nodes.put(node("n2"))
        self.events: list[tuple[str, str]] = []
        recorder = cast("EventRecorder", SimpleNamespace(record=self._record))
        self.reporter = ForeignPodReporter(self.pods, nodes, recorder, cast("Clock", None), tainted=tainted)

    def _record(self, item: Reference, reason: str, message: str, *, warning: bool) -> None:
        assert warning
        self.events.append((item.name, reason))

    def report(self) -> list[tuple[str, str]]:
        self.events.clear()
        self.reporter.report()
        return list(self.events)


def test_an_unexpected_pod_is_reported_once() -> None:
    stage = Stage()
    assert stage.report() == []
    stage.pods.put(foreign("a"))
    assert stage.report() == [("n1", "ForeignPods")]
    assert (stage.report(), stage.reporter.count()) == ([], 1)
    stage.pods.put(foreign("b"))
    assert (stage.report(), stage.reporter.count()) == ([("n1", "ForeignPods")], 2)


@pytest.mark.parametrize(
    "pod",
    [
        foreign("d", ownerReferences=DAEMON_SET),
        foreign("s", ownerReferences=STATIC),
        foreign("c", labels={"app.kubernetes.io/name": "slurmctld"}),
        foreign("elsewhere", "n2"),
    ],
    ids=lambda pod: pod.metadata.name,
)
def test_expected_pods_and_other_nodes_are_not_reported(pod: ForeignPod) -> None:
    stage = Stage()
    stage.pods.put(pod)
    assert (stage.report(), stage.reporter.count()) == ([], 0)


def test_without_a_taint_pods_are_only_counted() -> None:
    stage = Stage(tainted=False)
    stage.pods.put(foreign("a"))
    assert (stage.report(), stage.reporter.count()) == ([], 1)


def test_a_message_names_some_pods() -> None:
    assert describe_pods([foreign(name) for name in "edcba"]) == "ns/a, ns/b, ns/c and 2 more"
