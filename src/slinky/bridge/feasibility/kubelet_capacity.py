# SPDX-License-Identifier: Apache-2.0
"""Whether a kubelet would take pods beside those that are still on its node. Pure.

Slurm gives away what a job had the moment it ends; a kubelet counts a pod until its containers are gone, and turns
away for good what does not fit.
"""

from collections.abc import Iterable, Mapping

from slinky.bridge.state.views import WorkloadPod
from slinky.bridge.workload import pod_resources
from slinky.kube import Quantity


def exceeded_resource(
    allocatable: Mapping[str, str], there: Iterable[WorkloadPod], coming: Iterable[WorkloadPod]
) -> str:
    """What a node has too little of for all of these pods; nothing if there is room."""
    taken: dict[str, int] = {}
    for pod in (*there, *coming):
        for name, amount in pod_resources.effective_resources(pod, pod_resources.requests_of).items():
            taken[name] = taken.get(name, 0) + amount.nano
    over = (name for name, nano in sorted(taken.items()) if nano > _has(allocatable, name, nano))
    return next(over, "")


def _has(allocatable: Mapping[str, str], name: str, otherwise: int) -> int:
    """What a node offers; resources that it does not have are claims, of which the kubelet does not count any."""
    return Quantity.parse(allocatable[name]).nano if name in allocatable else otherwise
