# SPDX-License-Identifier: Apache-2.0
"""What others stand on goes last.

`helm uninstall` and `kubectl delete -f` ask for everything at once. A Controller and its RestApi stay until the workers
of the cluster are gone, since without them nobody could say whether a worker is drained; an Accounting stays until no
Controller writes to it any more. The wait is a finalizer; an event on the object says whom it waits for. One that is
deleted without what it owns (`--cascade=orphan`) goes at once: its daemons stay.
"""

from collections.abc import Sequence
from typing import TypeVar

from slinky.api.names import metadata
from slinky.kube.controller import RequeueAfter
from slinky.kube.types import HasMeta, Key
from slinky.operator.framework import orphans, references
from slinky.operator.framework.context import Context
from slinky.operator.framework.reconciler import Reconciler

T = TypeVar("T", bound=HasMeta)

#: How often an object that is held looks whether it may go.
LOOK = 2.0


class OrderedReconciler(Reconciler[T]):
    """Keeps objects that may be needed by others when somebody deletes them."""

    def needed_by(self, found: T) -> Sequence[str]:
        """Who has to be gone first, in words."""
        raise NotImplementedError

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        """Hold the object, then do as ever."""
        found = self.cache.get(key)
        if (
            found is not None
            and not found.metadata.deleting
            and metadata.USE_FINALIZER not in found.metadata.finalizers
        ):
            await self.set_finalizers(found, [*found.metadata.finalizers, metadata.USE_FINALIZER])
        return await super().reconcile(key)

    async def depart(self, found: T) -> RequeueAfter | None:
        """Let it go once nobody needs it."""
        others = [name for name in found.metadata.finalizers if name != metadata.USE_FINALIZER]
        if len(others) == len(found.metadata.finalizers):
            return None
        if not orphans.stays_behind(found) and (needed := self.needed_by(found)):
            self.note(found, "InUse", f"goes when these are gone: {', '.join(needed)}")
            return RequeueAfter(LOOK)
        await self.set_finalizers(found, others)
        return None


def workers(world: Context, cluster: Key) -> list[str]:
    """The sets of a cluster that still have workers, or a reservation that only their Slurm can take back."""
    lost = (f"workers of NodeSet {name}, which is gone" for name in orphans.lost_sets(world, cluster))
    there = (
        f"workers of NodeSet {one.metadata.name}"
        for one in world.node_sets.by(references.CONTROLLER, str(cluster))
        if any(world.pods.by("owner", one.metadata.uid))
        or (one.metadata.deleting and metadata.RESERVATION_FINALIZER in one.metadata.finalizers)
    )
    return sorted((*there, *lost))
