# SPDX-License-Identifier: Apache-2.0
"""What a pod needs, computed as Kubernetes does: init containers, sidecars, overhead, pod-level amounts.

Everything is rounded up, so that Slurm never reserves less than the kubelet will admit.
"""

from collections.abc import Callable, Iterable

from slinky.bridge.devices.classes import Catalog
from slinky.bridge.devices.inventory import GPU_PLUGIN_RESOURCES
from slinky.bridge.state.views import Amounts, Resources, WorkloadPod
from slinky.kube import Quantity

ResourceTotals = dict[str, Quantity]
ZERO = Quantity(0)
ResourceReader = Callable[[Resources], Amounts]


def requests_of(resources: Resources) -> Amounts:
    """What is asked for; a limit without a request is one."""
    return {**resources.limits, **resources.requests}


def limits_of(resources: Resources) -> Amounts:
    """The most that may be used."""
    return resources.limits


def effective_resources(pod: WorkloadPod, side: ResourceReader) -> ResourceTotals:
    """What the whole pod needs at its worst moment."""
    spec = pod.spec
    total = _sum(_parsed(side(container.resources)) for container in spec.containers)
    sidecars: ResourceTotals = {}
    peak: ResourceTotals = {}
    for container in spec.init_containers:
        own = _parsed(side(container.resources))
        if container.restart_policy == "Always":
            sidecars = _sum((sidecars, own))
            peak = _most((peak, sidecars))
        else:
            peak = _most((peak, _sum((sidecars, own))))
    total = _most((_sum((total, sidecars)), peak))
    total |= _parsed(side(spec.resources))  # pod-level amounts stand for all containers together
    # As the kubelet does: a sandbox costs what it costs, but what has no limit gets none by that.
    overhead = {name: each for name, each in _parsed(spec.overhead).items() if side is requests_of or name in total}
    return _sum((total, overhead))


def required_resources(pod: WorkloadPod) -> ResourceTotals:
    """The larger of requests and limits: what must be free for the pod to run undisturbed."""
    return _most((effective_resources(pod, requests_of), effective_resources(pod, limits_of)))


def largest_requirements(pods: Iterable[WorkloadPod]) -> ResourceTotals:
    """The largest need of any pod, resource by resource."""
    return _most(required_resources(pod) for pod in pods)


def requested_plugin_gpus(amounts: ResourceTotals, catalog: Catalog) -> int:
    """GPUs of device plugins; a resource with a device class behind it is claimed instead."""
    return sum(amounts.get(name, ZERO).whole() for name in GPU_PLUGIN_RESOURCES if name not in catalog.resources)


def _parsed(amounts: Amounts) -> ResourceTotals:
    return {name: Quantity.parse(text) for name, text in amounts.items()}


def _sum(parts: Iterable[ResourceTotals]) -> ResourceTotals:
    total: ResourceTotals = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, ZERO) + amount
    return total


def _most(parts: Iterable[ResourceTotals]) -> ResourceTotals:
    total: ResourceTotals = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = max(total.get(name, ZERO), amount)
    return total
