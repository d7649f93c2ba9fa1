# SPDX-License-Identifier: Apache-2.0
"""Laws of paths and decoders; no input may do more than raise `Unreadable`."""

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slinky.kube import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NODES,
    PODS,
    Key,
    Object,
    Pod,
    Resource,
    UndecodableObject,
    Unreadable,
    owned_by,
)
from slinky.kube.errors import api_error
from slinky.kube.types import ObjectMeta, Owner, version_number

json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
POD: dict[str, Any] = {
    "metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7", "labels": {"x": "1"}},
    "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PODS.path(Key("ns", "a")), "/api/v1/namespaces/ns/pods/a"),
        (PODS.path(), "/api/v1/pods"),
        (PODS.path(namespace="ns"), "/api/v1/namespaces/ns/pods"),
        (PODS.path(Key("ns", "a"), subresource="binding"), "/api/v1/namespaces/ns/pods/a/binding"),
        (DEPLOYMENTS.path(Key("ns", "a")), "/apis/apps/v1/namespaces/ns/deployments/a"),
        (NODES.path(Key("", "n1")), "/api/v1/nodes/n1"),
        (NODES.path(Key("ignored", "n1")), "/api/v1/nodes/n1"),
        (PODS.path(Key("a/b", "../x?y")), "/api/v1/namespaces/a%2Fb/pods/..%2Fx%3Fy"),
    ],
)
def test_paths(path: str, expected: str) -> None:
    assert path == expected


def test_fields_that_no_view_has_are_skipped() -> None:
    pod = PODS.decode(msgspec.json.encode(POD | {"new": {"from": ["the", "future"]}}))
    assert (pod.key, pod.spec.node_name, pod.ready) == (Key("ns", "a"), "n1", True)


def test_an_undecodable_object_keeps_its_name() -> None:
    line = msgspec.json.encode({"type": "MODIFIED", "object": POD | {"status": {"phase": 7}}})
    event = PODS.decode_event(line)
    assert isinstance(event.object, UndecodableObject)
    assert (event.type, event.object.metadata.key, event.object.metadata.resource_version) == (
        "MODIFIED",
        Key("ns", "a"),
        "7",
    )


def test_an_undecodable_item_does_not_affect_the_rest_of_the_page() -> None:
    bad = POD | {"spec": []}
    page = PODS.decode_page(msgspec.json.encode({"metadata": {"resourceVersion": "9"}, "items": [POD, bad, POD]}))
    assert [isinstance(item, UndecodableObject) for item in page.items or ()] == [False, True, False]


def test_interning_keeps_values_and_shares_copies() -> None:
    one, two = (PODS.decode(msgspec.json.encode(POD)) for _ in range(2))
    assert one == two
    assert one.spec.node_name is two.spec.node_name
    assert one.metadata.labels["x"] is two.metadata.labels["x"]


def test_owned_by_maps_an_object_to_its_owner_of_that_kind() -> None:
    def child(kind: str, version: str, controller: bool) -> Object:
        owner = Owner(version, kind, "parent", "u", controller=controller)
        return Object(ObjectMeta("a", "ns", owner_references=(owner,)))

    keys = owned_by(DEPLOYMENTS)
    assert keys(child("Deployment", "apps/v1", True)) == (Key("ns", "parent"),)
    assert keys(child("Deployment", "apps/v1beta1", True)) == (Key("ns", "parent"),)
    assert keys(child("Deployment", "apps/v1", False)) == ()
    assert keys(child("Deployment", "other/v1", True)) == ()
    assert keys(child("Job", "batch/v1", True)) == ()


@pytest.mark.parametrize(("version", "expected"), [("12", 12), ("", -1), ("abc", -1), ("²", -1), ("-1", -1)])
def test_a_version_that_is_not_a_number_is_minus_one(version: str, expected: int) -> None:
    assert version_number(version) == expected


@settings(max_examples=150, deadline=None)
@given(noise=st.binary(max_size=200) | json.map(msgspec.json.encode))
def test_no_bytes_break_a_decoder(noise: bytes) -> None:
    for decode in (PODS.decode, PODS.decode_event, PODS.decode_page, CONFIG_MAPS.decode):
        with contextlib.suppress(Unreadable):
            decode(noise)
    api_error(500, noise)


@settings(max_examples=150, deadline=None)
@given(where=st.sampled_from(["metadata", "spec", "status"]), noise=json)
def test_a_damaged_object_is_reported_by_name_or_decoded(where: str, noise: Any) -> None:
    event = PODS.decode_event(msgspec.json.encode({"type": "ADDED", "object": POD | {where: noise}}))
    if isinstance(event.object, UndecodableObject) and where != "metadata":
        assert event.object.metadata.key == Key("ns", "a")


@settings(max_examples=100, deadline=None)
@given(cut=st.integers(0, 400), flip=st.integers(0, 400), bit=st.integers(0, 7))
def test_damaged_bytes_never_give_another_object(cut: int, flip: int, bit: int) -> None:
    line = bytearray(msgspec.json.encode({"type": "ADDED", "object": POD}))
    line[flip % len(line)] ^= 1 << bit
    with contextlib.suppress(Unreadable):
        event = PODS.decode_event(bytes(line[: max(1, len(line) - cut % 3)]))
        assert isinstance(event.object, UndecodableObject | Pod)


def test_a_manifest_has_api_version_kind_and_metadata() -> None:
    kind = Resource("g/v1", "Thing", "things", Object)
    assert kind.manifest(Key("ns", "a"), metadata={"labels": {"x": "1"}}, spec={}) == {
        "apiVersion": "g/v1",
        "kind": "Thing",
        "metadata": {"name": "a", "namespace": "ns", "labels": {"x": "1"}},
        "spec": {},
    }
