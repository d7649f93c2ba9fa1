# SPDX-License-Identifier: Apache-2.0
"""Which workers a NodeSet takes over, and whose they are until then."""

from typing import Any

import msgspec
import pytest

from slinky.api.names import metadata
from slinky.api.nodeset import NodeSet
from slinky.kube import Key, Pod
from slinky.operator.framework import orphans
from slinky.operator.nodeset.revisions.adoption import matches_pod

SET = msgspec.convert(
    {"metadata": {"name": "gpu", "namespace": "ns"}, "spec": {"controllerRef": {"name": "slurm"}}}, NodeSet
)
OWNER = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u"}


def orphan(name: str = "gpu-0", *, phase: str = "Running", meta: dict[str, Any] | None = None, **labels: str) -> Pod:
    marks = {**SET.labels, **{getattr(metadata, label): text for label, text in labels.items()}}
    result = {"name": name, "namespace": "ns", "labels": marks, **(meta or {})}
    return msgspec.convert({"metadata": result, "spec": {}, "status": {"phase": phase}}, Pod)


@pytest.mark.parametrize(
    ("pod", "taken"),
    [
        (orphan(), True),
        (orphan("gpu-07"), True),
        (orphan("gpu-x"), False),  # no worker of a set with numbers
        (orphan("cpu-0"), False),
        (orphan("gpu-3f2a", SCALING_MODE="DaemonSet"), True),
        (orphan("other-3f2a", SCALING_MODE="DaemonSet"), False),
        (orphan(APP_INSTANCE="cpu"), False),
        (orphan(CLUSTER="another"), False),
        (orphan(phase="Failed"), False),
    ],
)
def test_a_node_set_adopts_pods_that_it_could_have_created(pod: Pod, taken: bool) -> None:
    assert matches_pod(SET, pod) == taken


def test_an_orphan_has_no_controller_and_is_not_being_deleted() -> None:
    assert orphans.former_node_set(orphan()) == (Key("ns", "gpu"),)
    assert orphans.former_node_set(orphan(meta={"ownerReferences": [OWNER]})) == (Key("ns", "gpu"),)
    assert orphans.former_node_set(orphan(meta={"ownerReferences": [{**OWNER, "controller": True}]})) == ()
    assert orphans.former_node_set(orphan(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})) == ()
    assert orphans.former_node_set(orphan(APP_COMPONENT="login")) == ()


def test_the_cluster_of_a_worker_is_known_without_an_owner() -> None:
    assert orphans.worker_cluster(orphan(meta={"ownerReferences": [{**OWNER, "controller": True}]})) == (
        Key("ns", "slurm"),
    )
    assert orphans.worker_cluster(orphan(APP_COMPONENT="login")) == ()


@pytest.mark.parametrize(("finalizers", "behind"), [(["orphan"], True), (["foregroundDeletion"], False), ([], False)])
def test_a_deletion_with_orphaned_children_is_recognized(finalizers: list[str], behind: bool) -> None:
    assert orphans.is_orphaning(orphan(meta={"finalizers": finalizers})) == behind


def test_labels_of_other_applications_make_no_worker() -> None:
    assert orphans.worker_cluster(orphan()) == (Key("ns", "slurm"),)
    assert orphans.worker_cluster(orphan(APP_NAME="nginx")) == ()
    assert orphans.worker_cluster(orphan(APP_COMPONENT="web")) == ()
