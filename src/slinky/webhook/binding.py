# SPDX-License-Identifier: Apache-2.0
"""Adds the topology of the node to a worker when it is bound, before its containers start.

The webhook adds the annotation to the Binding; the API server copies the annotations of a Binding to the pod in the
same write. So there is no second write and nothing to undo on a dry run. If an error occurs, the pod is bound without
the annotation, and the operator adds it later.
"""

from slinky.api.fields.topology import node_topology
from slinky.api.names import child_names, metadata
from slinky.kube import NODES, PODS, AdmissionRequest, AdmissionResponse, Key, KubeClient, KubeError
from slinky.kube.types import Object, View
from slinky.observe import Log

log = Log("slinky.webhook.binding")


class Target(View, frozen=True):
    """The node of a Binding."""

    name: str = ""


class Binding(Object, frozen=True):
    """The assignment of a pod to a node."""

    target: Target = Target()


class BindingWebhook:
    """Handles admission requests for pods/binding."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def __call__(self, request: AdmissionRequest) -> AdmissionResponse:
        """Add the topology of the node if the pod is a worker; never refuse the binding."""
        binding = request.new(Binding)
        pod = Key(request.namespace, request.name or binding.metadata.name)
        try:
            topology = await self._topology(pod, binding.target.name)
        except (KubeError, TimeoutError) as error:
            log.warning("pod is bound without its topology annotation", pod=request.name, error=error)
            return AdmissionResponse()
        return AdmissionResponse(patch=tuple(annotation_patch(binding, topology))) if topology else AdmissionResponse()

    async def _topology(self, pod_key: Key, node_name: str) -> str:
        pod = await self._client.find(PODS.metadata_only(), pod_key)
        if pod is None or pod.metadata.labels.get(metadata.APP_NAME) != child_names.SLURMD.app:
            return ""
        node = await self._client.find(NODES.metadata_only(), Key("", node_name))
        return node_topology(node.metadata.annotations) if node else ""


def annotation_patch(binding: Binding, topology: str) -> list[dict[str, object]]:
    """The JSON patch that adds the annotation."""
    annotations = {**binding.metadata.annotations, metadata.TOPOLOGY: topology}
    return [{"op": "add", "path": "/metadata/annotations", "value": annotations}]
