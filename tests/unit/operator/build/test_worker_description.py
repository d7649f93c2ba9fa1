# SPDX-License-Identifier: Apache-2.0
"""What a NodeSet declares of its workers, and the potential nodes that slurm.conf has of it."""

from typing import Any

import pytest
from tests.unit.operator.samples import controller, node_set

from slinky.operator.build.config_files import Files
from slinky.operator.build.worker_description import declared_shape, has_topology, potential_nodes
from slinky.operator.controller.conf import slurm_conf
from slinky.slurm.conf import find_problems

POLICY: dict[str, Any] = {"autoscaling": {"maxReplicas": 3}}
OFFER = "CPUs=2 RealMemory=500"


def line(**spec: Any) -> str:
    nodes = potential_nodes(node_set(**{**POLICY, **spec}))
    return " ".join(f"{item.key}={item.value}" for item in nodes.to_line()) if nodes else ""


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"extraConf": OFFER}, "NodeName=gpu_future[1-3] CPUs=2 Features=gpu RealMemory=500 State=FUTURE"),
        (
            {"extraConf": f"{OFFER} Feature=fast Gres=gpu:h100:2"},
            "NodeName=gpu_future[1-3] CPUs=2 Features=fast,gpu Gres=gpu:h100:2 RealMemory=500 State=FUTURE",
        ),
        (
            {"slurmd": {"image": "x", "resources": {"limits": {"cpu": "4", "memory": "2Gi"}}}},
            "NodeName=gpu_future[1-3] Features=gpu CPUs=4 RealMemory=2048 State=FUTURE",
        ),
        (
            {"extraConf": "Sockets=2 CoresPerSocket=4 RealMemory=500"},
            "NodeName=gpu_future[1-3] CoresPerSocket=4 Features=gpu RealMemory=500 Sockets=2 State=FUTURE",
        ),
        (
            {"extraConf": OFFER, "autoscaling": {"maxReplicas": 1, "windows": [{"maxReplicas": 7}]}},
            "NodeName=gpu_future[1-7] CPUs=2 Features=gpu RealMemory=500 State=FUTURE",
        ),
    ],
)
def test_potential_nodes_are_what_the_workers_would_be(spec: dict[str, Any], expected: str) -> None:
    assert line(**spec) == expected


@pytest.mark.parametrize(
    "spec",
    [
        {"extraConf": OFFER, "autoscaling": None},
        {"extraConf": OFFER, "autoscaling": {"maxReplicas": 0}},
        {"extraConf": OFFER, "scalingMode": "DaemonSet"},
        {"extraConf": "CPUs=2"},
        {"extraConf": "RealMemory=500"},
        {},
    ],
)
def test_a_worker_that_is_not_known_is_not_declared(spec: dict[str, Any]) -> None:
    assert line(**spec) == ""


def test_text_that_slurmd_would_not_get_declares_nothing() -> None:
    assert declared_shape(node_set(extraConf="CPUs=2 $(id)")).cpus == 0
    limits = {"resources": {"limits": {"cpu": "4", "memory": "2Gi"}}}
    assert potential_nodes(node_set(extraConf="CPUs=2 RealMemory=1 $(id)", slurmd=limits, **POLICY)) is None


def test_slurm_conf_has_the_potential_nodes_of_every_node_set() -> None:
    text = slurm_conf(controller(), None, (node_set(extraConf=OFFER, **POLICY),), Files())
    assert "NodeName=gpu_future[1-3] CPUs=2 Features=gpu RealMemory=500 State=FUTURE\n" in text
    assert find_problems(text) == []


@pytest.mark.parametrize(
    ("config", "expected"),
    [("", " MaxNodes=3"), ("MaxTime=60", " MaxTime=60 MaxNodes=3"), ("maxnodes=1", " maxnodes=1")],
)
def test_no_job_gets_more_workers_than_there_can_be(config: str, expected: str) -> None:
    workers = node_set(extraConf=OFFER, partition={"enabled": True, "config": config}, **POLICY)
    text = slurm_conf(controller(), None, (workers,), Files())
    assert f"PartitionName=gpu Nodes=gpu{expected}\n" in text


def test_a_cluster_with_a_topology_has_no_potential_nodes() -> None:
    node_sets = (node_set(extraConf=OFFER, **POLICY),)
    for parent, files in (
        (controller(extraConf="TopologyPlugin=topology/tree"), Files()),
        (controller(), Files(config=("topology.yaml",))),
        (controller(external=True), Files()),
    ):
        assert "FUTURE" not in slurm_conf(parent, None, node_sets, files)
    assert not has_topology("TopologyPlugin=topology/flat", Files(config=("gres.conf",)))
