# SPDX-License-Identifier: Apache-2.0
"""Whether a kubelet would admit pods while others are still on its node. Pure.

Slurm allocates the resources of a job again as soon as the job ends. A kubelet counts a pod until its containers have
ended, and permanently rejects a pod that does not fit.
"""

from collections.abc import Iterable, Mapping

from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload import pod_resources
from slinky.kube import Quantity


def exceeded_resource(
    allocatable: Mapping[str, str], present: Iterable[WorkloadPod], incoming: Iterable[WorkloadPod]
) -> str:
    """The first resource of which a node has too little for all of these pods; empty if they fit."""
    requested: dict[str, int] = {}
    for pod in (*present, *incoming):
        for name, amount in pod_resources.effective_resources(pod, pod_resources.requests_of).items():
            requested[name] = requested.get(name, 0) + amount.nano
    exceeded = (name for name, nano in sorted(requested.items()) if nano > _capacity(allocatable, name, nano))
    return next(exceeded, "")


def _capacity(allocatable: Mapping[str, str], name: str, default: int) -> int:
    """The allocatable amount. The kubelet does not count resources that the node does not list; those are claimed."""
    return Quantity.parse(allocatable[name]).nano if name in allocatable else default
