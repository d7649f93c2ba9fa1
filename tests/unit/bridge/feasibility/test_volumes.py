# SPDX-License-Identifier: Apache-2.0
"""Claims that wait for their first consumer: matching volumes, and nodes that reach them."""

from typing import Any

import msgspec
import pytest
from tests.unit.bridge.build import node

from slinky.bridge.feasibility import constraints, volumes
from slinky.bridge.views import PersistentVolume, StorageClass, WorkloadVolumeClaim

LOCAL = msgspec.convert({"metadata": {"name": "local"}, "provisioner": volumes.NO_PROVISIONER}, StorageClass)
MADE = msgspec.convert({"metadata": {"name": "made"}, "provisioner": "csi.example.com"}, StorageClass)


def claim(**more: Any) -> WorkloadVolumeClaim:
    spec = {
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "10Gi"}},
        **more,
    }
    meta = {"name": "c", "namespace": "ns", "uid": "u1"}
    return msgspec.convert({"metadata": meta, "spec": spec}, WorkloadVolumeClaim)


def volume(name: str = "v", place: str = "n1", *, phase: str = "Available", **more: Any) -> PersistentVolume:
    match = {"key": "kubernetes.io/hostname", "operator": "In", "values": [place]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [match]}]}} if place else None
    spec = {
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "capacity": {"storage": "20Gi"},
        "nodeAffinity": affinity,
        **more,
    }
    meta = {"name": name, "labels": {"disk": "fast"}}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": phase}}, PersistentVolume)


def here(name: str) -> Any:
    return node(name, labels={"kubernetes.io/hostname": name})


@pytest.mark.parametrize(
    ("requested", "offered", "suits"),
    [
        ({}, {}, True),
        ({"storageClassName": "other"}, {}, False),
        ({"accessModes": ["ReadWriteMany"]}, {}, False),
        ({"resources": {"requests": {"storage": "21Gi"}}}, {}, False),
        ({"volumeMode": "Block"}, {}, False),
        ({"volumeMode": "Block"}, {"volumeMode": "Block"}, True),
        ({"selector": {"matchLabels": {"disk": "fast"}}}, {}, True),
        ({"selector": {"matchLabels": {"disk": "slow"}}}, {}, False),
        ({}, {"claimRef": {"namespace": "ns", "name": "another", "uid": "u2"}}, False),
        ({}, {"phase": "Released"}, False),
    ],
)
def test_which_volumes_match_a_claim(requested: dict[str, Any], offered: dict[str, Any], suits: bool) -> None:
    assert bool(volumes.matching_volumes(claim(**requested), [volume(**offered)])) is suits


def test_the_smallest_volume_that_the_node_reaches_is_chosen() -> None:
    small, large, far = volume("s"), volume("l", capacity={"storage": "30Gi"}), volume("f", "n2")
    assert volumes.choose_volume(claim(), [large, far, small], here("n1")) == small
    assert volumes.choose_volume(claim(), [large, far, small], here("n2")) == far
    assert volumes.choose_volume(claim(), [large, far, small], here("n3")) is None


def test_local_volumes_keep_a_pod_on_nodes_that_have_one() -> None:
    present = [volume("a", "n1"), volume("b", "n2"), volume("c", "n3", phase="Failed")]
    selector = volumes.node_selector_of(claim(), LOCAL, present)
    assert selector is not None
    assert [constraints.node_selector_matches(selector, here(name)) for name in ("n1", "n2", "n3")] == [
        True,
        True,
        False,
    ]
    assert volumes.node_selector_of(claim(), LOCAL, [volume("a", "")]) is None  # from everywhere
    nothing = volumes.node_selector_of(claim(), LOCAL, [])
    assert nothing is not None
    assert nothing.node_selector_terms == ()


def test_a_volume_that_is_reserved_for_a_claim_is_the_only_one_for_it() -> None:
    mine = volume("mine", "n2", claimRef={"namespace": "ns", "name": "c", "uid": "u1"})
    selector = volumes.node_selector_of(claim(), LOCAL, [volume("a", "n1"), mine])
    assert selector is not None
    assert [constraints.node_selector_matches(selector, here(name)) for name in ("n1", "n2")] == [False, True]
    stale = volume("stale", "n2", claimRef={"namespace": "ns", "name": "c", "uid": "u0"})
    assert volumes.find_reserved_volume(claim(), [stale]) is None


def test_provisioned_volumes_are_restricted_by_their_class() -> None:
    zone = {"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}
    kind = msgspec.convert({"metadata": {"name": "m"}, "provisioner": "x", "allowedTopologies": [zone]}, StorageClass)
    selector = volumes.node_selector_of(claim(storageClassName="m"), kind, [])
    assert selector is not None
    assert constraints.node_selector_matches(selector, node(labels={"zone": "b"}))
    assert not constraints.node_selector_matches(selector, node(labels={"zone": "c"}))
    assert volumes.node_selector_of(claim(storageClassName="made"), MADE, []) is None
