# SPDX-License-Identifier: Apache-2.0
"""The sums of what pods of other schedulers request on nodes."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slinky.bridge.feasibility.node_usage import FOREIGN_PODS, NodeUsage
from slinky.bridge.views import ForeignPod
from slinky.kube import Cache, Key
from slinky.kube.quantity import NANO

MILLI = NANO // 1000


def foreign_pod(name: str, node: str, version: int = 1, **requests: str) -> ForeignPod:
    """A pod as the watch decodes it."""
    document: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": "kube-system",
            "uid": name,
            "resourceVersion": str(version),
            "labels": {"app": name},
            "annotations": {"long": "x" * 1000},
        },
        "spec": {
            "nodeName": node,
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Running"},
    }
    return FOREIGN_PODS.decode(json.dumps(document).encode())


def build_usage() -> tuple[Cache[ForeignPod], NodeUsage, list[str]]:
    cache: Cache[ForeignPod] = Cache(FOREIGN_PODS, indexes={"node": lambda pod: (pod.spec.node_name,)})
    usage, changed = NodeUsage(cache), list[str]()
    usage.listen(changed.append)
    return cache, usage, changed


def test_a_decoded_pod_keeps_only_its_identity_its_node_and_its_requests() -> None:
    first, second = (foreign_pod(name, "n1", cpu="100m") for name in ("a", "b"))
    assert first.requests == (("cpu", 100 * MILLI), ("pods", NANO))
    assert first.requests is second.requests
    assert (first.spec.node_name, first.spec.containers) == ("n1", ())
    assert (first.key, first.metadata.labels, first.metadata.annotations) == (Key("kube-system", "a"), {}, {})


def test_sums_follow_pods_that_come_change_and_go() -> None:
    cache, usage, changed = build_usage()
    cache.put(foreign_pod("a", "n1", cpu="100m"))
    cache.put(foreign_pod("b", "n1", cpu="200m", memory="1Gi"))
    assert usage.on("n1") == {"cpu": 300 * MILLI, "memory": 2**30 * NANO, "pods": 2 * NANO}
    cache.put(foreign_pod("a", "n1", 2, cpu="100m"))  # its status changed
    assert changed == ["n1", "n1"]
    cache.put(foreign_pod("a", "n1", 3, cpu="500m"))  # it was resized
    assert usage.on("n1")["cpu"] == 700 * MILLI
    for name in ("a", "b"):
        cache.remove(foreign_pod(name, "n1", 4).metadata)
    assert usage.on("n1") == {}


def test_the_largest_holder_of_a_resource_is_named() -> None:
    cache, usage, _ = build_usage()
    cache.put(foreign_pod("a", "n1", cpu="100m"))
    cache.put(foreign_pod("b", "n1", cpu="1", memory="1Gi"))
    cache.put(foreign_pod("c", "n2", cpu="2"))
    assert usage.largest_holder("n1", "cpu") == "pod kube-system/b holds 1"
    assert usage.largest_holder("n1", "memory") == "pod kube-system/b holds 1Gi"
    assert usage.largest_holder("n1", "example.com/gpu") == ""
    assert usage.largest_holder("n3", "cpu") == ""


events = st.tuples(st.sampled_from("abc"), st.sampled_from(["n1", "n2"]), st.integers(0, 3), st.booleans())


@given(history=st.lists(events, max_size=20))
def test_sums_equal_those_of_all_pods_after_any_history(history: list[tuple[str, str, int, bool]]) -> None:
    cache, usage, _ = build_usage()
    for version, (name, node, cpus, exists) in enumerate(history, start=1):
        item = foreign_pod(name, node, version, cpu=str(cpus))
        if exists:
            cache.put(item)
        else:
            cache.remove(item.metadata)
    for node in ("n1", "n2"):
        expected: dict[str, int] = {}
        for item in cache.by("node", node):
            for resource, nano in item.requests:
                expected[resource] = expected.get(resource, 0) + nano
        assert usage.on(node) == expected
