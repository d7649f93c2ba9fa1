# SPDX-License-Identifier: Apache-2.0
"""Whether a kubelet would admit pods beside those that are on its node already. Pure.

This is the rule of kube-scheduler's NodeResourcesFit, which the kubelet applies once more when a pod arrives: for each
resource that the pod requests, the requests of all pods on the node must not exceed the allocatable amount. Pods that
have succeeded or failed do not count; pods that are being deleted count until their containers have ended. The number
of pods is treated as one more resource, of which each pod requests one. Amounts are billionths, so sums are exact.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from slinky.bridge import names
from slinky.bridge.views import ForeignPod, WorkloadPod
from slinky.bridge.workload import pod_resources
from slinky.kube import Quantity
from slinky.kube.quantity import NANO

#: The resource that counts pods.
PODS = "pods"

Requests = tuple[tuple[str, int], ...]
"""Amounts by resource, sorted by the name of the resource, without zeros."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """A resource of which a node has too little for some pods."""

    resource: str
    requested: int
    free: int
    allocatable: int

    def __str__(self) -> str:
        requested, free, allocatable = (
            format_amount(self.resource, amount) for amount in (self.requested, self.free, self.allocatable)
        )
        return f"{self.resource}: {requested} requested, {free} of {allocatable} free"


def requests_of(pod: WorkloadPod | ForeignPod) -> Requests:
    """What a pod requests, itself included as one of the pods of its node."""
    totals = pod_resources.effective_resources(pod, pod_resources.requests_of)
    return count_pod((name, amount.nano) for name, amount in totals.items())


def count_pod(amounts: Iterable[tuple[str, int]]) -> Requests:
    """The requests of a pod with these amounts of other resources. Devices of device classes are claimed instead."""
    counted = ((name, nano) for name, nano in amounts if nano and not name.startswith(names.DEVICE_CLASS_PREFIX))
    return tuple(sorted((*counted, (PODS, NANO))))


def sum_requests(parts: Iterable[Requests]) -> dict[str, int]:
    """The sum of some requests by resource."""
    total: dict[str, int] = {}
    for part in parts:
        for name, nano in part:
            total[name] = total.get(name, 0) + nano
    return total


def parse_allocatable(allocatable: Mapping[str, str]) -> dict[str, int]:
    """The allocatable amounts of a node."""
    return {name: Quantity.parse(amount).nano for name, amount in allocatable.items()}


def find_shortage(
    allocatable: Mapping[str, int], used: Mapping[str, int], requested: Mapping[str, int]
) -> Shortage | None:
    """The first resource of which the unused rest of a node is too small; None if everything fits.

    A resource that the node does not list is not counted by the kubelet: it is claimed, or `constraints` has already
    excluded the node.
    """
    for name, nano in requested.items():
        if name in allocatable and nano > allocatable[name] - used.get(name, 0):
            return Shortage(name, nano, max(0, allocatable[name] - used.get(name, 0)), allocatable[name])
    return None


def format_amount(resource: str, nano: int) -> str:
    """An amount as manifests contain it."""
    in_bytes = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    return Quantity(nano).format("binary" if in_bytes else "decimal")
