# SPDX-License-Identifier: Apache-2.0
"""The resources of a pod, computed as Kubernetes does: init containers, sidecars, overhead, pod-level resources.

Amounts are rounded up, so that Slurm never reserves less than the kubelet counts.
"""

from collections.abc import Callable, Iterable

from slinky.bridge.devices.classes import Catalog
from slinky.bridge.devices.inventory import GPU_PLUGIN_RESOURCES
from slinky.bridge.views import Amounts, ForeignPod, Resources, WorkloadPod
from slinky.kube import Quantity

ResourceTotals = dict[str, Quantity]
ZERO = Quantity(0)
ResourceReader = Callable[[Resources], Amounts]


def requests_of(resources: Resources) -> Amounts:
    """The requests; a limit without a request counts as one."""
    return {**resources.limits, **resources.requests}


def limits_of(resources: Resources) -> Amounts:
    """The limits."""
    return resources.limits


def effective_resources(pod: WorkloadPod | ForeignPod, read: ResourceReader) -> ResourceTotals:
    """The peak requests or limits of a pod over its whole life."""
    spec = pod.spec
    total = _sum(_parse(read(container.resources)) for container in spec.containers)
    sidecars: ResourceTotals = {}
    peak: ResourceTotals = {}
    for container in spec.init_containers:
        amounts = _parse(read(container.resources))
        if container.restart_policy == "Always":
            sidecars = _sum((sidecars, amounts))
            peak = _max((peak, sidecars))
        else:
            peak = _max((peak, _sum((sidecars, amounts))))
    total = _max((_sum((total, sidecars)), peak))
    total |= _parse(read(spec.resources))  # pod-level resources replace the sum over the containers
    # As in the kubelet: the overhead of the sandbox adds to a limit, but it does not create one.
    overhead = {name: amount for name, amount in _parse(spec.overhead).items() if read is requests_of or name in total}
    return _sum((total, overhead))


def required_resources(pod: WorkloadPod) -> ResourceTotals:
    """The larger of requests and limits, by resource."""
    return _max((effective_resources(pod, requests_of), effective_resources(pod, limits_of)))


def largest_requirements(pods: Iterable[WorkloadPod]) -> ResourceTotals:
    """The largest requirement of any of these pods, by resource."""
    return _max(required_resources(pod) for pod in pods)


def requested_plugin_gpus(totals: ResourceTotals, catalog: Catalog) -> int:
    """The GPUs that are requested from device plugins. Resources with a device class are claimed instead."""
    resources = (name for name in GPU_PLUGIN_RESOURCES if name not in catalog.resources)
    return sum(totals.get(name, ZERO).whole() for name in resources)


def _parse(amounts: Amounts) -> ResourceTotals:
    return {name: Quantity.parse(amount) for name, amount in amounts.items()}


def _sum(parts: Iterable[ResourceTotals]) -> ResourceTotals:
    total: ResourceTotals = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, ZERO) + amount
    return total


def _max(parts: Iterable[ResourceTotals]) -> ResourceTotals:
    total: ResourceTotals = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = max(total.get(name, ZERO), amount)
    return total
