# SPDX-License-Identifier: Apache-2.0
"""Stores the revisions of a NodeSet's workers as ControllerRevisions, and rolls back to one on request.

The revision of the current spec is looked up among the stored ones by meaning; only a new one is written. If a worker
has a revision that is not stored under our labels, it is searched for once: another operator may have stored it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Set
from typing import Any, NamedTuple

from slinky.api.names import metadata
from slinky.api.names.child_names import SLURMD
from slinky.api.nodeset import NODE_SETS, NodeSet
from slinky.kube.cache import by_owner
from slinky.kube.errors import AlreadyExists, Later, NotFound
from slinky.kube.types import Key
from slinky.observe import Log
from slinky.operator.framework.context import Context
from slinky.operator.metrics import WRITES
from slinky.operator.nodeset.revisions import revision
from slinky.operator.nodeset.revisions.revision import REVISIONS, Revision

log = Log("slinky.operator.nodeset.revisions")

#: How many names that other objects have taken are tried before the next reconcile.
MAX_COLLISIONS = 5

RecordEvent = Callable[..., None]


class RevisionStatus(NamedTuple):
    """The revision that workers should have, and the one that most workers have."""

    update: Revision
    current: str
    collisions: int | None

    def fields(self) -> dict[str, Any]:
        """Fields of the NodeSet's status."""
        return {
            "current_revision": self.current,
            "update_revision": self.update.metadata.name,
            "collision_count": self.collisions,
        }


class RevisionStore:
    """The stored revisions of all NodeSets."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.cache = context.cache(
            REVISIONS, labels=f"{metadata.APP_COMPONENT}={SLURMD.component}", indexes={"owner": by_owner}
        )
        self._searched: dict[str, set[str]] = {}

    def stored(self, node_set: NodeSet) -> list[Revision]:
        """The revisions of a NodeSet."""
        return [item for item in self.cache.by("owner", node_set.metadata.uid) if not item.metadata.deleting]

    def keep_only(self, uids: Set[str]) -> None:
        """Forget the searches for all NodeSets but these."""
        self._searched = {uid: hashes for uid, hashes in self._searched.items() if uid in uids}

    async def sync(self, node_set: NodeSet, contents: str, used: Counter[str]) -> RevisionStatus:
        """Find or store the revision of the current spec; `contents` is the digest of what workers read."""
        for unknown in used.keys() - {item.hash for item in self.stored(node_set)}:
            await self._search(node_set, unknown)
        stored, data = self.stored(node_set), revision.template(node_set)
        update, collisions = revision.find_match(stored, data, contents), node_set.status.collision_count
        if update is None:
            update, collisions = await self._create(node_set, data, contents, revision.highest_number(stored) + 1)
        elif patch := _refresh_patch(update, stored, contents):
            update = await self._patch(update, patch)
        return RevisionStatus(update, revision.current_name(self.stored(node_set), used, update), collisions)

    async def prune(self, node_set: NodeSet, used: Collection[str]) -> None:
        """Delete old revisions beyond `revisionHistoryLimit` that no worker uses."""
        for surplus in revision.surplus_revisions(self.stored(node_set), used, node_set.spec.revision_history_limit):
            WRITES.labels("delete", REVISIONS.kind).inc()
            try:
                remaining = await self.context.client.delete(REVISIONS, surplus.key, uid=surplus.metadata.uid)
            except NotFound:
                remaining = None
            self.cache.record_deletion(surplus, remaining)

    async def roll_back(self, node_set: NodeSet, record_event: RecordEvent) -> NodeSet:
        """Carry out a requested rollback: one patch restores the spec and removes the annotation."""
        request = node_set.metadata.annotations.get(metadata.ROLLBACK_TO)
        if request is None:
            return node_set
        stored = self.stored(node_set)
        target = revision.find_requested(stored, request)
        if target is None:
            numbers = ", ".join(str(number) for number in sorted(item.revision for item in stored)) or "none"
            message = f"{metadata.ROLLBACK_TO}: there is no revision {request[:80]!r}; stored revisions: {numbers}"
            record_event(
                "RollbackRevisionNotFound", f"{message}; spec.revisionHistoryLimit limits their number", warning=True
            )
        else:
            record_event("Rollback", f"Rolling back to revision {target.revision} ({target.metadata.name})")
        spec = {"spec": revision.restore_patch(node_set, target.data)} if target else {}
        meta = {"annotations": {metadata.ROLLBACK_TO: None}, "resourceVersion": node_set.metadata.resource_version}
        WRITES.labels("patch", NODE_SETS.kind).inc()
        patched = await self.context.client.patch(NODE_SETS, node_set.key, {"metadata": meta, **spec})
        return self.context.node_sets.record_write(patched)

    async def _search(self, node_set: NodeSet, unknown: str) -> None:
        """Label a revision of our workers that another operator has stored, so that the cache contains it."""
        searched = self._searched.setdefault(node_set.metadata.uid, set())
        if unknown in searched:
            return
        matches = await self.context.client.list(
            REVISIONS, namespace=node_set.metadata.namespace, labels=f"{metadata.REVISION}={unknown}"
        )
        searched.add(unknown)
        for match in matches:
            owner = match.metadata.controller
            if owner is not None and owner.uid == node_set.metadata.uid:
                log.info("adopting a revision of another operator", revision=str(match.key))
                await self._patch(match, {"metadata": {"labels": node_set.labels}})

    async def _create(self, node_set: NodeSet, data: Any, contents: str, number: int) -> tuple[Revision, int | None]:
        collisions = node_set.status.collision_count or 0
        for attempt in range(MAX_COLLISIONS):
            manifest = revision.build_manifest(node_set, data, contents, number, collisions + attempt)
            WRITES.labels("create", REVISIONS.kind).inc()
            try:
                stored = self.cache.record_write(await self.context.client.create(REVISIONS, manifest))
            except AlreadyExists:
                key = Key(node_set.metadata.namespace, manifest["metadata"]["name"])
                stored = await self.context.client.get(REVISIONS, key)
                owner = stored.metadata.controller
                # Either a revision that we stored before a restart and the cache lacks, or an unrelated object.
                ours = owner is not None and owner.uid == node_set.metadata.uid
                if not ours or revision.find_match([stored], data, contents) is None:
                    continue
                self.cache.record_write(stored)
            return stored, (collisions + attempt) or None
        raise Later(f"{MAX_COLLISIONS} names for a revision of {node_set.key} are taken by other objects")

    async def _patch(self, stored: Revision, patch: dict[str, Any]) -> Revision:
        WRITES.labels("patch", REVISIONS.kind).inc()
        meta = {**patch.get("metadata", {}), "uid": stored.metadata.uid}
        patched = await self.context.client.patch(REVISIONS, stored.key, {**patch, "metadata": meta})
        return self.cache.record_write(patched)


def _refresh_patch(update: Revision, stored: Collection[Revision], contents: str) -> dict[str, Any]:
    """The patch that gives a reused revision the highest number, and the digest of its contents if it lacks one."""
    patch: dict[str, Any] = {}
    highest = revision.highest_number(stored)
    if update.revision < highest or sum(item.revision == highest for item in stored) > 1:
        patch["revision"] = highest + 1
    if not update.contents:
        patch["metadata"] = {"annotations": {metadata.REVISION_CONTENTS: contents}}
    return patch
