# SPDX-License-Identifier: Apache-2.0
"""Adopts workers, and their revisions, whose NodeSet was deleted without them.

So a NodeSet can be deleted with `--cascade=orphan` and created again while jobs run: its workers keep running, and are
replaced only if they differ from what the new NodeSet specifies.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from slinky.api.names import metadata
from slinky.api.nodeset import NODE_SETS, NodeSet
from slinky.kube.cache import Cache
from slinky.kube.errors import Later
from slinky.kube.types import HasMeta
from slinky.kube.views import PODS, Pod
from slinky.operator.framework import orphans
from slinky.operator.framework.context import Context
from slinky.operator.metrics import WRITES
from slinky.operator.nodeset.revisions.revision import REVISIONS, Revision

MAX_CONCURRENT_REQUESTS = 16
#: How many names an event lists.
MAX_NAMES = 5


class Adoption:
    """Adopts orphaned pods and revisions."""

    def __init__(self, context: Context, revisions: Cache[Revision]) -> None:
        self.context = context
        self.revisions = revisions
        context.pods.add_indexes({orphans.BY_NODE_SET: orphans.index_by_node_set})
        revisions.add_indexes({orphans.BY_NODE_SET: orphans.index_by_node_set})
        self._limit = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)

    async def adopt(self, node_set: NodeSet, record_event: Callable[..., None]) -> None:
        """Adopt matching pods and revisions. Raises `Later` if the NodeSet itself is being deleted."""
        key = str(node_set.key)
        pods = [pod for pod in self.context.pods.by(orphans.BY_NODE_SET, key) if matches_pod(node_set, pod)]
        revisions = [item for item in self.revisions.by(orphans.BY_NODE_SET, key) if matches_labels(node_set, item)]
        if not (pods or revisions):
            return
        live = await self.context.client.find(NODE_SETS, node_set.key)
        if live is None or live.metadata.uid != node_set.metadata.uid or live.metadata.deleting:
            raise Later(f"NodeSet {key} is being deleted")
        await asyncio.gather(
            *(self._add_owner(node_set, PODS, self.context.pods, pod) for pod in pods),
            *(self._add_owner(node_set, REVISIONS, self.revisions, item) for item in revisions),
        )
        if pods:
            names = ", ".join(sorted(pod.metadata.name for pod in pods)[:MAX_NAMES])
            more = f" and {len(pods) - MAX_NAMES} more" if len(pods) > MAX_NAMES else ""
            record_event("AdoptedPods", f"Adopted pods without a NodeSet: {names}{more}")

    async def _add_owner(self, node_set: NodeSet, resource: Any, cache: Cache[Any], child: HasMeta) -> None:
        meta = child.metadata
        owners = [msgspec.to_builtins(owner) for owner in meta.owner_references]
        # The patch fails if the object has changed since, for example because another controller adopted it.
        identity = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        patch = {"metadata": {**identity, "ownerReferences": [*owners, NODE_SETS.owner(node_set)]}}
        async with self._limit:
            WRITES.labels("patch", resource.kind).inc()
            cache.record_write(await self.context.client.patch(resource, meta.key, patch))


def matches_labels(node_set: NodeSet, child: HasMeta) -> bool:
    """Whether it was created for a NodeSet of this name in this cluster."""
    labels, cluster = child.metadata.labels, node_set.spec.controller_ref.name
    return node_set.selector.items() <= labels.items() and labels.get(metadata.CLUSTER, cluster) == cluster


def matches_pod(node_set: NodeSet, pod: Pod) -> bool:
    """Whether this NodeSet could have created the pod: its name and labels match, and it has not finished."""
    name = pod.metadata.name
    per_node = pod.metadata.labels.get(metadata.SCALING_MODE) == "DaemonSet"
    named = name.startswith(f"{node_set.metadata.name}-") if per_node else node_set.ordinal(name) is not None
    return named and matches_labels(node_set, pod) and not pod.finished
