# SPDX-License-Identifier: Apache-2.0
"""Makes a kubelet read a pod's ConfigMaps and Secrets again at once, and not within its next period.

A kubelet looks at a pod whose annotations change; what the annotation says is for people.
"""

from slinky.kube.errors import NotFound
from slinky.kube.views import PODS, Pod
from slinky.operator.framework.context import Context
from slinky.operator.metrics import WRITES


async def refresh(world: Context, pod: Pod, annotation: str, value: str) -> None:
    """Say on the pod what it is to find in its files, unless that is said already."""
    if pod.metadata.deleting or pod.metadata.annotations.get(annotation) == value:
        return
    WRITES.labels("patch", "Pod").inc()
    patch = {"metadata": {"annotations": {annotation: value}, "uid": pod.metadata.uid}}
    try:
        world.pods.record_write(await world.client.patch(PODS, pod.key, patch))
    except NotFound:
        return
