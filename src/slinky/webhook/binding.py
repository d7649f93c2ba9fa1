# SPDX-License-Identifier: Apache-2.0
"""Gives a worker the topology of the node it is bound to, before its containers start.

The annotation is added to the Binding, and the API server copies a Binding's annotations to the pod in the same
write: no second write, no side effect, nothing to undo on a dry run. Whatever goes wrong here, the pod is bound
without it; the operator adds it later.
"""

from slinky.api.names import child_names, metadata
from slinky.kube import NODES, PODS, AdmissionRequest, AdmissionResponse, Key, KubeClient, KubeError
from slinky.kube.types import Object, View
from slinky.observe import Log

log = Log("slinky.webhook.binding")


class Target(View, frozen=True):
    """The node."""

    name: str = ""


class Binding(Object, frozen=True):
    """A pod's move to a node."""

    target: Target = Target()


class BindingWebhook:
    """Answers for pods/binding."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def __call__(self, ask: AdmissionRequest) -> AdmissionResponse:
        """Add the node's topology if the pod is a worker; never refuse."""
        binding = ask.new(Binding)
        try:
            topology = await self._topology(Key(ask.namespace, ask.name or binding.metadata.name), binding.target.name)
        except (KubeError, TimeoutError) as error:
            log.warning("a worker is bound without its topology", pod=ask.name, error=error)
            return AdmissionResponse()
        return AdmissionResponse(patch=tuple(addition(binding, topology))) if topology else AdmissionResponse()

    async def _topology(self, pod: Key, node: str) -> str:
        found = await self._client.find(PODS.metadata_only(), pod)
        if found is None or found.metadata.labels.get(metadata.APP_NAME) != child_names.SLURMD.app:
            return ""
        on = await self._client.find(NODES.metadata_only(), Key("", node))
        return on.metadata.annotations.get(metadata.TOPOLOGY, "") if on else ""


def addition(binding: Binding, topology: str) -> list[dict[str, object]]:
    """The patch that adds the annotation."""
    whole = {**binding.metadata.annotations, metadata.TOPOLOGY: topology}
    return [{"op": "add", "path": "/metadata/annotations", "value": whole}]
