# SPDX-License-Identifier: Apache-2.0
"""Takes over workers, and revisions of them, that have lost the NodeSet under whose name they were made.

So a NodeSet can be deleted with `--cascade=orphan` and made again while jobs run: its workers keep their pods, and are
not updated if they are what the new set wants.
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

#: So many requests at once.
ABREAST = 16
#: So many names in one event.
NAMED = 5


class Adoption:
    """Gives orphans their set."""

    def __init__(self, world: Context, revisions: Cache[Revision]) -> None:
        self.world = world
        self.revisions = revisions
        world.pods.add_indexes({orphans.BY_SET: orphans.by_set})
        revisions.add_indexes({orphans.BY_SET: orphans.by_set})
        self._limit = asyncio.Semaphore(ABREAST)

    async def adopt(self, of: NodeSet, note: Callable[..., None]) -> None:
        """Take over what fits. Raises `Later` if the set itself is on its way out."""
        pods = [found for found in self.world.pods.by(orphans.BY_SET, str(of.key)) if fits(of, found)]
        kept = [found for found in self.revisions.by(orphans.BY_SET, str(of.key)) if ours(of, found)]
        if not (pods or kept):
            return
        live = await self.world.client.find(NODE_SETS, of.key)
        if live is None or live.metadata.uid != of.metadata.uid or live.metadata.deleting:
            raise Later(f"NodeSet {of.key} is going")
        await asyncio.gather(
            *(self._own(of, PODS, self.world.pods, found) for found in pods),
            *(self._own(of, REVISIONS, self.revisions, found) for found in kept),
        )
        if pods:
            names = ", ".join(sorted(found.metadata.name for found in pods)[:NAMED])
            more = f" and {len(pods) - NAMED} more" if len(pods) > NAMED else ""
            note("AdoptedPods", f"Took over pods that had lost their NodeSet: {names}{more}")

    async def _own(self, of: NodeSet, resource: Any, cache: Cache[Any], found: HasMeta) -> None:
        meta = found.metadata
        owners = [msgspec.to_builtins(owner) for owner in meta.owner_references]
        # The version makes sure that nobody else has just done the same.
        identity = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        patch = {"metadata": {**identity, "ownerReferences": [*owners, NODE_SETS.owner(of)]}}
        async with self._limit:
            WRITES.labels("patch", resource.kind).inc()
            cache.record_write(await self.world.client.patch(resource, meta.key, patch))


def ours(of: NodeSet, found: HasMeta) -> bool:
    """It was made for a set of this name, in this cluster."""
    labels, cluster = found.metadata.labels, of.spec.controller_ref.name
    return of.selector.items() <= labels.items() and labels.get(metadata.CLUSTER, cluster) == cluster


def fits(of: NodeSet, pod: Pod) -> bool:
    """It could have been made by this very set: its name says so too."""
    name = pod.metadata.name
    per_node = pod.metadata.labels.get(metadata.SCALING_MODE) == "DaemonSet"
    named = name.startswith(f"{of.metadata.name}-") if per_node else of.ordinal(name) is not None
    return named and ours(of, pod) and not pod.finished
