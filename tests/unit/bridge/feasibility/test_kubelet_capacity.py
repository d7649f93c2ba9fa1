# SPDX-License-Identifier: Apache-2.0
"""The rule by which kubelets admit pods, as NodeResourcesFit of kube-scheduler applies it."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.bridge.build import needing, pod

from slinky.bridge.feasibility import kubelet_capacity
from slinky.bridge.feasibility.kubelet_capacity import Shortage
from slinky.bridge.views import WorkloadPod
from slinky.kube import Quantity
from slinky.kube.quantity import NANO

ALLOCATABLE = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", "pods": "3", "example.com/gpu": "2"}


def shortage(present: list[WorkloadPod], arriving: WorkloadPod) -> Shortage | None:
    used = kubelet_capacity.sum_requests(map(kubelet_capacity.requests_of, present))
    requested = dict(kubelet_capacity.requests_of(arriving))
    return kubelet_capacity.find_shortage(kubelet_capacity.parse_allocatable(ALLOCATABLE), used, requested)


@pytest.mark.parametrize(
    ("present", "arriving", "resource"),
    [
        ([{"cpu": "3"}], {"cpu": "1"}, ""),
        ([{"cpu": "3"}], {"cpu": "1001m"}, "cpu"),
        ([{"cpu": "100m"}], {"cpu": "4"}, "cpu"),
        ([{"memory": "8Gi"}], {"memory": "1"}, "memory"),
        ([{"memory": "8Gi"}], {"cpu": "4"}, ""),
        ([{"cpu": "9"}], {"memory": "1Gi"}, ""),  # what the pod does not request may be overcommitted
        ([{"ephemeral-storage": "9Gi"}], {"ephemeral-storage": "2Gi"}, "ephemeral-storage"),
        ([{"example.com/gpu": "1"}], {"example.com/gpu": "2"}, "example.com/gpu"),
        ([{"example.com/gpu": "1"}], {"example.com/gpu": "1"}, ""),
        ([{"example.com/nic": "9"}], {"example.com/nic": "9"}, ""),  # the kubelet does not count it
        ([{}, {}], {}, ""),
        ([{}, {}, {}], {}, "pods"),
        ([], {}, ""),
    ],
)
def test_a_pod_is_admitted_if_its_requests_fit_beside_those_of_all_pods(
    present: list[dict[str, str]], arriving: dict[str, str], resource: str
) -> None:
    found = shortage([needing(amounts) for amounts in present], needing(arriving))
    assert (found.resource if found else "") == resource


def container(cpu: str = "", *, sidecar: bool = False, limit: str = "") -> dict[str, Any]:
    restart = {"restartPolicy": "Always"} if sidecar else {}
    resources = {"requests": {"cpu": cpu} if cpu else {}, "limits": {"cpu": limit} if limit else {}}
    return {"name": "c", "resources": resources, **restart}


#: The CPU request of pods, as NodeResourcesFit computes it.
SPECS: dict[str, tuple[dict[str, Any], str]] = {
    "containers add up": ({"containers": [container("1"), container("2")]}, "3"),
    "the largest init container counts": (
        {"containers": [container("1")], "initContainers": [container("2"), container("3")]},
        "3",
    ),
    "smaller init containers do not count": ({"containers": [container("2")], "initContainers": [container("1")]}, "2"),
    "sidecars run beside the containers": (
        {"containers": [container("2")], "initContainers": [container("1", sidecar=True)]},
        "3",
    ),
    "an init container runs beside the sidecars before it": (
        {"containers": [container("1")], "initContainers": [container("2", sidecar=True), container("3")]},
        "5",
    ),
    "an init container runs without the sidecars after it": (
        {"containers": [container("1")], "initContainers": [container("3"), container("1", sidecar=True)]},
        "3",
    ),
    "overhead adds": ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, "1250m"),
    "resources of the pod replace those of its containers": (
        {"containers": [container("1"), container("1")], "resources": {"requests": {"cpu": "3"}}},
        "3",
    ),
    "overhead adds to resources of the pod": (
        {"containers": [container("1")], "resources": {"requests": {"cpu": "3"}}, "overhead": {"cpu": "1"}},
        "4",
    ),
    "a limit without a request is a request": ({"containers": [container(limit="2")]}, "2"),
}


@pytest.mark.parametrize("case", SPECS)
def test_the_request_of_a_pod_is_that_of_the_scheduler(case: str) -> None:
    spec, cpu = SPECS[case]
    requests = dict(kubelet_capacity.requests_of(pod(spec=spec)))
    assert requests == {"cpu": Quantity.parse(cpu).nano, "pods": NANO}


def test_devices_of_a_device_class_are_claimed_and_not_counted() -> None:
    claimed = needing({"deviceclass.resource.kubernetes.io/gpu": "1"})
    assert dict(kubelet_capacity.requests_of(claimed)) == {"pods": NANO}


def test_a_shortage_names_the_amounts() -> None:
    found = shortage([needing({"cpu": "100m"})], needing({"cpu": "4"}))
    assert str(found) == "cpu: 4 requested, 3900m of 4 free"
    found = shortage([needing({"memory": "1Gi"})], needing({"memory": "8Gi"}))
    assert str(found) == "memory: 8Gi requested, 7Gi of 8Gi free"


requests = st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), st.integers(1, 9), max_size=3)


@given(allocatable=requests, present=st.lists(requests, max_size=4), arriving=requests)
def test_a_pod_fits_if_and_only_if_no_requested_sum_exceeds_the_node(
    allocatable: Mapping[str, int], present: list[dict[str, int]], arriving: Mapping[str, int]
) -> None:
    used = kubelet_capacity.sum_requests(tuple(amounts.items()) for amounts in present)
    fits = kubelet_capacity.find_shortage(allocatable, used, arriving) is None
    sums = {name: sum(amounts.get(name, 0) for amounts in (*present, arriving)) for name in arriving}
    assert fits == all(sums[name] <= allocatable[name] for name in arriving if name in allocatable)
