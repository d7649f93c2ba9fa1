# SPDX-License-Identifier: Apache-2.0
"""Workers and control pods of Slurm among the pods of other schedulers."""

import json
from typing import Any

import pytest
from tests.unit.bridge.build import node

from slinky.bridge import names
from slinky.bridge.feasibility.node_usage import FOREIGN_PODS
from slinky.bridge.nodes.slurm_pods import INDEXES, SlurmPods, has_other_home
from slinky.bridge.views import ForeignPod
from slinky.kube import Cache, Key, Node
from slinky.kube.views import Taint

TAINT = Taint(names.MANAGED_TAINT, "NoExecute", names.SCHEDULER)


def slurm_pod(name: str, labels: dict[str, str], *tolerations: dict[str, str], on: str = "n1") -> ForeignPod:
    """A pod as the watch decodes it."""
    document: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "slurm", "uid": name, "resourceVersion": "1", "labels": labels},
        "spec": {"nodeName": on, "containers": [{"name": "c"}], "tolerations": list(tolerations)},
    }
    return FOREIGN_PODS.decode(json.dumps(document).encode())


def slurm_pods(*pods: ForeignPod) -> SlurmPods:
    cache: Cache[ForeignPod] = Cache(FOREIGN_PODS, indexes=dict(INDEXES))
    for pod in pods:
        cache.put(pod)
    return SlurmPods(cache)


def test_workers_are_found_by_node_and_by_host() -> None:
    labels = {"app.kubernetes.io/name": "slurmd", "nodeset.slinky.slurm.net/pod-hostname": "worker-0"}
    pods = slurm_pods(slurm_pod("w", labels, on="n2"), slurm_pod("x", {"app.kubernetes.io/name": "x"}))
    assert [pod.key for pod in pods.workers_on("n2")] == [Key("slurm", "w")]
    assert pods.workers_on("n1") == []
    assert pods.nodes_of_worker("worker-0") == ["n2"]


@pytest.mark.parametrize(
    ("labels", "tolerations", "evicted"),
    [
        ({"app.kubernetes.io/name": "slurmctld"}, [], True),
        ({"app.kubernetes.io/part-of": "slinky"}, [], True),
        ({"app.kubernetes.io/name": "slurmd"}, [], False),
        ({}, [], False),
        ({"app.kubernetes.io/name": "slurmctld"}, [{"operator": "Exists"}], False),
        ({"app.kubernetes.io/name": "slurmctld"}, [{"key": names.MANAGED_TAINT, "operator": "Exists"}], False),
        ({"app.kubernetes.io/name": "slurmctld"}, [{"key": names.MANAGED_TAINT, "value": names.SCHEDULER}], False),
        ({"app.kubernetes.io/name": "slurmctld"}, [{"key": names.MANAGED_TAINT, "value": "another"}], True),
        ({"app.kubernetes.io/name": "slurmctld"}, [{"operator": "Exists", "effect": "NoSchedule"}], True),
        ({"app.kubernetes.io/name": "slurmctld"}, [{"key": "other", "operator": "Exists"}], True),
    ],
)
def test_control_pods_without_the_toleration_would_be_evicted(
    labels: dict[str, str], tolerations: list[dict[str, str]], evicted: bool
) -> None:
    pods = slurm_pods(slurm_pod("p", labels, *tolerations))
    assert pods.find_intolerant(TAINT) == ("slurm/p" if evicted else "")
    assert pods.find_intolerant(TAINT, "n1") == ("slurm/p" if evicted else "")
    assert pods.find_intolerant(TAINT, "n2") == ""


MANAGED = {"key": names.MANAGED_TAINT, "value": names.SCHEDULER, "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("other", "is_home"),
    [
        (node("n2"), True),
        (node("n2", taints=[{**MANAGED, "effect": "PreferNoSchedule"}]), True),
        (node("n2", taints=[MANAGED]), False),
        (node("n2", taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]), False),
        (node("n2", ready=False), False),
        (node("n2", unschedulable=True), False),
        (node("n1"), False),
        (node("n3"), False),
    ],
    ids=["free", "preference", "tainted", "control plane", "not ready", "cordoned", "itself", "about to be tainted"],
)
def test_a_home_is_another_node_that_accepts_pods(other: Node, is_home: bool) -> None:
    assert has_other_home(node("n1"), [node("n1"), other], {"n3"}) is is_home
