# SPDX-License-Identifier: Apache-2.0
"""Deletion order: a Controller, RestApi or Accounting keeps its finalizer until nothing depends on it.

`helm uninstall` and `kubectl delete -f` delete all objects at once. A Controller and its RestApi stay until the workers
of the cluster are deleted, because without them the operator cannot tell whether a worker is drained. An Accounting
stays until no Controller refers to it. The condition Progressing and an event name what it waits for. An object that is
deleted with `--cascade=orphan` is released at once, since its daemons keep running.
"""

from collections.abc import Sequence
from typing import TypeVar

from slinky.api.fields.conditions import PROGRESSING, ObjectStatus
from slinky.api.names import metadata
from slinky.kube.controller import RequeueAfter
from slinky.kube.types import HasMeta, Key
from slinky.operator.framework import orphans, references
from slinky.operator.framework.conditions import ConditionState, previous_state
from slinky.operator.framework.context import Context
from slinky.operator.framework.reconciler import Reconciler

T = TypeVar("T", bound=HasMeta)

#: Reason of the condition Progressing, and of an event, while a deletion waits.
IN_USE = "InUse"
#: Seconds between checks of an object that waits for its dependents.
RECHECK_SECONDS = 2.0


class OrderedReconciler(Reconciler[T]):
    """Reconciles objects that are released only after the objects that depend on them."""

    def dependents(self, parent: T) -> Sequence[str]:
        """Return descriptions of the objects that must be deleted before `parent`."""
        raise NotImplementedError

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        """Add the finalizer, then reconcile."""
        parent = self.cache.get(key)
        if (
            parent is not None
            and not parent.metadata.deleting
            and metadata.USE_FINALIZER not in parent.metadata.finalizers
        ):
            await self.set_finalizers(parent, [*parent.metadata.finalizers, metadata.USE_FINALIZER])
        return await super().reconcile(key)

    async def finalize(self, parent: T) -> RequeueAfter | None:
        """Remove the finalizer once no object depends on this one."""
        remaining = [name for name in parent.metadata.finalizers if name != metadata.USE_FINALIZER]
        if len(remaining) == len(parent.metadata.finalizers):
            return None
        if not orphans.is_orphaning(parent) and (dependents := self.dependents(parent)):
            await self._report_wait(parent, f"Deletion waits for {', '.join(dependents)}")
            return RequeueAfter(RECHECK_SECONDS)
        await self.set_finalizers(parent, remaining)
        return None

    async def _report_wait(self, parent: T, message: str) -> None:
        """Report in Progressing what the deletion waits for, and record an event when that changes."""
        live: ObjectStatus = parent.status  # type: ignore[attr-defined]
        state = ConditionState(True, IN_USE, message)
        if previous_state(live.conditions, PROGRESSING) == state:
            return
        self.record_event(parent, IN_USE, message)
        await self.write_status(parent, self.with_progress(parent, state))


def remaining_workers(context: Context, cluster: Key) -> list[str]:
    """Describe the NodeSets of a cluster that have workers, or a reservation that only their Slurm can delete."""
    orphaned = (
        f"workers of NodeSet {name}, which does not exist" for name in orphans.missing_node_sets(context, cluster)
    )
    owned = (
        f"workers of NodeSet {node_set.metadata.name}"
        for node_set in context.node_sets.by(references.CONTROLLER, str(cluster))
        if any(context.pods.by("owner", node_set.metadata.uid))
        or (node_set.metadata.deleting and metadata.RESERVATION_FINALIZER in node_set.metadata.finalizers)
    )
    return sorted((*owned, *orphaned))
