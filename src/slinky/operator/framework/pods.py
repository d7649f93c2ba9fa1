# SPDX-License-Identifier: Apache-2.0
"""Writes to pods that several controllers make."""

from slinky.kube.errors import NotFound
from slinky.kube.views import PODS, Pod
from slinky.operator.framework.context import Context
from slinky.operator.metrics import WRITES


async def refresh_volumes(context: Context, pod: Pod, annotation: str, value: str) -> None:
    """Make the kubelet update the ConfigMaps and Secrets of a pod now, and not within its next sync period.

    A kubelet syncs a pod when the pod's annotations change. The value tells people what the pod's files contain; a pod
    that already has it is not written.
    """
    if pod.metadata.deleting or pod.metadata.annotations.get(annotation) == value:
        return
    WRITES.labels("patch", "Pod").inc()
    patch = {"metadata": {"annotations": {annotation: value}, "uid": pod.metadata.uid}}
    try:
        context.pods.record_write(await context.client.patch(PODS, pod.key, patch))
    except NotFound:
        return


async def delete_pod(context: Context, pod: Pod) -> None:
    """Delete this pod, and not a later one of the same name."""
    WRITES.labels("delete", "Pod").inc()
    context.pods.record_deletion(pod, await context.client.delete(PODS, pod.key, uid=pod.metadata.uid))
