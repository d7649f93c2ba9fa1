# SPDX-License-Identifier: Apache-2.0
"""What a pod needs, computed as Kubernetes does: init containers, sidecars, overhead, pod-level amounts.

Everything is rounded up, so that Slurm never reserves less than the kubelet will admit.
"""

from collections.abc import Callable, Iterable

from slinky.bridge.devices.classes import Catalog
from slinky.bridge.devices.inventory import PLUGIN_GPUS
from slinky.bridge.state.views import Amounts, Resources, WorkloadPod
from slinky.kube import Quantity

Sums = dict[str, Quantity]
ZERO = Quantity(0)
Side = Callable[[Resources], Amounts]


def requests(resources: Resources) -> Amounts:
    """What is asked for; a limit without a request is one."""
    return {**resources.limits, **resources.requests}


def limits(resources: Resources) -> Amounts:
    """The most that may be used."""
    return resources.limits


def effective(pod: WorkloadPod, side: Side) -> Sums:
    """What the whole pod needs at its worst moment."""
    spec = pod.spec
    total = _sum(_parsed(side(container.resources)) for container in spec.containers)
    sidecars: Sums = {}
    peak: Sums = {}
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
    overhead = {name: each for name, each in _parsed(spec.overhead).items() if side is requests or name in total}
    return _sum((total, overhead))


def needs(pod: WorkloadPod) -> Sums:
    """The larger of requests and limits: what must be free for the pod to run undisturbed."""
    return _most((effective(pod, requests), effective(pod, limits)))


def most(pods: Iterable[WorkloadPod]) -> Sums:
    """The largest need of any pod, resource by resource."""
    return _most(needs(pod) for pod in pods)


def plugin_gpus(amounts: Sums, catalog: Catalog) -> int:
    """GPUs of device plugins; a resource with a device class behind it is claimed instead."""
    return sum(amounts.get(name, ZERO).whole() for name in PLUGIN_GPUS if name not in catalog.resources)


def _parsed(amounts: Amounts) -> Sums:
    return {name: Quantity.parse(text) for name, text in amounts.items()}


def _sum(parts: Iterable[Sums]) -> Sums:
    total: Sums = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, ZERO) + amount
    return total


def _most(parts: Iterable[Sums]) -> Sums:
    total: Sums = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = max(total.get(name, ZERO), amount)
    return total
